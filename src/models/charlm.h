#pragma once

#include <optional>
#include <tuple>

#include "mica/nn/embedding.h"
#include "mica/nn/linear.h"
#include "mica/nn/recurrent.h"

namespace mica::models {

struct CharLmOptions {
  int64_t tokens = 256;
  int64_t embedding = 128;
  int64_t hidden = 512;
  int64_t layers = 2;
  double dropout = 0;         ///< of the embedding, between layers and before the last one
  double weight_dropout = 0;  ///< of the weights from state to state, anew for each call
};

/// A language model over characters: embedding, LSTM, linear layer.
struct CharLmImpl : nn::ModuleImpl {
  explicit CharLmImpl(const CharLmOptions& options);
  /// Tokens (T, N) to logits (T, N, tokens) of the ones after them, and the state to go on from.
  std::tuple<Tensor, nn::LstmState> forward(
      const Tensor& x, const std::optional<nn::LstmState>& state = std::nullopt) const;

  const CharLmOptions options;
  nn::Embedding embedding;
  nn::LSTM lstm;
  nn::Linear out;
};
using CharLm = nn::Handle<CharLmImpl>;

}  // namespace mica::models
