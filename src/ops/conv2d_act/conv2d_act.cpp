#include "mica/ops/conv2d_act/conv2d_act.h"

#include "mica/core/check.h"
#include "mica/op/choices.h"
#include "mica/op/composed.h"
#include "mica/op/composition.h"
#include "mica/op/dispatch.h"
#include "mica/ops/activation/activation.h"
#include "mica/ops/conv/flops.h"
#include "mica/ops/conv/shape.h"
#include "mica/ops/conv2d/geometry.h"
#include "mica/ops/conv2d_act/kernels.h"
#include "mica/ops/elementwise/elementwise.h"

namespace mica {

const OpDef& conv2d_op();
const OpDef& add_op();
const OpDef& relu_op();
const OpDef& gelu_op();

namespace {

void infer(const Conv2dActParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  const Conv2dGeometry g = conv2d_geometry(out.op(), p.conv, in[0].shape, in[1].shape);
  check_conv_operands(out.op(), in[0], in[1], in[2], g.o);
  if (in[3].defined) {
    check<ShapeError>(in[3].shape == g.y_shape(),
                      "{}: residual must have the convolution's shape {}, got {}", out.op(),
                      g.y_shape(), in[3].shape);
    check<DTypeError>(in[3].dtype == in[0].dtype, "{}: operands must have one dtype, got {} and {}",
                      out.op(), in[0].dtype, in[3].dtype);
  }
  out.add(g.y_shape(), in[0].dtype);
}

// The convolution again, which GELU's gradient needs.
Tensors composition(const Conv2dActParams& p, std::span<const Tensor> in) {
  const Tensor y = conv2d(in[0], in[1], in[2], p.conv);
  return {gelu(in[3].defined() ? add(y, in[3]) : y)};
}

Tensors vjp(const Conv2dActParams& p, const VjpArgs& args) {
  if (p.activation == Activation::gelu) return vjp_by<composition>(p, args);
  const bool relu = p.activation == Activation::relu;
  const Tensor dz = relu ? relu_grad(args.grad[0], args.out[0]) : args.grad[0];
  Tensors grads = conv2d_gradients(p.conv, dz, args);
  grads.push_back(args.needs(3) ? dz : Tensor());
  return grads;
}

std::shared_ptr<ComposedState> prepare(const Conv2dActParams& p, const Specs& s) {
  auto state = std::make_shared<ComposedState>(s);
  const int y = state->out(0);
  state->add(conv2d_op(), p.conv, {state->in(0), state->in(1), state->in(2)}, {y});
  if (s.in[3].defined) state->add(add_op(), NoParams{}, {y, state->in(3)}, {y});
  if (p.activation == Activation::relu) state->add(relu_op(), NoParams{}, {y}, {y});
  if (p.activation == Activation::gelu) state->add(gelu_op(), NoParams{}, {y}, {y});
  return state;
}

void run(const Conv2dActParams&, const ComposedState& state, const Call& c) { state.run(c); }

}  // namespace

Kernel conv2d_act_composed_kernel() {
  return timed_kernel<supports_all<Conv2dActParams>, prepare, run>("composed");
}

const OpDef& conv2d_act_op() {
  static OpDef def =
      Op<Conv2dActParams>("conv2d_act")
          .inputs({"x", "weight", "bias?", "residual?"})
          .flops<conv_flops<Conv2dActParams>>()
          .precision(Precision::low)
          .formats({Format::images, Format::weight, Format::none, Format::images}, {Format::images})
          .dtypes(kFloatDTypes)
          .infer<infer>()
          .vjp<vjp>({.in = {0, 1, 2, 3}, .out = {0}})
          .cpu({conv2d_act_composed_kernel()})
          .build();
  return def;
}

Tensor conv2d_act(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& residual,
                  const Conv2dActParams& params) {
  return dispatch(conv2d_act_op(), params, {x, weight, bias, residual})[0];
}

}  // namespace mica
