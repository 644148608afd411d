#include "mica/models/charlm.h"

#include "mica/ops/dropout/dropout.h"
#include "mica/ops/recurrent/recurrent.h"

namespace mica::models {

CharLmImpl::CharLmImpl(const CharLmOptions& o)
    : options(o),
      embedding(add("embedding", nn::Embedding(o.tokens, o.embedding))),
      lstm(add(
          "lstm",
          nn::LSTM(
              {.in = o.embedding, .hidden = o.hidden, .layers = o.layers, .dropout = o.dropout}))),
      out(add("out", nn::Linear(o.hidden, o.tokens))) {}

std::tuple<Tensor, nn::LstmState> CharLmImpl::forward(
    const Tensor& x, const std::optional<nn::LstmState>& state) const {
  const bool drops = (options.dropout > 0 || options.weight_dropout > 0) && training();
  const Tensor given = dropout(embedding(x), options.dropout, drops);
  if (!drops || options.weight_dropout == 0) {
    const auto [y, next] = lstm(given, state);
    return {out(dropout(y, options.dropout, drops)), next};
  }
  Tensors weights = lstm->weights();
  for (size_t i = 1; i < weights.size(); i += 4)  // w_ih, w_hh, b_ih, b_hh
    weights[i] = dropout(weights[i], options.weight_dropout);
  const auto [y, h, c] = mica::lstm(
      given, state ? std::get<0>(*state) : Tensor(), state ? std::get<1>(*state) : Tensor(),
      weights, {.layers = options.layers, .dropout = options.dropout, .training = true});
  return {out(dropout(y, options.dropout, drops)), {h, c}};
}

}  // namespace mica::models
