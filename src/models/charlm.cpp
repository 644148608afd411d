#include "mica/models/charlm.h"

#include "mica/autograd/autograd.h"
#include "mica/nn/init.h"
#include "mica/ops/dropout/dropout.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/recurrent/recurrent.h"
#include "mica/ops/view/view.h"

namespace mica::models {

namespace {

/// Gate by gate, so that what a layer gives the next is not small, and with gates that keep: three
/// layers of nn::LSTM's own weights say little about their input for hundreds of updates.
void start_layer(Tensor* weights, int64_t hidden) {  // w_ih, w_hh, b_ih, b_hh
  const auto gate = [&](const Tensor& t, int64_t i) {
    return slice(t, 0, i * hidden, (i + 1) * hidden);
  };
  for (int64_t i = 0; i < 4; ++i) {
    nn::init::xavier_uniform_(gate(weights[0], i));
    nn::init::orthogonal_(gate(weights[1], i));
  }
  constexpr int64_t kForget = 1;
  fill_(gate(weights[2], kForget), 1);
  fill_(gate(weights[3], kForget), 0);
}

}  // namespace

CharLmImpl::CharLmImpl(const CharLmOptions& o)
    : options(o),
      embedding(add("embedding", nn::Embedding(o.tokens, o.embedding))),
      lstm(add(
          "lstm",
          nn::LSTM(
              {.in = o.embedding, .hidden = o.hidden, .layers = o.layers, .dropout = o.dropout}))),
      out(add("out", nn::Linear(o.hidden, o.tokens))) {
  const NoGrad guard;
  Tensors weights = lstm->weights();
  for (size_t i = 0; i < weights.size(); i += 4) start_layer(&weights[i], o.hidden);
}

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
