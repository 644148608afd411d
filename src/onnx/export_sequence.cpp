// Attention and recurrent layers.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "mica/inference/network.h"
#include "mica/onnx/exporter.h"
#include "mica/ops/concat/concat.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/recurrent/recurrent.h"
#include "mica/ops/view/view.h"

namespace mica::onnx {
namespace {

using E = const Exported&;

std::string transposed(E e, const std::string& x, int rank) {
  std::vector<int64_t> perm(static_cast<size_t>(rank));
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return e.to.node("Transpose", {x}, {{"perm", perm}});
}

/// Heads (B, kv, S, E) as (B, heads, S, E), each as often as it serves queries.
std::string repeated(E e, const std::string& x, int64_t kv, int64_t heads, int64_t width) {
  if (kv == heads) return x;
  const std::string apart = e.to.node("Unsqueeze", {x, e.to.numbers({2})});
  const std::string more = e.to.node("Expand", {apart, e.to.numbers({1, 1, heads / kv, 1, 1})});
  return e.to.node("Reshape", {more, e.to.numbers({0, heads, -1, width})});
}

/// The number of queries or keys, x's axis before the last.
std::string length(E e, const std::string& x, int64_t size, int rank) {
  if (e.to.network().symbols.empty()) return e.to.numbers({size});
  return e.to.node("Gather", {e.to.node("Shape", {x}), e.to.numbers({rank - 2})}, {{"axis", 0}});
}

/// True where a query may look at a key, (L, S); empty where it may look at all.
std::string window(E e, const std::string& queries, const std::string& keys) {
  const int64_t left = e.param<int64_t>("left");
  const int64_t right = e.param<int64_t>("right");
  if (left < 0 && right < 0) return "";
  const std::string shape = e.to.node("Concat", {queries, keys}, {{"axis", 0}});
  std::string seen =
      e.to.node("Expand", {e.to.constant(scalar(int64_t{1}, {.dtype = DType::i64})), shape});
  const auto diagonal = [&](int64_t past) {
    const std::string from = e.to.numbers({past});
    if (!e.param<bool>("bottom_right")) return from;
    return e.to.node("Add", {from, e.to.node("Sub", {keys, queries})});
  };
  if (right >= 0) seen = e.to.node("Trilu", {seen, diagonal(right)}, {{"upper", 0}});
  if (left >= 0) seen = e.to.node("Trilu", {seen, diagonal(-left)}, {{"upper", 1}});
  return e.to.cast(seen, DType::i64, DType::boolean);
}

void attention(E e) {
  e.only_first();
  e.expect(e.in[4].empty(), "lengths of the keys");
  e.expect(e.param<double>("dropout") == 0, "dropout");
  const DType dtype = e.out_spec[0].dtype;
  const int64_t packed = e.param<int64_t>("heads");
  std::string q = e.in[0];
  std::string k = e.in[1];
  std::string v = e.in[2];
  Shape q_shape = e.in_spec[0].shape;
  Shape k_shape = e.in_spec[1].shape;
  if (packed > 0) {
    const int64_t kv = e.param<int64_t>("kv_heads");
    const int64_t width = q_shape[2] / (packed + 2 * kv);
    const auto part = [&](int64_t from, int64_t heads) {
      const std::string some =
          e.to.node("Slice", {e.in[0], e.to.numbers({from * width}),
                              e.to.numbers({(from + heads) * width}), e.to.numbers({2})});
      const std::string apart = e.to.node("Reshape", {some, e.to.numbers({0, 0, heads, width})});
      return e.to.node("Transpose", {apart}, {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
    };
    q = part(0, packed);
    k = repeated(e, part(packed, kv), kv, packed, width);
    v = repeated(e, part(packed + kv, kv), kv, packed, width);
    k_shape = q_shape = {q_shape[0], packed, q_shape[1], width};
  } else if (q_shape.rank() == 4 && k_shape[1] != q_shape[1] && k_shape[1] > 1) {
    k = repeated(e, k, k_shape[1], q_shape[1], k_shape[3]);
    v = repeated(e, v, k_shape[1], q_shape[1], e.in_spec[2].shape[3]);
  }
  const int rank = q_shape.rank();
  const std::string scaled = e.to.node("Mul", {q, e.number(e.param<double>("scale"))});
  std::string scores = e.to.node("MatMul", {scaled, transposed(e, k, k_shape.rank())});
  std::string seen = window(e, length(e, q, q_shape[rank - 2], rank),
                            length(e, k, k_shape[k_shape.rank() - 2], k_shape.rank()));
  if (!e.in[3].empty()) {
    if (e.in_spec[3].dtype == DType::boolean) {
      seen = seen.empty() ? e.in[3] : e.to.node("And", {seen, e.in[3]});
    } else {
      scores = e.to.node("Add", {scores, e.to.cast(e.in[3], e.in_spec[3].dtype, dtype)});
    }
  }
  // The least number instead of -inf, and zeros afterwards: a query that sees nothing gives zeros.
  const double least = dtype == DType::f16 ? -65504.0 : -3.0e38;
  if (!seen.empty()) scores = e.to.node("Where", {seen, scores, e.number(least)});
  std::string weights = e.to.node("Softmax", {scores}, {{"axis", -1}});
  if (!seen.empty()) weights = e.to.node("Where", {seen, weights, e.number(0)});
  if (packed == 0) return e.emit("MatMul", {weights, v});
  const std::string heads = e.to.node("Transpose", {e.to.node("MatMul", {weights, v})},
                                      {{"perm", std::vector<int64_t>{0, 2, 1, 3}}});
  e.emit("Reshape", {heads, e.to.numbers({0, 0, -1})});
}

/// The blocks of a weight (G H, …) in ONNX's order: i, o, f, c of an LSTM, z, r, h of a GRU.
Tensor reordered(const Tensor& weight, RecurrentMode mode) {
  const Tensors blocks = split(weight, weight.shape()[0] / gates_of(mode), 0);
  switch (mode) {
    case RecurrentMode::lstm:
      return concat({blocks[0], blocks[3], blocks[1], blocks[2]}, 0);
    case RecurrentMode::gru:
      return concat({blocks[1], blocks[0], blocks[2]}, 0);
    default:
      return weight;
  }
}

void recurrent(E e) {
  const auto word = e.param<std::string>("mode");
  const RecurrentMode mode = word == "lstm"       ? RecurrentMode::lstm
                             : word == "gru"      ? RecurrentMode::gru
                             : word == "rnn_tanh" ? RecurrentMode::rnn_tanh
                                                  : RecurrentMode::rnn_relu;
  e.expect(e.in[5].empty(), "an LSTM that projects its state");
  for (size_t i = 3; i < e.used.size(); ++i)
    e.expect(!e.used[i], "what its gradient reads is used");
  const auto weight = [&](size_t input) {
    e.expect(e.constants[input] != nullptr, "weights that are computed");
    return reordered(*e.constants[input], mode);
  };
  const auto kept = [&](const Tensor& t) {
    Shape shape = {1};
    for (const int64_t n : t.shape()) shape.push_back(n);
    return e.to.constant(reshape(t, shape));
  };
  const auto one_more = [&](const std::string& x) {
    return x.empty() ? x : e.to.node("Unsqueeze", {x, e.to.numbers({0})});
  };
  const std::string biases = e.in[3].empty() ? "" : kept(concat({weight(3), weight(4)}, 0));
  Names in = {e.in[0],
              kept(weight(1)),
              kept(weight(2)),
              biases,
              e.to.cast(e.in[8], e.in_spec[8].dtype, DType::i32),
              one_more(e.in[6])};
  const int64_t hidden = e.constants[2]->shape()[1];
  const char* direction = e.param<bool>("reverse") ? "reverse" : "forward";
  const std::string y = e.to.fresh("y");
  const std::string h = e.to.fresh("h");
  const std::string c = e.to.fresh("c");
  switch (mode) {
    case RecurrentMode::lstm:
      in.push_back(one_more(e.in[7]));
      e.to.emit("LSTM", in, {y, h, c}, {{"hidden_size", hidden}, {"direction", direction}});
      break;
    case RecurrentMode::gru:
      e.to.emit("GRU", in, {y, h},
                {{"hidden_size", hidden}, {"direction", direction}, {"linear_before_reset", 1}});
      break;
    default: {
      Attribute activations("activations", std::vector<int64_t>());
      activations.proto.type = AttributeType::strings;
      activations.proto.strings = {mode == RecurrentMode::rnn_tanh ? "Tanh" : "Relu"};
      e.to.emit("RNN", in, {y, h},
                {{"hidden_size", hidden}, {"direction", direction}, activations});
    }
  }
  e.to.emit("Squeeze", {y, e.to.numbers({1})}, {e.out[0]});
  e.to.emit("Squeeze", {h, e.to.numbers({0})}, {e.out[1]});
  if (mode == RecurrentMode::lstm) e.to.emit("Squeeze", {c, e.to.numbers({0})}, {e.out[2]});
}

}  // namespace

const ExportTable& sequence_exports() {
  static const ExportTable table = {{"attention", attention}, {"recurrent", recurrent}};
  return table;
}

}  // namespace mica::onnx
