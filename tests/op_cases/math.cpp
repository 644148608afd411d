#include "tests/op_cases/elementwise_samples.h"

namespace mica::cases {
namespace {

/// A function of floats, tested over `range`; integers in [low, high] give f32.
struct Function {
  const char* name;
  Tensor (*call)(const Tensor&);
  double (*value)(double);
  Range range = {};
  double low = 0;
  double high = 9;
};

double round_even(double v) { return std::nearbyint(v); }
double sign_of(double v) { return v > 0 ? 1 : v < 0 ? -1 : v; }

const Function kFunctions[] = {
    {"exp", exp, std::exp},
    {"exp2", exp2, std::exp2},
    {"expm1", expm1, std::expm1},
    {"log", log, std::log, {.low = 0.2, .high = 4}, 1},
    {"log2", log2, std::log2, {.low = 0.2, .high = 4}, 1},
    {"log10", log10, std::log10, {.low = 0.2, .high = 4}, 1},
    {"log1p", log1p, std::log1p, {.low = -0.7, .high = 4}},
    {"sqrt", sqrt, std::sqrt, {.low = 0.2, .high = 4}},
    {"rsqrt", rsqrt, [](double v) { return 1 / std::sqrt(v); }, {.low = 0.2, .high = 4}, 1},
    {"reciprocal", reciprocal, [](double v) { return 1 / v; }, {.away = 0.4}, 1},
    {"sigmoid", sigmoid, [](double v) { return 1 / (1 + std::exp(-v)); }, {.low = -3, .high = 3}},
    {"erf", erf, std::erf, {.low = -3, .high = 3}},
    {"sin", sin, std::sin, {.low = -9, .high = 9}},
    {"cos", cos, std::cos, {.low = -9, .high = 9}},
    {"tan", tan, std::tan, {.low = -1.3, .high = 1.3}},
    {"asin", asin, std::asin, {.low = -0.9, .high = 0.9}, 0, 1},
    {"acos", acos, std::acos, {.low = -0.9, .high = 0.9}, 0, 1},
    {"atan", atan, std::atan},
    {"sinh", sinh, std::sinh},
    {"cosh", cosh, std::cosh},
    {"tanh", tanh, std::tanh},
    {"asinh", asinh, std::asinh},
    {"acosh", acosh, std::acosh, {.low = 1.2, .high = 4}, 1},
    {"atanh", atanh, std::atanh, {.low = -0.9, .high = 0.9}, 0, 0},
};

OpCase function_case(const Function& f) {
  OpCase c{.op = f.name,
           .samples = unary_samples(f.call, f.value, f.range),
           .bad = {bad<Error>("undefined", [f](Device) { f.call(Tensor()); })}};
  c.samples.push_back(unary_integers(f.call, f.value, f.low, f.high));
  return c;
}

OpCase erfc_case() {
  const Function f = {"erfc", erfc, std::erfc, {.low = -3, .high = 3}};
  OpCase c = function_case(f);
  // Where it is small: values of one size, so that each one's own digits count.
  for (const double from : {0.4, 1.5, 4.0, 9.0, 15.0, 26.0})
    c.samples.push_back(
        {.name = "from " + std::to_string(from),
         .in = {x({37}).in(from, from + 0.1)},
         .call = [](const Args& a) -> Tensors { return {erfc(a[0])}; },
         .oracle = unary_oracle(f.value),
         .dtypes = from < 9 ? std::vector{DType::f64, DType::f32} : std::vector{DType::f64},
         .gradient = from < 2});
  // Two exponentials, of whose errors it has the sum.
  c.tolerance = Tolerances{{1e-15, 4e-7, 1e-3, 8e-3}, {1e-15, 6e-7, 3e-3, 2.4e-2}};
  return c;
}

// These keep integers.
const Function kWhole[] = {
    {"square", square, [](double v) { return v * v; }},
    {"abs", abs, [](double v) { return std::fabs(v); }, {.away = 0.2}, -5},
    {"sign", sign, sign_of, {.away = 0.2}, -5},
};

OpCase whole_case(const Function& f) {
  OpCase c = function_case(f);
  const bool complex_too = std::string_view(f.name) == "square";
  c.bad.push_back(
      refuses(f.name, DType::boolean, complex_too ? "numbers" : "real numbers", f.call));
  return c;
}

// Values stay off the jumps: differences see the flat parts.
const Function kRounding[] = {
    {"floor", floor, std::floor},
    {"ceil", ceil, std::ceil},
    {"trunc", trunc, std::trunc},
    {"round", round, round_even},
};

OpCase rounding_case(const Function& f) {
  OpCase c = function_case(f);
  for (Sample& s : c.samples) s.gradient = false;
  c.samples.push_back({.name = "between the jumps",
                       .in = {x({8}).of({0.25, 0.75, 1.25, -0.25, -0.75, -1.25, 2.25, -2.75})},
                       .call = [&f](const Args& a) -> Tensors { return {f.call(a[0])}; },
                       .oracle = unary_oracle(f.value)});
  c.samples.push_back({.name = "halves",
                       .in = {x({8}).of({0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 3.5, -3.5})},
                       .call = [&f](const Args& a) -> Tensors { return {f.call(a[0])}; },
                       .oracle = unary_oracle(f.value),
                       .gradient = false,
                       .exact = true});
  return c;
}

/// dy times a function of the result y.
OpCase from_result_case(const char* op, Tensor (*call)(const Tensor&, const Tensor&),
                        double (*slope)(double)) {
  const auto f = [slope](double dy, double y) { return dy * slope(y); };
  OpCase c{.op = op,
           .samples = {},
           .bad = {bad<ShapeError>(
               std::string(op) + ": shapes [2] and [3] do not broadcast",
               [call](Device d) { call(zeros({2}, {.device = d}), zeros({3}, {.device = d})); })}};
  for (const Shape& shape : {Shape{3, 4}, Shape{2, 3, 4, 5}, Shape{1}, Shape{0, 2}, Shape{1037}})
    c.samples.push_back({.name = to_string(shape),
                         .in = {x(shape), x(shape).in(0.1, 0.9)},
                         .call = [call](const Args& a) -> Tensors { return {call(a[0], a[1])}; },
                         .oracle = binary_oracle(f)});
  return c;
}

const Room kRoom([] {
  std::vector<OpCase> cases;
  for (const Function& f : kFunctions) cases.push_back(function_case(f));
  cases.push_back(erfc_case());
  for (const Function& f : kWhole) cases.push_back(whole_case(f));
  for (const Function& f : kRounding) cases.push_back(rounding_case(f));
  cases.push_back(from_result_case("tanh_grad", tanh_grad, [](double y) { return 1 - y * y; }));
  cases.push_back(
      from_result_case("sigmoid_grad", sigmoid_grad, [](double y) { return y * (1 - y); }));
  return cases;
});

}  // namespace
}  // namespace mica::cases
