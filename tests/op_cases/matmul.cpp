#include "tests/op_cases/anchored.h"

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

Sample linear_sample(const char* name, const Shape& in, int64_t out, bool bias,
                     std::vector<DType> dtypes = kFloats) {
  return {.name = name,
          .in = {x(in), x({out, in.back()}), bias ? x({out}) : absent()},
          .call = [=](const Args& a) -> Tensors { return {linear(a[0], a[1], a[2])}; },
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
                    y.values.push_back(static_cast<double>(sum));
                  }
                y.shape.push_back(n);
                return std::vector{y};
              },
          .dtypes = std::move(dtypes)};
}

OpCase linear_case() {
  const std::vector<DType> f32_bf16 = {DType::f32, DType::bf16};
  const std::vector<DType> few = {DType::f32, DType::f16, DType::bf16};
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
                  linear_sample("a long row", {1, 1304}, 70, true, few),
                  linear_sample("few rows", {2, 4, 320}, 530, false, few),
                  linear_sample("three rows", {3, 264}, 41, true, few),
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

Program activation_program(Activation activation) {
  return {1, {activation_call(activation, 0)}, {0}};
}

/// A layer and its activation; with the product, where that is kept.
Sample layer_sample(const char* name, const Shape& in, int64_t out, bool bias, bool keeps,
                    std::vector<DType> dtypes, Activation activation) {
  Sample sample = linear_sample(name, in, out, bias, std::move(dtypes));
  sample.name = "linear, " + print_field(activation) + (keeps ? ", kept, " : ", ") + name;
  sample.call = [=](const Args& a) {
    return call_carrying("linear", NoParams{}, activation_program(activation), a.in, keeps);
  };
  sample.oracle = [=, product = sample.oracle](const HostArgs& h) {
    const HostArray x = product(h)[0];
    HostArray y = x;
    for (double& v : y.values) v = activated(v, activation);
    return keeps ? std::vector{y, x} : std::vector{y};
  };
  return sample;
}

/// A product that is the gradient of an activation's result.
Sample gradient_sample(const char* name, const Shape& a, const Shape& b, Activation activation,
                       std::vector<DType> dtypes = kFloats, bool transposed = false) {
  Shape shape = leading(a, 1);
  shape.push_back(b.back());
  const Program program{2, {gradient_call(activation, 0, 1)}, {0}};
  return {.name = std::string("matmul, ") + print_field(activation) + "_grad, " + name,
          .in = {x(a), x(transposed ? Shape{b[1], b[0]} : b), x(shape)},
          .call =
              [=](const Args& in) {
                return call_carrying("matmul", NoParams{}, program,
                                     {in[0], transposed ? transpose(in[1], 0, 1) : in[1], in[2]});
              },
          .oracle =
              [=](const HostArgs& in) {
                HostArray right = in[1];
                if (transposed) {
                  right = {b, {}};
                  for (int64_t k = 0; k < b[0]; ++k)
                    for (int64_t n = 0; n < b[1]; ++n)
                      right.values.push_back(in[1].values[static_cast<size_t>(n * b[0] + k)]);
                }
                HostArray y = product(in[0], right)[0];
                for (size_t i = 0; i < y.values.size(); ++i)
                  y.values[i] *= slope_at(in[2].values[i], activation);
                return std::vector{y};
              },
          .dtypes = std::move(dtypes)};
}

/// A layer, a program of several calls with what else it reads, and what it gives.
Sample program_sample(const char* name, const Program& program, std::vector<Input> more,
                      double (*f)(double x, double a, double b),
                      std::vector<DType> dtypes = kFloats, const Shape& shape = {3, 7, 40},
                      int64_t out = 20) {
  Sample sample = linear_sample(name, shape, out, true, std::move(dtypes));
  sample.name = std::string("linear, ") + name;
  sample.in.insert(sample.in.end(), more.begin(), more.end());
  sample.call = [=](const Args& a) { return call_carrying("linear", NoParams{}, program, a.in); };
  sample.oracle = [=, product = sample.oracle](const HostArgs& h) {
    HostArray y = product(h)[0];
    const auto value = [&](size_t k, size_t i) {
      return k < h.in.size() ? h[k].values[i % h[k].values.size()] : 0;
    };
    for (size_t i = 0; i < y.values.size(); ++i)
      y.values[i] = f(y.values[i], value(3, i), value(4, i));
    return std::vector{y};
  };
  return sample;
}

}  // namespace

std::vector<Sample> product_carrying_samples() {
  using enum Activation;
  const std::vector<DType> f32 = {DType::f32};
  std::vector<Sample> samples = {
      layer_sample("without bias", {2, 3, 6}, 5, false, false, kFloats, gelu),
      layer_sample("past a tile", {66, 130}, 37, true, false, f32, relu),
      layer_sample("past a tile", {66, 130}, 37, true, false, f32, gelu),
      layer_sample("a vector", {11}, 4, true, false, kFloats, gelu),
      layer_sample("several threads", {200, 40}, 60, false, false, f32, gelu),
      layer_sample("one element", {1, 1}, 1, true, false, kFloats, relu),
      layer_sample("no rows", {0, 3}, 2, true, false, kFloats, gelu),
      layer_sample("no inputs", {3, 0}, 2, true, false, kFloats, gelu),
      layer_sample("whole vectors", {3, 8, 64}, 32, true, false, kFloats, silu),
      layer_sample("whole vectors", {3, 8, 64}, 32, false, false, kFloats, hardswish),
      layer_sample("leading axes", {2, 3, 8}, 6, false, true, kFloats, gelu),
      layer_sample("past a tile", {66, 132}, 38, true, true, f32, gelu),
      layer_sample("odd", {67, 131}, 37, true, true, f32, silu),
      layer_sample("long rows", {20, 1100}, 36, true, true, f32, relu),
      layer_sample("few outputs", {67, 260}, 10, true, true, f32, gelu),
      layer_sample("one element", {1, 1}, 1, true, true, kFloats, gelu),
      layer_sample("no rows", {0, 3}, 2, true, true, kFloats, gelu),
      layer_sample("no inputs", {3, 0}, 2, true, true, kFloats, gelu),
      gradient_sample("batch", {3, 4, 5}, {3, 5, 2}, gelu),
      gradient_sample("past a tile", {67, 132}, {132, 70}, gelu, f32),
      gradient_sample("odd", {67, 130}, {130, 71}, relu, f32),
      gradient_sample("long sum", {18, 1100}, {1100, 36}, relu, f32),
      gradient_sample("short sum", {70, 10}, {10, 300}, gelu, f32),
      gradient_sample("a row", {1, 40}, {40, 1100}, gelu, f32),
      gradient_sample("right operand transposed", {30, 20}, {20, 25}, gelu, kFloats, true),
      gradient_sample("one element", {1, 1}, {1, 1}, gelu),
      gradient_sample("no rows", {0, 3}, {3, 2}, gelu),
      gradient_sample("empty sum is 0", {2, 0}, {0, 3}, gelu),
  };
  for (const Activation activation : kEveryActivation) {
    samples.push_back(layer_sample("small", {4, 6}, 5, true, false, kFloats, activation));
    samples.push_back(layer_sample("small", {4, 6}, 5, true, true, kFloats, activation));
    samples.push_back(layer_sample("deep", {18, 150}, 24, true, false, f32, activation));
    samples.back().in[0] = x({18, 150}).in(-0.3, 0.3);
    samples.push_back(gradient_sample("small", {3, 4}, {4, 5}, activation));
  }
  // What is added has the result's shape; a vector and a number do too.
  samples.push_back(program_sample(
      "relu of a sum", {2, {elementwise("add", {0, 1}), elementwise("relu", {2})}, {1}},
      {x({3, 7, 20})}, [](double v, double a, double) { return std::max(v + a, 0.0); }));
  samples.push_back(program_sample(
      "times a vector, a number less, tanh",
      {3, {elementwise("mul", {1, 0}), elementwise("sub", {3, 2}), elementwise("tanh", {4})}, {2}},
      {x({20}).in(-1, 1), x({1})},
      [](double v, double a, double b) { return std::tanh(v * a - b); }));
  samples.back().in[0] = x({3, 7, 40}).in(-0.5, 0.5);
  // The result is read again after the first call.
  samples.push_back(program_sample(
      "times its sigmoid", {1, {elementwise("sigmoid", {0}), elementwise("mul", {0, 1})}, {1}}, {},
      [](double v, double, double) { return v / (1 + std::exp(-v)); }));
  samples.push_back(program_sample(
      "cast",
      {1, {elementwise("relu", {0}), elementwise("copy", {1}, CopyParams{DType::f16})}, {1}}, {},
      [](double v, double, double) { return std::max(v, 0.0); }, {DType::f32}));
  // Several tiles of every kernel, none of them whole.
  const std::vector<DType> few = {DType::f32, DType::f16, DType::bf16};
  const auto tiles = [&](const char* name, const Program& program, std::vector<Input> more,
                         double (*f)(double x, double a, double b)) {
    samples.push_back(program_sample(name, program, std::move(more), f, few, {4, 50, 72}, 200));
    samples.back().in[0] = x({4, 50, 72}).in(-0.3, 0.3);
  };
  tiles("silu of a sum by tiles", {2, {elementwise("add", {0, 1}), elementwise("silu", {2})}, {1}},
        {x({4, 50, 200})}, [](double v, double a, double) { return activated(v + a, silu); });
  samples.push_back(program_sample(
      "silu of a sum of few rows", {2, {elementwise("add", {0, 1}), elementwise("silu", {2})}, {1}},
      {x({5, 70})}, [](double v, double a, double) { return activated(v + a, silu); }, few,
      {5, 1304}, 70));
  samples.back().in[0] = x({5, 1304}).in(-0.1, 0.1);
  samples.push_back(layer_sample("a row", {1, 1304}, 70, true, true, few, gelu));
  samples.back().in[0] = x({1, 1304}).in(-0.1, 0.1);
  tiles("scaled by a vector, GELU, tanh by tiles",
        {2, {elementwise("mul", {0, 1}), elementwise("gelu", {2}), elementwise("tanh", {3})}, {2}},
        {x({200}).in(-1, 1)},
        [](double v, double a, double) { return std::tanh(activated(v * a, gelu)); });
  tiles("hardswish and GELU with tanh by tiles",
        {1, {elementwise("hardswish", {0}), elementwise("gelu_tanh", {1})}, {1}}, {},
        [](double v, double, double) { return activated(activated(v, hardswish), gelu_tanh); });
  for (const bool kept : {false, true}) {
    samples.push_back(
        layer_sample("by tiles", {150, 136}, 264, true, kept, few, kept ? gelu_tanh : gelu));
    samples.back().in[0] = x({150, 136}).in(-0.3, 0.3);
  }
  samples.push_back(gradient_sample("by tiles", {150, 104}, {104, 264}, silu, few, true));
  return samples;
}

namespace {

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
                      wgrad_sample("sums of rows", {520, 264}, {520, 24},
                                   {DType::f32, DType::f16, DType::bf16}),
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
  return std::vector<OpCase>{matmul_case(), linear_case(), linear_wgrad_case(),
                             outer_case(),  inner_case(),  dot_case()};
});

}  // namespace
}  // namespace mica::cases
