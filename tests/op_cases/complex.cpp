#include <cmath>
#include <numbers>

#include "tests/op_cases/complex_pairs.h"

namespace mica::cases {
namespace {

using Function1 = Tensor (*)(const Tensor&);

/// A function of complex numbers, element by element, with real or complex results.
template <class F>
Sample sample(const char* name, const Shape& shape, Function1 call, F f, double away = 0.2) {
  return {.name = name,
          .in = {x(with_pairs(shape)).away(away)},
          .call = [call](const Args& a) -> Tensors { return {shown(call(numbers(a[0])))}; },
          .oracle =
              [f](const HostArgs& in) {
                Numbers results;
                HostArray real{without_pairs(in[0].shape), {}};
                for (const Number v : numbers_of(in[0])) {
                  const auto y = f(v);
                  if constexpr (std::is_same_v<decltype(f(v)), double>) {
                    real.values.push_back(y);
                  } else {
                    results.push_back(y);
                  }
                }
                if constexpr (std::is_same_v<decltype(f(Number())), double>)
                  return std::vector{real};
                return std::vector{pairs_of(real.shape, results)};
              },
          .dtypes = kParts};
}

template <class F>
OpCase unary_case(const char* op, Function1 call, F f) {
  OpCase c{.op = op,
           .samples = {sample("vector", {7}, call, f), sample("matrix", {3, 4}, call, f),
                       sample("one element", {1}, call, f), sample("empty", {0, 3}, call, f)},
           .bad = {bad<Error>("undefined", [call](Device) { call(Tensor()); })},
           .no_single = "a number has two parts",
           .tolerance = Tolerances{{1e-14, 2e-6, 0, 0}, {1e-13, 1e-5, 0, 0}}};
  return c;
}

void append(OpCase& c, Sample s) { c.samples.push_back(std::move(s)); }

OpCase complex_case() {
  const auto pair_sample = [](const char* name, const Shape& a, const Shape& b) {
    return Sample{.name = name,
                  .in = {x(a), x(b)},
                  .call = [](const Args& args) -> Tensors {
                    return {view_as_real(complex(args[0], args[1]))};
                  },
                  .oracle =
                      [](const HostArgs& in) {
                        const Shape shape = broadcast_shapes(in[0].shape, in[1].shape, "oracle");
                        const auto n = static_cast<size_t>(numel(shape));
                        Numbers all;
                        for (size_t i = 0; i < n; ++i)
                          all.emplace_back(
                              in[0].values[i % std::max<size_t>(1, in[0].values.size())],
                              in[1].values[i % std::max<size_t>(1, in[1].values.size())]);
                        return std::vector{pairs_of(shape, all)};
                      },
                  .dtypes = kParts,
                  .exact = true};
  };
  OpCase c{.op = "complex",
           .samples = {pair_sample("same shape", {3, 4}, {3, 4}), pair_sample("row", {3, 4}, {4}),
                       pair_sample("numbers", {}, {}), pair_sample("one element", {1}, {1}),
                       pair_sample("empty", {0, 2}, {2})},
           .bad = {bad<DTypeError>("complex: expected real parts, got c64", [](Device d) {
             const Tensor z = zeros({2}, {DType::c64, d});
             complex(z, z);
           })}};
  return c;
}

/// Functions and arithmetic of ops that have kernels for complex numbers, in their own cases.
std::vector<MoreSample> more_samples() {
  std::vector<MoreSample> all;
  constexpr Tolerances kFew = {{1e-13, 4e-6, 0, 0}, {1e-12, 2e-5, 0, 0}};
  const auto function = [&](const char* op, Function1 call, Number (*f)(const Number&)) {
    Sample s = sample("complex", {3, 4}, call, [f](Number v) { return f(v); });
    s.layouts = false;
    all.push_back({op, std::move(s), kFew});
  };
  function("exp", exp, [](const Number& v) { return std::exp(v); });
  function("log", log, [](const Number& v) { return std::log(v); });
  function("log10", log10, [](const Number& v) { return std::log10(v); });
  function("sqrt", sqrt, [](const Number& v) { return std::sqrt(v); });
  function("sin", sin, [](const Number& v) { return std::sin(v); });
  function("cos", cos, [](const Number& v) { return std::cos(v); });
  function("tan", tan, [](const Number& v) { return std::tan(v); });
  function("asin", asin, [](const Number& v) { return std::asin(v); });
  function("acos", acos, [](const Number& v) { return std::acos(v); });
  function("atan", atan, [](const Number& v) { return std::atan(v); });
  function("sinh", sinh, [](const Number& v) { return std::sinh(v); });
  function("cosh", cosh, [](const Number& v) { return std::cosh(v); });
  function("tanh", tanh, [](const Number& v) { return std::tanh(v); });
  function("asinh", asinh, [](const Number& v) { return std::asinh(v); });
  function("acosh", acosh, [](const Number& v) { return std::acosh(v); });
  function("atanh", atanh, [](const Number& v) { return std::atanh(v); });
  function("expm1", expm1, [](const Number& v) { return std::exp(v) - 1.0; });
  function("log1p", log1p, [](const Number& v) { return std::log(v + 1.0); });
  function("exp2", exp2, [](const Number& v) { return std::pow(Number(2), v); });
  function("log2", log2, [](const Number& v) { return std::log(v) / std::numbers::ln2; });
  function("reciprocal", reciprocal, [](const Number& v) { return 1.0 / v; });
  function("rsqrt", rsqrt, [](const Number& v) { return 1.0 / std::sqrt(v); });
  function("sigmoid", sigmoid, [](const Number& v) { return 1.0 / (1.0 + std::exp(-v)); });
  function("square", square, [](const Number& v) { return v * v; });
  function("neg", neg, [](const Number& v) { return -v; });
  function("sign", sign, [](const Number& v) { return v / std::abs(v); });
  function(
      "pow", [](const Tensor& t) { return pow(t, 3); }, [](const Number& v) { return v * v * v; });
  function(
      "sub", [](const Tensor& t) { return sub(mul(t, Number(2, -1)), 0.5); },
      [](const Number& v) { return v * Number(2, -1) - 0.5; });

  const auto two = [&](const char* op, Tensor (*call)(const Tensor&, const Tensor&), auto f,
                       const Shape& a, const Shape& b) {
    using Result = decltype(f(Number(), Number()));
    constexpr bool kSmooth = std::is_same_v<Result, Number>;
    Sample s{.name = "complex, two",
             .in = {x(a).away(0.3), x(b).away(0.3)},
             .call = [call](const Args& args) -> Tensors {
               return {shown(call(numbers(args[0]), numbers(args[1])))};
             },
             .oracle =
                 [f](const HostArgs& in) {
                   const Numbers p = numbers_of(in[0]);
                   const Numbers q = numbers_of(in[1]);
                   const Shape shape = without_pairs(in[0].shape);
                   HostArray real{shape, {}};
                   Numbers results;
                   for (size_t i = 0; i < p.size(); ++i) {
                     const auto y = f(p[i], q[i % q.size()]);
                     if constexpr (kSmooth)
                       results.push_back(y);
                     else
                       real.values.push_back(y ? 1 : 0);
                   }
                   return std::vector{kSmooth ? pairs_of(shape, results) : real};
                 },
             .dtypes = kParts,
             .gradient = kSmooth};
    if (!kSmooth) s.in = {x(a).of({1, 2, 3, 4, 5, 6}), x(b).of({1, 2, 3, 5, 0, 6})};
    all.push_back({op, std::move(s), kFew});
  };
  two("add", add, [](const Number& p, const Number& q) { return p + q; }, {3, 4, 2}, {4, 2});
  two("sub", sub, [](const Number& p, const Number& q) { return p - q; }, {3, 4, 2}, {3, 4, 2});
  two("mul", mul, [](const Number& p, const Number& q) { return p * q; }, {3, 4, 2}, {4, 2});
  two("div", div, [](const Number& p, const Number& q) { return p / q; }, {3, 4, 2}, {4, 2});
  two("pow", pow, [](const Number& p, const Number& q) { return std::pow(p, q); }, {3, 4, 2},
      {4, 2});
  two("eq", eq, [](const Number& p, const Number& q) { return p == q; }, {3, 2}, {3, 2});
  two("ne", ne, [](const Number& p, const Number& q) { return p != q; }, {3, 2}, {3, 2});
  return all;
}

/// Sums and products, each against loops.
OpCase pairs_case() {
  OpCase c{.op = "view_as_real", .samples = {}, .no_single = "a number has two parts"};
  const auto whole = [](const char* name, const Shape& shape, Function1 call,
                        std::function<HostArray(const Shape&, const Numbers&)> f) {
    return Sample{.name = name,
                  .in = {x(with_pairs(shape)).away(0.2)},
                  .call = [call](const Args& a) -> Tensors { return {shown(call(numbers(a[0])))}; },
                  .oracle =
                      [f](const HostArgs& in) {
                        return std::vector{f(without_pairs(in[0].shape), numbers_of(in[0]))};
                      },
                  .dtypes = kParts};
  };
  const auto rows = [](auto fold) {
    return [fold](const Shape& shape, const Numbers& v) {
      Numbers results;
      const int64_t n = shape[1];
      for (int64_t r = 0; r < shape[0]; ++r)
        results.push_back(fold(Numbers(v.begin() + r * n, v.begin() + (r + 1) * n)));
      return pairs_of({shape[0]}, results);
    };
  };
  c.samples = {
      whole(
          "as it is", {2, 3}, [](const Tensor& t) { return t; },
          [](const Shape& s, const Numbers& v) { return pairs_of(s, v); }),
      whole(
          "one element", {1}, [](const Tensor& t) { return t; },
          [](const Shape& s, const Numbers& v) { return pairs_of(s, v); }),
      whole(
          "empty", {0, 2}, [](const Tensor& t) { return t; },
          [](const Shape& s, const Numbers& v) { return pairs_of(s, v); }),
      whole(
          "sum", {3, 5}, [](const Tensor& t) { return sum(t, {1}); }, rows([](const Numbers& v) {
            Number s = 0;
            for (const Number& e : v) s += e;
            return s;
          })),
      whole(
          "mean", {3, 5}, [](const Tensor& t) { return mean(t, {-1}); }, rows([](const Numbers& v) {
            Number s = 0;
            for (const Number& e : v) s += e;
            return s / static_cast<double>(v.size());
          })),
      whole(
          "prod", {3, 5}, [](const Tensor& t) { return prod(t, {1}); }, rows([](const Numbers& v) {
            Number p = 1;
            for (const Number& e : v) p *= e;
            return p;
          })),
      whole(
          "cumsum", {3, 5}, [](const Tensor& t) { return cumsum(t, {.axis = 1}); },
          [](const Shape& s, Numbers v) {
            for (size_t i = 0; i < v.size(); ++i)
              if (i % 5 != 0) v[i] += v[i - 1];
            return pairs_of(s, v);
          }),
      whole(
          "cumprod", {3, 5}, [](const Tensor& t) { return cumprod(t, {.axis = 1}); },
          [](const Shape& s, Numbers v) {
            for (size_t i = 0; i < v.size(); ++i)
              if (i % 5 != 0) v[i] *= v[i - 1];
            return pairs_of(s, v);
          }),
      whole(
          "var", {3, 5}, [](const Tensor& t) { return var(t, {}); },
          [](const Shape&, const Numbers& v) {
            Number m = 0;
            for (const Number& e : v) m += e / static_cast<double>(v.size());
            double s = 0;
            for (const Number& e : v) s += std::norm(e - m);
            return HostArray{{}, {s / static_cast<double>(v.size() - 1)}};
          }),
      {.name = "matmul",
       .in = {x({2, 3, 4, 2}), x({4, 5, 2})},
       .call = [](const Args& a) -> Tensors {
         return {view_as_real(matmul(numbers(a[0]), numbers(a[1])))};
       },
       .oracle =
           [](const HostArgs& in) {
             const Numbers p = numbers_of(in[0]);
             const Numbers q = numbers_of(in[1]);
             Numbers out(30);
             for (size_t b = 0; b < 6; ++b)
               for (size_t j = 0; j < 5; ++j)
                 for (size_t k = 0; k < 4; ++k) out[b * 5 + j] += p[b * 4 + k] * q[k * 5 + j];
             return std::vector{pairs_of({2, 3, 5}, out)};
           },
       .dtypes = kParts}};
  c.bad = {bad<DTypeError>("view_as_real: expected a complex dtype, got f32",
                           [](Device d) { view_as_real(zeros({2}, {.device = d})); }),
           bad<DTypeError>("relu: expected real numbers, got c64",
                           [](Device d) { relu(zeros({2}, {DType::c64, d})); }),
           bad<DTypeError>("lt: expected real numbers or bool, got c64",
                           [](Device d) {
                             const Tensor z = zeros({2}, {DType::c64, d});
                             lt(z, z);
                           }),
           bad<DTypeError>("does not hold the complex numbers",
                           [](Device d) { cast(zeros({2}, {DType::c64, d}), DType::f32); })};
  c.tolerance = Tolerances{{1e-14, 4e-6, 0, 0}, {1e-13, 2e-5, 0, 0}};
  return c;
}

OpCase as_complex_case() {
  OpCase c = pairs_case();
  c.op = "view_as_complex";
  c.samples.resize(3);
  c.bad = {bad<ShapeError>("view_as_complex: the last axis must have two elements, got [3]",
                           [](Device d) { view_as_complex(zeros({3}, {.device = d})); }),
           bad<DTypeError>("view_as_complex: expected f32 or f64, got i64",
                           [](Device d) { view_as_complex(zeros({2}, {DType::i64, d})); })};
  return c;
}

const MoreSamples kMore(more_samples);

const Room kRoom([] {
  OpCase conjugate = unary_case("conj", conj, [](Number v) { return std::conj(v); });
  append(conjugate, sample(
                        "adjoint", {3, 4}, [](const Tensor& t) { return adjoint(adjoint(t)); },
                        [](Number v) { return v; }));
  return std::vector<OpCase>{complex_case(),
                             pairs_case(),
                             as_complex_case(),
                             conjugate,
                             unary_case("real", real, [](Number v) { return v.real(); }),
                             unary_case("imag", imag, [](Number v) { return v.imag(); }),
                             unary_case("complex_abs", abs, [](Number v) { return std::abs(v); }),
                             unary_case("angle", angle, [](Number v) { return std::arg(v); })};
});

}  // namespace
}  // namespace mica::cases
