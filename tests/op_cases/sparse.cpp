#include "tests/op_cases/sparse.h"

#include <cmath>

namespace mica::cases {
namespace {

/// Calls add(name, drawn, K) for both types of indices and several widths of dense operands.
template <class F>
void each_width(F&& add) {
  for (const Setup& s : setups())
    for (const int64_t k : {1, 3})
      add.template operator()<DType::i64>(s.name, draw(s.rows, s.columns, s.entries, 3), k,
                                          s.dtypes);
  add.template operator()<DType::i32>("indices of 32 bits", draw(6, 5, 14, 5), 2, kFloats);
  add.template operator()<DType::i32>("vectors and a rest", draw(4, 6, 9, 7), 45,
                                      std::vector{DType::f64, DType::f32, DType::f16});
  add.template operator()<DType::i64>("many vectors", draw(40, 30, 300, 8), 77,
                                      std::vector{DType::f32});
  add.template operator()<DType::i64>("vectors of halves", draw(4, 6, 90, 10), 136, kFloats);
  add.template operator()<DType::i64>("short rows", draw(30, 20, 200, 11), 64, kFloats);
  add.template operator()<DType::i32>("long rows", draw(3, 6, 1300, 12), 5,
                                      std::vector{DType::f32, DType::f16});
  add.template operator()<DType::i64>("no width", draw(4, 3, 6, 9), 0, std::vector{DType::f32});
}

OpCase matmul_case() {
  OpCase c{.op = "csr_matmul", .samples = {}, .tolerance = kProducts};
  each_width([&]<DType t>(const char* name, const Drawn& d, int64_t k, std::vector<DType> dtypes) {
    c.samples.push_back(
        {.name = fmt::format("{}, {} wide", name, k),
         .in = {d.crow_input<t>(), d.col_input<t>(), x({d.entries()}), x({d.columns, k})},
         .call = [](const Args& a) -> Tensors { return {csr_matmul(a[0], a[1], a[2], a[3])}; },
         .oracle =
             [d, k](const HostArgs& in) {
               const Sums a = dense_of(in[0], in[1], in[2].values, d.columns);
               return std::vector{
                   HostArray{{d.rows, k}, times(a, in[3].values, d.rows, d.columns, k)}};
             },
         .dtypes = std::move(dtypes)});
  });
  c.bad = bad_patterns("csr_matmul", [](Device d, const Tensor& crow, const Tensor& col) {
    csr_matmul(crow, col, zeros(col.shape(), {.device = d}), zeros({3, 2}, {.device = d}));
  });
  const auto call = [](Device d, const Tensor& values, const Tensor& dense) {
    csr_matmul(ints({0, 1, 2}, d), ints({0, 1}, d), to(values, d), to(dense, d));
  };
  c.bad.push_back(bad<ShapeError>("csr_matmul: values must be [2], one for each entry, got [3]",
                                  [=](Device d) { call(d, zeros({3}), zeros({3, 2})); }));
  c.bad.push_back(bad<ShapeError>("csr_matmul: dense must be [columns, K], got [3]",
                                  [=](Device d) { call(d, zeros({2}), zeros({3})); }));
  c.bad.push_back(bad<DTypeError>(
      "csr_matmul: values and dense must have one dtype, got f32 and f64",
      [=](Device d) { call(d, zeros({2}), zeros({3, 2}, {.dtype = DType::f64})); }));
  c.bad.push_back(bad<DTypeError>("csr_matmul: values must be floating, got i64", [=](Device d) {
    call(d, zeros({2}, {.dtype = DType::i64}), zeros({3, 2}));
  }));
  return c;
}

OpCase sampled_matmul_case() {
  OpCase c{.op = "csr_sampled_matmul", .samples = {}, .tolerance = kProducts};
  each_width([&]<DType t>(const char* name, const Drawn& d, int64_t k, std::vector<DType> dtypes) {
    c.samples.push_back(
        {.name = fmt::format("{}, {} wide", name, k),
         .in = {d.crow_input<t>(), d.col_input<t>(), x({d.rows, k}), x({d.columns, k})},
         .call = [](const Args& a) -> Tensors {
           return {csr_sampled_matmul(a[0], a[1], a[2], a[3])};
         },
         .oracle =
             [d, k](const HostArgs& in) {
               const Sums y =
                   times(in[2].values, turned(in[3].values, d.columns, k), d.rows, k, d.columns);
               return std::vector{at_entries(in[0], in[1], y, d.columns)};
             },
         .dtypes = std::move(dtypes)});
  });
  c.bad = bad_patterns("csr_sampled_matmul", [](Device d, const Tensor& crow, const Tensor& col) {
    csr_sampled_matmul(crow, col, zeros({std::max<int64_t>(crow.numel() - 1, 0), 2}, {.device = d}),
                       zeros({3, 2}, {.device = d}));
  });
  const auto call = [](Device d, const Tensor& a, const Tensor& b) {
    csr_sampled_matmul(ints({0, 1, 2}, d), ints({0, 1}, d), to(a, d), to(b, d));
  };
  c.bad.push_back(bad<ShapeError>(
      "csr_sampled_matmul: a must be [rows, K] and b [columns, K], got [2, 2] and [3, 3]",
      [=](Device d) { call(d, zeros({2, 2}), zeros({3, 3})); }));
  c.bad.push_back(bad<ShapeError>(
      "csr_sampled_matmul: a must have a row for each of the pattern's 2, got [1, 2]",
      [=](Device d) { call(d, zeros({1, 2}), zeros({3, 2})); }));
  c.bad.push_back(bad<DTypeError>(
      "csr_sampled_matmul: a and b must have one floating dtype, got f32 and f64",
      [=](Device d) { call(d, zeros({2, 2}), zeros({3, 2}, {.dtype = DType::f64})); }));
  return c;
}

OpCase softmax_case() {
  OpCase c{.op = "csr_softmax", .samples = {}, .tolerance = kSeveralRoundings};
  const auto add = [&]<DType t>(const std::string& name, const Drawn& d, bool log,
                                std::vector<DType> dtypes) {
    c.samples.push_back(
        {.name = name,
         .in = {d.crow_input<t>(), x({d.entries()})},
         .call = [log](const Args& a) -> Tensors { return {csr_softmax(a[0], a[1], {log})}; },
         .oracle =
             [log](const HostArgs& in) {
               HostArray y = in[1];
               for (size_t r = 0; r + 1 < in[0].values.size(); ++r) {
                 const auto first = static_cast<size_t>(in[0].values[r]);
                 const auto last = static_cast<size_t>(in[0].values[r + 1]);
                 double sum = 0;
                 for (size_t e = first; e < last; ++e) sum += std::exp(in[1].values[e]);
                 for (size_t e = first; e < last; ++e)
                   y.values[e] =
                       log ? in[1].values[e] - std::log(sum) : std::exp(in[1].values[e]) / sum;
               }
               return std::vector{y};
             },
         .dtypes = std::move(dtypes)});
  };
  for (const Setup& s : setups())
    add.operator()<DType::i64>(s.name, draw(s.rows, s.columns, s.entries, 3), false, s.dtypes);
  add.operator()<DType::i32>("long rows", draw(4, 9, 70, 4), false, kFloats);
  add.operator()<DType::i64>("rows for a warp", draw(4, 9, 400, 5), true, kFloats);
  add.operator()<DType::i64>("rows for a block", draw(2, 9, 3000, 6), false, kFloats);
  add.operator()<DType::i32>("logarithm", draw(5, 4, 12, 4), true, kFloats);
  c.bad = {
      bad<IndexError>("csr_softmax: crow must go from 0 to the number of entries, 2, got 0 and 3",
                      [](Device d) { csr_softmax(ints({0, 1, 3}, d), zeros({2}, {.device = d})); }),
      bad<IndexError>("csr_softmax: crow must not fall, got 2 after 9 at [2]",
                      [](Device d) { csr_softmax(ints({0, 9, 2}, d), zeros({2}, {.device = d})); }),
      bad<ShapeError>("csr_softmax: values must be [entries], got [2, 1]",
                      [](Device d) { csr_softmax(ints({0, 2}, d), zeros({2, 1}, {.device = d})); }),
      bad<DTypeError>("csr_softmax: values must be floating, got i64",
                      [](Device d) { csr_softmax(ints({0, 2}, d), zeros({2}, {DType::i64, d})); })};
  return c;
}

const Room kRoom([] { return std::vector{matmul_case(), sampled_matmul_case(), softmax_case()}; });

}  // namespace
}  // namespace mica::cases
