#include <algorithm>
#include <cmath>

#include "tests/op_cases/op_case.h"

namespace mica::cases {
namespace {

using Call1 = Tensor (*)(const Tensor&);
using Call2 = Tensor (*)(const Tensor&, const Tensor&);

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

auto binary_oracle(double (*f)(double, double)) {
  return [f](const HostArgs& in) {
    HostArray out{broadcast_shapes(in[0].shape, in[1].shape, "oracle"), {}};
    for (int64_t i = 0; i < numel(out.shape); ++i)
      out.values.push_back(f(broadcast(in[0], out.shape, i), broadcast(in[1], out.shape, i)));
    return std::vector{out};
  };
}

/// Samples every binary operator takes. `away` keeps the second operand from zero.
std::vector<Sample> binary_samples(Call2 call, double (*f)(double, double), double away = 0) {
  const auto run = [call](const Args& a) -> Tensors { return {call(a[0], a[1])}; };
  const auto sample = [&](const char* name, const Shape& a, const Shape& b) {
    return Sample{
        .name = name, .in = {x(a), x(b).away(away)}, .call = run, .oracle = binary_oracle(f)};
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

Sample integers(Call2 call, double (*f)(double, double)) {
  return {.name = "integers",
          .in = {x({3, 4}).in(20, 29).constant(), x({4}).in(0, 9).constant()},
          .call = [call](const Args& a) -> Tensors { return {call(a[0], a[1])}; },
          .oracle = binary_oracle(f),
          .dtypes = kIntegers,
          .gradient = false};
}

Sample booleans(Call2 call, double (*f)(double, double)) {
  return {.name = "booleans",
          .in = {x({2, 2}).of({0, 0, 1, 1}).constant(), x({2, 2}).of({0, 1, 0, 1}).constant()},
          .call = [call](const Args& a) -> Tensors { return {call(a[0], a[1])}; },
          .oracle = binary_oracle(f),
          .dtypes = {DType::boolean},
          .gradient = false};
}

/// Two dtypes meet: the narrower is cast.
Sample mixed(Call2 call, double (*f)(double, double)) {
  return {.name = "with f64",
          .in = {x({3, 4}), x({3, 4}).away(0.5).as<DType::f64>()},
          .call = [call](const Args& a) -> Tensors { return {call(a[0], a[1])}; },
          .oracle = binary_oracle(f)};
}

std::vector<BadCall> binary_bad(const char* op, Call2 call) {
  return {bad<ShapeError>(
              op + std::string(": shapes [2, 3] and [4] do not broadcast (dimension 1: 3 and 4)"),
              [call](Device d) { call(zeros({2, 3}, {.device = d}), zeros({4}, {.device = d})); }),
          bad<Error>("an undefined tensor was used",
                     [call](Device d) { call(zeros({2}, {.device = d}), Tensor()); })};
}

std::vector<Sample> unary_samples(Call1 call, double (*f)(double)) {
  const auto run = [call](const Args& a) -> Tensors { return {call(a[0])}; };
  const auto oracle = [f](const HostArgs& in) {
    HostArray out = in[0];
    for (double& v : out.values) v = f(v);
    return std::vector{out};
  };
  const auto sample = [&](const char* name, const Shape& shape) {
    return Sample{.name = name, .in = {x(shape).away(0.1)}, .call = run, .oracle = oracle};
  };
  Sample threads = sample("several threads", {2, 33333});
  threads.dtypes = {DType::f32};
  return {sample("matrix", {5, 7}),
          sample("images", {2, 3, 4, 5}),
          sample("0-d", {}),
          sample("one element", {1}),
          sample("empty", {2, 0}),
          threads,
          {.name = "hostile values",
           .in = {x({16}).of(hostile_values())},
           .call = run,
           .oracle = oracle,
           .gradient = false},
          {.name = "integers",
           .in = {x({3, 4}).in(0, 9).constant()},
           .call = run,
           .oracle = oracle,
           .dtypes = {DType::i64, DType::i32},
           .gradient = false}};
}

Tensor add_tensors(const Tensor& a, const Tensor& b) { return add(a, b); }
Tensor sub_tensors(const Tensor& a, const Tensor& b) { return sub(a, b); }
Tensor mul_tensors(const Tensor& a, const Tensor& b) { return mul(a, b); }
Tensor div_tensors(const Tensor& a, const Tensor& b) { return div(a, b); }

double add_doubles(double a, double b) { return a + b; }
double sub_doubles(double a, double b) { return a - b; }
double mul_doubles(double a, double b) { return a * b; }
double div_doubles(double a, double b) { return a / b; }

OpCase add_case() {
  OpCase c{.op = "add",
           .samples = binary_samples(add_tensors, add_doubles),
           .bad = binary_bad("add", add_tensors)};
  c.samples.push_back(integers(add_tensors, add_doubles));
  c.samples.push_back(booleans(add_tensors, [](double a, double b) { return std::max(a, b); }));
  c.samples.push_back(mixed(add_tensors, add_doubles));
  return c;
}

OpCase sub_case() {
  OpCase c{.op = "sub",
           .samples = binary_samples(sub_tensors, sub_doubles),
           .bad = binary_bad("sub", sub_tensors)};
  c.samples.push_back(integers(sub_tensors, sub_doubles));
  c.samples.push_back(mixed(sub_tensors, sub_doubles));
  return c;
}

OpCase mul_case() {
  OpCase c{.op = "mul",
           .samples = binary_samples(mul_tensors, mul_doubles),
           .bad = binary_bad("mul", mul_tensors)};
  c.samples.push_back(integers(mul_tensors, mul_doubles));
  c.samples.push_back(booleans(mul_tensors, [](double a, double b) { return std::min(a, b); }));
  c.samples.push_back(mixed(mul_tensors, mul_doubles));
  return c;
}

OpCase div_case() {
  OpCase c{.op = "div",
           .samples = binary_samples(div_tensors, div_doubles, 0.5),
           .bad = binary_bad("div", div_tensors)};
  c.samples.push_back(mixed(div_tensors, div_doubles));
  c.samples.push_back({.name = "integers give f32",
                       .in = {x({3, 4}).in(0, 9).constant(), x({4}).in(1, 9).constant()},
                       .call = [](const Args& a) -> Tensors { return {div(a[0], a[1])}; },
                       .oracle = binary_oracle(div_doubles),
                       .dtypes = kIntegers,
                       .gradient = false});
  return c;
}

OpCase neg_case() {
  return {
      .op = "neg",
      .samples = unary_samples([](const Tensor& t) { return neg(t); }, [](double v) { return -v; }),
      .bad = {bad<DTypeError>("neg: expected", [](Device d) {
        neg(zeros({2}, {.dtype = DType::boolean, .device = d}));
      })}};
}

OpCase relu_case() {
  return {.op = "relu",
          .samples = unary_samples([](const Tensor& t) { return relu(t); },
                                   [](double v) { return v < 0 ? 0 : v; }),
          .bad = {bad<DTypeError>("relu: expected", [](Device d) {
            relu(zeros({2}, {.dtype = DType::boolean, .device = d}));
          })}};
}

OpCase relu_grad_case() {
  const auto run = [](const Args& a) -> Tensors { return {relu_grad(a[0], a[1])}; };
  const auto oracle = binary_oracle([](double dy, double y) { return y > 0 ? dy : 0.0; });
  const auto sample = [&](const char* name, const Shape& shape) {
    return Sample{
        .name = name, .in = {x(shape), x(shape).away(0.1)}, .call = run, .oracle = oracle};
  };
  return {.op = "relu_grad",
          .samples = {sample("matrix", {5, 7}), sample("images", {2, 3, 4, 5}),
                      sample("one element", {1}), sample("empty", {0}),
                      Sample{.name = "hostile values",
                             .in = {x({16}), x({16}).of(hostile_values())},
                             .call = run,
                             .oracle = oracle,
                             .gradient = false}},
          .bad = {bad<DTypeError>("relu_grad: operands must have one dtype, got f32 and f64",
                                  [](Device d) {
                                    relu_grad(zeros({2}, {.device = d}),
                                              zeros({2}, {DType::f64, d}));
                                  }),
                  bad<ShapeError>("relu_grad: shapes [2] and [3] do not broadcast", [](Device d) {
                    relu_grad(zeros({2}, {.device = d}), zeros({3}, {.device = d}));
                  })}};
}

const Room kRoom([] {
  return std::vector<OpCase>{add_case(), sub_case(),  mul_case(),      div_case(),
                             neg_case(), relu_case(), relu_grad_case()};
});

}  // namespace
}  // namespace mica::cases
