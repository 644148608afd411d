#include "mica/ops/layer_norm/layer_norm.h"

#include <numeric>

#include "mica/core/check.h"
#include "mica/op/composition.h"
#include "mica/op/dispatch.h"
#include "mica/op/function.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/layer_norm/cpu.h"
#include "mica/ops/layer_norm/parameter.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/view/view.h"

// layer_norm and rms_norm are one thing but for the mean: `centred` tells which. Their inputs are
// x, weight, bias and x, weight; their outputs y, mean, rstd and y, rstd.
namespace mica {
namespace {

/// x's shape with sizes of 1 for the normalised axes.
Shape statistics_shape(const Shape& x, const Shape& normalized) {
  Shape shape = x;
  for (int i = x.rank() - normalized.rank(); i < x.rank(); ++i) shape[i] = 1;
  return shape;
}

void check_input(const char* op, const TensorSpec& x, const Shape& normalized) {
  const int leading = x.rank() - normalized.rank();
  bool fits = normalized.rank() > 0 && leading >= 0;
  for (int i = 0; fits && i < normalized.rank(); ++i) fits = x.shape[leading + i] == normalized[i];
  check<ShapeError>(fits, "{}: the input's last axes must be {}, got {}", op, normalized, x.shape);
}

void add_row_major(OutSpecs& out, const Shape& shape, DType dtype) {
  out.add(shape, dtype);
  out[out.size() - 1].strides = contiguous_strides(shape);
}

template <bool centred>
void infer(const LayerNormParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  const TensorSpec& x = in[0];
  check_input(out.op(), x, p.normalized_shape);
  check_parameter(out.op(), "weight", in[1], x.dtype, p.normalized_shape);
  if (centred) check_parameter(out.op(), "bias", in[2], x.dtype, p.normalized_shape);
  add_row_major(out, x.shape, x.dtype);
  for (int i = 0; i < (centred ? 2 : 1); ++i)
    add_row_major(out, statistics_shape(x.shape, p.normalized_shape), statistics_dtype(x.dtype));
}

template <bool centred>
void infer_grad(const LayerNormGradParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  const TensorSpec& x = in[1];
  check_input(out.op(), x, p.normalized_shape);
  check_grad_inputs(out.op(), in, p.normalized_shape,
                    statistics_shape(x.shape, p.normalized_shape));
  add_row_major(out, x.shape, x.dtype);
  for (int i = 0; p.parameters && i < (centred ? 2 : 1); ++i)
    add_row_major(out, p.normalized_shape, statistics_dtype(x.dtype));
}

template <bool centred>
Tensors vjp(const LayerNormParams& p, const VjpArgs& a) {
  const DType dtype = a.in_specs[0].dtype;
  const auto n = static_cast<double>(numel(p.normalized_shape));
  const Tensor& rstd = a.out[centred ? 2 : 1];
  const Tensor& drstd = a.grad[centred ? 2 : 1];
  Tensors grads(a.in_specs.size());
  if (a.grad[0].defined() && !a.needs(0) && !a.needs(1)) {
    const Tensor dy = cast(a.grad[0], statistics_dtype(dtype));
    grads[2] = cast(sum_to(dy, p.normalized_shape), a.in_specs[2].dtype);
  } else if (a.grad[0].defined()) {
    const bool parameters = a.needs(1) || (centred && a.needs(2));
    const LayerNormGradParams params{p.normalized_shape, parameters};
    const LayerNormGrads g =
        centred ? layer_norm_grad(a.grad[0], a.in[0], a.in[1], a.out[1], rstd, params)
                : rms_norm_grad(a.grad[0], a.in[0], a.in[1], rstd, params);
    grads[0] = g.dx;
    if (a.needs(1)) grads[1] = cast(g.dweight, a.in_specs[1].dtype);
    if (centred && a.needs(2)) grads[2] = cast(g.dbias, a.in_specs[2].dtype);
  }
  // Second order asks for the statistics' gradients too.
  const auto include = [&](const Tensor& dx) {
    const Tensor more = cast(dx, dtype);
    grads[0] = grads[0].defined() ? grads[0] + more : more;
  };
  if (!a.needs(0)) return grads;
  if (centred && a.grad[1].defined()) include(expand(a.grad[1] / n, a.in_specs[0].shape));
  if (drstd.defined())
    include((centred ? a.in[0] - a.out[1] : a.in[0]) * (rstd * rstd * rstd * drstd / -n));
  return grads;
}

template <bool centred>
Tensors compose_grad(const LayerNormGradParams& p, std::span<const Tensor> in) {
  const Tensor& x = in[1];
  const Tensor& weight = in[2];
  const Tensor& rstd = in[centred ? 4 : 3];
  const auto n = static_cast<double>(numel(p.normalized_shape));
  Dims axes = Dims::filled(p.normalized_shape.rank(), 0);
  std::iota(axes.begin(), axes.end(), x.rank() - axes.rank());
  const Tensor dy = cast(in[0], rstd.dtype());
  const Tensor normal = (centred ? x - in[3] : x) * rstd;
  const Tensor g = weight.defined() ? dy * weight : dy;
  Tensor dx = g - normal * (sum(g * normal, axes, true) / n);
  if (centred) dx = dx - sum(g, axes, true) / n;
  Tensors out = {cast(dx * rstd, x.dtype())};
  if (p.parameters) out.push_back(sum_to(dy * normal, p.normalized_shape));
  if (p.parameters && centred) out.push_back(sum_to(dy, p.normalized_shape));
  return out;
}

}  // namespace

const OpDef& layer_norm_op() {
  static OpDef def =
      Op<LayerNormParams>("layer_norm")
          .inputs({"x", "weight?", "bias?"})
          .outputs({"y", "mean", "rstd"})
          .precision(Precision::f32)
          .carries({0}, {0})
          .dtypes(kFloatDTypes)
          .infer<infer<true>>()
          .vjp<vjp<true>>({.in = {{0, {0, 1}}, {1, {0}}}, .out = {{1, {0, 1}}, {2, {0, 1}}}})
          .cpu({layer_norm_vectorized_kernel(), layer_norm_reference_kernel()})
          .build();
  return def;
}

const OpDef& rms_norm_op() {
  static OpDef def = Op<LayerNormParams>("rms_norm")
                         .inputs({"x", "weight?"})
                         .outputs({"y", "rrms"})
                         .precision(Precision::f32)
                         .carries({0}, {0})
                         .dtypes(kFloatDTypes)
                         .infer<infer<false>>()
                         .vjp<vjp<false>>({.in = {0, {1, {0}}}, .out = {1}})
                         .cpu({rms_norm_vectorized_kernel(), rms_norm_reference_kernel()})
                         .build();
  return def;
}

const OpDef& layer_norm_grad_op() {
  static OpDef def =
      Op<LayerNormGradParams>("layer_norm_grad")
          .inputs({"dy", "x", "weight?", "mean", "rstd"})
          .outputs({"dx", "dweight?", "dbias?"})
          .carries({}, {0})
          .dtypes(kFloatDTypes)
          .infer<infer_grad<true>>()
          .vjp<vjp_by<compose_grad<true>, LayerNormGradParams>>({.in = {0, 1, 2, 3, 4}})
          .cpu({layer_norm_grad_vectorized_kernel(), layer_norm_grad_reference_kernel()})
          .build();
  return def;
}

const OpDef& rms_norm_grad_op() {
  static OpDef def =
      Op<LayerNormGradParams>("rms_norm_grad")
          .inputs({"dy", "x", "weight?", "rrms"})
          .outputs({"dx", "dweight?"})
          .dtypes(kFloatDTypes)
          .infer<infer_grad<false>>()
          .vjp<vjp_by<compose_grad<false>, LayerNormGradParams>>({.in = {0, 1, 2, 3}})
          .cpu({rms_norm_grad_vectorized_kernel(), rms_norm_grad_reference_kernel()})
          .build();
  return def;
}

/// On the CPU the calls one after the other.
KernelList layer_norm_carrying_kernels() { return {}; }

Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight,
                  const Tensor& bias, double eps) {
  return dispatch(layer_norm_op(), LayerNormParams{normalized_shape, eps}, {x, weight, bias})[0];
}

Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight, double eps) {
  return dispatch(rms_norm_op(), LayerNormParams{normalized_shape, eps}, {x, weight})[0];
}

LayerNormGrads layer_norm_grad(const Tensor& dy, const Tensor& x, const Tensor& weight,
                               const Tensor& mean, const Tensor& rstd,
                               const LayerNormGradParams& params) {
  const Outputs out = dispatch(layer_norm_grad_op(), params, {dy, x, weight, mean, rstd});
  return {out[0], params.parameters ? out[1] : Tensor(), params.parameters ? out[2] : Tensor()};
}

LayerNormGrads rms_norm_grad(const Tensor& dy, const Tensor& x, const Tensor& weight,
                             const Tensor& rrms, const LayerNormGradParams& params) {
  const Outputs out = dispatch(rms_norm_grad_op(), params, {dy, x, weight, rrms});
  return {out[0], params.parameters ? out[1] : Tensor(), {}};
}

Functions layer_norm_functions() {
  return {
      {.name = "layer_norm",
       .doc = "input normalised over its last axes, whose sizes are normalized_shape: (input - "
              "mean) / sqrt(variance + eps), times weight, plus bias, both of that shape. "
              "Statistics are float64 for float64, else float32.",
       .signatures =
           {{layer_norm,
             {"input", "normalized_shape", {"weight", kNone}, {"bias", kNone}, {"eps", 1e-5}}}},
       .offer = kFunctional},
      {.name = "rms_norm",
       .doc = "input / sqrt(mean of its squares + eps) over its last axes, whose sizes are "
              "normalized_shape, times weight of that shape.",
       .signatures = {{rms_norm, {"input", "normalized_shape", {"weight", kNone}, {"eps", 1e-6}}}},
       .offer = kFunctional}};
}

}  // namespace mica
