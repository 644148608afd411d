#include "mica/nn/embedding.h"

#include "mica/autograd/autograd.h"
#include "mica/core/check.h"
#include "mica/nn/init.h"
#include "mica/ops/embedding/embedding.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/view/view.h"

namespace mica::nn {

EmbeddingImpl::EmbeddingImpl(const EmbeddingOptions& o) : options(o) {
  check(o.rows >= 1 && o.dim >= 1, "nn::Embedding: rows and dim must be at least 1, got {} and {}",
        o.rows, o.dim);
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
  return embedding(index, weight, options.padding_idx);
}

std::string EmbeddingImpl::describe() const { return nn::describe("Embedding", options); }
Embedding::Embedding(const EmbeddingOptions& options) : Handle(options) {}
Embedding::Embedding(int64_t rows, int64_t dim)
    : Handle(EmbeddingOptions{.rows = rows, .dim = dim}) {}

}  // namespace mica::nn
