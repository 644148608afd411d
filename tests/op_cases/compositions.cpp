// Functions that are made of others.
#include <limits>

#include "tests/op_cases/elementwise_samples.h"

namespace mica::cases {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

OpCase pair_case(const char* op, Tensor (*function)(const Tensor&, const Tensor&), const Double2& f,
                 Range first, double away) {
  const Call2 call = [function](const Tensor& a, const Tensor& b) { return function(a, b); };
  return {.op = op, .samples = binary_samples(call, f, away, first), .bad = binary_bad(op, call)};
}

OpCase hypot_case() {
  return pair_case("hypot", hypot, [](double a, double b) { return std::hypot(a, b); }, {}, 0.3);
}

OpCase copysign_case() {
  const auto f = [](double a, double b) { return std::copysign(a, b); };
  return pair_case("copysign", copysign, f, {.away = 0.1}, 0.1);
}

OpCase logaddexp_case() {
  const auto f = [](double a, double b) {
    if (std::isnan(a) || std::isnan(b)) return a + b;
    const double larger = std::max(a, b);
    return std::isinf(larger) ? larger : larger + std::log1p(std::exp(std::min(a, b) - larger));
  };
  return pair_case("logaddexp", logaddexp, f, {.away = 0}, 0);
}

OpCase fmod_case() {
  const auto f = [](double a, double b) { return std::fmod(a, b); };
  OpCase c = pair_case("fmod", fmod, f, {}, 0.3);
  for (Sample& s : c.samples) s.gradient = false;  // it jumps; tests/python has it off the jumps
  c.samples.push_back(mixed([](const Tensor& a, const Tensor& b) { return fmod(a, b); }, f));
  c.samples.back().gradient = false;
  return c;
}

OpCase nan_to_num_case() {
  const Call1 call = [](const Tensor& x) {
    return nan_to_num(x, {.nan = 0.5, .posinf = 2, .neginf = -3});
  };
  const auto f = [](double v) {
    if (std::isnan(v)) return 0.5;
    return v == kInfinity ? 2 : (v == -kInfinity ? -3 : v);
  };
  OpCase c{.op = "nan_to_num",
           .samples = unary_samples(call, f, {.away = 0}),
           .bad = {bad<Error>("undefined", [](Device) { nan_to_num(Tensor()); })}};
  c.samples.push_back(unary_integers(call, f));
  return c;
}

const Room kRoom([] {
  return std::vector<OpCase>{hypot_case(), copysign_case(), logaddexp_case(), fmod_case(),
                             nan_to_num_case()};
});

}  // namespace
}  // namespace mica::cases
