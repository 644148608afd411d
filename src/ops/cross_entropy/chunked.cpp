// The loss of a last layer whose logits would not fit: a chunk of rows at a time.
#include "mica/ops/cross_entropy/chunked.h"

#include <algorithm>

#include "mica/autograd/function.h"
#include "mica/core/check.h"
#include "mica/op/dispatch.h"
#include "mica/op/function.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/concat/concat.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/cross_entropy/cross_entropy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/matmul/matmul.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/view/view.h"
#include "mica/ops/where/where.h"

namespace mica {

const OpDef& cross_entropy_op();

namespace {

constexpr const char* kName = "chunked_cross_entropy";

/// One chunk: its rows, the logits, the mean loss and logsumexp of those that count, how many do.
struct Chunk {
  Tensor x, target, logits, loss, logsumexp, count;
};

struct Layer {
  CrossEntropyParams params;
  int64_t chunk;

  /// Of inputs x (N, K), target (N), weight and, where there is one, bias.
  Chunk compute(const Tensors& in, int64_t first) const {
    const int64_t rows = std::min(chunk, in[0].size(0) - first);
    Chunk c;
    c.x = narrow(in[0], 0, first, rows);
    c.target = narrow(in[1], 0, first, rows);
    c.logits = linear(c.x, in[2], in.size() > 3 ? in[3] : Tensor());
    const Outputs out = dispatch(cross_entropy_op(), params, {c.logits, c.target});
    c.loss = out[0];
    c.logsumexp = out[1];
    c.count = count(c.target, out[0].dtype());
    return c;
  }
  Tensor count(const Tensor& target, DType dtype) const {
    return sum(cast(ne(cast(target, DType::i64), params.ignore_index), dtype));
  }

  Tensor forward(const Tensors& in) const {
    Tensor total;
    for (int64_t first = 0; first < in[0].size(0); first += chunk) {
      const Chunk c = compute(in, first);
      const Tensor losses = where(gt(c.count, 0.0), c.loss * c.count, 0.0);
      total = total.defined() ? total + losses : losses;
    }
    return total / count(in[1], total.dtype());
  }

  Tensors backward(const FunctionContext& context, const Tensor& g) const {
    const Tensors in = context.saved();
    const Tensor share = g / count(in[1], g.dtype());
    Tensors dx;
    Tensors sums(in.size());  // of weight and bias, in the loss's dtype
    const auto add = [&](size_t i, const Tensor& more) {
      const Tensor wide = cast(more, g.dtype());
      sums[i] = sums[i].defined() ? sums[i] + wide : wide;
    };
    for (int64_t first = 0; first < in[0].size(0); first += chunk) {
      const Chunk c = compute(in, first);
      const Tensor dlogits =
          cross_entropy_grad(share * c.count, c.logits, c.target, c.logsumexp, params);
      if (context.needs(0)) dx.push_back(matmul(dlogits, in[2]));
      if (context.needs(2)) add(2, matmul(transpose(dlogits, 0, 1), c.x));
      if (context.needs(3)) add(3, sum(dlogits, {0}));
    }
    Tensors grads(in.size());
    if (context.needs(0)) grads[0] = concat(dx, 0);
    for (size_t i = 2; i < in.size(); ++i)
      if (sums[i].defined()) grads[i] = cast(sums[i], in[i].dtype());
    return grads;
  }
};

}  // namespace

Tensor chunked_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& target,
                             const ChunkedCrossEntropyOptions& o) {
  check(o.chunk >= 1, "{}: expected chunks of at least one row, got {}", kName, o.chunk);
  check<ShapeError>(x.rank() >= 1 && weight.rank() == 2 && x.size(-1) == weight.size(1) &&
                        target.numel() > 0 && x.numel() == target.numel() * x.size(-1),
                    "{}: expected (…, K), weight (C, K) and targets (…), got {}, {} and {}", kName,
                    x.shape(), weight.shape(), target.shape());
  const int64_t rows = target.numel();
  Tensors inputs = {reshape(x, {rows, x.size(-1)}), reshape(target, {rows}), weight};
  if (o.bias.defined()) inputs.push_back(o.bias);
  const Layer layer{{o.ignore_index, o.label_smoothing}, o.chunk};
  return call_function(
      kName, inputs,
      [&](FunctionContext& c) -> Tensors {
        c.save(inputs);
        return {layer.forward(inputs)};
      },
      [layer](FunctionContext& c, const Tensors& g) { return layer.backward(c, g[0]); })[0];
}

Functions chunked_cross_entropy_functions() {
  const auto loss = [](const Tensor& x, const Tensor& weight, const Tensor& target,
                       const Tensor& bias, int64_t chunk, int64_t ignore_index,
                       double label_smoothing) {
    return chunked_cross_entropy(x, weight, target,
                                 {.bias = bias,
                                  .chunk = chunk,
                                  .ignore_index = ignore_index,
                                  .label_smoothing = label_smoothing});
  };
  return {{.name = kName,
           .doc = "cross_entropy(linear(input, weight, bias), target) of input (…, K), weight "
                  "(C, K) and classes target (…) where the logits of all rows would not fit: they "
                  "are computed for `chunk` rows at a time, and again in backward.",
           .signatures = {{loss,
                           {"input",
                            "weight",
                            "target",
                            {"bias", kNone},
                            kKeywordOnly,
                            {"chunk", 4096},
                            {"ignore_index", -100},
                            {"label_smoothing", 0.0}}}},
           .offer = kFunctional}};
}

}  // namespace mica
