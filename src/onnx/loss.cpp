// Losses.
#include "mica/onnx/broadcast.h"
#include "mica/onnx/call.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/gather/gather.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/softmax/softmax.h"
#include "mica/ops/where/where.h"

namespace mica::onnx {
namespace {

/// Of log-probabilities (N, C, …) and classes (N, …), with a weight for each class perhaps.
Tensor likelihood_loss(const Call& c, const Tensor& log_p, const Tensor& target) {
  const Tensor classes = cast(target, DType::i64);
  Tensor counts;  // which targets count
  Tensor at = classes;
  if (c.has("ignore_index")) {
    counts = ne(classes, c.integer("ignore_index"));
    at = where(counts, classes, 0);
  }
  Tensor loss = neg(squeeze(gather(log_p, 1, unsqueeze(at, 1)), {1}));
  Tensor weight;
  if (c.has(2)) weight = reshape(index_select(c[2], 0, reshape(at, {-1})), classes.shape());
  if (counts.defined())
    weight = weight.defined() ? where(counts, weight, 0.0) : cast(counts, log_p.dtype());
  if (weight.defined()) loss = mul(loss, weight);
  const std::string how = c.text("reduction", "mean");
  if (how == "none") return loss;
  if (how == "sum") return sum(loss);
  return weight.defined() ? div(sum(loss), sum(weight)) : mean(loss);
}

Results cross_entropy(const Call& c) {
  const Tensor log_p = log_softmax(c[0], 1);
  return {likelihood_loss(c, log_p, c[1]), log_p};
}

}  // namespace

Operators loss_operators() {
  return {
      {"NegativeLogLikelihoodLoss",
       [](const Call& c) -> Results { return likelihood_loss(c, c[0], c[1]); }},
      {"SoftmaxCrossEntropyLoss", cross_entropy},
  };
}

}  // namespace mica::onnx
