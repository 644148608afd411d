// Transforms of several last axes in one call, which a library may know how to do better than one
// axis after the other.
#include <cmath>
#include <utility>

#include "mica/core/check.h"
#include "mica/op/composed.h"
#include "mica/op/dispatch.h"
#include "mica/ops/fft/lines.h"
#include "mica/ops/view/view.h"

namespace mica {

const OpDef& fft_op();
const OpDef& rfft_op();
const OpDef& fft_block_op();

namespace {

constexpr DTypeSet kParts{{DType::f32, DType::f64}, "f32, f64, c64 or c128"};

void infer(const BlockFftParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  Shape shape = in[0].shape;
  check<ShapeError>(p.axes >= 1 && p.axes <= shape.rank(), "fft_block: {} of the axes of {}",
                    p.axes, shape);
  for (int i = shape.rank() - static_cast<int>(p.axes); i < shape.rank(); ++i)
    check<ShapeError>(shape[i] > 0,
                      "fft_block: the transformed axes must have at least one element, got {}",
                      shape);
  const bool real = !is_complex(in[0].dtype);
  check<Unsupported>(!real || !p.inverse, "fft_block: real numbers are transformed forwards");
  if (real) shape[shape.rank() - 1] = shape.back() / 2 + 1;
  out.add(shape, complex_dtype(in[0].dtype));
  out[0].strides = contiguous_strides(shape);
}

Tensors vjp(const BlockFftParams& p, const VjpArgs& a) {
  if (is_complex(a.in_specs[0].dtype))
    return {transform_block(a.grad[0], {p.axes, !p.inverse, p.scale})};
  // The axes before the last one back, then that to real numbers.
  const int64_t n = a.in_specs[0].shape.back();
  Tensor g = a.grad[0];
  for (int64_t axis = -2; axis >= -p.axes; --axis)
    g = transpose(transform_line(transpose(g, axis, -1), {.inverse = true}), axis, -1);
  return {half_to_line(weighted_half(g, n, 0.5), {.n = n, .scale = p.scale})};
}

TensorSpec exchanged(TensorSpec s, int axis) {
  const int last = s.rank() - 1;
  std::swap(s.shape[axis], s.shape[last]);
  std::swap(s.strides[axis], s.strides[last]);
  return s;
}

/// One axis after the other, from the last one on.
std::shared_ptr<ComposedState> prepare(const BlockFftParams& p, const Specs& s) {
  auto state = std::make_shared<ComposedState>(s);
  const TensorSpec& out = s.out[0];
  if (is_complex(s.in[0].dtype))
    state->add(fft_op(), FftParams{p.inverse, p.scale}, {state->in(0)}, {state->out(0)});
  else
    state->add(rfft_op(), RealFftParams{.scale = p.scale}, {state->in(0)}, {state->out(0)});
  // The others where they lie: of lines side by side the kernels need no copies.
  for (int axis = out.rank() - 2; axis >= out.rank() - p.axes; --axis) {
    const int lines = state->view(state->out(0), exchanged(out, axis));
    state->add(fft_op(), FftParams{p.inverse, 1}, {lines}, {lines});
  }
  return state;
}
Support supports(const BlockFftParams&, const Specs&) {
  return Support::yes().with_contiguous({0});
}
void run(const BlockFftParams&, const ComposedState& state, const Call& call) { state.run(call); }

double flops(const BlockFftParams& p, const Specs& s) {
  const TensorSpec& x = s.in[0];
  double n = 1;
  for (int i = x.rank() - static_cast<int>(p.axes); i < x.rank(); ++i)
    n *= static_cast<double>(x.shape[i]);
  const double all = 5.0 * static_cast<double>(x.numel()) * std::log2(std::max(n, 2.0));
  return is_complex(x.dtype) ? all : all / 2;
}

Kernel composed() {
  Kernel k = kernel<supports, prepare, run>("composed");
  k.takes_complex = true;
  return k;
}

}  // namespace

const OpDef& fft_block_op() {
  static OpDef def = Op<BlockFftParams>("fft_block")
                         .inputs({"x"})
                         .dtypes(kParts.with_complex())
                         .infer<infer>()
                         .vjp<vjp>({})
                         .flops<flops>()
                         .cpu({composed()})
                         .build();
  return def;
}

Tensor transform_block(const Tensor& x, const BlockFftParams& params) {
  return dispatch(fft_block_op(), params, {x})[0];
}

}  // namespace mica
