#include "mica/ops/copy/copy.h"

#include <cstring>

#include "mica/autograd/function.h"
#include "mica/core/check.h"
#include "mica/core/memory.h"
#include "mica/op/dispatch.h"
#include "mica/op/function.h"
#include "mica/ops/complex/complex.h"
#include "mica/ops/copy/cpu_copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/view/view.h"
#include "mica/runtime/host_waits.h"
#include "mica/runtime/runtime.h"

namespace mica {

/// Overwrites `destination` with `value` where a gradient flows. Implemented in autograd/tape.cpp.
void write_recorded(const Tensor& destination, const Tensor& value);

namespace {

void check_conversion(const char* op, DType from, DType to) {
  check<DTypeError>(
      !is_complex(from) || is_complex(to),
      "{}: {} does not hold the complex numbers of {}; real(x), imag(x) and abs(x) make "
      "real ones of them",
      op, to, from);
}

void infer(const CopyParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check_conversion("cast", in[0].dtype, p.dtype);
  out.add(in[0].shape, p.dtype);
  out[0].strides =
      p.channels_last ? channels_last_strides(in[0].shape) : contiguous_strides(in[0].shape);
}

/// What comes back to real numbers that became complex is the real part.
Tensors vjp(const CopyParams&, const VjpArgs& a) {
  const DType t = a.in_specs[0].dtype;
  return {cast(is_complex(t) ? a.grad[0] : real(a.grad[0]), t)};
}

void infer_into(const NoParams&, std::span<const TensorSpec> in, OutSpecs&) {
  check_conversion("copy_", in[1].dtype, in[0].dtype);
  const Shape both = broadcast_shapes(in[0].shape, in[1].shape, "copy_");
  check<ShapeError>(both == in[0].shape, "copy_: source {} does not broadcast to destination {}",
                    in[1].shape, in[0].shape);
  for (int i = 0; i < in[0].rank(); ++i)
    check(in[0].strides[i] != 0 || in[0].shape[i] <= 1,
          "copy_: several elements of the destination, expanded to {} with strides {}, lie in one "
          "place; clone() it before writing",
          in[0].shape, in[0].strides);
}
bool mutates(const NoParams&, int input, int) { return input == 0; }

std::shared_ptr<CopyPlan> prepare(const CopyParams&, const Specs& s) {
  return std::make_shared<CopyPlan>(s.out[0], s.in[0]);
}
void run(const CopyParams&, const CopyPlan& plan, const Call& c) {
  plan.run(c.out[0].data, c.in[0].data);
}

std::shared_ptr<CopyPlan> prepare_into(const NoParams&, const Specs& s) {
  return std::make_shared<CopyPlan>(s.in[0], s.in[1]);
}
void run_into(const NoParams&, const CopyPlan& plan, const Call& c) {
  plan.run(c.in[0].data, c.in[1].data);
}

}  // namespace

const OpDef& copy_op() {
  static OpDef def = Op<CopyParams>("copy")
                         .dtypes(kAllDTypes)
                         .moves()
                         .infer<infer>()
                         .vjp<vjp>({})
                         .elementwise(1)
                         .formats({Format::images}, {Format::fixed})
                         .copies()
                         .cpu({kernel<supports_all<CopyParams>, prepare, run>("strided")})
                         .build();
  return def;
}

const OpDef& copy_into_op() {
  static OpDef def = Op<NoParams>("copy_into")
                         .inputs({"destination", "source"})
                         .outputs({})
                         .dtypes(kAllDTypes)
                         .moves()
                         .copies_over()
                         .infer<infer_into>()
                         .mutates<mutates>()
                         .no_gradient("it overwrites its input")
                         .cpu({kernel<supports_all<NoParams>, prepare_into, run_into>("strided")})
                         .build();
  return def;
}

const OpDef& layout_copy_op() { return copy_op(); }
AnyParams layout_copy_params(const TensorSpec& wanted) {
  return AnyParams(ParamsRef::of(CopyParams{wanted.dtype, wanted.is_channels_last()}));
}

Tensor cast(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  if (is_complex(dtype) && x.device().is_cuda()) {  // whose copies convert real numbers alone
    const auto part = [&](const Tensor& y) { return cast(y, real_dtype(dtype)); };
    if (is_complex(x.dtype())) return by_parts(x, part);
    return complex(part(x), zeros_like(part(x)));
  }
  return dispatch(copy_op(), CopyParams{dtype, x.spec().is_channels_last()}, {x})[0];
}

Tensor contiguous(const Tensor& x, MemoryFormat format) {
  const bool channels_last = format == MemoryFormat::channels_last;
  if (channels_last ? x.spec().is_channels_last_dense() : x.spec().is_contiguous()) return x;
  return dispatch(copy_op(), CopyParams{x.dtype(), channels_last}, {x})[0];
}

Tensor clone(const Tensor& x) {
  return dispatch(copy_op(), CopyParams{x.dtype(), x.spec().is_channels_last()}, {x})[0];
}

Tensor to(const Tensor& x, Device device, TransferOptions options) {
  if (x.device() == device) return x;
  check<Unsupported>(!current_recorder(),
                     "to: a copy from {} to {} cannot be part of a captured graph", x.device(),
                     device);
  const Device from = x.device();
  if (grad_enabled() && x.requires_grad())
    return call_function(
        "to", {x}, [&](FunctionContext&) -> Tensors { return {to(x, device, options)}; },
        [from](FunctionContext&, const Tensors& g) -> Tensors { return {to(g[0], from)}; })[0];
  const Tensor dense = x.spec().is_channels_last() ? x : contiguous(x);
  TensorSpec spec = dense.spec();
  spec.device = device;
  const size_t bytes = static_cast<size_t>(x.numel()) * size_of(x.dtype());
  const bool arrives_later = options.non_blocking && from.is_cuda() && device.is_cpu();
  Tensor result = arrives_later ? empty_pinned(spec) : empty(spec);
  if (bytes == 0) return result;
  if (from.is_cpu()) {
    if (options.non_blocking && is_pinned(dense))
      runtime(device).copy_from_pinned(result.data(), dense.data(), bytes, device.index);
    else
      runtime(device).copy_from_host(result.data(), dense.data(), bytes, device.index);
  } else if (arrives_later) {
    runtime(from).copy_to_pinned(result.data(), dense.data(), bytes, from.index);
  } else if (device.is_cpu()) {
    runtime(from).copy_to_host(result.data(), dense.data(), bytes, from.index);
  } else if (device.kind == from.kind) {
    runtime(device).copy_between(result.data(), device.index, dense.data(), from.index, bytes);
  } else {
    const Tensor host = to(dense, Device::cpu());
    runtime(device).copy_from_host(result.data(), host.data(), bytes, device.index);
  }
  return result;
}

Tensor pin_memory(const Tensor& x) {
  check<DeviceError>(x.device().is_cpu(), "pin_memory: expected a tensor on the CPU, got one on {}",
                     x.device());
  if (is_pinned(x)) return x;
  check<Unsupported>(
      !(grad_enabled() && x.requires_grad()),
      "pin_memory: gradients do not flow to pinned memory; detach() the tensor first");
  const Tensor dense = x.spec().is_channels_last() ? x : contiguous(x);
  Tensor result = empty_pinned(dense.spec());
  runtime(Device::cpu())
      .copy(result.data(), dense.data(), static_cast<size_t>(x.numel()) * size_of(x.dtype()), 0);
  return result;
}

namespace {

/// Whether a write to one may change what is read of the other before it is read. Tensors that are
/// traced have no places yet, but views share what stands for their memory.
bool overlaps(const Tensor& destination, const Tensor& source) {
  const TensorImpl& a = *destination.impl();
  const TensorImpl& b = *source.impl();
  if (a.storage != b.storage || a.spec.numel() == 0 || b.spec.numel() == 0) return false;
  if (destination.is_traced() || source.is_traced()) return true;
  if (a.offset == b.offset && a.spec.lies_like(b.spec)) return false;  // each onto itself
  const auto end = [](const TensorImpl& t) {
    int64_t last = t.offset;
    for (int i = 0; i < t.spec.rank(); ++i) last += (t.spec.shape[i] - 1) * t.spec.strides[i];
    return last;
  };
  return a.offset <= end(b) && b.offset <= end(a);
}

}  // namespace

void copy_(const Tensor& destination, const Tensor& source) {
  Tensor here = source.device() == destination.device() ? source : to(source, destination.device());
  if (overlaps(destination, here)) here = clone(here);
  if (is_complex(destination.dtype()) && here.device().is_cuda())
    here = cast(here, destination.dtype());
  const std::array<Tensor, 2> both = {destination, here};
  if (is_differentiable(destination.dtype()) && grad_wanted(both))
    return write_recorded(destination,
                          expand(cast(here, destination.dtype()), destination.shape()));
  dispatch(copy_into_op(), NoParams{}, {destination, here});
}

void add_(const Tensor& destination, const Tensor& source) {
  copy_(destination, add(destination, source));
}

void Tensor::copy_values(void* to, DType expected) const {
  check<DTypeError>(dtype() == expected, "to_vector: the tensor is {}, not {}", dtype(), expected);
  const NoGrad guard;
  if (device().is_cpu()) count_host_wait(DeviceKind::cpu);
  const Tensor host = mica::contiguous(mica::to(*this, Device::cpu()));
  if (numel() > 0) std::memcpy(to, host.data(), static_cast<size_t>(numel()) * size_of(dtype()));
}

std::vector<uint8_t> Tensor::bool_bytes() const {
  std::vector<uint8_t> bytes(static_cast<size_t>(numel()));
  copy_values(bytes.data(), DType::boolean);
  return bytes;
}

Functions copy_functions() {
  return {{.name = "clone",
           .doc = "A copy that gradients pass through.",
           .signatures = {{clone, {"input"}}},
           .offer = kModule,
           .op = "copy"}};
}

}  // namespace mica
