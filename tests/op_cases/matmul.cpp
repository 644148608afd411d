#include <cmath>

#include "tests/op_cases/op_case.h"

namespace mica::cases {
namespace {

/// Offset of matrix `index` of the broadcast batch in an operand.
int64_t matrix_offset(const Shape& shape, const Shape& batch, int64_t index, int64_t size) {
  int64_t at = 0;
  int64_t step = size;
  for (int b = batch.rank() - 1, own = shape.rank() - 3; b >= 0; --b, --own) {
    const int64_t i = index % batch[b];
    index /= batch[b];
    if (own < 0) continue;
    if (shape[own] != 1) at += i * step;
    step *= shape[own];
  }
  return at;
}

Shape leading(const Shape& s, int dropped) {
  return Shape(std::span(s.begin(), static_cast<size_t>(s.rank() - dropped)));
}

std::vector<HostArray> product(const HostArray& a, const HostArray& b) {
  const int64_t m = a.shape[a.shape.rank() - 2];
  const int64_t k = a.shape.back();
  const int64_t n = b.shape.back();
  const Shape batch = broadcast_shapes(leading(a.shape, 2), leading(b.shape, 2), "oracle");
  HostArray out{batch, {}};
  out.shape.push_back(m);
  out.shape.push_back(n);
  for (int64_t p = 0; p < numel(batch); ++p) {
    const double* u = a.values.data() + matrix_offset(a.shape, batch, p, m * k);
    const double* v = b.values.data() + matrix_offset(b.shape, batch, p, k * n);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        long double sum = 0;
        for (int64_t l = 0; l < k; ++l)
          sum += static_cast<long double>(u[i * k + l]) * v[l * n + j];
        out.values.push_back(static_cast<double>(sum));
      }
  }
  return {out};
}

Sample matmul_sample(const char* name, const Shape& a, const Shape& b,
                     std::vector<DType> dtypes = kFloats) {
  return {.name = name,
          .in = {x(a), x(b)},
          .call = [](const Args& in) -> Tensors { return {matmul(in[0], in[1])}; },
          .oracle = [](const HostArgs& in) { return product(in[0], in[1]); },
          .dtypes = std::move(dtypes)};
}

OpCase matmul_case() {
  Sample transposed{.name = "both transposed",
                    .in = {x({7, 5}), x({6, 7})},
                    .call = [](const Args& in) -> Tensors {
                      return {matmul(transpose(in[0], 0, 1), transpose(in[1], 0, 1))};
                    }};
  Sample right{
      .name = "right operand transposed, many rows",
      .in = {x({30, 20}), x({25, 20})},
      .call = [](const Args& in) -> Tensors { return {matmul(in[0], transpose(in[1], 0, 1))}; }};
  Sample transposed_row{
      .name = "a row and a transposed matrix",
      .in = {x({1, 70}), x({5, 70})},
      .call = [](const Args& in) -> Tensors { return {matmul(in[0], transpose(in[1], 0, 1))}; }};
  Sample swapped{
      .name = "batch with axes swapped and one matrix",
      .in = {x({2, 5, 3}), x({5, 4}).constant()},
      .call = [](const Args& in) -> Tensors { return {matmul(transpose(in[0], 1, 2), in[1])}; }};
  Sample vectors{.name = "two vectors",
                 .in = {x({9}), x({9})},
                 .call = [](const Args& in) -> Tensors { return {matmul(in[0], in[1])}; }};
  Sample row{.name = "vector and matrix",
             .in = {x({9}), x({9, 4})},
             .call = [](const Args& in) -> Tensors { return {matmul(in[0], in[1])}; }};
  Sample column{.name = "matrices and vector",
                .in = {x({2, 3, 9}), x({9})},
                .call = [](const Args& in) -> Tensors { return {matmul(in[0], in[1])}; }};
  Sample nan{.name = "NaN and infinity",
             .in = {x({2, 2}).of({NAN, 1, 2, 3}), x({2, 2}).of({1, INFINITY, 2, 1})},
             .call = [](const Args& in) -> Tensors { return {matmul(in[0], in[1])}; },
             .oracle = [](const HostArgs& in) { return product(in[0], in[1]); },
             .gradient = false};
  const std::vector<DType> f32_bf16 = {DType::f32, DType::bf16};
  return {
      .op = "matmul",
      .samples = {matmul_sample("small", {3, 4}, {4, 5}),
                  matmul_sample("odd", {13, 17}, {17, 19}),
                  matmul_sample("tall", {70, 3}, {3, 2}),
                  matmul_sample("past a tile", {67, 130}, {130, 71}, f32_bf16),
                  matmul_sample("long sum", {2, 2000}, {2000, 3}, f32_bf16),
                  matmul_sample("short sum", {70, 10}, {10, 300}, {DType::f32}),
                  matmul_sample("long sums", {40, 1000}, {1000, 48}, {DType::f32}),
                  matmul_sample("a row", {1, 40}, {40, 1100}, f32_bf16),
                  matmul_sample("a column", {5, 2500}, {2500, 1}, f32_bf16),
                  matmul_sample("three of a size", {3, 40, 20}, {3, 20, 30}, f32_bf16),
                  matmul_sample("batch", {3, 4, 5}, {3, 5, 2}),
                  matmul_sample("batch and one matrix", {2, 3, 4, 5}, {5, 6}),
                  matmul_sample("broadcast batch", {2, 1, 3, 4}, {3, 4, 2}),
                  matmul_sample("one matrix and batch", {3, 4}, {2, 4, 5}),
                  matmul_sample("one element", {1, 1}, {1, 1}),
                  matmul_sample("no rows", {0, 3}, {3, 2}),
                  matmul_sample("empty sum is 0", {2, 0}, {0, 3}),
                  matmul_sample("no matrices", {0, 2, 3}, {0, 3, 4}),
                  transposed,
                  right,
                  transposed_row,
                  vectors,
                  row,
                  column,
                  nan},
      .bad = {
          bad<ShapeError>(
              "matmul: expected (…, M, K) and (…, K, N), got [2, 3] and [4, 5]",
              [](Device d) { matmul(zeros({2, 3}, {.device = d}), zeros({4, 5}, {.device = d})); }),
          bad<ShapeError>(
              "matmul: expected (…, M, K) and (…, K, N), got [3] and [4]",
              [](Device d) { matmul(zeros({3}, {.device = d}), zeros({4}, {.device = d})); }),
          bad<ShapeError>(
              "matmul: expected (…, M, K) and (…, K, N), got [2, 3] and [2]",
              [](Device d) { matmul(zeros({2, 3}, {.device = d}), zeros({2}, {.device = d})); }),
          bad<ShapeError>("matmul: shapes [2] and [3] do not broadcast",
                          [](Device d) {
                            matmul(zeros({2, 3, 4}, {.device = d}),
                                   zeros({3, 4, 5}, {.device = d}));
                          }),
          bad<ShapeError>(
              "matmul: operands must have at least one dimension",
              [](Device d) { matmul(zeros({}, {.device = d}), zeros({2, 2}, {.device = d})); }),
          bad<DTypeError>("matmul: operands must have one dtype, got f32 and f64",
                          [](Device d) {
                            matmul(zeros({2, 3}, {.device = d}), zeros({3, 5}, {DType::f64, d}));
                          }),
          bad<DTypeError>("matmul: expected a floating dtype, got i64", [](Device d) {
            matmul(zeros({2, 3}, {DType::i64, d}), zeros({3, 5}, {DType::i64, d}));
          })}};
}

double activated(double x, Activation activation) {
  if (activation == Activation::relu) return x > 0 ? x : 0;
  return activation == Activation::gelu ? x / 2 * std::erfc(-x / std::sqrt(2.0)) : x;
}

Sample linear_sample(const char* name, const Shape& in, int64_t out, bool bias,
                     std::vector<DType> dtypes = kFloats,
                     Activation activation = Activation::none) {
  return {.name = name,
          .in = {x(in), x({out, in.back()}), bias ? x({out}) : absent()},
          .call = [=](const Args& a) -> Tensors {
            return {linear(a[0], a[1], a[2], {.activation = activation})};
          },
          .oracle =
              [=](const HostArgs& h) {
                const int64_t k = h[0].shape.back();
                const int64_t n = h[1].shape[0];
                HostArray y{leading(h[0].shape, 1), {}};
                for (int64_t row = 0; row < numel(y.shape); ++row)
                  for (int64_t j = 0; j < n; ++j) {
                    long double sum = h[2].values.empty() ? 0 : h[2].values[static_cast<size_t>(j)];
                    for (int64_t l = 0; l < k; ++l)
                      sum +=
                          static_cast<long double>(h[0].values[static_cast<size_t>(row * k + l)]) *
                          h[1].values[static_cast<size_t>(j * k + l)];
                    y.values.push_back(activated(static_cast<double>(sum), activation));
                  }
                y.shape.push_back(n);
                return std::vector{y};
              },
          .dtypes = std::move(dtypes)};
}

OpCase linear_case() {
  const std::vector<DType> f32_bf16 = {DType::f32, DType::bf16};
  return {
      .op = "linear",
      .samples = {linear_sample("with bias", {4, 6}, 5, true),
                  linear_sample("without bias", {4, 6}, 5, false),
                  linear_sample("one row", {1, 9}, 3, true),
                  linear_sample("a vector", {9}, 3, true),
                  linear_sample("leading axes", {2, 3, 7}, 4, true),
                  linear_sample("past a tile", {66, 130}, 37, true, f32_bf16),
                  linear_sample("long rows", {40, 1000}, 48, true, {DType::f32}),
                  linear_sample("few outputs", {67, 260}, 10, true, {DType::f32}),
                  linear_sample("few outputs, long rows", {5, 2100}, 13, true, {DType::f32}),
                  linear_sample("one element", {1, 1}, 1, true),
                  linear_sample("no rows", {0, 3}, 2, true),
                  linear_sample("no inputs gives the bias", {3, 0}, 2, true),
                  linear_sample("no outputs", {3, 4}, 0, false)},
      .bad = {
          bad<ShapeError>(
              "linear: weight must be [out, in], got [3]",
              [](Device d) { linear(zeros({2, 3}, {.device = d}), zeros({3}, {.device = d})); }),
          bad<ShapeError>(
              "linear: input must be […, in] with in = 4, got [2, 3]",
              [](Device d) { linear(zeros({2, 3}, {.device = d}), zeros({5, 4}, {.device = d})); }),
          bad<ShapeError>("linear: bias must be [out] with out = 5, got [4]",
                          [](Device d) {
                            const TensorOptions o{.device = d};
                            linear(zeros({2, 4}, o), zeros({5, 4}, o), zeros({4}, o));
                          }),
          bad<DTypeError>("linear: operands must have one dtype, got f32 and f64", [](Device d) {
            linear(zeros({2, 4}, {.device = d}), zeros({5, 4}, {DType::f64, d}));
          })}};
}

/// The op that gives a layer's product too.
Sample linear_and_act_sample(const char* name, const Shape& in, int64_t out, bool bias,
                             std::vector<DType> dtypes, Activation activation) {
  Sample sample = linear_sample(name, in, out, bias, std::move(dtypes));
  sample.call = [=](const Args& a) -> Tensors {
    return call_op("linear_and_act", LinearParams{activation}, {a[0], a[1], a[2]});
  };
  sample.oracle = [=, product = sample.oracle](const HostArgs& h) {
    const HostArray x = product(h)[0];
    HostArray y = x;
    for (double& v : y.values) v = activated(v, activation);
    return std::vector{y, x};
  };
  return sample;
}

OpCase linear_and_act_case() {
  using enum Activation;
  const std::vector<DType> f32 = {DType::f32};
  const auto call = [](Device d, const Shape& weight, Activation activation) {
    const TensorOptions o{.device = d};
    call_op("linear_and_act", LinearParams{activation}, {zeros({2, 3}, o), zeros(weight, o), {}});
  };
  return {.op = "linear_and_act",
          .samples = {linear_and_act_sample("relu", {4, 6}, 5, true, kFloats, relu),
                      linear_and_act_sample("gelu", {4, 6}, 5, true, kFloats, gelu),
                      linear_and_act_sample("leading axes", {2, 3, 8}, 6, false, kFloats, gelu),
                      linear_and_act_sample("past a tile", {66, 132}, 38, true, f32, gelu),
                      linear_and_act_sample("odd", {67, 131}, 37, true, f32, gelu),
                      linear_and_act_sample("long rows", {20, 1100}, 36, true, f32, relu),
                      linear_and_act_sample("few outputs", {67, 260}, 10, true, f32, gelu),
                      linear_and_act_sample("one element", {1, 1}, 1, true, kFloats, gelu),
                      linear_and_act_sample("no rows", {0, 3}, 2, true, kFloats, gelu),
                      linear_and_act_sample("no inputs", {3, 0}, 2, true, kFloats, gelu)},
          .bad = {bad<ShapeError>("linear_and_act: input must be […, in] with in = 4, got [2, 3]",
                                  [=](Device d) { call(d, {5, 4}, gelu); }),
                  bad<Error>("linear_and_act: there must be an activation",
                             [=](Device d) { call(d, {5, 3}, none); })}};
}

double activation_slope(double saved, Activation activation) {
  if (activation == Activation::relu) return saved > 0 ? 1 : 0;
  return std::erfc(-saved / std::sqrt(2.0)) / 2 +
         saved * std::exp(-saved * saved / 2) / std::sqrt(2 * std::acos(-1.0));
}

std::vector<HostArray> times_slope(std::vector<HostArray> out, const HostArray& saved,
                                   Activation activation) {
  for (size_t i = 0; i < saved.values.size(); ++i)
    out[0].values[i] *= activation_slope(saved.values[i], activation);
  return out;
}

Sample matmul_act_grad_sample(const char* name, const Shape& a, const Shape& b,
                              Activation activation, std::vector<DType> dtypes = kFloats) {
  Shape shape = leading(a, 1);
  shape.push_back(b.back());
  const bool relu = activation == Activation::relu;
  return {
      .name = name,
      .in = {x(a), x(b), relu ? x(shape).constant() : x(shape)},
      .call = [=](const Args& in) -> Tensors {
        return call_op("matmul_act_grad", LinearParams{activation}, {in[0], in[1], in[2]});
      },
      .oracle =
          [=](const HostArgs& in) { return times_slope(product(in[0], in[1]), in[2], activation); },
      .dtypes = std::move(dtypes)};
}

OpCase matmul_act_grad_case() {
  using enum Activation;
  const std::vector<DType> f32 = {DType::f32};
  const auto call = [](Device d, const Shape& b, const Shape& saved) {
    const TensorOptions o{.device = d};
    call_op("matmul_act_grad", LinearParams{gelu},
            {zeros({2, 3}, o), zeros(b, o), zeros(saved, o)});
  };
  Sample transposed = matmul_act_grad_sample("right operand transposed", {30, 20}, {20, 25}, gelu);
  transposed.in[1] = x({25, 20});
  transposed.call = [](const Args& in) -> Tensors {
    return call_op("matmul_act_grad", LinearParams{gelu}, {in[0], transpose(in[1], 0, 1), in[2]});
  };
  transposed.oracle = [](const HostArgs& in) {
    HostArray straight{{20, 25}, {}};
    for (size_t k = 0; k < 20; ++k)
      for (size_t n = 0; n < 25; ++n) straight.values.push_back(in[1].values[n * 20 + k]);
    return times_slope(product(in[0], straight), in[2], gelu);
  };
  return {.op = "matmul_act_grad",
          .samples = {matmul_act_grad_sample("relu", {3, 4}, {4, 5}, relu),
                      matmul_act_grad_sample("gelu", {3, 4}, {4, 5}, gelu),
                      matmul_act_grad_sample("batch", {3, 4, 5}, {3, 5, 2}, gelu),
                      matmul_act_grad_sample("past a tile", {67, 132}, {132, 70}, gelu, f32),
                      matmul_act_grad_sample("odd", {67, 130}, {130, 71}, relu, f32),
                      matmul_act_grad_sample("long sum", {18, 1100}, {1100, 36}, relu, f32),
                      matmul_act_grad_sample("short sum", {70, 10}, {10, 300}, gelu, f32),
                      matmul_act_grad_sample("a row", {1, 40}, {40, 1100}, gelu, f32), transposed,
                      matmul_act_grad_sample("one element", {1, 1}, {1, 1}, gelu),
                      matmul_act_grad_sample("no rows", {0, 3}, {3, 2}, gelu),
                      matmul_act_grad_sample("empty sum is 0", {2, 0}, {0, 3}, gelu)},
          .bad = {bad<ShapeError>(
                      "matmul_act_grad: expected (…, M, K) and (…, K, N), got [2, 3] and [4, 5]",
                      [=](Device d) { call(d, {4, 5}, {2, 5}); }),
                  bad<ShapeError>("matmul_act_grad: what is saved must be [2, 5], got [2, 4]",
                                  [=](Device d) { call(d, {3, 5}, {2, 4}); })}};
}

OpCase linear_act_case() {
  using enum Activation;
  const std::vector<DType> f32 = {DType::f32};
  const auto call = [](Device d, const Shape& in, const Shape& weight, const Shape& bias) {
    const TensorOptions o{.device = d};
    call_op("linear_act", LinearParams{gelu}, {zeros(in, o), zeros(weight, o), zeros(bias, o)});
  };
  return {.op = "linear_act",
          .samples = {linear_sample("relu", {4, 6}, 5, true, kFloats, relu),
                      linear_sample("gelu", {4, 6}, 5, true, kFloats, gelu),
                      linear_sample("gelu, without bias", {2, 3, 6}, 5, false, kFloats, gelu),
                      linear_sample("relu, past a tile", {66, 130}, 37, true, f32, relu),
                      linear_sample("gelu, past a tile", {66, 130}, 37, true, f32, gelu),
                      linear_sample("gelu, a vector", {9}, 3, true, kFloats, gelu),
                      linear_sample("gelu, several threads", {200, 40}, 60, false, f32, gelu),
                      linear_sample("relu, one element", {1, 1}, 1, true, kFloats, relu),
                      linear_sample("gelu, no rows", {0, 3}, 2, true, kFloats, gelu),
                      linear_sample("gelu, no inputs", {3, 0}, 2, true, kFloats, gelu)},
          .bad = {bad<ShapeError>("linear_act: weight must be [out, in], got [3]",
                                  [=](Device d) { call(d, {2, 3}, {3}, {3}); }),
                  bad<ShapeError>("linear_act: input must be […, in] with in = 4, got [2, 3]",
                                  [=](Device d) { call(d, {2, 3}, {5, 4}, {5}); }),
                  bad<ShapeError>("linear_act: bias must be [out] with out = 5, got [4]",
                                  [=](Device d) { call(d, {2, 4}, {5, 4}, {4}); })}};
}

Sample wgrad_sample(const char* name, const Shape& dy, const Shape& in,
                    std::vector<DType> dtypes = kFloats) {
  return {.name = name,
          .in = {x(dy), x(in)},
          .call = [](const Args& a) -> Tensors {
            return call_op("linear_wgrad", NoParams{}, {a[0], a[1]});
          },
          .oracle =
              [](const HostArgs& h) {
                const int64_t rows = h[0].shape[0];
                const int64_t out = h[0].shape[1];
                const int64_t width = h[1].shape[1];
                HostArray dw{{out, width}, {}};
                HostArray db{{out}, {}};
                for (int64_t j = 0; j < out; ++j) {
                  long double total = 0;
                  for (int64_t r = 0; r < rows; ++r)
                    total += h[0].values[static_cast<size_t>(r * out + j)];
                  db.values.push_back(static_cast<double>(total));
                  for (int64_t k = 0; k < width; ++k) {
                    long double sum = 0;
                    for (int64_t r = 0; r < rows; ++r)
                      sum +=
                          static_cast<long double>(h[0].values[static_cast<size_t>(r * out + j)]) *
                          h[1].values[static_cast<size_t>(r * width + k)];
                    dw.values.push_back(static_cast<double>(sum));
                  }
                }
                return std::vector{dw, db};
              },
          .dtypes = std::move(dtypes)};
}

OpCase linear_wgrad_case() {
  const std::vector<DType> f32_bf16 = {DType::f32, DType::bf16};
  const auto call = [](Device d, const Shape& dy, const Shape& in) {
    call_op("linear_wgrad", NoParams{}, {zeros(dy, {.device = d}), zeros(in, {.device = d})});
  };
  return {.op = "linear_wgrad",
          .samples = {wgrad_sample("small", {4, 5}, {4, 6}),
                      wgrad_sample("aligned", {32, 16}, {32, 24}),
                      wgrad_sample("past a tile", {130, 67}, {130, 71}, f32_bf16),
                      wgrad_sample("many rows", {1000, 40}, {1000, 48}, {DType::f32}),
                      wgrad_sample("many outputs", {20, 500}, {20, 800}, {DType::f32}),
                      wgrad_sample("few outputs", {70, 10}, {70, 300}, {DType::f32}),
                      wgrad_sample("one element", {1, 1}, {1, 1}),
                      wgrad_sample("no rows gives 0", {0, 3}, {0, 2}),
                      wgrad_sample("no inputs", {3, 2}, {3, 0})},
          .bad = {bad<ShapeError>(
              "linear_wgrad: expected [rows, out] and [rows, in], got [2, 3] and [4, 5]",
              [=](Device d) { call(d, {2, 3}, {4, 5}); })}};
}

Sample product_sample(const char* name, const Shape& a, const Shape& b,
                      Tensor (*function)(const Tensor&, const Tensor&), Shape result, Shape left,
                      Shape right) {
  return {.name = name,
          .in = {x(a), x(b)},
          .call = [=](const Args& in) -> Tensors { return {function(in[0], in[1])}; },
          .oracle =
              [=](const HostArgs& in) {
                // right (N, K), transposed
                HostArray t{{right[1], right[0]}, {}};
                for (int64_t k = 0; k < right[1]; ++k)
                  for (int64_t j = 0; j < right[0]; ++j)
                    t.values.push_back(in[1].values[static_cast<size_t>(j * right[1] + k)]);
                HostArray y = product({left, in[0].values}, t)[0];
                y.shape = result;
                return std::vector{y};
              }};
}

OpCase outer_case() {
  return {.op = "outer",
          .samples = {product_sample("vectors", {3}, {4}, outer, {3, 4}, {3, 1}, {4, 1}),
                      product_sample("one element", {1}, {1}, outer, {1, 1}, {1, 1}, {1, 1}),
                      product_sample("empty", {0}, {4}, outer, {0, 4}, {0, 1}, {4, 1})},
          .bad = {bad<ShapeError>("outer: expected two vectors, got [2, 3] and [3]", [](Device d) {
            outer(zeros({2, 3}, {.device = d}), zeros({3}, {.device = d}));
          })}};
}

OpCase inner_case() {
  return {.op = "inner",
          .samples = {product_sample("vectors", {5}, {5}, inner, {}, {1, 5}, {1, 5}),
                      product_sample("matrices", {3, 5}, {4, 5}, inner, {3, 4}, {3, 5}, {4, 5}),
                      product_sample("more axes", {2, 3, 5}, {2, 2, 5}, inner, {2, 3, 2, 2}, {6, 5},
                                     {4, 5}),
                      product_sample("a number", {}, {4}, inner, {4}, {1, 1}, {4, 1}),
                      product_sample("one element", {1}, {1}, inner, {}, {1, 1}, {1, 1}),
                      product_sample("empty sum", {2, 0}, {3, 0}, inner, {2, 3}, {2, 0}, {3, 0})},
          .bad = {bad<ShapeError>(
              "inner: the last axes must have one size, got [2, 3] and [4]",
              [](Device d) { inner(zeros({2, 3}, {.device = d}), zeros({4}, {.device = d})); })}};
}

OpCase dot_case() {
  return {.op = "dot",
          .samples = {product_sample("vectors", {5}, {5}, dot, {}, {1, 5}, {1, 5}),
                      product_sample("one element", {1}, {1}, dot, {}, {1, 1}, {1, 1}),
                      product_sample("empty", {0}, {0}, dot, {}, {1, 0}, {1, 0})},
          .bad = {bad<ShapeError>(
                      "dot: expected two vectors of one size, got [3] and [4]",
                      [](Device d) { dot(zeros({3}, {.device = d}), zeros({4}, {.device = d})); }),
                  bad<ShapeError>("dot: expected two vectors of one size, got [3, 3] and [3]",
                                  [](Device d) {
                                    dot(zeros({3, 3}, {.device = d}), zeros({3}, {.device = d}));
                                  })}};
}

const Room kRoom([] {
  return std::vector<OpCase>{matmul_case(),         linear_case(),          linear_act_case(),
                             linear_and_act_case(), matmul_act_grad_case(), linear_wgrad_case(),
                             outer_case(),          inner_case(),           dot_case()};
});

}  // namespace
}  // namespace mica::cases
