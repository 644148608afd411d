#include "mica/op/autocast.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/gather/gather.h"
#include "mica/ops/loss/arguments.h"
#include "mica/ops/loss/loss.h"
#include "mica/ops/loss/targets.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/view/view.h"
#include "mica/ops/where/where.h"

namespace mica {

void check_classes(const char* op, const Tensor& input, const Tensor& target,
                   const Tensor& weight) {
  check<DTypeError>(is_floating(input.dtype()), "{}: expected a floating dtype, got {}", op,
                    input.dtype());
  check<ShapeError>(input.rank() >= 1, "{}: input must be [N, C, …] or [C], got {}", op,
                    input.shape());
  const int axis = input.rank() == 1 ? 0 : 1;
  const int64_t classes = input.shape()[axis];
  check<ShapeError>(classes >= 1, "{}: expected at least one class, got {}", op, input.shape());
  check<DTypeError>(kIntegerDTypes.contains(target.dtype()),
                    "{}: targets must be of an integer dtype, got {}", op, target.dtype());
  Shape expected;
  for (int i = 0; i < input.rank(); ++i)
    if (i != axis) expected.push_back(input.shape()[i]);
  check<ShapeError>(target.shape() == expected, "{}: targets must be {} for an input of {}, got {}",
                    op, expected, input.shape(), target.shape());
  check<ShapeError>(!weight.defined() || weight.shape() == Shape{classes},
                    "{}: weight must be [C] with C = {}, got {}", op, classes,
                    weight.defined() ? weight.shape() : Shape());
}

ClassTargets class_targets(const Tensor& target, int64_t ignore_index, const Tensor& weight,
                           DType dtype) {
  const Tensor wide = cast(target, DType::i64);
  const Tensor counts = ne(wide, ignore_index);
  const Tensor classes = where(counts, wide, 0);
  Tensor share = cast(counts, dtype);
  if (weight.defined())
    share = share * reshape(index_select(weight, 0, reshape(classes, {-1})), classes.shape());
  return {classes, counts, share};
}

Tensor nll_loss(const Tensor& input, const Tensor& target, const NllOptions& options) {
  const ComputedIn precision(Precision::f32);
  check_classes("nll_loss", input, target, options.weight);
  const int64_t axis = input.rank() == 1 ? 0 : 1;
  const ClassTargets t = class_targets(target, options.ignore_index, options.weight, input.dtype());
  const Tensor picked = squeeze(gather(input, axis, unsqueeze(t.classes, axis)), {axis});
  const Tensor losses = where(t.counts, -(picked * t.weights), 0.0);
  if (options.reduction != Reduction::mean) return reduce_loss(losses, options.reduction);
  return sum(losses) / sum(t.weights);
}

}  // namespace mica
