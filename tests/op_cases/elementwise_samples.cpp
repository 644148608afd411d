#include "tests/op_cases/elementwise_samples.h"

#include "mica/core/check.h"

namespace mica::cases {

/// Element i of `a`, broadcast to `shape`.
double broadcast(const HostArray& a, const Shape& shape, int64_t i) {
  int64_t at = 0;
  int64_t step = 1;
  for (int axis = shape.rank() - 1, own = a.shape.rank() - 1; axis >= 0; --axis, --own) {
    const int64_t index = i % shape[axis];
    i /= shape[axis];
    if (own < 0) continue;
    if (a.shape[own] != 1) at += index * step;
    step *= a.shape[own];
  }
  return a.values[static_cast<size_t>(at)];
}

std::function<std::vector<HostArray>(const HostArgs&)> unary_oracle(const Double1& f) {
  return [f](const HostArgs& in) {
    HostArray out = in[0];
    for (double& v : out.values) v = f(v);
    return std::vector{out};
  };
}

std::function<std::vector<HostArray>(const HostArgs&)> binary_oracle(const Double2& f) {
  return [f](const HostArgs& in) {
    HostArray out{broadcast_shapes(in[0].shape, in[1].shape, "oracle"), {}};
    for (int64_t i = 0; i < numel(out.shape); ++i)
      out.values.push_back(f(broadcast(in[0], out.shape, i), broadcast(in[1], out.shape, i)));
    return std::vector{out};
  };
}

std::vector<Sample> unary_samples(const Call1& call, const Double1& f, Range range) {
  const auto run = [call](const Args& a) -> Tensors { return {call(a[0])}; };
  const auto sample = [&](const char* name, const Shape& shape) {
    return Sample{.name = name,
                  .in = {x(shape).in(range.low, range.high).away(range.away)},
                  .call = run,
                  .oracle = unary_oracle(f)};
  };
  Sample threads = sample("several threads", {2, 33333});
  threads.dtypes = {DType::f32};
  threads.gradient = false;
  return {sample("matrix", {5, 7}),
          sample("images", {2, 3, 4, 5}),
          sample("0-d", {}),
          sample("one element", {1}),
          sample("empty", {2, 0}),
          sample("odd length", {1037}),
          threads,
          {.name = "hostile values",
           .in = {x({16}).of(hostile_values())},
           .call = run,
           .oracle = unary_oracle(f),
           .gradient = false}};
}

Sample unary_integers(const Call1& call, const Double1& f, double low, double high) {
  return {.name = "integers",
          .in = {x({3, 4}).in(low, high).constant()},
          .call = [call](const Args& a) -> Tensors { return {call(a[0])}; },
          .oracle = unary_oracle(f),
          .dtypes = low < 0 ? kSigned : kIntegers,
          .gradient = false};
}

std::vector<Sample> binary_samples(const Call2& call, const Double2& f, double away, Range range) {
  const auto run = [call](const Args& a) -> Tensors { return {call(a[0], a[1])}; };
  const auto sample = [&](const char* name, const Shape& a, const Shape& b) {
    return Sample{.name = name,
                  .in = {x(a).in(range.low, range.high).away(range.away), x(b).away(away)},
                  .call = run,
                  .oracle = binary_oracle(f)};
  };
  std::vector<Sample> samples = {
      sample("same shape", {3, 4}, {3, 4}),
      sample("row", {3, 4}, {4}),
      sample("column", {3, 4}, {3, 1}),
      sample("both broadcast", {2, 1, 3}, {4, 1}),
      sample("0-d", {2, 3}, {}),
      sample("image and channel", {2, 3, 4, 5}, {3, 1, 1}),
      sample("images", {2, 3, 4, 5}, {2, 3, 4, 5}),
      sample("rank 8", {1, 2, 1, 2, 1, 2, 1, 2}, {2, 1, 2, 1, 2, 1, 2, 1}),
      sample("one element", {1}, {1}),
      sample("empty", {0, 3}, {1, 3}),
      sample("odd length", {1037}, {1037}),
      sample("several threads", {2, 36000}, {36000}),
  };
  samples.back().dtypes = {DType::f32};
  samples.back().gradient = false;
  std::vector<double> a;
  std::vector<double> b;
  for (const double u : hostile_values())
    for (const double v : hostile_values()) a.push_back(u), b.push_back(v);
  const auto n = static_cast<int64_t>(a.size());
  samples.push_back({.name = "hostile values",
                     .in = {x({n}).of(a), x({n}).of(b)},
                     .call = run,
                     .oracle = binary_oracle(f),
                     .gradient = false});
  return samples;
}

Sample integers(const Call2& call, const Double2& f) {
  return {.name = "integers",
          .in = {x({3, 4}).in(20, 29).constant(), x({4}).in(0, 9).constant()},
          .call = [call](const Args& a) -> Tensors { return {call(a[0], a[1])}; },
          .oracle = binary_oracle(f),
          .dtypes = kIntegers,
          .gradient = false};
}

Sample booleans(const Call2& call, const Double2& f) {
  return {.name = "booleans",
          .in = {x({2, 2}).of({0, 0, 1, 1}).constant(), x({2, 2}).of({0, 1, 0, 1}).constant()},
          .call = [call](const Args& a) -> Tensors { return {call(a[0], a[1])}; },
          .oracle = binary_oracle(f),
          .dtypes = {DType::boolean},
          .gradient = false};
}

Sample mixed(const Call2& call, const Double2& f) {
  return {.name = "with f64",
          .in = {x({3, 4}).in(0.5, 2), x({3, 4}).away(0.5).as<DType::f64>()},
          .call = [call](const Args& a) -> Tensors { return {call(a[0], a[1])}; },
          .oracle = binary_oracle(f)};
}

std::vector<BadCall> binary_bad(const char* op, const Call2& call) {
  return {bad<ShapeError>(
              op + std::string(": shapes [2, 3] and [4] do not broadcast (dimension 1: 3 and 4)"),
              [call](Device d) { call(zeros({2, 3}, {.device = d}), zeros({4}, {.device = d})); }),
          bad<Error>("an undefined tensor was used",
                     [call](Device d) { call(zeros({2}, {.device = d}), Tensor()); })};
}

BadCall refuses(const char* op, DType dtype, const char* expected, const Call1& call) {
  return bad<DTypeError>(fmt::format("{}: expected {}, got {}", op, expected, dtype),
                         [call, dtype](Device d) { call(zeros({2}, {dtype, d})); });
}

}  // namespace mica::cases
