// Functions that compute each element of the result from elements of their operands, by other ops.
#include "tests/op_cases/composites.h"

namespace mica::cases {
namespace {

OpCase of_one(const char* op, const Call1& call, const Double1& f, Range range = {}) {
  OpCase c{.op = op,
           .samples = unary_samples(call, f, range),
           .bad = {refuses_undefined(call)},
           .tolerance = kSeveralRoundings};
  return c;
}

double to_limits(double v, double low, double high) {
  return v < low ? low : (v > high ? high : v);  // NaN stays
}

std::vector<OpCase> activations() {
  // Off the kinks: at 0 and 6, at the limits, at ±lambd.
  const Range below = {.low = -2, .high = 0.45, .away = 0.1};
  OpCase celu_case = of_one(
      "celu", [](const Tensor& x) { return celu(x, 0.7); },
      [](double v) { return v > 0 ? v : 0.7 * std::expm1(v / 0.7); });
  celu_case.bad.push_back(bad<Error>("celu: alpha must not be 0",
                                     [](Device d) { celu(zeros({2}, {.device = d}), 0); }));
  OpCase soft = of_one(
      "softshrink", [](const Tensor& x) { return softshrink(x, 0.05); },
      [](double v) { return v > 0.05 ? v - 0.05 : (v < -0.05 ? v + 0.05 : v - v); });
  soft.bad.push_back(bad<Error>("softshrink: lambd must not be negative, got -1",
                                [](Device d) { softshrink(zeros({2}, {.device = d}), -1); }));
  return {
      of_one("relu6", relu6, [](double v) { return to_limits(v, 0, 6); }),
      of_one("softsign", softsign, [](double v) { return v / (1 + std::fabs(v)); },
             {.low = -2, .high = 2, .away = 0.2}),
      of_one("tanhshrink", tanhshrink, [](double v) { return v - std::tanh(v); },
             {.low = 0.5, .high = 2}),
      of_one(
          "hardtanh", [](const Tensor& x) { return hardtanh(x, -3, 0.05); },
          [](double v) { return to_limits(v, -3, 0.05); }, below),
      celu_case,
      of_one(
          "hardshrink", [](const Tensor& x) { return hardshrink(x, 0.05); },
          [](double v) { return std::fabs(v) <= 0.05 ? 0 : v; }),
      soft,
      of_one(
          "threshold", [](const Tensor& x) { return threshold(x, 0.05, 7); },
          [](double v) { return v <= 0.05 ? 7 : v; }),
  };
}

OpCase xlogy_case() {
  const Call2 call = [](const Tensor& a, const Tensor& b) { return xlogy(a, b); };
  const auto f = [](double a, double b) { return a == 0 && !std::isnan(b) ? 0 : a * std::log(b); };
  OpCase c{.op = "xlogy",
           .samples = binary_samples(call, f),
           .bad = {bad<ShapeError>("shapes [2, 3] and [4] do not broadcast",
                                   [call](Device d) {
                                     call(zeros({2, 3}, {.device = d}), zeros({4}, {.device = d}));
                                   })},
           .tolerance = kSeveralRoundings};
  for (Sample& s : c.samples) {
    if (s.name != "hostile values") s.in[1] = std::move(s.in[1]).in(0.3, 3);
  }
  return c;
}

OpCase three_case(const char* op,
                  Tensor (*call)(const Tensor&, const Tensor&, const Tensor&, Number),
                  double (*f)(double, double, double)) {
  const auto sample = [=](const char* name, const Shape& a, const Shape& b, const Shape& c) {
    const auto oracle = [=](const HostArgs& in) {
      const Shape both = broadcast_shapes(in[0].shape, in[1].shape, "oracle");
      HostArray out{broadcast_shapes(both, in[2].shape, "oracle"), {}};
      for (int64_t i = 0; i < numel(out.shape); ++i)
        out.values.push_back(f(broadcast(in[0], out.shape, i), broadcast(in[1], out.shape, i),
                               broadcast(in[2], out.shape, i)));
      return std::vector{out};
    };
    return composite_sample(
        name, {x(a), x(b), x(c).in(0.5, 2)},
        [=](const Args& in) { return call(in[0], in[1], in[2], 2.5); }, oracle);
  };
  return {.op = op,
          .samples = {sample("same shape", {3, 4}, {3, 4}, {3, 4}),
                      sample("broadcast", {3, 4}, {4}, {3, 1}), sample("0-d", {}, {}, {}),
                      sample("one element", {1}, {1}, {1}), sample("empty", {0, 3}, {3}, {3})},
          .bad = {bad<ShapeError>("do not broadcast",
                                  [call](Device d) {
                                    const Tensor two = zeros({2}, {.device = d});
                                    call(two, two, zeros({3}, {.device = d}), 1);
                                  })},
          .tolerance = kSeveralRoundings};
}

OpCase isclose_case() {
  const Call2 call = [](const Tensor& a, const Tensor& b) {
    return isclose(a, b, {.rtol = 0.25, .atol = 0.5});
  };
  const auto f = [](double a, double b) -> double {
    return a == b || (std::isfinite(b) && std::fabs(a - b) <= 0.5 + 0.25 * std::fabs(b));
  };
  const auto oracle = binary_oracle(f);
  const auto sample = [&](const char* name, const Shape& a, const Shape& b) {
    return composite_sample(
        name, {x(a), x(b)}, [call](const Args& in) { return call(in[0], in[1]); }, oracle, false);
  };
  const std::vector<double> hostile = hostile_values();
  Sample special = sample("hostile values", {16}, {16});
  special.in = {x({16}).of(hostile), x({16}).of(hostile)};
  return {.op = "isclose",
          .samples = {sample("same shape", {5, 7}, {5, 7}), sample("broadcast", {5, 7}, {7}),
                      sample("one element", {1}, {1}), sample("empty", {0, 2}, {2}), special},
          .bad = {bad<Error>("isclose: rtol and atol must be at least 0", [](Device d) {
            const Tensor one = zeros({1}, {.device = d});
            isclose(one, one, {.rtol = -1});
          })}};
}

/// A function that gives a bool, which it waits for.
OpCase answer_case(const char* op, bool (*call)(const Tensor&, const Tensor&)) {
  const auto sample = [call](const char* name, std::vector<double> a, std::vector<double> b,
                             double answer) {
    const auto n = static_cast<int64_t>(a.size());
    Sample s = composite_sample(
        name, {x({n}).of(std::move(a)), x({n}).of(std::move(b))},
        [call](const Args& in) {
          return full({}, call(in[0], in[1]) ? 1 : 0, {.device = in.device});
        },
        [answer](const HostArgs&) { return std::vector{HostArray{{}, {answer}}}; }, false);
    s.compiled = false;
    return s;
  };
  const double nan = std::nan("");
  return {.op = op,
          .samples = {sample("alike", {1, -2, 3}, {1, -2, 3}, 1),
                      sample("one differs", {1, -2, 3}, {1, -2, 3.5}, 0),
                      sample("NaN", {1, nan}, {1, nan}, 0), sample("one element", {2}, {2}, 1),
                      sample("empty", {}, {}, 1)},
          .bad = {bad<Error>("undefined",
                             [call](Device d) { call(zeros({1}, {.device = d}), Tensor()); })}};
}

const Room kRoom([] {
  std::vector<OpCase> cases = activations();
  cases.push_back(xlogy_case());
  cases.push_back(
      three_case("addcmul", addcmul, [](double v, double a, double b) { return v + 2.5 * a * b; }));
  cases.push_back(
      three_case("addcdiv", addcdiv, [](double v, double a, double b) { return v + 2.5 * a / b; }));
  cases.push_back(isclose_case());
  cases.push_back(
      answer_case("allclose", [](const Tensor& a, const Tensor& b) { return allclose(a, b); }));
  cases.push_back(
      answer_case("equal", [](const Tensor& a, const Tensor& b) { return mica::equal(a, b); }));
  return cases;
});

}  // namespace
}  // namespace mica::cases
