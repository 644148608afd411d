#include "mica/op/dispatch.h"

#include <algorithm>
#include <cstring>

#include "mica/core/check.h"
#include "mica/op/autocast.h"
#include "mica/op/lower.h"
#include "mica/op/run_watcher.h"
#include "mica/op/settings.h"
#include "mica/op/write_region.h"
#include "mica/runtime/op_scope.h"
#include "mica/runtime/runtime.h"

namespace mica {
namespace {

thread_local Recorder* t_recorder = nullptr;

/// An array on the stack for the usual call, on the heap for one with many inputs. Not initialised.
template <class T>
class Scratch {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit Scratch(size_t n) : n_(n) {
    if (n > kInline) heap_ = std::make_unique<std::byte[]>(n * sizeof(T));
  }
  T* data() { return reinterpret_cast<T*>(heap_ ? heap_.get() : inline_); }
  T& operator[](size_t i) { return data()[i]; }
  std::span<const T> span() { return {data(), n_}; }

 private:
  static constexpr size_t kInline = 6;
  size_t n_;
  std::unique_ptr<std::byte[]> heap_;
  alignas(T) std::byte inline_[kInline * sizeof(T)];
};

const TensorSpec kUndefined{};

/// Checks which inputs there are and gives the one device they lie on.
Device common_device(const OpDef& op, std::span<const TensorSpec> in) {
  check(in.size() == op.in.size() || (op.more_inputs && in.size() > op.in.size()),
        "{}: expected {}{} input{}, got {}", op.name, op.more_inputs ? "at least " : "",
        op.in.size(), op.in.size() == 1 ? "" : "s", in.size());
  const TensorSpec* first = nullptr;
  for (size_t i = 0; i < in.size(); ++i) {
    const TensorSpec& s = in[i];
    if (!s.defined) {
      const Slot& slot = op.input(static_cast<int>(i));
      check(slot.optional, "{}: input {} ({}) is undefined", op.name, i, slot.name);
      continue;
    }
    if (!first) first = &s;
    check<DeviceError>(s.device == first->device, "{}: inputs are on different devices, {} and {}",
                       op.name, first->device, s.device);
  }
  check(first != nullptr || in.empty(), "{}: every input is undefined", op.name);
  return first ? first->device : Device();
}

void check_dtype(const OpDef& op, DType t) {
  check<DTypeError>(op.dtypes.contains(t), "{}: expected {}, got {}", op.name, op.dtypes.words(),
                    t);
}

/// A size that cannot be counted must not be computed with.
void check_size(const char* op, const Shape& shape) {
  int64_t n = 1;
  bool fits = true;
  for (const int64_t d : shape) {
    check<ShapeError>(d >= 0, "{}: a result of shape {} has a negative size", op, shape);
    fits = !__builtin_mul_overflow(n, d, &n) && fits;
  }
  check<ShapeError>(fits || shape.contains(0),
                    "{}: a result of shape {} has more than 2^63 elements", op, shape);
}

/// A view must not reach past its input, whatever its parameters say.
void check_view(const OpDef& op, const ViewSpec& v, const TensorSpec& in) {
  check_size(op.name, v.spec.shape);
  if (v.spec.shape.contains(0)) return;
  int64_t last = 0;
  int64_t last_seen = v.offset;
  for (int i = 0; i < in.rank(); ++i) last += (in.shape[i] - 1) * in.strides[i];
  for (int i = 0; i < v.spec.rank(); ++i) last_seen += (v.spec.shape[i] - 1) * v.spec.strides[i];
  check<ShapeError>(!in.shape.contains(0) && v.offset >= 0 && last_seen <= last,
                    "{}: {} does not lie in {}", op.name, v.spec, in);
}

/// Outputs whose strides the op left open take the memory format of the first 4-d input that has
/// just one.
void finish_specs(OutSpecs& out, std::span<const TensorSpec> in, Device device) {
  bool channels_last = false;
  for (const TensorSpec& s : in) {
    if (!s.defined || s.rank() != 4) continue;
    channels_last = s.is_channels_last();
    if (channels_last || (s.is_contiguous() && !s.is_channels_last_dense())) break;
  }
  for (TensorSpec& s : out.span()) {
    if (!in.empty()) s.device = device;
    if (s.strides.rank() == s.rank() && s.rank() > 0) continue;
    s.strides = channels_last && s.rank() == 4 ? channels_last_strides(s.shape)
                                               : contiguous_strides(s.shape);
  }
}

/// Runs a kernel whose inputs lie as it wants them.
void run_prepared(const OpDef& op, ParamsRef params, const Prepared& prepared,
                  std::span<const Arg> in, std::span<const Arg> out, Device device) {
  DeviceRuntime& rt = runtime(device);
  Ref<Storage> workspace;
  if (prepared.state->workspace_bytes > 0)
    workspace = make_ref<Storage>(prepared.state->workspace_bytes, device);
  const WatchedRun watched({prepared, params.data, in, out, device});
  prepared.run(params.data,
               {in, out, workspace ? workspace->data() : nullptr, rt.encoder(device.index)});
  rt.op_launched(op.name, device.index);
}

/// The same with inputs that are copied into other layouts first.
void run_with_copies(const OpDef& op, ParamsRef params,
                     const std::shared_ptr<const Prepared>& prepared,
                     std::span<const Tensor> inputs, std::span<const TensorSpec> specs,
                     std::span<const Tensor> outputs, Device device) {
  const auto args = [](const Tensors& tensors) {
    std::vector<Arg> all;
    for (const Tensor& t : tensors)
      all.push_back(t.defined() ? Arg{t.data(), &t.spec()} : Arg{nullptr, &kUndefined});
    return all;
  };
  lower_call(
      op, AnyParams(params), prepared, specs, device, Tensors(inputs.begin(), inputs.end()),
      Tensors(outputs.begin(), outputs.end()), [](const TensorSpec& spec) { return empty(spec); },
      [&](const LoweredCall<Tensor>& call) {
        const OpScope scope(call.op.name);
        run_prepared(call.op, call.params.ref(), *call.prepared, args(call.in), args(call.out),
                     device);
      });
}

/// Runs a kernel into outputs that have memory.
void run_kernel(const OpDef& op, ParamsRef params, std::span<const Tensor> inputs,
                std::span<const TensorSpec> specs, std::span<const Tensor> outputs,
                std::span<const TensorSpec> out_specs, Device device) {
  if (device.is_null()) return;
  adopt_num_threads();
  const auto prepared = select(op, params, {specs, out_specs}, device);
  if (prepared->needs_copies())
    return run_with_copies(op, params, prepared, inputs, specs, outputs, device);
  Scratch<Arg> in(inputs.size());
  Scratch<Arg> out(outputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    in[i] = {specs[i].defined ? inputs[i].data() : nullptr, &specs[i]};
  for (size_t i = 0; i < outputs.size(); ++i) out[i] = {outputs[i].data(), &out_specs[i]};
  run_prepared(op, params, *prepared, in.span(), out.span(), device);
}

Outputs execute(const OpDef& op, ParamsRef params, std::span<const Tensor> inputs,
                std::span<const TensorSpec> specs, OutSpecs& out, Device device) {
  const OpScope scope(op.name);
  try {
    Outputs outputs;
    for (const TensorSpec& s : out.span()) outputs.add(empty(s));
    run_kernel(op, params, inputs, specs, std::as_const(outputs).span(), out.span(), device);
    return outputs;
  } catch (const OutOfMemory& e) {
    fail<OutOfMemory>("{}: {}", op.name, e.what());
  }
}

/// Whether the call goes on the tape. A gradient that would be lost is an error, and one raised
/// before anything is written; results that are integers or bools have none to lose.
bool records(const OpDef& op, ParamsRef params, std::span<const Tensor> inputs,
             std::span<const TensorSpec> out) {
  if (!grad_wanted(inputs)) return false;
  const int n = static_cast<int>(inputs.size());
  for (int i = 0; i < n; ++i)
    check(!op.writes(params.data, i, n) || !inputs[static_cast<size_t>(i)].requires_grad(),
          "{}: writes to a tensor that requires a gradient; do it under NoGrad, or on a detached "
          "tensor",
          op.name);
  if (!out.empty() && std::none_of(out.begin(), out.end(),
                                   [](const TensorSpec& s) { return is_differentiable(s.dtype); }))
    return false;
  check<Unsupported>(
      op.vjp != nullptr,
      "{}: has no gradient ({}), and an input requires one; detach() it if that is meant", op.name,
      op.no_gradient ? op.no_gradient : "for no written reason");
  return true;
}

void note_writes(const OpDef& op, ParamsRef params, std::span<const Tensor> inputs) {
  const int n = static_cast<int>(inputs.size());
  for (int i = 0; i < n; ++i) {
    const Tensor& t = inputs[static_cast<size_t>(i)];
    if (t.defined() && !t.is_traced() && op.writes(params.data, i, n)) t.storage()->bump_version();
  }
}

}  // namespace

void OutSpecs::add(const Shape& shape, DType dtype) {
  check_size(op_, shape);
  TensorSpec& s = specs_.emplace();
  s.shape = shape;
  s.dtype = dtype;
  s.defined = true;
}

Recorder* current_recorder() { return t_recorder; }

Recorder* exchange_recorder(Recorder* recorder) { return std::exchange(t_recorder, recorder); }

Outputs dispatch(const OpDef& op, ParamsRef params, std::span<const Tensor> inputs) {
  if (op.mutates)
    if (const WriteRegion* region = WriteRegion::current())
      return region->dispatch(op, params, inputs);
  std::optional<Tensors> cast;
  if (autocasts() && (cast = autocast_inputs(op, inputs))) inputs = *cast;
  Scratch<TensorSpec> specs(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    std::memcpy(static_cast<void*>(&specs[i]),
                inputs[i].defined() ? &inputs[i].spec() : &kUndefined, sizeof(TensorSpec));
  Device device = common_device(op, specs.span());
  if (!inputs.empty() && specs[0].defined) check_dtype(op, specs[0].dtype);

  Outputs outputs;
  bool recorded = false;
  if (op.view) {
    const ViewSpec v = op.view(op, params.data, specs[0]);
    check_view(op, v, specs[0]);
    recorded = records(op, params, inputs, {&v.spec, 1});
    if (t_recorder) {
      outputs = t_recorder->record(op, params, inputs, {&v.spec, 1});
    } else {
      outputs.add(view_of(inputs[0], v.spec, inputs[0].offset() + v.offset));
    }
  } else {
    OutSpecs out(op.name);
    op.infer(op, params.data, specs.span(), out);
    if (inputs.empty()) check_dtype(op, out[0].dtype);
    finish_specs(out, specs.span(), device);
    if (inputs.empty()) device = out[0].device;
    recorded = records(op, params, inputs, out.span());
    const bool watched = detect_anomaly() && !t_recorder && finite_call(params, inputs);
    outputs = t_recorder ? t_recorder->record(op, params, inputs, out.span())
                         : execute(op, params, inputs, specs.span(), out, device);
    if (watched) check_call(op, params, inputs, std::as_const(outputs).span());
  }
  if (op.mutates) note_writes(op, params, inputs);
  if (recorded) record_on_tape(op, params, inputs, outputs);
  if (op.view) note_view(op, params, inputs[0], outputs[0]);
  return outputs;
}

}  // namespace mica
