#include <cmath>

#include "tests/op_cases/op_case.h"

namespace mica::cases {
namespace {

/// Sums in extended precision, written without the library.
std::vector<HostArray> summed(const HostArray& in, const Dims& axes, bool keepdim) {
  const int rank = in.shape.rank();
  Shape kept = in.shape;
  Shape result;
  for (int i = 0; i < rank; ++i) {
    const bool gone = axes.empty() || axes.contains(i) || axes.contains(i - rank);
    if (gone) kept[i] = 1;
    if (!gone || keepdim) result.push_back(kept[i]);
  }
  std::vector<long double> sums(static_cast<size_t>(numel(result)));
  Dims index = Dims::filled(rank, 0);
  for (const double v : in.values) {
    int64_t at = 0;
    for (int i = 0; i < rank; ++i) at = at * kept[i] + (kept[i] == 1 ? 0 : index[i]);
    sums[static_cast<size_t>(at)] += v;
    for (int i = rank - 1; i >= 0 && ++index[i] == in.shape[i]; --i) index[i] = 0;
  }
  return {HostArray{result, {sums.begin(), sums.end()}}};
}

Sample sum_sample(const char* name, const Shape& shape, const Dims& axes, bool keepdim = false) {
  return {.name = name,
          .in = {x(shape)},
          .call = [=](const Args& a) -> Tensors { return {sum(a[0], axes, keepdim)}; },
          .oracle = [=](const HostArgs& in) { return summed(in[0], axes, keepdim); }};
}

OpCase sum_case() {
  Sample integers = sum_sample("integers become i64", {40, 9}, {0});
  integers.in = {x({40, 9}).in(0, 200).constant()};
  integers.dtypes = kIntegers;
  integers.gradient = false;
  Sample truth = sum_sample("counts true", {40, 9}, {1});
  truth.in = {x({40, 9}).in(0, 2).constant()};
  truth.dtypes = {DType::boolean};
  truth.gradient = false;
  Sample hostile = sum_sample("infinity and NaN stay", {3, 4}, {1});
  hostile.in = {x({3, 4}).of({1, INFINITY, 2, 3, NAN, 1, 1, 1, INFINITY, 1, -INFINITY, 1})};
  hostile.gradient = false;
  Sample long_row = sum_sample("long row", {2, 20000}, {1});
  long_row.dtypes = {DType::f32, DType::bf16};
  Sample tall = sum_sample("tall", {3000, 30}, {0});
  tall.dtypes = {DType::f32, DType::bf16};
  return {.op = "sum",
          .samples = {sum_sample("all", {3, 5}, {}), sum_sample("last", {4, 33}, {1}),
                      sum_sample("first", {33, 4}, {0}), sum_sample("middle", {2, 7, 3}, {1}),
                      sum_sample("outer two", {3, 4, 5}, {0, 2}),
                      sum_sample("negative axis", {3, 4}, {-1}),
                      sum_sample("kept", {2, 3, 4}, {0, 2}, true),
                      sum_sample("channels", {2, 6, 4, 5}, {0, 2, 3}), sum_sample("0-d", {}, {}),
                      sum_sample("one element", {1}, {0}), sum_sample("empty gives 0", {0, 3}, {0}),
                      sum_sample("empty result", {0, 3}, {1}), integers, truth, hostile, long_row,
                      tall},
          .bad = {bad<IndexError>("sum: axis must be in [-2, 2), got 2",
                                  [](Device d) { sum(zeros({2, 3}, {.device = d}), {2}); }),
                  bad<ShapeError>("sum: axes [0, -2] name one twice",
                                  [](Device d) { sum(zeros({2, 3}, {.device = d}), {0, -2}); })}};
}

std::vector<HostArray> largest(const HostArray& in, int axis, bool keepdim) {
  int64_t outer = 1;
  int64_t inner = 1;
  Shape result;
  for (int i = 0; i < in.shape.rank(); ++i) {
    if (i < axis) outer *= in.shape[i];
    if (i > axis) inner *= in.shape[i];
    if (i != axis) result.push_back(in.shape[i]);
    if (i == axis && keepdim) result.push_back(1);
  }
  HostArray out{result, {}};
  const int64_t n = in.shape[axis];
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t k = 0; k < inner; ++k) {
      const auto at = [&](int64_t i) {
        return in.values[static_cast<size_t>((o * n + i) * inner + k)];
      };
      int64_t best = 0;
      for (int64_t i = 1; i < n; ++i)
        if (!std::isnan(at(best)) && (std::isnan(at(i)) || at(i) > at(best))) best = i;
      out.values.push_back(static_cast<double>(best));
    }
  return {out};
}

OpCase argmax_case() {
  const auto sample = [](const char* name, Input in, int64_t axis, bool keepdim) {
    const int rank = in.shape.rank();
    return Sample{.name = name,
                  .in = {std::move(in)},
                  .call = [=](const Args& a) -> Tensors { return {argmax(a[0], axis, keepdim)}; },
                  .oracle =
                      [=](const HostArgs& h) {
                        return largest(h[0], static_cast<int>((axis + rank) % rank), keepdim);
                      }};
  };
  Sample integers = sample("integers", x({5, 6}).in(0, 9), 1, false);
  integers.dtypes = kIntegers;
  return {
      .op = "argmax",
      .samples = {sample("last", x({4, 33}), -1, false), sample("first", x({33, 4}), 0, false),
                  sample("middle, kept", x({2, 5, 3}), 1, true),
                  sample("channels", x({2, 6, 4, 5}), 1, false),
                  sample("equal values", x({2, 4}).of({1, 3, 3, 2, 5, 5, 5, 5}), 1, false),
                  sample("NaN is largest",
                         x({2, 4}).of({1, NAN, INFINITY, NAN, -INFINITY, -INFINITY, -1, -2}), 1,
                         false),
                  sample("one element", x({1}), 0, false), sample("no rows", x({0, 3}), 1, false),
                  sample("long row", x({2, 5000}), 1, false), integers},
      .bad = {bad<ShapeError>("argmax: axis 0 of [0, 3] is empty",
                              [](Device d) { argmax(zeros({0, 3}, {.device = d}), 0); }),
              bad<ShapeError>("argmax: expected at least one dimension",
                              [](Device d) { argmax(zeros({}, {.device = d})); }),
              bad<IndexError>("argmax: axis must be in [-1, 1), got 1",
                              [](Device d) { argmax(zeros({3}, {.device = d}), 1); })}};
}

const Room kRoom([] { return std::vector<OpCase>{sum_case(), argmax_case()}; });

}  // namespace
}  // namespace mica::cases
