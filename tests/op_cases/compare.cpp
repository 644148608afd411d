#include "tests/op_cases/elementwise_samples.h"

namespace mica::cases {
namespace {

using Pair = Tensor (*)(const Tensor&, const Tensor&);

std::vector<Sample> without_gradient(std::vector<Sample> samples) {
  for (Sample& s : samples) s.gradient = false;
  return samples;
}

/// Operands that meet often: comparisons must see equals.
Sample meeting(const Call2& call, const Double2& f) {
  return {.name = "equals among them",
          .in = {x({2, 4}).of({0, 1, 2, 3, 3, 2, 1, 0}), x({4}).of({1, 1, 2, 2})},
          .call = [call](const Args& a) -> Tensors { return {call(a[0], a[1])}; },
          .oracle = binary_oracle(f),
          .gradient = false};
}

OpCase truth_case(const char* op, Pair pair, double (*f)(double, double)) {
  const Call2 call = pair;
  OpCase c{
      .op = op, .samples = without_gradient(binary_samples(call, f)), .bad = binary_bad(op, call)};
  c.samples.push_back(meeting(call, f));
  c.samples.push_back(integers(call, f));
  c.samples.push_back(booleans(call, f));
  c.samples.push_back(mixed(call, f));
  c.samples.back().gradient = false;
  return c;
}

OpCase test_case(const char* op, Tensor (*call)(const Tensor&), double (*f)(double)) {
  OpCase c{.op = op,
           .samples = without_gradient(unary_samples(call, f)),
           .bad = {bad<Error>("input 0 (x) is undefined", [call](Device) { call(Tensor()); })}};
  c.samples.push_back(unary_integers(call, f, 0, 2));
  return c;
}

int64_t whole(double v) { return static_cast<int64_t>(v); }

/// Of integers; `booleans` where bool is taken too.
OpCase bits_case(const char* op, Pair call, int64_t (*f)(int64_t, int64_t), bool bools) {
  const auto value = [f](double a, double b) { return static_cast<double>(f(whole(a), whole(b))); };
  const auto run = [call](const Args& a) -> Tensors { return {call(a[0], a[1])}; };
  const auto sample = [&](const char* name, const Input& a, const Input& b) {
    return Sample{.name = name,
                  .in = {a, b},
                  .call = run,
                  .oracle = binary_oracle(value),
                  .dtypes = kIntegers,
                  .gradient = false};
  };
  OpCase c{
      .op = op,
      .samples = {sample("broadcast", x({3, 4}).in(0, 15).constant(), x({4}).in(0, 3).constant()),
                  sample("one element", x({1}).of({5}).constant(), x({1}).of({2}).constant()),
                  sample("empty", x({0, 2}).constant(), x({2}).in(0, 3).constant())},
      .bad = {bad<DTypeError>(std::string(op) + ": expected " +
                                  (bools ? "integers or bool" : "an integer dtype") + ", got f32",
                              [call](Device d) {
                                const Tensor t = zeros({2}, {.device = d});
                                call(t, t);
                              })}};
  Sample negative =
      sample("negative", x({4}).of({-8, -7, -1, 6}).constant(), x({4}).of({1, 2, 3, 1}).constant());
  negative.dtypes = kSigned;
  c.samples.push_back(negative);
  if (bools) c.samples.push_back(booleans(call, value));
  return c;
}

OpCase bitwise_not_case() {
  const auto run = [](const Args& a) -> Tensors { return {bitwise_not(a[0])}; };
  const auto sample = [&](const char* name, Input in, std::vector<DType> dtypes, const Double1& f) {
    return Sample{.name = name,
                  .in = {std::move(in).constant()},
                  .call = run,
                  .oracle = unary_oracle(f),
                  .dtypes = std::move(dtypes),
                  .gradient = false};
  };
  const auto signed_not = [](double v) { return static_cast<double>(~whole(v)); };
  return {.op = "bitwise_not",
          .samples = {sample("signed", x({4}).of({0, 1, -1, 100}), kSigned, signed_not),
                      sample("bytes", x({3}).of({0, 1, 255}), {DType::u8},
                             [](double v) { return 255 - v; }),
                      sample("one element", x({1}).of({5}), {DType::i64}, signed_not),
                      sample("empty", x({0}), {DType::i64}, signed_not)},
          .bad = {refuses("bitwise_not", DType::f32, "an integer dtype", bitwise_not)}};
}

const Room kRoom([] {
  return std::vector<OpCase>{
      truth_case("eq", eq, [](double a, double b) { return a == b ? 1.0 : 0.0; }),
      truth_case("ne", ne, [](double a, double b) { return a != b ? 1.0 : 0.0; }),
      truth_case("lt", lt, [](double a, double b) { return a < b ? 1.0 : 0.0; }),
      truth_case("le", le, [](double a, double b) { return a <= b ? 1.0 : 0.0; }),
      truth_case("gt", gt, [](double a, double b) { return a > b ? 1.0 : 0.0; }),
      truth_case("ge", ge, [](double a, double b) { return a >= b ? 1.0 : 0.0; }),
      truth_case("logical_and", logical_and,
                 [](double a, double b) { return a != 0 && b != 0 ? 1.0 : 0.0; }),
      truth_case("logical_or", logical_or,
                 [](double a, double b) { return a != 0 || b != 0 ? 1.0 : 0.0; }),
      truth_case("logical_xor", logical_xor,
                 [](double a, double b) { return (a != 0) != (b != 0) ? 1.0 : 0.0; }),
      test_case("logical_not", logical_not, [](double v) { return v == 0 ? 1.0 : 0.0; }),
      test_case("isnan", isnan, [](double v) { return std::isnan(v) ? 1.0 : 0.0; }),
      test_case("isinf", isinf, [](double v) { return std::isinf(v) ? 1.0 : 0.0; }),
      test_case("isfinite", isfinite, [](double v) { return std::isfinite(v) ? 1.0 : 0.0; }),
      test_case("signbit", signbit, [](double v) { return std::signbit(v) ? 1.0 : 0.0; }),
      bits_case(
          "bitwise_and", bitwise_and, [](int64_t a, int64_t b) { return a & b; }, true),
      bits_case(
          "bitwise_or", bitwise_or, [](int64_t a, int64_t b) { return a | b; }, true),
      bits_case(
          "bitwise_xor", bitwise_xor, [](int64_t a, int64_t b) { return a ^ b; }, true),
      bits_case(
          "left_shift", left_shift, [](int64_t a, int64_t b) { return a * (1 << b); }, false),
      bits_case(
          "right_shift", right_shift, [](int64_t a, int64_t b) { return a >> b; }, false),
      bitwise_not_case()};
});

}  // namespace
}  // namespace mica::cases
