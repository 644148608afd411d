#include "mica/ops/conv2d_batch_norm/conv2d_batch_norm.h"

#include "mica/core/check.h"
#include "mica/op/composed.h"
#include "mica/op/op_def.h"
#include "mica/ops/conv/flops.h"
#include "mica/ops/conv/shape.h"
#include "mica/ops/conv2d/geometry.h"
#include "mica/ops/conv2d_batch_norm/kernels.h"

namespace mica {

const OpDef& conv2d_op();
const OpDef& conv2d_dgrad_op();
const OpDef& batch_norm_op();
const OpDef& batch_norm_grad_op();
const OpDef& add_op();
const OpDef& relu_grad_op();
const OpDef& copy_into_op();

namespace {

constexpr const char* kNoGradient = "it exists only inside compiled functions, after the pass back";

/// Lets batch_norm, or its gradient, check its operands and add its results.
void infer_norm(const OpDef& norm, const BatchNormParams& params, TensorSpec x,
                std::span<const TensorSpec> others, OutSpecs& out) {
  x.defined = true;
  std::vector<TensorSpec> in = {x};
  in.insert(in.end(), others.begin(), others.end());
  norm.infer(norm, &params, in, out);
}

void infer(const Conv2dBatchNormParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  const Conv2dGeometry g = conv2d_geometry(out.op(), p.conv, in[0].shape, in[1].shape);
  check_conv_operands(out.op(), in[0], in[1], in[2], g.o);
  infer_norm(batch_norm_op(), p.norm, TensorSpec::contiguous(g.y_shape(), in[0].dtype),
             in.subspan(3), out);
  out.add(g.y_shape(), in[0].dtype);
}

bool mutates(const Conv2dBatchNormParams& p, int input, int) {
  return p.norm.training && (input == 5 || input == 6);
}

double flops(const Conv2dBatchNormParams&, const Specs& s) {
  return window_flops(s.out[0].numel(), s.in[1]);
}

void infer_grad(const Conv2dBatchNormGradParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  const TensorSpec& x = in[4];
  const auto g = conv2d_geometry(out.op(), p.conv.conv, p.conv.shape, in[1].shape);
  check<ShapeError>(in[0].shape == g.y_shape() && in[0].dtype == in[1].dtype,
                    "{}: dy must be {} as the weight's dtype and the convolution's shape, got {}",
                    out.op(), g.y_shape(), in[0]);
  check(p.apart >= 1, "{}: apart must be at least 1, got {}", out.op(), p.apart);
  for (const size_t i : {2, 3, 4}) {
    const Shape shape = i == 2 ? p.more_shape() : p.conv.shape;
    check<ShapeError>(in[i].shape == shape && in[i].dtype == in[0].dtype,
                      "{}: input {} must be {} as the convolution's input, got {}", out.op(), i,
                      shape, in[i]);
  }
  infer_norm(batch_norm_grad_op(), p.norm, x, in.subspan(4), out);
  out.add(p.conv.shape, in[0].dtype);
}

double grad_flops(const Conv2dBatchNormGradParams&, const Specs& s) {
  return window_flops(s.in[0].numel(), s.in[1]);
}

template <class P>
void run_composed(const P&, const ComposedState& state, const Call& call) {
  state.run(call);
}

std::shared_ptr<ComposedState> prepare_composed(const Conv2dBatchNormParams& p, const Specs& s) {
  auto state = std::make_shared<ComposedState>(s);
  const auto in = [&](int i) { return state->in(i); };
  const auto out = [&](int i) { return state->out(i); };
  state->add(conv2d_op(), p.conv, {in(0), in(1), in(2)}, {out(3)});
  state->add(batch_norm_op(), p.norm, {out(3), in(3), in(4), in(5), in(6)},
             {out(0), out(1), out(2)});
  return state;
}

std::shared_ptr<ComposedState> prepare_composed_grad(const Conv2dBatchNormGradParams& p,
                                                     const Specs& s) {
  auto state = std::make_shared<ComposedState>(s);
  const auto in = [&](int i) { return state->in(i); };
  const auto out = [&](int i) { return state->out(i); };
  state->add(conv2d_dgrad_op(), p.conv, {in(0), in(1)}, {out(3)});
  if (p.apart == 1) {
    state->add(add_op(), NoParams{}, {out(3), in(2)}, {out(3)});
  } else if (s.in[2].numel() > 0) {
    TensorSpec some = s.out[3];
    some.shape = s.in[2].shape;
    for (int d = 2; d < some.rank(); ++d) some.strides[d] *= p.apart;
    const int sum = state->temporary(some.shape, some.dtype, s.in[2]);
    const int at = state->view(out(3), some);
    state->add(add_op(), NoParams{}, {at, in(2)}, {sum});
    state->add(copy_into_op(), NoParams{}, {at, sum}, {});
  }
  state->add(relu_grad_op(), NoParams{}, {out(3), in(3)}, {out(3)});
  state->add(batch_norm_grad_op(), p.norm, {out(3), in(4), in(5), in(6), in(7)},
             {out(0), out(1), out(2)});
  return state;
}

}  // namespace

Kernel conv2d_batch_norm_composed_kernel() {
  return kernel<supports_all<Conv2dBatchNormParams>, prepare_composed,
                run_composed<Conv2dBatchNormParams>>("composed");
}
Kernel conv2d_dgrad_batch_norm_grad_composed_kernel() {
  return kernel<supports_all<Conv2dBatchNormGradParams>, prepare_composed_grad,
                run_composed<Conv2dBatchNormGradParams>>("composed");
}

const OpDef& conv2d_batch_norm_op() {
  static OpDef def =
      Op<Conv2dBatchNormParams>("conv2d_batch_norm")
          .inputs({"x", "weight", "bias?", "scale?", "shift?", "running_mean?", "running_var?"})
          .outputs({"y", "mean", "invstd", "product"})
          .flops<flops>()
          .formats({Format::images, Format::weight},
                   {Format::images, Format::none, Format::none, Format::images})
          .carries({}, {0})
          .dtypes(kFloatDTypes)
          .infer<infer>()
          .no_gradient(kNoGradient)
          .mutates<mutates>()
          .cpu({conv2d_batch_norm_composed_kernel()})
          .build();
  return def;
}

const OpDef& conv2d_dgrad_batch_norm_grad_op() {
  static OpDef def =
      Op<Conv2dBatchNormGradParams>("conv2d_dgrad_batch_norm_grad")
          .inputs({"dy", "weight", "more", "relu", "x", "scale?", "mean", "invstd"})
          .outputs({"dx", "dscale", "dshift", "dresidual"})
          .flops<grad_flops>()
          .formats({Format::images, Format::weight, Format::images, Format::images, Format::images},
                   {Format::images, Format::none, Format::none, Format::images})
          .dtypes(kFloatDTypes)
          .infer<infer_grad>()
          .no_gradient(kNoGradient)
          .cpu({conv2d_dgrad_batch_norm_grad_composed_kernel()})
          .build();
  return def;
}

KernelList conv2d_batch_norm_carrying_kernels() { return {}; }

}  // namespace mica
