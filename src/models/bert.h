#pragma once

#include <optional>
#include <tuple>
#include <vector>

#include "mica/nn/embedding.h"
#include "mica/nn/linear.h"
#include "mica/nn/norms.h"

// BERT, and MiniLM, which is a small one, with the names that Hugging Face's transformers gives its
// parts.
namespace mica::models {

struct BertOptions {
  int64_t vocabulary = 30522;
  int64_t positions = 512;
  int64_t types = 2;  ///< of tokens: the first text's, the second's
  int64_t width = 768;
  int64_t hidden = 3072;  ///< between the layers of a block
  int64_t layers = 12;
  int64_t heads = 12;
  double eps = 1e-12;  ///< of the norms
  double dropout = 0.1;
};
/// "bert-base-uncased", "bert-large-uncased" or "all-MiniLM-L6-v2".
BertOptions bert_options(const std::string& name);

/// The network of embeddings and encoder, with its pooler.
struct BertImpl : nn::ModuleImpl {
  explicit BertImpl(const BertOptions& options);
  /// Tokens (B, L) of an integer dtype, L at most `positions`, to (B, L, width) and what the pooler
  /// makes of the first, (B, width). mask (B, L) is not zero where tokens are no padding; types
  /// (B, L) are 0 unless given.
  std::tuple<Tensor, Tensor> forward(const Tensor& tokens,
                                     const std::optional<Tensor>& mask = std::nullopt,
                                     const std::optional<Tensor>& types = std::nullopt) const;

  const BertOptions options;
};
/// `Bert(bert_options("bert-base-uncased"))`. Its keys are those of BertModel,
/// "encoder.layer.0.attention.self.query.weight".
using Bert = nn::Handle<BertImpl>;

/// Hugging Face's state as Bert's own: without "bert." in front of the keys, constants and the
/// heads of other tasks left out.
nn::StateDict bert_from_huggingface(const nn::StateDict& state);

/// A sentence as one vector of length 1: the mean of hidden (B, L, width) where mask (B, L) is not
/// zero, as sentence-transformers has it.
Tensor sentence_embedding(const Tensor& hidden, const Tensor& mask);

}  // namespace mica::models
