#include <gtest/gtest.h>

#include "tests/op_cases/device.h"
#include "tests/op_cases/positions.h"

namespace mica::cases {
namespace {

struct Setup {
  const char* name;
  Shape index;
  int64_t rows, dim;
  std::optional<int64_t> padding = std::nullopt;
  std::vector<DType> dtypes = kFloats;
};

std::vector<Setup> setups() {
  return {{"a sentence", {7}, 5, 4},
          {"a batch", {2, 3}, 4, 8},
          {"one word", {}, 3, 2},
          {"padding", {9}, 4, 3, 2},
          {"padding from the end", {3, 3}, 4, 3, -4},
          {"one element", {1}, 1, 1},
          {"no words", {0}, 3, 2},
          {"words that come often", {200}, 6, 72, 5, {DType::f32, DType::bf16}},
          {"several threads", {300}, 40, 300, std::nullopt, {DType::f32}},
          {"few long rows", {2}, 3, 70000, 1, {DType::f32}}};
}

std::vector<double> words(const Shape& shape, int64_t rows) {
  return random_indices(shape, 0, rows, 17);
}

template <DType t = DType::i64>
Input index_of(const Setup& s) {
  return x(s.index).of(words(s.index, s.rows)).as<t>();
}

Shape with_dim(const Shape& index, int64_t dim) {
  Shape shape = index;
  shape.push_back(dim);
  return shape;
}

HostArray rows_at(const HostArray& index, const HostArray& weight) {
  const int64_t dim = weight.shape[1];
  HostArray y{with_dim(index.shape, dim), {}};
  for (const double i : index.values) {
    const auto row = weight.values.begin() + static_cast<int64_t>(i) * dim;
    y.values.insert(y.values.end(), row, row + dim);
  }
  return y;
}

OpCase embedding_case() {
  OpCase c{.op = "embedding", .samples = {}};
  for (const Setup& s : setups()) {
    Sample sample{
        .name = s.name,
        .in = {index_of(s), x({s.rows, s.dim})},
        .call = [s](const Args& a) -> Tensors { return {embedding(a[0], a[1], s.padding)}; },
        .oracle = [](const HostArgs& in) { return std::vector{rows_at(in[0], in[1])}; },
        .dtypes = s.dtypes,
        .exact = true};
    sample.gradient =
        !s.padding && s.dim < 100;  // differences find the gradient that the row does not take
    c.samples.push_back(std::move(sample));
  }
  const auto call = [](Device d, const Tensor& index, const Shape& weight,
                       std::optional<int64_t> padding) {
    embedding(to(index, d), zeros(weight, {.device = d}), padding);
  };
  const Tensor zero = zeros({2}, {.dtype = DType::i64});
  c.bad = {bad<IndexError>("embedding: index 3 at [1, 0] is out of range for axis 0 of size 3",
                           [=](Device d) { call(d, tensor<int32_t>({0, 3}, {2, 1}), {3, 2}, {}); }),
           bad<IndexError>("embedding: index -1 at [0] is out of range for axis 0 of size 3",
                           [=](Device d) { call(d, tensor<int64_t>({-1}, {1}), {3, 2}, {}); }),
           bad<IndexError>("embedding: padding_idx 3 is out of range for weight = [3, 2]",
                           [=](Device d) { call(d, zero, {3, 2}, 3); }),
           bad<IndexError>("embedding: padding_idx -4 is out of range for weight = [3, 2]",
                           [=](Device d) { call(d, zero, {3, 2}, -4); }),
           bad<ShapeError>("embedding: weight must be [rows, dim], got [3]",
                           [=](Device d) { call(d, zero, {3}, {}); }),
           bad<ShapeError>("embedding: weight must be [rows, dim], got [3]",
                           [=](Device d) { call(d, zero, {3}, 0); }),
           bad<ShapeError>(
               "embedding: index must have fewer than 8 axes, got",
               [=](Device d) { call(d, reshape(zero, {2, 1, 1, 1, 1, 1, 1, 1}), {3, 2}, {}); }),
           bad<DTypeError>("embedding: expected an integer dtype, got f32",
                           [=](Device d) { call(d, zeros({2}), {3, 2}, {}); })};
  return c;
}

OpCase embedding_grad_case() {
  OpCase c{.op = "embedding_grad", .samples = {}};
  for (const Setup& s : setups()) {
    const int64_t padding = s.padding ? *s.padding + (*s.padding < 0 ? s.rows : 0) : -1;
    const EmbeddingGradParams params{s.rows, padding};
    c.samples.push_back(
        {.name = s.name,
         .in = {index_of<DType::i32>(s), x(with_dim(s.index, s.dim))},
         .call = [params](const Args& a) -> Tensors {
           return {embedding_grad(a[0], a[1], params)};
         },
         .oracle =
             [s, padding](const HostArgs& in) {
               HostArray dw{{s.rows, s.dim},
                            std::vector<double>(static_cast<size_t>(s.rows * s.dim))};
               for (size_t n = 0; n < in[0].values.size(); ++n) {
                 const auto row = static_cast<int64_t>(in[0].values[n]);
                 if (row == padding) continue;
                 for (int64_t k = 0; k < s.dim; ++k)
                   dw.values[static_cast<size_t>(row * s.dim + k)] +=
                       in[1].values[n * static_cast<size_t>(s.dim) + static_cast<size_t>(k)];
               }
               return std::vector{dw};
             },
         .dtypes = s.dtypes,
         .gradient = s.dim < 100});
  }
  const auto call = [](Device d, const Tensor& index, const Tensor& dy, int64_t rows) {
    embedding_grad(to(index, d), to(dy, d), {.rows = rows});
  };
  const Tensor zero = zeros({2}, {.dtype = DType::i64});
  c.bad = {
      bad<IndexError>("embedding_grad: index 3 at [1] is out of range for axis 0 of size 3",
                      [=](Device d) { call(d, tensor<int64_t>({0, 3}, {2}), zeros({2, 4}), 3); }),
      bad<ShapeError>("embedding_grad: dy must be [2] and one axis more, got [3, 4]",
                      [=](Device d) { call(d, zero, zeros({3, 4}), 3); }),
      bad<ShapeError>("embedding_grad: expected a number of rows, got -1",
                      [=](Device d) { call(d, zero, zeros({2, 4}), -1); }),
      bad<DTypeError>("embedding_grad: expected a floating dy, got i64",
                      [=](Device d) { call(d, zero, zeros({2, 4}, {.dtype = DType::i64}), 3); }),
      bad<DTypeError>("embedding_grad: expected an integer dtype, got bool", [=](Device d) {
        call(d, zeros({2}, {.dtype = DType::boolean}), zeros({2, 4}), 3);
      })};
  return c;
}

OpCase one_hot_case() {
  OpCase c{.op = "one_hot", .samples = {}};
  const auto add = [&](const char* name, const Shape& shape, int64_t classes,
                       std::vector<DType> dtypes) {
    c.samples.push_back(
        {.name = name,
         .in = {x(shape).of(words(shape, classes))},
         .call = [classes](const Args& a) -> Tensors { return {one_hot(a[0], classes)}; },
         .oracle =
             [classes](const HostArgs& in) {
               HostArray y{with_dim(in[0].shape, classes), {}};
               for (const double i : in[0].values)
                 for (int64_t k = 0; k < classes; ++k)
                   y.values.push_back(i == static_cast<double>(k) ? 1 : 0);
               return std::vector{y};
             },
         .dtypes = std::move(dtypes),
         .gradient = false});
  };
  add("vector", {6}, 4, kIntegers);
  add("matrix", {2, 3}, 5, kIntegers);
  add("images", {2, 2, 2, 3}, 3, kIntegers);
  add("one element", {}, 2, kIntegers);
  add("empty", {0}, 3, kIntegers);
  add("several threads", {70000}, 3, {DType::i64});
  c.bad = {bad<IndexError>("one_hot: index 3 at [1] is out of range for axis 1 of size 3",
                           [](Device d) { one_hot(tensor<int64_t>({0, 3}, {2}, d), 3); }),
           bad<IndexError>("one_hot: index -1 at [0] is out of range for axis 1 of size 3",
                           [](Device d) { one_hot(tensor<int64_t>({-1}, {1}, d), 3); }),
           bad<ShapeError>("one_hot: expected at least one class, got 0",
                           [](Device d) { one_hot(zeros({2}, {DType::i64, d}), 0); }),
           bad<DTypeError>("one_hot: expected an integer dtype, got f32",
                           [](Device d) { one_hot(zeros({2}, {.device = d}), 3); })};
  return c;
}

TEST(Embedding, PaddingTakesNoGradient) {
  const Device d = tested_device();
  if (d.is_null() || (d.is_cuda() && !cuda_available()))
    GTEST_SKIP() << "skipped: no values on " << to_string(d);
  const Tensor weight = ones({3, 2}, {.device = d});
  weight.set_requires_grad();
  const Tensor y = embedding(tensor<int64_t>({2, 0, 2, 1, 0}, {5}, d), weight, -1);
  EXPECT_EQ(y.detach().to_vector<float>(), std::vector<float>(10, 1));
  y.backward(ones({5, 2}, {.device = d}));
  EXPECT_EQ(weight.grad().to_vector<float>(), (std::vector<float>{2, 2, 1, 1, 0, 0}));
}

const Room kRoom([] {
  return std::vector<OpCase>{embedding_case(), embedding_grad_case(), one_hot_case()};
});

}  // namespace
}  // namespace mica::cases
