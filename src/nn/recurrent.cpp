#include "mica/nn/recurrent.h"

#include <cmath>

#include "mica/core/check.h"
#include "mica/nn/init.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/gather/gather.h"
#include "mica/ops/view/view.h"

namespace mica::nn {
namespace {

/// All weights of a layer with that many units begin so.
Initializer uniform_of(int64_t hidden) {
  const double bound = 1 / std::sqrt(static_cast<double>(hidden));
  return [bound](const Tensor& t) { init::uniform_(t, -bound, bound); };
}

/// The sequences of a state (stacks, N, …) in another order.
Tensor reordered(const Tensor& state, const Tensor& order) {
  return state.defined() && order.defined() ? index_select(state, 1, order) : state;
}

}  // namespace

RecurrentLayerImpl::RecurrentLayerImpl(RecurrentMode m, const char* name,
                                       const RecurrentLayerOptions& o)
    : mode(m), options(o), name_(name) {
  check(o.in >= 1 && o.hidden >= 1 && o.layers >= 1,
        "nn::{}: in, hidden and layers must be at least 1, got {}, {} and {}", name, o.in, o.hidden,
        o.layers);
  check(o.dropout >= 0 && o.dropout < 1, "nn::{}: dropout must be in [0, 1), got {}", name,
        o.dropout);
  check(o.projection == 0 ||
            (m == RecurrentMode::lstm && o.projection > 0 && o.projection < o.hidden),
        "nn::{}: projection must be 0 or, of an LSTM, less than hidden = {}, got {}", name,
        o.hidden, o.projection);
  const int64_t rows = gates_of(mode) * o.hidden;
  const int64_t out = o.projection ? o.projection : o.hidden;
  const int64_t directions = o.bidirectional ? 2 : 1;
  for (int64_t layer = 0; layer < o.layers; ++layer)
    for (int64_t side = 0; side < directions; ++side) {
      const std::string end = "_l" + std::to_string(layer) + (side == 1 ? "_reverse" : "");
      const Initializer initialize = uniform_of(o.hidden);
      parameter("weight_ih" + end, {rows, layer == 0 ? o.in : out * directions}, initialize);
      parameter("weight_hh" + end, {rows, out}, initialize);
      if (o.bias) {
        parameter("bias_ih" + end, {rows}, initialize);
        parameter("bias_hh" + end, {rows}, initialize);
      }
      if (o.projection) parameter("weight_hr" + end, {out, o.hidden}, initialize);
    }
}

Tensors RecurrentLayerImpl::weights() const {
  Tensors all;
  for (const auto& [name, tensor] : own_parameters()) all.push_back(tensor);
  return all;
}

RecurrentResult RecurrentLayerImpl::run(const Tensor& x, const Tensor& h, const Tensor& c,
                                        const Tensor& lengths) const {
  check<ShapeError>((x.rank() == 2 || x.rank() == 3) && x.size(-1) == options.in,
                    "nn::{}: expected an input ({}, {}), or (T, {}) for one sequence, got {}",
                    name_, options.batch_first ? "N, T" : "T, N", options.in, options.in,
                    x.shape());
  const RecurrentOptions o = {.bias = options.bias,
                              .layers = options.layers,
                              .dropout = options.dropout,
                              .training = options.dropout > 0 && training(),
                              .bidirectional = options.bidirectional,
                              .batch_first = options.batch_first,
                              .lengths = lengths};
  switch (mode) {
    case RecurrentMode::lstm:
      return lstm(x, h, c, weights(), o);
    case RecurrentMode::gru:
      return gru(x, h, weights(), o);
    case RecurrentMode::rnn_tanh:
      return rnn_tanh(x, h, weights(), o);
    default:
      return rnn_relu(x, h, weights(), o);
  }
}

std::pair<PackedSequence, RecurrentResult> RecurrentLayerImpl::run(const PackedSequence& x,
                                                                   const Tensor& h,
                                                                   const Tensor& c) const {
  const Tensor padded = padded_in_order(x, options.batch_first);
  RecurrentResult r = run(padded, reordered(h, x.sorted_indices), reordered(c, x.sorted_indices),
                          to(lengths_in_order(x), x.data.device()));
  PackedSequence packed = packed_like(r.y, x, options.batch_first);
  r.h = reordered(r.h, x.unsorted_indices);
  r.c = reordered(r.c, x.unsorted_indices);
  return {std::move(packed), std::move(r)};
}

std::tuple<Tensor, LstmState> LSTMImpl::forward(const Tensor& x,
                                                const std::optional<LstmState>& state,
                                                const std::optional<Tensor>& lengths) const {
  const RecurrentResult r = run(x, state ? std::get<0>(*state) : Tensor(),
                                state ? std::get<1>(*state) : Tensor(), lengths.value_or(Tensor()));
  return {r.y, {r.h, r.c}};
}

std::pair<PackedSequence, LstmState> LSTMImpl::forward_packed(
    const PackedSequence& x, const std::optional<LstmState>& state) const {
  auto [packed, r] =
      run(x, state ? std::get<0>(*state) : Tensor(), state ? std::get<1>(*state) : Tensor());
  return {std::move(packed), LstmState{r.h, r.c}};
}

std::tuple<Tensor, Tensor> PlainRecurrentImpl::forward(const Tensor& x,
                                                       const std::optional<Tensor>& state,
                                                       const std::optional<Tensor>& lengths) const {
  const RecurrentResult r = run(x, state.value_or(Tensor()), {}, lengths.value_or(Tensor()));
  return {r.y, r.h};
}

std::pair<PackedSequence, Tensor> PlainRecurrentImpl::forward_packed(
    const PackedSequence& x, const std::optional<Tensor>& state) const {
  auto [packed, r] = run(x, state.value_or(Tensor()), {});
  return {std::move(packed), r.h};
}

RecurrentCellImpl::RecurrentCellImpl(RecurrentMode m, const char* name,
                                     const RecurrentCellOptions& o)
    : mode(m), options(o), name_(name) {
  check(o.in >= 1 && o.hidden >= 1, "nn::{}: in and hidden must be at least 1, got {} and {}", name,
        o.in, o.hidden);
  const int64_t rows = gates_of(mode) * o.hidden;
  parameter("weight_ih", {rows, o.in}, uniform_of(o.hidden));
  parameter("weight_hh", {rows, o.hidden}, uniform_of(o.hidden));
  if (!o.bias) return;
  parameter("bias_ih", {rows}, uniform_of(o.hidden));
  parameter("bias_hh", {rows}, uniform_of(o.hidden));
}

RecurrentResult RecurrentCellImpl::run(const Tensor& x, const Tensor& h, const Tensor& c) const {
  check<ShapeError>((x.rank() == 1 || x.rank() == 2) && x.size(-1) == options.in,
                    "nn::{}: expected an input (N, {}) or ({}), got {}", name_, options.in,
                    options.in, x.shape());
  Shape state = x.shape();
  state[state.rank() - 1] = options.hidden;
  const auto given = [&](const char* what, const Tensor& t) {
    if (!t.defined()) return zeros(state, {x.dtype(), x.device()});
    check<ShapeError>(t.shape() == state, "nn::{}: {} must be {}, got {}", name_, what, state,
                      t.shape());
    return t;
  };
  const auto parameters = own_parameters();
  RecurrentWeights w{parameters[0].second, parameters[1].second, {}, {}, {}};
  if (options.bias) w.b_ih = parameters[2].second, w.b_hh = parameters[3].second;
  return recurrent_cell(mode, x, given("h", h),
                        mode == RecurrentMode::lstm ? given("c", c) : Tensor(), w);
}

LstmState LSTMCellImpl::forward(const Tensor& x, const std::optional<LstmState>& state) const {
  const RecurrentResult r =
      run(x, state ? std::get<0>(*state) : Tensor(), state ? std::get<1>(*state) : Tensor());
  return {r.h, r.c};
}

Tensor PlainCellImpl::forward(const Tensor& x, const std::optional<Tensor>& state) const {
  return run(x, state.value_or(Tensor()), {}).h;
}

LSTM::LSTM(const RecurrentLayerOptions& options) : Handle(options) {}
GRU::GRU(const RecurrentLayerOptions& options) : Handle(options) {}
RNN::RNN(const RecurrentLayerOptions& options, Nonlinearity nonlinearity)
    : Handle(RNNOptions{options, nonlinearity}) {}

std::string RecurrentLayerImpl::describe() const { return nn::describe(name_, options); }
std::string RecurrentCellImpl::describe() const { return nn::describe(name_, options); }

}  // namespace mica::nn
