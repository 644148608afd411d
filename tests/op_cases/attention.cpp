#include <cmath>
#include <limits>

#include "mica/core/philox.h"
#include "mica/ops/attention/attention.h"
#include "tests/op_cases/composites.h"

namespace mica::cases {
namespace {

constexpr double kNothing = -std::numeric_limits<double>::infinity();
constexpr double kSeed = 11, kBlock = 3;

struct Setup {
  const char* name;
  int64_t batch, heads, kv_heads, queries, keys, width, value_width;
  AttentionParams params = {};
  Shape mask = {};  ///< none where it has no axes
  bool boolean = false;
  std::vector<double> lengths = {};
  std::vector<DType> dtypes = {DType::f32, DType::bf16};  ///< of the large ones

  Setup with(AttentionParams p) const {
    Setup s = *this;
    s.params = p;
    s.params.scale = 0.6;
    return s;
  }
  Setup masked(const Shape& shape, bool is_boolean) const {
    Setup s = *this;
    s.mask = shape;
    s.boolean = is_boolean;
    return s;
  }
  Setup in(std::vector<DType> given) const {
    Setup s = *this;
    s.dtypes = std::move(given);
    return s;
  }
  Setup of_lengths(std::vector<double> given) const {
    Setup s = *this;
    s.lengths = std::move(given);
    return s;
  }
  bool packed() const { return params.heads > 0; }
  Shape y() const { return {batch, heads, queries, value_width}; }
};

std::vector<Setup> setups() {
  const Setup small = {"", 2, 2, 2, 3, 5, 4, 3};
  const Setup square = {"", 2, 2, 2, 5, 5, 4, 4};
  const Setup grouped = {"", 2, 4, 2, 4, 6, 8, 8};
  const auto named = [](const char* name, Setup s) {
    s.name = name;
    return s;
  };
  return {
      named("all keys", small.with({})),
      named("causal", square.with({.right = 0})),
      named("causal from the end", small.with({.right = 0, .bottom_right = true})),
      named("window", square.with({.left = 1, .right = 1})),
      named("causal window of grouped heads", grouped.with({.left = 2, .right = 0})),
      named("mask of numbers", small.with({}).masked({2, 1, 3, 5}, false)),
      named("mask of bools", small.with({}).masked({1, 2, 3, 5}, true)),
      named("mask of every query", small.with({.right = 0}).masked({2, 1, 1, 5}, true)),
      named("lengths", square.with({}).of_lengths({4, 2})),
      named("lengths counted from the end",
            square.with({.right = 0, .bottom_right = true}).of_lengths({5, 3})),
      named("dropout", small.with({.dropout = 0.4})),
      named("dropout, causal, grouped, lengths, mask", grouped.with({.dropout = 0.3, .right = 0})
                                                           .masked({1, 4, 4, 6}, false)
                                                           .of_lengths({6, 3})),
      named("one tensor", square.with({.right = 0, .heads = 2, .kv_heads = 2})),
      named("one tensor of grouped heads",
            Setup{"", 2, 4, 2, 5, 5, 8, 8}.with({.dropout = 0.2, .heads = 4, .kv_heads = 2})),
      named("one element", Setup{"", 1, 1, 1, 1, 1, 1, 1}.with({})),
      named("no queries", Setup{"", 1, 2, 2, 0, 3, 2, 2}.with({})),
      named("no sequences", Setup{"", 0, 2, 2, 2, 3, 2, 2}.with({}))};
}

/// More than one tile, and rows that are whole vectors.
std::vector<Setup> large_setups() {
  const auto band = [](int64_t left, int64_t right, bool end = false) {
    return AttentionParams{.left = left, .right = right, .bottom_right = end};
  };
  return {
      Setup{"several tiles", 1, 2, 1, 140, 270, 16, 24}.with(band(-1, -1)),
      Setup{"several tiles, causal", 1, 1, 1, 150, 290, 64, 64}.with(band(-1, 0)),
      Setup{"several tiles, causal from the end", 1, 1, 1, 70, 300, 32, 32}.with(band(-1, 0, true)),
      Setup{"several tiles, window", 1, 1, 1, 300, 300, 32, 32}.with(band(40, 0)),
      Setup{"several tiles, dropout, lengths", 2, 2, 1, 70, 150, 40, 40}
          .with({.dropout = 0.25, .right = 0})
          .of_lengths({150, 33}),
      Setup{"several tiles, mask", 1, 1, 1, 140, 140, 72, 8}.with({}).masked({1, 1, 140, 140},
                                                                             true),
      Setup{"wide heads", 1, 1, 1, 30, 40, 256, 256}.with(band(-1, 0)),
      Setup{"several tiles of wide heads", 1, 2, 1, 150, 200, 128, 112}
          .with(band(-1, 0, true))
          .in({DType::f16, DType::bf16}),
      // Keys of few queries are split over blocks.
      Setup{"one query, lengths", 3, 2, 2, 1, 600, 64, 64}.with({}).of_lengths({600, 1, 333}),
      Setup{"few queries, window, grouped", 1, 4, 2, 3, 300, 72, 40}.with(band(170, 0, true)),
      Setup{"few queries, mask, dropout", 1, 2, 1, 4, 130, 128, 256}
          .with({.dropout = 0.25})
          .masked({1, 2, 1, 130}, false),
      Setup{"few queries, one tensor", 2, 3, 1, 4, 4, 16, 16}.with(
          {.right = 0, .heads = 3, .kv_heads = 1}),
      Setup{"one tensor, several tiles", 1, 6, 2, 80, 80, 64, 64}.with(
          {.right = 0, .heads = 6, .kv_heads = 2})};
}

/// The operands of the attention in a list of inputs from `first` on.
struct Operands {
  Operands(const HostArgs& in, size_t first, const Setup& s) : in_(in), first_(first), s_(s) {}

  double q(int64_t b, int64_t h, int64_t i, int64_t e) const { return part(0, 0, b, h, i, e); }
  double k(int64_t b, int64_t h, int64_t j, int64_t e) const {
    return part(1, s_.heads, b, h / (s_.heads / s_.kv_heads), j, e);
  }
  double v(int64_t b, int64_t h, int64_t j, int64_t e) const {
    return part(2, s_.heads + s_.kv_heads, b, h / (s_.heads / s_.kv_heads), j, e);
  }
  /// -inf where the query does not look at the key.
  double score(size_t mask, int64_t b, int64_t h, int64_t i, int64_t j) const {
    const int64_t length =
        s_.lengths.empty() ? s_.keys : static_cast<int64_t>(s_.lengths[static_cast<size_t>(b)]);
    const int64_t own = i + (s_.params.bottom_right ? length - s_.queries : 0);
    if (j >= length) return kNothing;
    if (s_.params.left >= 0 && j < own - s_.params.left) return kNothing;
    if (s_.params.right >= 0 && j > own + s_.params.right) return kNothing;
    double sum = 0;
    for (int64_t e = 0; e < s_.width; ++e) sum += q(b, h, i, e) * k(b, h, j, e);
    sum *= s_.params.scale;
    if (s_.mask.rank() == 0) return sum;
    const double m = at(in_[mask], {s_.mask[0] > 1 ? b : 0, s_.mask[1] > 1 ? h : 0,
                                    s_.mask[2] > 1 ? i : 0, s_.mask[3] > 1 ? j : 0});
    if (!s_.boolean) return sum + m;
    return m != 0 ? sum : kNothing;
  }
  double kept(int64_t b, int64_t h, int64_t i, int64_t j) const {
    if (s_.params.dropout == 0) return 1;
    const auto n =
        static_cast<unsigned long long>(((b * s_.heads + h) * s_.queries + i) * s_.keys + j);
    const auto word = philox(static_cast<unsigned long long>(kSeed),
                             static_cast<unsigned long long>(kBlock) + n / 4)
                          .v[n % 4];
    return unit_float(word) >= static_cast<float>(s_.params.dropout) ? 1 / (1 - s_.params.dropout)
                                                                     : 0;
  }

 private:
  double part(size_t n, int64_t head, int64_t b, int64_t h, int64_t i, int64_t e) const {
    if (s_.packed()) return at(in_[first_], {b, i, head + h, e});
    return at(in_[first_ + n], {b, h, i, e});
  }

  const HostArgs& in_;
  size_t first_;
  const Setup& s_;
};

template <class F>
void for_queries(const Setup& s, F&& f) {
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t h = 0; h < s.heads; ++h)
      for (int64_t i = 0; i < s.queries; ++i) f(b, h, i);
}

std::vector<HostArray> attend(const HostArgs& in, const Setup& s) {
  const Operands o(in, 0, s);
  HostArray y{s.y(), {}};
  HostArray lse{{s.batch, s.heads, s.queries}, {}};
  for_queries(s, [&](int64_t b, int64_t h, int64_t i) {
    std::vector<double> sums(static_cast<size_t>(s.value_width));
    std::vector<double> scores;
    double largest = kNothing;
    for (int64_t j = 0; j < s.keys; ++j) {
      scores.push_back(o.score(3, b, h, i, j));
      largest = std::max(largest, scores.back());
    }
    double total = 0;
    for (int64_t j = 0; j < s.keys && largest > kNothing; ++j) {
      const double weight = std::exp(scores[static_cast<size_t>(j)] - largest);
      total += weight;
      for (int64_t e = 0; e < s.value_width; ++e)
        sums[static_cast<size_t>(e)] += weight * o.kept(b, h, i, j) * o.v(b, h, j, e);
    }
    for (const double sum : sums) y.values.push_back(total > 0 ? sum / total : 0);
    lse.values.push_back(largest + std::log(total));
  });
  return {y, lse};
}

Input mask_input(const Setup& s) {
  if (s.mask.rank() == 0) return absent();
  if (!s.boolean) return x(s.mask);
  std::vector<double> seen;
  for (int64_t i = 0; i < numel(s.mask); ++i) seen.push_back(i % 3 != 1 ? 1 : 0);
  return x(s.mask).of(seen).as<DType::boolean>();
}

std::vector<Input> operand_inputs(const Setup& s) {
  if (s.packed())
    return {x({s.batch, s.queries, s.heads + 2 * s.kv_heads, s.width}), absent(), absent()};
  return {x({s.batch, s.heads, s.queries, s.width}), x({s.batch, s.kv_heads, s.keys, s.width}),
          x({s.batch, s.kv_heads, s.keys, s.value_width})};
}
std::vector<Input> other_inputs(const Setup& s) {
  Input lengths = absent();
  if (!s.lengths.empty()) {
    lengths = x({s.batch}).of(s.lengths).as<DType::i32>();
    lengths.dense = true;
  }
  return {mask_input(s), lengths, s.params.dropout > 0 ? counter(kSeed, kBlock) : absent()};
}

Sample forward_sample(const Setup& s) {
  std::vector<Input> in = operand_inputs(s);
  for (Input& other : other_inputs(s)) in.push_back(std::move(other));
  return {.name = s.name,
          .in = std::move(in),
          .call = [=](const Args& a) { return Tensors{call_op("attention", s.params, a.in)[0]}; },
          .oracle = [=](const HostArgs& host) { return std::vector{attend(host, s)[0]}; }};
}

/// Of many elements; scores stay small enough for a softmax that is not all one key's.
Sample large(Sample sample, const Setup& s) {
  for (Input& input : sample.in)
    if (input.shape.rank() == 4 && input.values.empty()) input = std::move(input).in(-0.8, 0.8);
  sample.dtypes = s.dtypes;
  sample.gradient = false;
  sample.compiled = false;
  sample.layouts = false;
  return sample;
}

OpCase forward_case() {
  OpCase c{.op = "attention", .samples = {}};
  for (const Setup& s : setups()) c.samples.push_back(forward_sample(s));
  for (const Setup& s : large_setups()) c.samples.push_back(large(forward_sample(s), s));
  Sample all = forward_sample(setups()[1]);
  all.name = "every output";
  all.call = [s = setups()[1]](const Args& a) { return call_op("attention", s.params, a.in); };
  all.oracle = [s = setups()[1]](const HostArgs& in) { return attend(in, s); };
  c.samples.push_back(all);
  // A query that looks at nothing gives zeros.
  Sample nothing = forward_sample(Setup{"nothing to look at", 2, 1, 1, 4, 5, 8, 8}
                                      .with({.right = 0, .bottom_right = true})
                                      .of_lengths({0, 3}));
  for (size_t i = 0; i < 3; ++i) nothing.in[i] = std::move(nothing.in[i]).in(-0.8, 0.8);
  c.samples.push_back(nothing);
  const auto call = [](Device d, AttentionParams p, const Shape& q, const Shape& k, const Shape& v,
                       const Tensor& mask = {}, const Tensor& lengths = {}) {
    const auto of = [&](const Shape& s) { return zeros(s, {.device = d}); };
    call_op("attention", p, {of(q), of(k), of(v), mask, lengths, Tensor()});
  };
  const Shape four = {1, 2, 3, 4};
  c.bad = {
      bad<ShapeError>("attention: expected q (B, H, L, E), k (B, G, S, E) and v (B, G, S, V)",
                      [=](Device d) { call(d, {}, four, {1, 2, 3, 5}, four); }),
      bad<ShapeError>("attention: the queries' heads must be a multiple of the keys', got 2 and 3",
                      [=](Device d) { call(d, {}, four, {1, 3, 3, 4}, {1, 3, 3, 4}); }),
      bad<ShapeError>(
          "attention: the mask must broadcast to [1, 2, 3, 3], got [1, 1, 3, 2]",
          [=](Device d) { call(d, {}, four, four, four, zeros({1, 1, 3, 2}, {.device = d})); }),
      bad<DTypeError>(
          "attention: the mask must be bool or f32 as the query, got f64",
          [=](Device d) { call(d, {}, four, four, four, zeros({1, 1, 3, 3}, {DType::f64, d})); }),
      bad<ShapeError>(
          "attention: lengths must be i32[1], got f32[1]",
          [=](Device d) { call(d, {}, four, four, four, {}, zeros({1}, {.device = d})); }),
      bad<Error>("attention: dropout must be in [0, 1), got 1",
                 [=](Device d) { call(d, {.dropout = 1}, four, four, four); }),
      bad<ShapeError>("attention: the counter must be i64[2] where there is dropout",
                      [=](Device d) { call(d, {.dropout = 0.5}, four, four, four); }),
      bad<ShapeError>("attention: expected queries, keys and values of 2 and 1 heads in one tensor "
                      "(B, L, 4, E), got [1, 3, 5, 4]",
                      [=](Device d) {
                        call_op("attention", AttentionParams{.heads = 2, .kv_heads = 1},
                                {zeros({1, 3, 5, 4}, {.device = d}), {}, {}, {}, {}, {}});
                      })};
  c.tolerance = {{1e-13, 4e-6, 3e-3, 2.4e-2}, {1e-12, 2e-5, 6e-3, 4.8e-2}};
  return c;
}

/// dq, dk, dv, or all in one.
std::vector<HostArray> gradients(const HostArgs& in, const Setup& s) {
  const Operands o(in, 1, s);
  const int64_t all_heads = s.heads + 2 * s.kv_heads;
  std::vector<HostArray> out;
  const auto zero = [](const Shape& shape) {
    return HostArray{shape, std::vector<double>(static_cast<size_t>(numel(shape)))};
  };
  if (s.packed()) {
    out = {zero({s.batch, s.queries, all_heads, s.width})};
  } else {
    out = {zero({s.batch, s.heads, s.queries, s.width}),
           zero({s.batch, s.kv_heads, s.keys, s.width}),
           zero({s.batch, s.kv_heads, s.keys, s.value_width})};
  }
  const auto place = [&](size_t n, int64_t head, int64_t b, int64_t h, int64_t i,
                         int64_t e) -> double& {
    const Shape& shape = out[s.packed() ? 0 : n].shape;
    const int64_t flat = s.packed() ? ((b * shape[1] + i) * shape[2] + head + h) * shape[3] + e
                                    : ((b * shape[1] + h) * shape[2] + i) * shape[3] + e;
    return out[s.packed() ? 0 : n].values[static_cast<size_t>(flat)];
  };
  for_queries(s, [&](int64_t b, int64_t h, int64_t i) {
    const int64_t g = h / (s.heads / s.kv_heads);
    double delta = in[9].values.empty() ? 0 : -at(in[9], {b, h, i});
    for (int64_t e = 0; e < s.value_width; ++e)
      delta += at(in[0], {b, h, i, e}) * at(in[4], {b, h, i, e});
    for (int64_t j = 0; j < s.keys; ++j) {
      const double weight = std::exp(o.score(6, b, h, i, j) - at(in[5], {b, h, i}));
      if (weight == 0) continue;
      const double kept = o.kept(b, h, i, j);
      double dweight = 0;
      for (int64_t e = 0; e < s.value_width; ++e) {
        dweight += at(in[0], {b, h, i, e}) * o.v(b, h, j, e);
        place(2, s.heads + s.kv_heads, b, g, j, e) += weight * kept * at(in[0], {b, h, i, e});
      }
      const double dscore = weight * (dweight * kept - delta) * s.params.scale;
      for (int64_t e = 0; e < s.width; ++e) {
        place(0, 0, b, h, i, e) += dscore * o.k(b, h, j, e);
        place(1, s.heads, b, g, j, e) += dscore * o.q(b, h, i, e);
      }
    }
  });
  return out;
}

Sample grad_sample(const Setup& s, bool dlse = false) {
  const Shape rows = {s.batch, s.heads, s.queries};
  std::vector<Input> in = {x(s.y())};
  for (Input& operand : operand_inputs(s)) in.push_back(std::move(operand));
  in.push_back(x(s.y()));
  // About the logarithm of the number of keys, so that weights are those of a softmax.
  const double about = std::log(static_cast<double>(s.keys) + 1) + 1;
  in.push_back(x(rows).in(about, about + 1).statistic());
  for (Input& other : other_inputs(s)) in.push_back(std::move(other));
  if (s.mask.rank() > 0 && !s.boolean) in[6] = std::move(in[6]).in(-1, 1);
  in.push_back(dlse ? x(rows).statistic() : absent());
  return {.name = s.name,
          .in = std::move(in),
          .call = [=](const Args& a) { return call_op("attention_grad", s.params, a.in); },
          .oracle = [=](const HostArgs& host) { return gradients(host, s); }};
}

OpCase grad_case() {
  OpCase c{.op = "attention_grad", .samples = {}};
  for (const Setup& s : setups()) c.samples.push_back(grad_sample(s));
  for (const Setup& s : large_setups()) c.samples.push_back(large(grad_sample(s), s));
  Sample more = grad_sample(setups()[0], true);
  more.name = "cotangent of the sums of exponentials";
  c.samples.push_back(more);
  const auto call = [](Device d, const Shape& dy, const Shape& lse) {
    const Tensor q = zeros({1, 2, 3, 4}, {.device = d});
    call_op("attention_grad", AttentionParams{},
            {zeros(dy, {.device = d}), q, q, q, q, zeros(lse, {.device = d}), {}, {}, {}, {}});
  };
  c.bad = {bad<ShapeError>("attention_grad: dy must be f32 [1, 2, 3, 4], got f32[1, 2, 4, 4]",
                           [=](Device d) { call(d, {1, 2, 4, 4}, {1, 2, 3}); }),
           bad<ShapeError>("attention_grad: lse must be f32 [1, 2, 3], got f32[1, 2, 4]",
                           [=](Device d) { call(d, {1, 2, 3, 4}, {1, 2, 4}); })};
  c.tolerance = {{1e-12, 1e-5, 4e-3, 3.2e-2}, {1e-11, 6e-5, 1e-2, 8e-2}};
  return c;
}

const Room kRoom([] { return std::vector<OpCase>{forward_case(), grad_case()}; });

}  // namespace
}  // namespace mica::cases
