#include <limits>

#include "mica/op/autocast.h"
#include "mica/ops/elementwise/calls.h"
#include "mica/ops/elementwise/cpu.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/loss/arguments.h"
#include "mica/ops/loss/functors.h"
#include "mica/ops/loss/loss.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/where/where.h"

namespace mica {
namespace {

using elementwise::for_input;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Gradients near 0 and 1 are past what f16 holds.
Tensor widened(const Tensor& x) { return x.dtype() == DType::f64 ? x : cast(x, DType::f32); }

Tensors vjp(const NoParams&, const VjpArgs& a) {
  const Tensor x = widened(a.in[0]);
  const DType dtype = a.in_specs[0].dtype;
  return {for_input(a, 0,
                    [&] {
                      const Tensor slope =
                          (x - widened(a.in[1])) / clamp(x * (1.0 - x), 1e-12, kInfinity);
                      return cast(a.grad[0] * slope, dtype);
                    }),
          for_input(a, 1, [&] {
            const Tensor yes = clamp(log(x), -100, kInfinity);
            const Tensor no = clamp(log1p(-x), -100, kInfinity);
            return cast(a.grad[0] * (no - yes), dtype);
          })};
}

Tensors vjp_with_logits(const NoParams&, const VjpArgs& a) {
  return {for_input(a, 0, [&] { return a.grad[0] * (sigmoid(a.in[0]) - a.in[1]); }),
          for_input(a, 1, [&] { return -(a.grad[0] * a.in[0]); })};
}

Tensor weighted(const Tensor& losses, const Tensor& weight, Reduction reduction) {
  return reduce_loss(weight.defined() ? losses * weight : losses, reduction);
}

}  // namespace

const OpDef& binary_cross_entropy_op() {
  static OpDef def = elementwise_op<functor::BinaryCrossEntropy, 2>("binary_cross_entropy")
                         .vjp<vjp>({.in = {0, {1, {0}}}})
                         .build();
  return def;
}

const OpDef& binary_cross_entropy_with_logits_op() {
  static OpDef def =
      elementwise_op<functor::BinaryCrossEntropyWithLogits, 2>("binary_cross_entropy_with_logits")
          .vjp<vjp_with_logits>({.in = {0, {1, {0}}}})
          .build();
  return def;
}

Tensor binary_cross_entropy(const Tensor& input, const Tensor& target,
                            const BinaryCrossEntropyOptions& options) {
  const ComputedIn precision(Precision::f32);
  check_alike("binary_cross_entropy", input, target);
  const Tensor losses = elementwise::call(binary_cross_entropy_op(), input, target);
  return weighted(losses, options.weight, options.reduction);
}

Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                        const BinaryCrossEntropyWithLogitsOptions& options) {
  const ComputedIn precision(Precision::f32);
  check_alike("binary_cross_entropy_with_logits", input, target);
  const OpDef& op = binary_cross_entropy_with_logits_op();
  if (!options.pos_weight.defined())
    return weighted(elementwise::call(op, input, target), options.weight, options.reduction);
  // -log(sigmoid(input)) is the loss for a target of 1.
  const Tensor yes = elementwise::call(op, input, elementwise::number(1, input, op.name));
  const Tensor scale = (options.pos_weight - 1.0) * target + 1.0;
  return weighted((1.0 - target) * input + scale * yes, options.weight, options.reduction);
}

}  // namespace mica
