#include "tests/op_cases/elementwise_samples.h"
#include "tests/op_cases/values.h"

namespace mica::cases {
namespace {

Tensor add_tensors(const Tensor& a, const Tensor& b) { return add(a, b); }
Tensor sub_tensors(const Tensor& a, const Tensor& b) { return sub(a, b); }
Tensor mul_tensors(const Tensor& a, const Tensor& b) { return mul(a, b); }
Tensor div_tensors(const Tensor& a, const Tensor& b) { return div(a, b); }
Tensor pow_tensors(const Tensor& a, const Tensor& b) { return pow(a, b); }
Tensor minimum_tensors(const Tensor& a, const Tensor& b) { return minimum(a, b); }
Tensor maximum_tensors(const Tensor& a, const Tensor& b) { return maximum(a, b); }
Tensor remainder_tensors(const Tensor& a, const Tensor& b) { return remainder(a, b); }
Tensor floor_divide_tensors(const Tensor& a, const Tensor& b) { return floor_divide(a, b); }

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

double min_doubles(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? NAN : std::min(a, b);
}
double max_doubles(double a, double b) {
  return std::isnan(a) || std::isnan(b) ? NAN : std::max(a, b);
}
double remainder_doubles(double a, double b) {
  const double r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
double floor_divide_doubles(double a, double b) {
  const double r = std::fmod(a, b);
  const double whole = std::round((a - r) / b);
  return b == 0 ? a / b : r != 0 && (r < 0) != (b < 0) ? whole - 1 : whole;
}

OpCase choice_case(const char* op, const Call2& call, const Double2& f) {
  OpCase c{.op = op, .samples = binary_samples(call, f), .bad = binary_bad(op, call)};
  for (Sample& s : c.samples) s.in[0] = std::move(s.in[0]).spread();
  c.samples.push_back(integers(call, f));
  c.samples.push_back(booleans(call, f));
  c.samples.push_back(mixed(call, f));
  c.samples.push_back({.name = "equals",
                       .in = {x({4}).of({1, 2, 3, -1}), x({4}).of({1, 2, 5, -2})},
                       .call = [call](const Args& a) -> Tensors { return {call(a[0], a[1])}; },
                       .oracle = binary_oracle(f),
                       .gradient = false});
  return c;
}

OpCase pow_case() {
  const Call2 call = pow_tensors;
  const auto f = [](double a, double b) { return std::pow(a, b); };
  OpCase c{.op = "pow",
           .samples = binary_samples(call, f, 0, {.low = 0.3, .high = 2, .away = 0}),
           .bad = binary_bad("pow", call)};
  c.samples.push_back(mixed(call, f));
  c.samples.push_back({.name = "integers",
                       .in = {x({3, 4}).in(-3, 3).constant(), x({4}).in(0, 4).constant()},
                       .call = [call](const Args& a) -> Tensors { return {call(a[0], a[1])}; },
                       .oracle = binary_oracle(f),
                       .dtypes = kSigned,
                       .gradient = false});
  c.samples.push_back({.name = "negative base, whole power",
                       .in = {x({4}).of({-2, -1.5, 2, -0.5})},
                       .call = [](const Args& a) -> Tensors { return {pow(a[0], 3.0)}; },
                       .oracle = unary_oracle([](double v) { return v * v * v; })});
  c.samples.push_back({.name = "a number to a power",
                       .in = {x({3, 4})},
                       .call = [](const Args& a) -> Tensors { return {pow(2.0, a[0])}; },
                       .oracle = unary_oracle([](double v) { return std::exp2(v); })});
  // The power is constant in a where b is 0, and in b where a is 0.
  c.samples.push_back({.name = "zeros",
                       .in = {x({3}).of({0, 0, 2}), x({3}).of({0, 2, 0})},
                       .call = [call](const Args& a) -> Tensors { return {call(a[0], a[1])}; },
                       .oracle = binary_oracle(f),
                       .gradient = false});
  return c;
}

OpCase division_case(const char* op, const Call2& call, const Double2& f) {
  OpCase c{.op = op, .samples = {}, .bad = binary_bad(op, call)};
  const auto run = [call](const Args& a) -> Tensors { return {call(a[0], a[1])}; };
  const auto sample = [&](const char* name, const Input& a, const Input& b) {
    return Sample{.name = name, .in = {a, b}, .call = run, .oracle = binary_oracle(f)};
  };
  // Quotients stay off whole numbers, where the functions jump.
  c.samples = {
      sample("all signs", x({2, 2}).of({7.5, -7.5, 7.5, -7.5}), x({2, 2}).of({2, 2, -2, -2})),
      sample("broadcast", x({2, 3}).of({1.25, 2.5, 3.75, -1.25, -2.5, -3.75}),
             x({3}).of({0.5, 0.75, -2})),
      sample("one element", x({1}).of({5.5}), x({1}).of({2})),
      sample("empty", x({0, 3}), x({3}).of({1, 2, 3}))};
  Sample threads = sample("several threads", x({2, 36000}).in(-9, 9), x({36000}).in(1, 2));
  threads.dtypes = {DType::f64};
  threads.gradient = false;
  c.samples.push_back(threads);
  std::vector<double> infinite(40, INFINITY);
  for (size_t i = 0; i < infinite.size(); i += 2) infinite[i] = -INFINITY;
  Sample by_infinity = sample("by infinity", x({40}).in(-9, 9), x({40}).of(infinite));
  by_infinity.gradient = false;
  c.samples.push_back(by_infinity);
  Sample whole = sample("integers", x({6}).of({7, 6, 0, 100, 5, 5}).constant(),
                        x({6}).of({2, 3, 5, 7, 1, 9}).constant());
  whole.dtypes = kIntegers;
  whole.gradient = false;
  c.samples.push_back(whole);
  Sample negative = sample("negative integers", x({6}).of({7, -7, 7, -7, -6, 6}).constant(),
                           x({6}).of({2, 2, -2, -2, 3, -1}).constant());
  negative.dtypes = kSigned;
  negative.gradient = false;
  c.samples.push_back(negative);
  for (const DType t : {DType::i64, DType::i32, DType::u64, DType::i8})
    c.bad.push_back(bad<Error>(op + std::string(": an integer was divided by zero"), [=](Device d) {
      const Tensor by = cast(tensor({2.0, 0.0}, {2}, d), t);
      (void)to_host(call(ones({2}, {t, d}), by));  // on CUDA the copy to the host raises
    }));
  return c;
}

OpCase atan2_case() {
  const Call2 call = [](const Tensor& a, const Tensor& b) { return atan2(a, b); };
  const auto f = [](double a, double b) { return std::atan2(a, b); };
  OpCase c{.op = "atan2",
           .samples = binary_samples(call, f, 0.5, {.low = -2, .high = 2, .away = 0.3}),
           .bad = binary_bad("atan2", call)};
  c.samples.push_back(mixed(call, f));
  c.samples.push_back(integers(call, f));
  return c;
}

OpCase lerp_case() {
  const auto run = [](const Args& a) -> Tensors { return {lerp(a[0], a[1], a[2])}; };
  const auto oracle = [](const HostArgs& in) {
    HostArray out = in[0];
    for (int64_t i = 0; i < numel(out.shape); ++i) {
      double& v = out.values[static_cast<size_t>(i)];
      v += broadcast(in[2], out.shape, i) * (broadcast(in[1], out.shape, i) - v);
    }
    return std::vector{out};
  };
  const auto sample = [&](const char* name, const Shape& a, const Shape& b, const Shape& w) {
    return Sample{
        .name = name, .in = {x(a), x(b), x(w).in(-0.5, 1.5)}, .call = run, .oracle = oracle};
  };
  return {.op = "lerp",
          .samples = {sample("same shape", {3, 4}, {3, 4}, {3, 4}),
                      sample("0-d weight", {3, 4}, {4}, {}),
                      sample("images", {2, 3, 4, 5}, {2, 3, 4, 5}, {3, 1, 1}),
                      sample("one element", {1}, {1}, {1}), sample("empty", {0, 2}, {2}, {1}),
                      sample("odd length", {1037}, {1037}, {1037})},
          .bad = {bad<ShapeError>("lerp: shapes [2] and [3] do not broadcast",
                                  [](Device d) {
                                    const Tensor a = zeros({2}, {.device = d});
                                    lerp(a, a, zeros({3}, {.device = d}));
                                  }),
                  bad<DTypeError>("lerp: expected a floating dtype, got i64", [](Device d) {
                    const Tensor a = zeros({2}, {DType::i64, d});
                    lerp(a, a, a);
                  })}};
}

std::vector<Sample> with_integers(const Call1& call, const Double1& f) {
  std::vector<Sample> samples = unary_samples(call, f);
  samples.push_back(unary_integers(call, f, -5, 9));
  return samples;
}

OpCase neg_case() {
  return {
      .op = "neg",
      .samples = with_integers([](const Tensor& t) { return neg(t); }, [](double v) { return -v; }),
      .bad = {bad<DTypeError>("neg: expected", [](Device d) {
        neg(zeros({2}, {.dtype = DType::boolean, .device = d}));
      })}};
}

OpCase relu_case() {
  return {.op = "relu",
          .samples = with_integers([](const Tensor& t) { return relu(t); },
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
  return std::vector<OpCase>{
      add_case(),
      sub_case(),
      mul_case(),
      div_case(),
      neg_case(),
      relu_case(),
      relu_grad_case(),
      choice_case("minimum", minimum_tensors, min_doubles),
      choice_case("maximum", maximum_tensors, max_doubles),
      pow_case(),
      division_case("remainder", remainder_tensors, remainder_doubles),
      division_case("floor_divide", floor_divide_tensors, floor_divide_doubles),
      atan2_case(),
      lerp_case()};
});

}  // namespace
}  // namespace mica::cases
