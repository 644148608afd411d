#include "mica/ops/conv2d_pool/conv2d_pool.h"

#include "mica/core/check.h"
#include "mica/op/composed.h"
#include "mica/op/composition.h"
#include "mica/op/dispatch.h"
#include "mica/ops/conv/cpu_widened.h"
#include "mica/ops/conv/flops.h"
#include "mica/ops/conv/shape.h"
#include "mica/ops/conv2d_pool/kernels.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/reduce/reduce.h"

namespace mica {

const OpDef& conv2d_op();
const OpDef& conv2d_dgrad_op();
const OpDef& conv2d_wgrad_op();
const OpDef& relu_op();
const OpDef& relu_grad_op();
const OpDef& max_pool2d_op();
const OpDef& max_pool2d_grad_op();
const OpDef& sum_op();
const OpDef& conv2d_pool_wgrad_op();

namespace {

void infer(const Conv2dPoolParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  const auto g = conv2d_pool_geometry(out.op(), p.conv, p.pool, in[0].shape, in[1].shape);
  check_conv_operands(out.op(), in[0], in[1], in[2], g.conv.o);
  out.add(g.pool.y_shape(), in[0].dtype);
  out.add(g.pool.y_shape(), DType::i32);
}

Tensors vjp(const Conv2dPoolParams& p, const VjpArgs& args) {
  const Tensor dy = p.relu ? relu_grad(args.grad[0], args.out[0]) : args.grad[0];
  const Tensor& positions = args.out[1];
  const TensorSpec& x = args.in_specs[0];
  const TensorSpec& weight = args.in_specs[1];
  Tensors grads(3);
  if (args.needs(0))
    grads[0] = in_format_of(
        x, dy, conv2d_pool_dgrad(dy, positions, args.in[1], {p.conv, p.pool, x.shape}));
  if (args.needs(1)) {
    const auto [dw, db] =
        conv2d_pool_wgrad(dy, positions, args.in[0],
                          {p.conv, p.pool, weight.shape, args.needs(2), weight.is_channels_last()});
    grads[1] = dw;
    grads[2] = db;
  } else if (args.needs(2)) {
    grads[2] = sum(dy, {0, 2, 3});
  }
  return grads;
}

// As many as without the pooling.
double flops(const Conv2dPoolParams& p, const Specs& s) {
  const Shape y = conv2d_geometry("conv2d_pool", p.conv, s.in[0].shape, s.in[1].shape).y_shape();
  return window_flops(numel(y), s.in[1]);
}
double dgrad_flops(const Conv2dPoolGradParams& p, const Specs& s) {
  const Shape y = conv2d_geometry("conv2d_pool", p.conv, p.shape, s.in[2].shape).y_shape();
  return window_flops(numel(y), s.in[2]);
}
double wgrad_flops(const Conv2dPoolGradParams& p, const Specs& s) {
  const Shape y = conv2d_geometry("conv2d_pool", p.conv, s.in[2].shape, p.shape).y_shape();
  return window_flops(numel(y), s.out[0]);
}

void check_gradient(const char* op, const Conv2dPoolGeometry& g, std::span<const TensorSpec> in) {
  check<DTypeError>(in[0].dtype == in[2].dtype, "{}: operands must have one dtype, got {} and {}",
                    op, in[0].dtype, in[2].dtype);
  if (!in[1].defined) {
    check<ShapeError>(in[0].shape == g.conv.y_shape(),
                      "{}: dy without positions must be {}, got {}", op, g.conv.y_shape(),
                      in[0].shape);
    return;
  }
  check<DTypeError>(in[1].dtype == DType::i32, "{}: positions must be i32, got {}", op,
                    in[1].dtype);
  const Shape y = g.pool.y_shape();
  check<ShapeError>(in[0].shape == y && in[1].shape == y,
                    "{}: dy and positions must be {}, got {} and {}", op, y, in[0].shape,
                    in[1].shape);
}

void infer_dgrad(const Conv2dPoolGradParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check_gradient(out.op(), conv2d_pool_geometry(out.op(), p.conv, p.pool, p.shape, in[2].shape),
                 in);
  check<ShapeError>(!in[3].defined || in[3].shape == p.shape, "{}: x must be {}, got {}", out.op(),
                    p.shape, in[3].shape);
  check<DTypeError>(!in[3].defined || in[3].dtype == in[0].dtype, "{}: x must be {}, got {}",
                    out.op(), in[0].dtype, in[3].dtype);
  out.add(p.shape, in[0].dtype);
}

void infer_wgrad(const Conv2dPoolGradParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check_gradient(out.op(), conv2d_pool_geometry(out.op(), p.conv, p.pool, in[2].shape, p.shape),
                 in);
  out.add(p.shape, in[0].dtype);
  out[0].strides = p.channels_last ? channels_last_strides(p.shape) : contiguous_strides(p.shape);
  if (p.bias) out.add({p.shape[0]}, in[0].dtype);
}

Tensor unpooled(const Conv2dPoolGradParams& p, std::span<const Tensor> in, const Shape& x,
                const Shape& weight) {
  if (!in[1].defined()) return in[0];
  const Shape y = conv2d_geometry("conv2d_pool", p.conv, x, weight).y_shape();
  return max_pool2d_grad(in[0], in[1], {p.pool, y});
}

Tensors dgrad_composition(const Conv2dPoolGradParams& p, std::span<const Tensor> in) {
  const Tensor dy = unpooled(p, in, p.shape, in[2].shape());
  const Tensor dx = conv2d_dgrad(dy, in[2], {p.conv, p.shape});
  return {in[3].defined() ? relu_grad(dx, in[3]) : dx};
}

Tensors wgrad_composition(const Conv2dPoolGradParams& p, std::span<const Tensor> in) {
  const Tensor dy = unpooled(p, in, in[2].shape(), p.shape);
  const Tensor dw = conv2d_wgrad(dy, in[2], {p.conv, p.shape});
  return p.bias ? Tensors{dw, sum(in[0], {0, 2, 3})} : Tensors{dw};
}

// The kernels made of other ops' kernels.

template <class P>
void run_composed(const P&, const ComposedState& state, const Call& c) {
  state.run(c);
}

std::shared_ptr<ComposedState> prepare_composed(const Conv2dPoolParams& p, const Specs& s) {
  auto state = std::make_shared<ComposedState>(s);
  const Shape y = conv2d_geometry("conv2d_pool", p.conv, s.in[0].shape, s.in[1].shape).y_shape();
  const int conv = state->temporary(y, s.in[0].dtype, s.out[0]);
  state->add(conv2d_op(), p.conv, {state->in(0), state->in(1), state->in(2)}, {conv});
  if (p.relu) state->add(relu_op(), NoParams{}, {conv}, {conv});
  state->add(max_pool2d_op(), p.pool, {conv}, {state->out(0), state->out(1)});
  return state;
}

/// dy at the size of the convolution's result.
int add_unpooling(ComposedState& state, const Conv2dPoolGradParams& p, const Specs& s,
                  const Shape& x, const Shape& weight) {
  if (!s.in[1].defined) return state.in(0);
  const Shape y = conv2d_geometry("conv2d_pool", p.conv, x, weight).y_shape();
  const int dy = state.temporary(y, s.in[0].dtype, s.in[0]);
  state.add(max_pool2d_grad_op(), MaxPool2dGradParams{p.pool, y}, {state.in(0), state.in(1)}, {dy});
  return dy;
}

std::shared_ptr<ComposedState> prepare_composed_dgrad(const Conv2dPoolGradParams& p,
                                                      const Specs& s) {
  auto state = std::make_shared<ComposedState>(s);
  const int dy = add_unpooling(*state, p, s, p.shape, s.in[2].shape);
  const int dx = state->out(0);
  state->add(conv2d_dgrad_op(), Conv2dGradParams{p.conv, p.shape}, {dy, state->in(2)}, {dx});
  if (s.in[3].defined) state->add(relu_grad_op(), NoParams{}, {dx, state->in(3)}, {dx});
  return state;
}

std::shared_ptr<ComposedState> prepare_composed_wgrad(const Conv2dPoolGradParams& p,
                                                      const Specs& s) {
  auto state = std::make_shared<ComposedState>(s);
  const int dy = add_unpooling(*state, p, s, s.in[2].shape, p.shape);
  state->add(conv2d_wgrad_op(), Conv2dGradParams{p.conv, p.shape, p.channels_last},
             {dy, state->in(2)}, {state->out(0)});
  if (p.bias) state->add(sum_op(), ReduceParams{{0, 2, 3}}, {state->in(0)}, {state->out(1)});
  return state;
}

}  // namespace

Conv2dPoolGeometry conv2d_pool_geometry(const char* op, const Conv2dParams& conv,
                                        const MaxPool2dParams& pool, const Shape& x,
                                        const Shape& weight) {
  const Conv2dGeometry c = conv2d_geometry(op, conv, x, weight);
  return {c, pool2d_geometry(op, pool, c.y_shape())};
}

Kernel conv2d_pool_composed_kernel() {
  return kernel<supports_all<Conv2dPoolParams>, prepare_composed, run_composed<Conv2dPoolParams>>(
      "composed");
}

Kernel conv2d_pool_dgrad_composed_kernel() {
  return kernel<supports_all<Conv2dPoolGradParams>, prepare_composed_dgrad,
                run_composed<Conv2dPoolGradParams>>("composed");
}

Kernel conv2d_pool_wgrad_composed_kernel() {
  return kernel<supports_all<Conv2dPoolGradParams>, prepare_composed_wgrad,
                run_composed<Conv2dPoolGradParams>>("composed");
}

const OpDef& conv2d_pool_op() {
  static OpDef def =
      Op<Conv2dPoolParams>("conv2d_pool")
          .inputs({"x", "weight", "bias?"})
          .outputs({"y", "positions"})
          .flops<flops>()
          .precision(Precision::low)
          .formats({Format::images, Format::weight}, {Format::images, Format::images})
          .dtypes(kFloatDTypes)
          .infer<infer>()
          .vjp<vjp>({.in = {{0, {1}}, {1, {0}}}, .out = {0, 1}})
          .cpu({conv2d_pool_direct_kernel(), widened_kernel<conv2d_pool_direct_kernel>(),
                conv2d_pool_composed_kernel()})
          .build();
  return def;
}

const OpDef& conv2d_pool_dgrad_op() {
  static OpDef def = Op<Conv2dPoolGradParams>("conv2d_pool_dgrad")
                         .inputs({"dy", "positions", "weight", "relu?"})
                         .outputs({"dx"})
                         .flops<dgrad_flops>()
                         .formats({Format::images, Format::images, Format::weight, Format::images},
                                  {Format::images})
                         .dtypes(kFloatDTypes)
                         .infer<infer_dgrad>()
                         .vjp<vjp_by<dgrad_composition, Conv2dPoolGradParams>>({.in = {0, 1, 2, 3}})
                         .cpu({conv2d_pool_dgrad_sparse_kernel(),
                               widened_kernel<conv2d_pool_dgrad_sparse_kernel>(),
                               conv2d_pool_dgrad_composed_kernel()})
                         .build();
  return def;
}

const OpDef& conv2d_pool_wgrad_op() {
  static OpDef def =
      Op<Conv2dPoolGradParams>("conv2d_pool_wgrad")
          .inputs({"dy", "positions?", "x"})
          .outputs({"dweight", "dbias?"})
          .flops<wgrad_flops>()
          .formats({Format::images, Format::images, Format::images}, {Format::weight})
          .dtypes(kFloatDTypes)
          .infer<infer_wgrad>()
          .vjp<vjp_by<wgrad_composition, Conv2dPoolGradParams>>({.in = {0, 1, 2}})
          .cpu({conv2d_pool_wgrad_sparse_kernel(),
                widened_kernel<conv2d_pool_wgrad_sparse_kernel>(),
                conv2d_pool_wgrad_composed_kernel()})
          .build();
  return def;
}

Tensor conv2d_pool(const Tensor& x, const Tensor& weight, const Tensor& bias,
                   const Conv2dPoolParams& params) {
  return dispatch(conv2d_pool_op(), params, {x, weight, bias})[0];
}

Tensor conv2d_pool_dgrad(const Tensor& dy, const Tensor& positions, const Tensor& weight,
                         const Conv2dPoolGradParams& params, const Tensor& x) {
  return dispatch(conv2d_pool_dgrad_op(), params, {dy, positions, weight, x})[0];
}

Conv2dPoolWeightGradients conv2d_pool_wgrad(const Tensor& dy, const Tensor& positions,
                                            const Tensor& x, const Conv2dPoolGradParams& params) {
  const Outputs both = dispatch(conv2d_pool_wgrad_op(), params, {dy, positions, x});
  return {both[0], params.bias ? both[1] : Tensor()};
}

}  // namespace mica
