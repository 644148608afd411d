// Recurrent layers.
#include "mica/ops/recurrent/recurrent.h"

#include <algorithm>
#include <cctype>

#include "mica/onnx/broadcast.h"
#include "mica/onnx/call.h"
#include "mica/ops/activation/activation.h"
#include "mica/ops/activation/compositions.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/concat/concat.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/matmul/matmul.h"
#include "mica/ops/where/where.h"

namespace mica::onnx {
namespace {

/// One direction of a layer, in ONNX's layout: gates i, o, f, c of an LSTM and z, r, h of a GRU.
struct Direction {
  Tensor w, r;       ///< (G H, I), (G H, H)
  Tensor b;          ///< (2 G H), or undefined
  Tensor h, c;       ///< (N, H)
  Tensor peepholes;  ///< (3 H), or undefined
  bool reverse = false;
  std::vector<std::string> activations;
  std::vector<double> alpha, beta;
};

struct Layer {
  const Call& call;
  int64_t gates;
  int64_t hidden;
  Tensor x;        ///< (T, N, I)
  Tensor lengths;  ///< (N), or undefined
  double clip = 0;
};

Tensor activated(const Call& c, const Direction& d, size_t which, const Tensor& x) {
  std::string name = d.activations[which];
  std::ranges::transform(name, name.begin(), [](unsigned char ch) { return std::tolower(ch); });
  const auto alpha = [&](double otherwise) {
    return which < d.alpha.size() ? d.alpha[which] : otherwise;
  };
  const auto beta = [&](double otherwise) {
    return which < d.beta.size() ? d.beta[which] : otherwise;
  };
  if (name == "sigmoid") return sigmoid(x);
  if (name == "tanh") return tanh(x);
  if (name == "relu") return relu(x);
  if (name == "affine") return add(mul(x, alpha(1)), beta(0));
  if (name == "leakyrelu") return leaky_relu(x, {alpha(0.01)});
  if (name == "thresholdedrelu") return where(gt(x, alpha(1)), x, 0.0);
  if (name == "scaledtanh") return mul(tanh(mul(x, beta(1))), alpha(1));
  if (name == "hardsigmoid")
    return clamp(add(mul(x, alpha(0.2)), beta(0.5)), Number(0.0), Number(1.0));
  if (name == "elu") return elu(x, {.alpha = alpha(1)});
  if (name == "softsign") return softsign(x);
  if (name == "softplus") return softplus(x);
  c.fail(fmt::format("activation '{}'", d.activations[which]));
}

/// Blocks of H rows in another order.
Tensor reordered(const Tensor& t, const std::vector<int64_t>& order, int64_t hidden) {
  Tensors parts;
  for (const int64_t k : order) parts.push_back(slice(t, 0, k * hidden, (k + 1) * hidden));
  return concat(parts);
}

/// By mica's own operator, where it computes the same.
std::optional<RecurrentResult> by_operator(const Layer& l, const Direction& d) {
  const auto are = [&](std::initializer_list<const char*> names) {
    return std::ranges::equal(d.activations, names, [](const std::string& a, const char* b) {
      return std::ranges::equal(a, std::string_view(b), [](unsigned char x, unsigned char y) {
        return std::tolower(x) == std::tolower(y);
      });
    });
  };
  RecurrentMode mode = RecurrentMode::lstm;
  std::vector<int64_t> order = {0};
  const Call& c = l.call;
  if (l.clip > 0 || d.peepholes.defined() || c.integer("input_forget", 0) != 0) return {};
  if (l.gates == 4) {
    if (!are({"Sigmoid", "Tanh", "Tanh"})) return {};
    order = {0, 2, 3, 1};
  } else if (l.gates == 3) {
    if (!are({"Sigmoid", "Tanh"}) || c.integer("linear_before_reset", 0) == 0) return {};
    mode = RecurrentMode::gru;
    order = {1, 0, 2};
  } else if (are({"Tanh"})) {
    mode = RecurrentMode::rnn_tanh;
  } else if (are({"Relu"})) {
    mode = RecurrentMode::rnn_relu;
  } else {
    return {};
  }
  RecurrentWeights weights;
  weights.w_ih = reordered(d.w, order, l.hidden);
  weights.w_hh = reordered(d.r, order, l.hidden);
  if (d.b.defined()) {
    const int64_t half = l.gates * l.hidden;
    weights.b_ih = reordered(slice(d.b, 0, 0, half), order, l.hidden);
    weights.b_hh = reordered(slice(d.b, 0, half, 2 * half), order, l.hidden);
  }
  return recurrent(l.x, weights, d.h, l.gates == 4 ? d.c : Tensor(), l.lengths, mode, d.reverse);
}

/// One step of any kind: the new h and c of inputs projected already, p (N, G H).
std::pair<Tensor, Tensor> stepped(const Layer& l, const Direction& d, const Tensor& p,
                                  const Tensor& h, const Tensor& cell) {
  const Call& c = l.call;
  const int64_t n = l.hidden;
  const auto clipped = [&](const Tensor& t) {
    return l.clip > 0 ? clamp(t, Number(-l.clip), Number(l.clip)) : t;
  };
  const auto block = [&](const Tensor& t, int64_t k) { return slice(t, -1, k * n, (k + 1) * n); };
  const auto peephole = [&](const Tensor& gate, int64_t k, const Tensor& at) {
    return d.peepholes.defined() ? add(gate, mul(block(d.peepholes, k), at)) : gate;
  };
  const Tensor state_bias = d.b.defined() ? slice(d.b, 0, l.gates * n, 2 * l.gates * n) : Tensor();
  if (l.gates == 3) {
    const Tensor zr = add(slice(p, -1, 0, 2 * n),
                          linear(h, slice(d.r, 0, 0, 2 * n),
                                 state_bias.defined() ? slice(state_bias, 0, 0, 2 * n) : Tensor()));
    const Tensor z = activated(c, d, 0, clipped(block(zr, 0)));
    const Tensor r = activated(c, d, 0, clipped(block(zr, 1)));
    const Tensor weight = slice(d.r, 0, 2 * n, 3 * n);
    const Tensor bias = state_bias.defined() ? slice(state_bias, 0, 2 * n, 3 * n) : Tensor();
    const Tensor from_state = c.integer("linear_before_reset", 0) != 0
                                  ? mul(r, linear(h, weight, bias))
                                  : linear(mul(r, h), weight, bias);
    const Tensor g = activated(c, d, 1, clipped(add(block(p, 2), from_state)));
    return {add(mul(sub(1, z), g), mul(z, h)), {}};
  }
  const Tensor gates = add(p, linear(h, d.r, state_bias));
  if (l.gates == 1) return {activated(c, d, 0, clipped(gates)), {}};
  const Tensor i = activated(c, d, 0, clipped(peephole(block(gates, 0), 0, cell)));
  const Tensor f = c.integer("input_forget", 0) != 0
                       ? sub(1, i)
                       : activated(c, d, 0, clipped(peephole(block(gates, 2), 2, cell)));
  const Tensor g = activated(c, d, 1, clipped(block(gates, 3)));
  const Tensor next = add(mul(f, cell), mul(i, g));
  const Tensor o = activated(c, d, 0, clipped(peephole(block(gates, 1), 1, next)));
  return {mul(o, activated(c, d, 2, next)), next};
}

RecurrentResult by_steps(const Layer& l, const Direction& d) {
  const int64_t steps = l.x.shape()[0];
  const Tensor bias = d.b.defined() ? slice(d.b, 0, 0, l.gates * l.hidden) : Tensor();
  const Tensor projected = linear(l.x, d.w, bias);
  Tensor h = d.h;
  Tensor cell = d.c;
  Tensors outputs(static_cast<size_t>(steps));
  for (int64_t i = 0; i < steps; ++i) {
    const int64_t t = d.reverse ? steps - 1 - i : i;
    auto [next, next_cell] = stepped(l, d, select(projected, 0, t), h, cell);
    Tensor y = next;
    if (l.lengths.defined()) {  // a sequence that has ended, or not yet begun, stays
      const Tensor runs = unsqueeze(gt(l.lengths, t), 1);
      y = where(runs, next, 0.0);
      next = where(runs, next, h);
      if (next_cell.defined()) next_cell = where(runs, next_cell, cell);
    }
    h = next;
    if (next_cell.defined()) cell = next_cell;
    outputs[static_cast<size_t>(t)] = y;
  }
  return {stack(outputs), h, l.gates == 4 ? cell : Tensor()};
}

Results recurrent_layer(const Call& c, int64_t gates, const std::vector<std::string>& activations,
                        const Tensor& w, const Tensor& r) {
  const bool batch_first = c.integer("layout", 0) != 0;
  const auto time_first = [&](const Tensor& t) {
    return batch_first && t.defined() ? transpose(t, 0, 1) : t;
  };
  Layer l{c, gates, r.shape().back(), time_first(c[0]), {}, c.number("clip", 0)};
  c.check(l.x.rank() == 3 && w.rank() == 3 && r.rank() == 3 && w.shape()[1] == gates * l.hidden &&
              r.shape()[1] == gates * l.hidden,
          "x {}, W {} and R {}", l.x.shape(), w.shape(), r.shape());
  const int64_t batch = l.x.shape()[1];
  const int64_t steps = l.x.shape()[0];
  if (c.has(4)) {
    bool ragged = true;
    if (c.value(4).known || !c.value(4).value.tensor().is_traced()) {
      const std::vector<int64_t> lengths = c.ints(4);
      ragged = std::ranges::any_of(lengths, [&](int64_t n) { return n != steps; });
    }
    if (ragged) l.lengths = cast(c[4], DType::i64);
  }
  const Tensor h = time_first(c.maybe(5));
  const Tensor cell = gates == 4 ? time_first(c.maybe(6)) : Tensor();
  const int64_t directions = w.shape()[0];
  const std::string direction = c.text("direction", "forward");
  const std::vector<std::string>& given = c.texts("activations");
  Tensors ys;
  Tensors hs;
  Tensors cs;
  for (int64_t k = 0; k < directions; ++k) {
    const auto of = [&](const Tensor& t) { return t.defined() ? select(t, 0, k) : Tensor(); };
    Direction d;
    d.w = of(w);
    d.r = of(r);
    d.b = of(c.maybe(3));
    const Tensor nothing = zeros({batch, l.hidden}, {l.x.dtype(), l.x.device()});
    d.h = h.defined() ? of(h) : nothing;
    if (gates == 4) {
      d.c = cell.defined() ? of(cell) : nothing;
      d.peepholes = of(c.maybe(7));
    }
    d.reverse = direction == "reverse" || k == 1;
    const size_t per = activations.size();
    d.activations = activations;
    if (given.size() >= per * static_cast<size_t>(k + 1))
      d.activations.assign(given.begin() + static_cast<int64_t>(per) * k,
                           given.begin() + static_cast<int64_t>(per) * (k + 1));
    d.alpha = c.numbers("activation_alpha");
    d.beta = c.numbers("activation_beta");
    std::optional<RecurrentResult> result = by_operator(l, d);
    if (!result) result = by_steps(l, d);
    ys.push_back(result->y);
    hs.push_back(result->h);
    cs.push_back(result->c);
  }
  const auto state = [&](const Tensors& parts) {
    return batch_first ? transpose(stack(parts), 0, 1) : stack(parts);
  };
  Tensor y = stack(ys, 1);  // (T, D, N, H)
  if (batch_first) y = permute(y, {2, 0, 1, 3});
  Results results{y, state(hs)};
  if (gates == 4) results.push_back(state(cs));
  return results;
}

template <int64_t gates>
Results layer(const Call& c) {
  static const std::vector<std::string> activations =
      gates == 4   ? std::vector<std::string>{"Sigmoid", "Tanh", "Tanh"}
      : gates == 3 ? std::vector<std::string>{"Sigmoid", "Tanh"}
                   : std::vector<std::string>{"Tanh"};
  return recurrent_layer(c, gates, activations, c[1], c[2]);
}

/// An LSTM whose weights (D, I, 4 H) are quantized, with a scale and a zero point for each
/// direction, or for each column.
Results quantized_lstm(const Call& c) {
  const auto weight = [&](int input, int scale) {
    const Tensor w = c[input];
    const auto wide = [&](const Tensor& t) {
      return reshape(cast(t, DType::f32), {w.shape()[0], 1, -1});
    };
    return transpose(mul(sub(cast(w, DType::f32), wide(c[scale + 1])), wide(c[scale])), 1, 2);
  };
  return recurrent_layer(c, 4, {"Sigmoid", "Tanh", "Tanh"}, weight(1, 8), weight(2, 10));
}

}  // namespace

Operators recurrent_operators() {
  return {{"LSTM", layer<4>}, {"GRU", layer<3>}, {"RNN", layer<1>}};
}

Operators microsoft_operators() { return {{"DynamicQuantizeLSTM", quantized_lstm}}; }

}  // namespace mica::onnx
