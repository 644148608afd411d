// Stacks of recurrent layers, made of `recurrent`.
#include <algorithm>

#include "mica/core/check.h"
#include "mica/op/function.h"
#include "mica/ops/concat/concat.h"
#include "mica/ops/dropout/dropout.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/matmul/matmul.h"
#include "mica/ops/operators.h"
#include "mica/ops/recurrent/recurrent.h"
#include "mica/ops/view/view.h"

namespace mica {
namespace {

const char* name_of_stack(RecurrentMode mode) { return names_of(mode)[static_cast<size_t>(mode)]; }

/// The weights of one layer in one direction, in their order.
struct WeightList {
  const Tensors& all;
  bool bias, projects;

  size_t each() const { return 2U + (bias ? 2U : 0U) + (projects ? 1U : 0U); }
  RecurrentWeights operator[](int64_t i) const {
    const Tensor* w = all.data() + static_cast<size_t>(i) * each();
    RecurrentWeights weights{w[0], w[1], {}, {}, {}};
    if (bias) weights.b_ih = w[2], weights.b_hh = w[3];
    if (projects) weights.w_hr = w[each() - 1];
    return weights;
  }
};

WeightList checked_weights(const char* op, RecurrentMode mode, const Tensors& weights,
                           const RecurrentOptions& o) {
  check(o.layers >= 1, "{}: expected at least one layer, got {}", op, o.layers);
  const auto stacks = static_cast<size_t>(o.layers * (o.bidirectional ? 2 : 1));
  const WeightList plain{weights, o.bias, false};
  const WeightList projecting{weights, o.bias, true};
  if (weights.size() == stacks * plain.each()) return plain;
  check(mode == RecurrentMode::lstm && weights.size() == stacks * projecting.each(),
        "{}: expected {} tensors of weights for {} layers{}{}, got {}", op, stacks * plain.each(),
        o.layers, o.bidirectional ? " in two directions" : "", o.bias ? " with biases" : "",
        weights.size());
  return projecting;
}

/// The states to begin with, (stacks, N, size).
Tensor first_state(const char* op, const char* what, const Tensor& given, int64_t stacks,
                   int64_t batch, int64_t size, const Tensor& x) {
  if (!given.defined()) return zeros({stacks, batch, size}, {x.dtype(), x.device()});
  check<ShapeError>(given.shape() == Shape({stacks, batch, size}), "{}: {} must be {}, got {}", op,
                    what, Shape{stacks, batch, size}, given.shape());
  return given;
}

RecurrentResult run_stack(RecurrentMode mode, const Tensor& input, const Tensor& h0,
                          const Tensor& c0, const Tensors& tensors, const RecurrentOptions& o) {
  const char* op = name_of_stack(mode);
  check(input.defined() && std::ranges::all_of(tensors, &Tensor::defined),
        "{}: the input and all weights must be defined", op);
  check<ShapeError>(input.rank() == 2 || input.rank() == 3,
                    "{}: expected an input of 3 axes, or of 2 for one sequence, got {}", op,
                    input.shape());
  if (input.rank() == 2) {
    check(!o.lengths.defined(), "{}: one sequence alone has no lengths", op);
    RecurrentOptions one = o;
    one.batch_first = false;
    const auto as_batch = [](const Tensor& t, int axis) {
      return t.defined() ? unsqueeze(t, axis) : t;
    };
    const RecurrentResult r =
        run_stack(mode, unsqueeze(input, 1), as_batch(h0, 1), as_batch(c0, 1), tensors, one);
    return {squeeze(r.y, {1}), squeeze(r.h, {1}), r.c.defined() ? squeeze(r.c, {1}) : r.c};
  }
  const WeightList weights = checked_weights(op, mode, tensors, o);
  const int64_t directions = o.bidirectional ? 2 : 1;
  const int64_t stacks = o.layers * directions;
  Tensor x = o.batch_first ? swapaxes(input, 0, 1) : input;
  const bool cells = mode == RecurrentMode::lstm;
  const Tensor& w_hh = tensors[1];
  check<ShapeError>(w_hh.rank() == 2, "{}: w_hh must have 2 axes, got {}", op, w_hh.shape());
  const Tensor h = first_state(op, "h0", h0, stacks, x.size(1), w_hh.size(1), x);
  const Tensor c =
      cells ? first_state(op, "c0", c0, stacks, x.size(1), w_hh.size(0) / gates_of(mode), x)
            : Tensor();
  Tensors last_h;
  Tensors last_c;
  for (int64_t layer = 0; layer < o.layers; ++layer) {
    if (layer > 0) x = dropout(x, o.dropout, o.training);
    Tensors sides;
    for (int64_t side = 0; side < directions; ++side) {
      const int64_t i = layer * directions + side;
      const RecurrentResult r =
          recurrent(x, weights[i], select(h, 0, i), cells ? select(c, 0, i) : Tensor(), o.lengths,
                    mode, side == 1);
      sides.push_back(r.y);
      last_h.push_back(r.h);
      if (cells) last_c.push_back(r.c);
    }
    x = directions == 2 ? concat(sides, -1) : sides[0];
  }
  return {o.batch_first ? swapaxes(x, 0, 1) : x, stack(last_h, 0),
          cells ? stack(last_c, 0) : Tensor()};
}

}  // namespace

RecurrentResult lstm(const Tensor& x, const Tensor& h, const Tensor& c, const Tensors& weights,
                     const RecurrentOptions& options) {
  return run_stack(RecurrentMode::lstm, x, h, c, weights, options);
}
RecurrentResult gru(const Tensor& x, const Tensor& h, const Tensors& weights,
                    const RecurrentOptions& options) {
  return run_stack(RecurrentMode::gru, x, h, {}, weights, options);
}
RecurrentResult rnn_tanh(const Tensor& x, const Tensor& h, const Tensors& weights,
                         const RecurrentOptions& options) {
  return run_stack(RecurrentMode::rnn_tanh, x, h, {}, weights, options);
}
RecurrentResult rnn_relu(const Tensor& x, const Tensor& h, const Tensors& weights,
                         const RecurrentOptions& options) {
  return run_stack(RecurrentMode::rnn_relu, x, h, {}, weights, options);
}

RecurrentResult recurrent_cell(RecurrentMode mode, const Tensor& x, const Tensor& h,
                               const Tensor& c, const RecurrentWeights& w) {
  const Tensor from_x = linear(x, w.w_ih, w.b_ih);
  const Tensor from_h = linear(h, w.w_hh, w.b_hh);
  const int64_t units = w.w_hh.size(0) / gates_of(mode);
  const auto gate = [&](const Tensor& t, int64_t i) {
    return slice(t, -1, i * units, (i + 1) * units);
  };
  if (mode == RecurrentMode::rnn_tanh) return {{}, tanh(from_x + from_h), {}};
  if (mode == RecurrentMode::rnn_relu) return {{}, relu(from_x + from_h), {}};
  if (mode == RecurrentMode::gru) {
    const Tensor r = sigmoid(gate(from_x, 0) + gate(from_h, 0));
    const Tensor z = sigmoid(gate(from_x, 1) + gate(from_h, 1));
    const Tensor n = tanh(gate(from_x, 2) + r * gate(from_h, 2));
    return {{}, n + z * (h - n), {}};
  }
  const Tensor sum = from_x + from_h;
  const Tensor next = sigmoid(gate(sum, 1)) * c + sigmoid(gate(sum, 0)) * tanh(gate(sum, 2));
  return {{}, sigmoid(gate(sum, 3)) * tanh(next), next};
}

Functions recurrent_functions() {
  const auto options = [](bool bias, int64_t layers, double dropout, bool training,
                          bool bidirectional, bool batch_first, const Tensor& lengths) {
    return RecurrentOptions{.bias = bias,
                            .layers = layers,
                            .dropout = dropout,
                            .training = training,
                            .bidirectional = bidirectional,
                            .batch_first = batch_first,
                            .lengths = lengths};
  };
  static const auto kOptions = options;
  const auto all = [](const RecurrentResult& r) {
    return r.c.defined() ? Tensors{r.y, r.h, r.c} : Tensors{r.y, r.h};
  };
  static const auto kAll = all;
  const auto lstm_call = [](const Tensor& x, const Tensors& states, const Tensors& params,
                            bool bias, int64_t layers, double dropout, bool train,
                            bool bidirectional, bool batch_first, const Tensor& lengths) {
    check(states.size() == 2, "lstm: expected the states h and c, got {} tensors", states.size());
    return kAll(lstm(x, states[0], states[1], params,
                     kOptions(bias, layers, dropout, train, bidirectional, batch_first, lengths)));
  };
  const auto gru_call = [](const Tensor& x, const Tensor& h, const Tensors& params, bool bias,
                           int64_t layers, double dropout, bool train, bool bidirectional,
                           bool batch_first, const Tensor& lengths) {
    return kAll(gru(x, h, params,
                    kOptions(bias, layers, dropout, train, bidirectional, batch_first, lengths)));
  };
  const auto tanh_call = [](const Tensor& x, const Tensor& h, const Tensors& params, bool bias,
                            int64_t layers, double dropout, bool train, bool bidirectional,
                            bool batch_first, const Tensor& lengths) {
    return kAll(rnn_tanh(
        x, h, params, kOptions(bias, layers, dropout, train, bidirectional, batch_first, lengths)));
  };
  const auto relu_call = [](const Tensor& x, const Tensor& h, const Tensors& params, bool bias,
                            int64_t layers, double dropout, bool train, bool bidirectional,
                            bool batch_first, const Tensor& lengths) {
    return kAll(rnn_relu(
        x, h, params, kOptions(bias, layers, dropout, train, bidirectional, batch_first, lengths)));
  };
  constexpr const char* kMore =
      " params: for each layer and direction w_ih, w_hh, and b_ih, b_hh where has_biases. With "
      "lengths, int64 (N), sequences end early: outputs are zero from there on.";
  static const std::string kLstmDoc =
      std::string(
          "Layers of LSTM over input (T, N, features), from the states hx = (h, c): "
          "(output, h, c).") +
      kMore;
  static const std::string kGruDoc =
      std::string("Layers of GRU over input (T, N, features), from the state hx: (output, h).") +
      kMore;
  static const std::string kRnnDoc =
      std::string("Recurrent layers over input (T, N, features), from the state hx: (output, h).") +
      kMore;
  const auto describe = [](const char* name, const std::string& doc, auto call) {
    return Function{.name = name,
                    .doc = doc.c_str(),
                    .signatures = {{call,
                                    {"input",
                                     "hx",
                                     "params",
                                     {"has_biases", true},
                                     {"num_layers", 1},
                                     {"dropout", 0.0},
                                     {"train", false},
                                     {"bidirectional", false},
                                     {"batch_first", false},
                                     kKeywordOnly,
                                     {"lengths", kNone}}}},
                    .offer = kModule,
                    .precision = Precision::low};
  };
  return {describe("lstm", kLstmDoc, lstm_call), describe("gru", kGruDoc, gru_call),
          describe("rnn_tanh", kRnnDoc, tanh_call), describe("rnn_relu", kRnnDoc, relu_call)};
}

}  // namespace mica
