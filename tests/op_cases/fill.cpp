#include <cmath>

#include "tests/op_cases/op_case.h"

namespace mica::cases {
namespace {

constexpr int64_t kHuge = int64_t{1} << 32;

OpCase full_case() {
  const auto sample = [](const char* name, const Shape& shape, double value) {
    return Sample{
        .name = name,
        .in = {},
        .call = [=](const Args& a) -> Tensors { return {full(shape, value, {a.dtype, a.device})}; },
        .oracle =
            [=](const HostArgs&) {
              return std::vector{
                  HostArray{shape, std::vector<double>(static_cast<size_t>(numel(shape)), value)}};
            },
        .dtypes = {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32,
                   DType::u8}};
  };
  Sample fraction = sample("a fraction", {2, 3}, 0.1);
  fraction.dtypes = kFloats;
  Sample truth = sample("true", {5}, 1);
  truth.dtypes = {DType::boolean};
  return {.op = "full",
          .samples = {sample("matrix", {3, 5}, 7), sample("0-d", {}, 3),
                      sample("one element", {1}, 2), sample("empty", {0, 2}, 1),
                      sample("several threads", {70001}, 9), fraction, truth},
          .bad = {bad<ShapeError>("shape [2, -1] has a negative size",
                                  [](Device d) { full({2, -1}, 0, {.device = d}); }),
                  bad<ShapeError>("has more than 2^63 elements",
                                  [](Device d) { full({kHuge, kHuge}, 0, {.device = d}); }),
                  bad<OutOfMemory>("out of memory",
                                   [](Device d) { full({kHuge, 1 << 30}, 0, {.device = d}); }),
                  bad<DTypeError>("full: 300 does not fit u8",
                                  [](Device d) { full({2}, 300, {DType::u8, d}); }),
                  bad<DTypeError>("full: inf does not fit i64",
                                  [](Device d) { full({2}, INFINITY, {DType::i64, d}); }),
                  bad<DTypeError>("full: nan does not fit i32",
                                  [](Device d) { full({2}, NAN, {DType::i32, d}); })},
          .no_empty = "it has no inputs; one sample's output is empty",
          .no_single = "it has no inputs; one sample's output has one element"};
}

const char* const kNoInputs = "it has no inputs; one sample's output is that small";

/// A call without inputs that gives these values.
Sample made(const char* name, const Shape& shape, const std::vector<double>& values,
            std::function<Tensor(TensorOptions)> f) {
  return {.name = name,
          .in = {},
          .call = [=](const Args& a) -> Tensors { return {f({a.dtype, a.device})}; },
          .oracle = [=](const HostArgs&) { return std::vector{HostArray{shape, values}}; },
          .dtypes = kNumbers};
}

OpCase full_like_case() {
  const auto sample = [](const char* name, const Shape& shape, double value) {
    return Sample{
        .name = name,
        .in = {x(shape)},
        .call = [=](const Args& a) -> Tensors {
          return {full_like(a[0], value), zeros_like(a[0]), ones_like(a[0])};
        },
        .oracle =
            [=](const HostArgs&) {
              std::vector<HostArray> out;
              for (const double v : {value, 0.0, 1.0})
                out.push_back({shape, std::vector<double>(static_cast<size_t>(numel(shape)), v)});
              return out;
            },
        .dtypes = kNumbers,
        .gradient = false};
  };
  return {.op = "full_like",
          .samples = {sample("matrix", {3, 5}, 7), sample("images", {2, 3, 4, 5}, 2),
                      sample("one element", {1}, 3), sample("empty", {0, 3}, 4)},
          .bad = {bad<DTypeError>("full: -1 does not fit u8",
                                  [](Device d) { full_like(zeros({2}, {DType::u8, d}), -1); })}};
}

OpCase arange_case() {
  const auto sample = [](const char* name, double start, double stop, double step,
                         const std::vector<double>& values) {
    return made(name, {static_cast<int64_t>(values.size())}, values,
                [=](TensorOptions o) { return arange(start, stop, step, o); });
  };
  const auto fractional = [&](Sample s) {
    s.dtypes = kFloats;
    return s;
  };
  Sample truncated = sample("truncated numbers", 1.5, 6.5, 1.5, {1, 2, 3, 4, 5});
  truncated.dtypes = {DType::i64};
  Sample counted = sample("counted before truncated", 1.5, 6.5, 1.5, {1, 2, 3, 4});
  counted.dtypes = {DType::i32, DType::u8};
  std::vector<double> many(70001);
  for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<double>(i) * 0.5 - 3;
  Sample large = sample("several threads", -3, 34997.5, 0.5, many);
  large.dtypes = {DType::f32};
  return {.op = "arange",
          .samples = {made("to n", {4}, {0, 1, 2, 3}, [](TensorOptions o) { return arange(4, o); }),
                      sample("steps", 2, 9, 3, {2, 5, 8}),
                      sample("stop is left out", 0, 6, 2, {0, 2, 4}),
                      sample("downwards", 5, 0, -2, {5, 3, 1}),
                      fractional(sample("fractions", 0, 1, 0.25, {0, 0.25, 0.5, 0.75})),
                      fractional(sample("a rounded count", 0, 0.3, 0.1, {0, 0.1, 0.2})),
                      fractional(sample("one more than expected", 1, 1.3, 0.1,
                                        {1, 1.1, 1.2, 1 + 3 * 0.1})),
                      truncated, counted, sample("one element", 3, 4, 1, {3}),
                      sample("empty", 3, 3, 1, {}), large},
          .bad = {bad<ShapeError>("arange: expected a size of at least 0, got -1",
                                  [](Device d) { arange(-1, {.device = d}); }),
                  bad<ShapeError>("arange: expected a step other than 0, got 0 for f32",
                                  [](Device d) { arange(0, 1, 0, {.device = d}); }),
                  bad<ShapeError>("arange: expected a step other than 0, got 0.5 for i32",
                                  [](Device d) { arange(0, 1, 0.5, {DType::i32, d}); }),
                  bad<ShapeError>("arange: 0 to 1 is not the direction of step -1",
                                  [](Device d) { arange(0, 1, -1, {.device = d}); }),
                  bad<ShapeError>("arange: expected finite numbers, got 0 to inf by 1",
                                  [](Device d) { arange(0, INFINITY, 1, {.device = d}); }),
                  bad<OutOfMemory>("arange: 1e+300 elements are more than a machine holds",
                                   [](Device d) { arange(0, 1e300, 1, {.device = d}); }),
                  bad<OutOfMemory>("out of memory",
                                   [](Device d) { arange(0, 1e18, 1, {.device = d}); }),
                  bad<DTypeError>("arange: expected numbers, got bool",
                                  [](Device d) { arange(2, {DType::boolean, d}); })},
          .no_empty = kNoInputs,
          .no_single = kNoInputs};
}

OpCase linspace_case() {
  const auto sample = [](const char* name, double start, double stop,
                         const std::vector<double>& values) {
    const auto n = static_cast<int64_t>(values.size());
    return made(name, {n}, values, [=](TensorOptions o) { return linspace(start, stop, n, o); });
  };
  Sample fractions = sample("fractions", -1, 1, {-1, -0.5, 0, 0.5, 1});
  fractions.dtypes = kFloats;
  return {
      .op = "linspace",
      .samples = {sample("whole", 0, 8, {0, 2, 4, 6, 8}), sample("downwards", 9, 0, {9, 6, 3, 0}),
                  sample("truncated for integers", 0, 1, {0, 1}), fractions,
                  sample("one element", 3, 9, {3}), sample("empty", 3, 9, {})},
      .bad = {bad<ShapeError>("linspace: expected at least 0 steps, got -1",
                              [](Device d) { linspace(0, 1, -1, {.device = d}); }),
              bad<DTypeError>("linspace: 300 does not fit u8",
                              [](Device d) { linspace(0, 300, 3, {DType::u8, d}); }),
              bad<DTypeError>("linspace: expected numbers, got bool",
                              [](Device d) { linspace(0, 1, 2, {DType::boolean, d}); })},
      .no_empty = kNoInputs,
      .no_single = kNoInputs};
}

OpCase eye_case() {
  const auto sample = [](const char* name, int64_t rows, int64_t columns, const Shape& shape) {
    std::vector<double> values;
    for (int64_t i = 0; i < shape[0]; ++i)
      for (int64_t j = 0; j < shape[1]; ++j) values.push_back(i == j ? 1 : 0);
    return made(name, shape, values, [=](TensorOptions o) { return eye(rows, columns, o); });
  };
  return {.op = "eye",
          .samples = {sample("square", 4, -1, {4, 4}), sample("wide", 2, 5, {2, 5}),
                      sample("high", 3, 2, {3, 2}), sample("one element", 1, 1, {1, 1}),
                      sample("empty", 0, 3, {0, 3})},
          .bad = {bad<ShapeError>("eye: expected sizes of at least 0, got [-1, -1]",
                                  [](Device d) { eye(-1, -1, {.device = d}); }),
                  bad<ShapeError>("eye: expected sizes of at least 0, got [2, -3]",
                                  [](Device d) { eye(2, -3, {.device = d}); })},
          .no_empty = kNoInputs,
          .no_single = kNoInputs};
}

const Room kRoom([] {
  return std::vector<OpCase>{full_case(), full_like_case(), arange_case(), linspace_case(),
                             eye_case()};
});

}  // namespace
}  // namespace mica::cases
