#include "mica/ops/softmax/softmax.h"

#include "mica/core/check.h"
#include "mica/op/composition.h"
#include "mica/op/dispatch.h"
#include "mica/op/function.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/softmax/cpu.h"
#include "mica/ops/view/leading_axis.h"
namespace mica {
namespace {

void infer(const SoftmaxParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  normalize_axis(p.axis, in[0].rank(), out.op());
  out.add(in[0].shape, in[0].dtype);
}

void infer_grad(const SoftmaxParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check<DTypeError>(in[0].dtype == in[1].dtype, "{}: dy and y must have one dtype, got {} and {}",
                    out.op(), in[0].dtype, in[1].dtype);
  check<ShapeError>(in[0].shape == in[1].shape, "{}: dy and y must have one shape, got {} and {}",
                    out.op(), in[0].shape, in[1].shape);
  infer(p, in, out);
}

Tensors vjp_softmax(const SoftmaxParams& p, const VjpArgs& a) {
  return {softmax_grad(a.grad[0], a.out[0], p.axis)};
}

Tensors vjp_log_softmax(const SoftmaxParams& p, const VjpArgs& a) {
  return {log_softmax_grad(a.grad[0], a.out[0], p.axis)};
}

Tensors compose_softmax_grad(const SoftmaxParams& p, std::span<const Tensor> in) {
  const auto& [dy, y] = std::pair(in[0], in[1]);
  return {y * (dy - sum(dy * y, {p.axis}, true))};
}

Tensors compose_log_softmax_grad(const SoftmaxParams& p, std::span<const Tensor> in) {
  const auto& [dy, y] = std::pair(in[0], in[1]);
  return {dy - exp(y) * sum(dy, {p.axis}, true)};
}

Tensor call(const OpDef& op, const char* name, const Tensor& x, int64_t axis) {
  return with_leading_axis(x, 1, [&](const Tensor& v) {
    return dispatch(op, SoftmaxParams{normalize_axis(axis, v.rank(), name)}, {v})[0];
  });
}

Tensor call(const OpDef& op, const char* name, const Tensor& dy, const Tensor& y, int64_t axis) {
  return dispatch(op, SoftmaxParams{normalize_axis(axis, y.rank(), name)}, {dy, y})[0];
}

}  // namespace

const OpDef& softmax_op() {
  static OpDef def = Op<SoftmaxParams>("softmax")
                         .inputs({"x"})
                         .precision(Precision::f32)
                         .dtypes(kFloatDTypes)
                         .infer<infer>()
                         .vjp<vjp_softmax>({.out = {0}})
                         .cpu(softmax_cpu_kernels())
                         .build();
  return def;
}

const OpDef& log_softmax_op() {
  static OpDef def = Op<SoftmaxParams>("log_softmax")
                         .inputs({"x"})
                         .precision(Precision::f32)
                         .dtypes(kFloatDTypes)
                         .infer<infer>()
                         .vjp<vjp_log_softmax>({.out = {0}})
                         .cpu(log_softmax_cpu_kernels())
                         .build();
  return def;
}

const OpDef& softmax_grad_op() {
  static OpDef def = Op<SoftmaxParams>("softmax_grad")
                         .inputs({"dy", "y"})
                         .outputs({"dx"})
                         .dtypes(kFloatDTypes)
                         .infer<infer_grad>()
                         .vjp<vjp_by<compose_softmax_grad, SoftmaxParams>>({.in = {0, 1}})
                         .cpu(softmax_grad_cpu_kernels())
                         .build();
  return def;
}

const OpDef& log_softmax_grad_op() {
  static OpDef def = Op<SoftmaxParams>("log_softmax_grad")
                         .inputs({"dy", "y"})
                         .outputs({"dx"})
                         .dtypes(kFloatDTypes)
                         .infer<infer_grad>()
                         .vjp<vjp_by<compose_log_softmax_grad, SoftmaxParams>>({.in = {0, 1}})
                         .cpu(log_softmax_grad_cpu_kernels())
                         .build();
  return def;
}

Tensor softmax(const Tensor& x, int64_t axis) { return call(softmax_op(), "softmax", x, axis); }

Tensor log_softmax(const Tensor& x, int64_t axis) {
  return call(log_softmax_op(), "log_softmax", x, axis);
}

Tensor softmax_grad(const Tensor& dy, const Tensor& y, int64_t axis) {
  return call(softmax_grad_op(), "softmax_grad", dy, y, axis);
}

Tensor log_softmax_grad(const Tensor& dy, const Tensor& y, int64_t axis) {
  return call(log_softmax_grad_op(), "log_softmax_grad", dy, y, axis);
}

Functions softmax_functions() {
  constexpr Offer kOffer = {.module = true, .method = true, .functional = true};
  return {
      {.name = "softmax",
       .doc = "exp(input) / sum of exp(input) along dim, input's shape; of a floating dtype. A "
              "line of nothing but -infinity gives NaN.",
       .signatures = {{softmax, {"input", "dim"}}},
       .offer = kOffer},
      {.name = "log_softmax",
       .doc = "input - log of the sum of exp(input) along dim, input's shape; of a floating dtype.",
       .signatures = {{log_softmax, {"input", "dim"}}},
       .offer = kOffer}};
}

}  // namespace mica
