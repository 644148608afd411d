#include "mica/nn/embedding.h"

#include "mica/autograd/autograd.h"
#include "mica/core/check.h"
#include "mica/nn/init.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/embedding/embedding.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/gather/gather.h"
#include "mica/ops/linalg/linalg.h"
#include "mica/ops/view/view.h"
#include "mica/ops/where/where.h"

namespace mica::nn {

namespace {

/// Makes the rows of a table that are asked for no longer than this.
void shorten(const Tensor& weight, const Tensor& index, double max_norm, double norm_type) {
  constexpr double kSmall = 1e-7;  // as PyTorch has it
  const NoGrad guard;
  const Tensor at = reshape(index, {-1});
  const Tensor rows = index_select(weight, 0, at);
  const Tensor norm = linalg::vector_norm(rows, norm_type, {1}, true);
  const Tensor scale = where(gt(norm, max_norm), div(max_norm, add(norm, kSmall)), ones_like(norm));
  copy_(weight, index_copy(weight, 0, at, mul(rows, scale)));
}

}  // namespace

EmbeddingImpl::EmbeddingImpl(const EmbeddingOptions& o) : options(o) {
  check(o.rows >= 1 && o.dim >= 1, "nn::Embedding: rows and dim must be at least 1, got {} and {}",
        o.rows, o.dim);
  check(o.max_norm >= 0, "nn::Embedding: max_norm must be above 0, or 0 for none, got {}",
        o.max_norm);
  check<IndexError>(!o.padding_idx || (*o.padding_idx >= -o.rows && *o.padding_idx < o.rows),
                    "nn::Embedding: padding_idx must be one of {} rows, got {}", o.rows,
                    o.padding_idx.value_or(0));
  weight = parameter("weight", {o.rows, o.dim}, [padding = o.padding_idx](const Tensor& t) {
    init::normal_(t);
    if (!padding) return;
    const NoGrad guard;
    fill_(select(t, 0, *padding), 0);
  });
}

Tensor EmbeddingImpl::forward(const Tensor& index) {
  if (options.max_norm > 0) shorten(weight, index, options.max_norm, options.norm_type);
  return embedding(index, weight, options.padding_idx);
}

std::string EmbeddingImpl::describe() const { return nn::describe("Embedding", options); }
Embedding::Embedding(const EmbeddingOptions& options) : Handle(options) {}
Embedding::Embedding(int64_t rows, int64_t dim)
    : Handle(EmbeddingOptions{.rows = rows, .dim = dim}) {}

}  // namespace mica::nn
