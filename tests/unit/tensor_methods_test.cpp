// Tensors read like C++: methods, operators, indexing, values in and out.
#include "tests/unit/tensor_methods.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "mica/mica.h"
#include "tests/unit/expect_error.h"

namespace mica {
namespace {

using Floats = std::vector<float>;
using Ints = std::vector<int64_t>;

/// Without white space: clang-format has it its own way.
std::string letters(std::string text) {
  std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
  return text;
}

std::string read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(TensorMethods, AreThoseThatRoomsDescribe) {
  const std::string source = std::string(MICA_SOURCE_DIR) + "/src/";
  if (!std::filesystem::exists(source)) GTEST_SKIP() << "skipped: the sources are not here";
  const MethodText now = tensor_methods();
  if (std::getenv("MICA_UPDATE")) {
    std::ofstream(source + "core/tensor_methods.inc") << now.declarations;
    std::ofstream(source + "ops/tensor_methods.cpp") << now.definitions;
    std::ofstream(source + "core/indexed_methods.inc") << now.indexed;
  }
  EXPECT_EQ(letters(read(source + "core/tensor_methods.inc")), letters(now.declarations));
  EXPECT_EQ(letters(read(source + "ops/tensor_methods.cpp")), letters(now.definitions));
  EXPECT_EQ(letters(read(source + "core/indexed_methods.inc")), letters(now.indexed));
}

Tensor counted(const Shape& shape) {
  return reshape(arange(numel(shape), {.dtype = DType::f32}), shape);
}

TEST(TensorMethods, ComputeWhatTheFunctionsDo) {
  const Tensor a = counted({2, 3});
  EXPECT_EQ(a.sum().item(), 15);
  EXPECT_EQ(a.sum(0).to_vector<float>(), (Floats{3, 5, 7}));
  EXPECT_EQ(a.sum({0, 1}, true).shape(), (Shape{1, 1}));
  EXPECT_EQ(a.reshape({3, -1}).shape(), (Shape{3, 2}));
  EXPECT_EQ(a.t().shape(), (Shape{3, 2}));
  EXPECT_EQ(a.std(1).to_vector<float>(), (Floats{1, 1}));
  EXPECT_EQ(a.argmax().item<int64_t>(), 5);
  EXPECT_EQ(a.argmax(0).to_vector<int64_t>(), (Ints{1, 1, 1}));
  const auto [values, indices] = a.max(1);
  EXPECT_EQ(values.to_vector<float>(), (Floats{2, 5}));
  EXPECT_EQ(indices.to_vector<int64_t>(), (Ints{2, 2}));
  EXPECT_EQ(a.clamp(1, 4).to_vector<float>(), (Floats{1, 1, 2, 3, 4, 4}));
  EXPECT_EQ(a.clamp({}, 2.5).max().item(), 2.5);
  EXPECT_EQ(a.matmul(a.t()).to_vector<float>(), matmul(a, transpose(a, 0, 1)).to_vector<float>());
  EXPECT_EQ(a.split(2, 1).size(), 2U);
  EXPECT_TRUE(a.equal(a.clone()));
  EXPECT_TRUE(a.is_contiguous());
  EXPECT_FALSE(a.t().is_contiguous());
  EXPECT_TRUE(a.t().contiguous().is_contiguous());
  EXPECT_EQ(a.to(DType::i32).dtype(), DType::i32);
  EXPECT_EQ(a.view({6}).storage(), a.storage());
  expect_error<ShapeError>("view: a tensor of shape [3, 2]", [&] { a.t().view({6}); });
}

TEST(TensorMethods, GiveGradients) {
  const Tensor w = ones({3}).set_requires_grad();
  (w.mul(2.0).exp().sum()).backward();
  EXPECT_NEAR(w.grad().to_vector<float>()[0], 2 * std::exp(2.0F), 1e-4);
}

TEST(TensorMethods, WriteInPlace) {
  const Tensor a = counted({4});
  const Tensor same = a;  // NOLINT(performance-unnecessary-copy-initialization): another handle
  a.add_(1).mul_(a).sub_(ones({4})).div_(2);
  EXPECT_EQ(same.to_vector<float>(), (Floats{0, 1.5, 4, 7.5}));
  a.clamp_(1, 5);
  EXPECT_EQ(same.to_vector<float>(), (Floats{1, 1.5, 4, 5}));
  EXPECT_EQ(a.zero_().max().item(), 0);
  EXPECT_EQ(a.fill_(3).copy_(ones({1})).sum().item(), 4);
  expect_error<DTypeError>("f32 values cannot be written to a i64 tensor in place",
                           [] { arange(int64_t{3}).add_(0.5); });
  expect_error<ShapeError>("in place", [] { ones({1}).add_(ones({2})); });
}

TEST(TensorOperators, CompareAndCombine) {
  const Tensor a = counted({4});
  const auto bools = [](const Tensor& t) { return t.to_vector<bool>(); };
  EXPECT_EQ(bools(a > 1), (std::vector<bool>{false, false, true, true}));
  EXPECT_EQ(bools(1 > a), (std::vector<bool>{true, false, false, false}));
  EXPECT_EQ(bools(a == a), std::vector<bool>(4, true));
  EXPECT_EQ(bools(a == 2), (std::vector<bool>{false, false, true, false}));
  EXPECT_EQ(bools(2 != a), (std::vector<bool>{true, true, false, true}));
  EXPECT_EQ(bools((!(a >= 2)) | (a == 3)), (std::vector<bool>{true, true, false, true}));
  EXPECT_EQ(bools((a <= 2) & ~(a < 1)), (std::vector<bool>{false, true, true, false}));
  EXPECT_EQ((a % 3).to_vector<float>(), (Floats{0, 1, 2, 0}));
  EXPECT_EQ((2 % (a + 1)).to_vector<float>(), (Floats{0, 0, 2, 2}));
  const Tensor i = arange(int64_t{4});
  EXPECT_EQ((i << i).to_vector<int64_t>(), (Ints{0, 2, 8, 24}));
  EXPECT_EQ(((i << i) >> i).to_vector<int64_t>(), (Ints{0, 1, 2, 3}));
  EXPECT_EQ((i ^ i).sum().item(), 0);
  EXPECT_EQ((i & 1).to_vector<int64_t>(), (Ints{0, 1, 0, 1}));
  EXPECT_EQ((4 | i).to_vector<int64_t>(), (Ints{4, 5, 6, 7}));
  EXPECT_EQ((i ^ 3).to_vector<int64_t>(), (Ints{3, 2, 1, 0}));
  EXPECT_EQ((i << 1).to_vector<int64_t>(), (Ints{0, 2, 4, 6}));
  EXPECT_EQ((1 << i).to_vector<int64_t>(), (Ints{1, 2, 4, 8}));
  EXPECT_EQ((i >> 1).to_vector<int64_t>(), (Ints{0, 0, 1, 1}));
  EXPECT_EQ((5 % (i + 1)).to_vector<int64_t>(), (Ints{0, 1, 2, 1}));
  const Tensor j = i.clone();
  j <<= 2;
  j |= i;
  j ^= 1;
  EXPECT_EQ(j.to_vector<int64_t>(), (Ints{1, 4, 11, 14}));
  j &= 7;
  j >>= 1;
  EXPECT_EQ(j.to_vector<int64_t>(), (Ints{0, 2, 1, 3}));
  j[j > 1] &= 1;
  EXPECT_EQ(j.to_vector<int64_t>(), (Ints{0, 0, 1, 1}));
  Tensor mask = a > 0;
  mask &= a < 3;
  EXPECT_EQ(bools(mask), (std::vector<bool>{false, true, true, false}));
  expect_error<DTypeError>("left_shift: 300 does not fit u8",
                           [&] { (void)(cast(i, DType::u8) << 300); });
  expect_error<DTypeError>("bitwise_and", [&] { (void)(a & 1); });
  Tensor b = a.clone();
  const Tensor view = b[Slice(1, 3)];
  b += 1;
  b *= a;
  b -= a;
  b /= 2;
  b %= 4;
  EXPECT_EQ(view.to_vector<float>(), (Floats{0.5, 2}));
}

TEST(TensorIndexing, ReadsParts) {
  const Tensor a = counted({2, 3, 4});
  EXPECT_EQ(a[0].shape(), (Shape{3, 4}));
  EXPECT_EQ(a[-1][2][3].item(), 23);
  EXPECT_EQ(a[1].storage(), a.storage());
  EXPECT_EQ(a.index({1, 2, 3}).item(), 23);
  EXPECT_EQ(a.index({Ellipsis, 0}).to_vector<float>(), (Floats{0, 4, 8, 12, 16, 20}));
  EXPECT_EQ(a.index({"...", 0}).shape(), (Shape{2, 3}));
  EXPECT_EQ(a.index({None, 0, Slice(1, None)}).shape(), (Shape{1, 2, 4}));
  EXPECT_EQ(a.index({0, 0, Slice(None, None, -1)}).to_vector<float>(), (Floats{3, 2, 1, 0}));
  EXPECT_EQ(a.index({0, 0, Slice(-3, -1)}).to_vector<float>(), (Floats{1, 2}));
  EXPECT_EQ(a.index({0, 0, Slice(3, 0, -2)}).to_vector<float>(), (Floats{3, 1}));
  EXPECT_EQ(a.index({0, 0, Slice(9, 20)}).numel(), 0);
  EXPECT_EQ(a[a > 20].to_vector<float>(), (Floats{21, 22, 23}));
  EXPECT_EQ(a.index({Slice(), tensor<int64_t>({2, 0}), 1}).to_vector<float>(),
            (Floats{9, 1, 21, 13}));
  EXPECT_EQ(a.index({0, std::vector<int>{-1}, Ellipsis}).shape(), (Shape{1, 4}));
}

TEST(TensorIndexing, Assigns) {
  const Tensor a = zeros({2, 3});
  a[0] = 1;
  a[1][2] = 5.0;
  EXPECT_EQ(a.to_vector<float>(), (Floats{1, 1, 1, 0, 0, 5}));
  a[1] = tensor<float>({7, 8, 9});
  a.index({Slice(), 0}) = -1;
  EXPECT_EQ(a.to_vector<float>(), (Floats{-1, 1, 1, -1, 8, 9}));
  a[a < 0] = 0;
  a.index({1, Slice(None, None, -1)}) = tensor<float>({1, 2, 3});
  EXPECT_EQ(a.to_vector<float>(), (Floats{0, 1, 1, 3, 2, 1}));
  a.index({std::vector<int>{0, 1}, std::vector<int>{0, 2}}) = tensor<float>({10, 20});
  EXPECT_EQ(a.to_vector<float>(), (Floats{10, 1, 1, 3, 2, 20}));
  a.index_put_({a == 1}, 4);
  EXPECT_EQ(a.sum().item(), 43);
  a[0] = a[1];  // values, not handles
  a[1] = 0;
  EXPECT_EQ(a.to_vector<float>(), (Floats{3, 2, 20, 0, 0, 0}));
  // A name is bound anew, and nothing is written.
  auto row = a[0];
  row = ones({3});
  auto part = a.index({0});
  part = a.index({1});
  EXPECT_EQ(a[0].to_vector<float>(), (Floats{3, 2, 20}));
}

TEST(TensorIndexing, WritesBackWhatIsDoneInPlace) {
  const Tensor a = counted({5});
  a[a > 2] *= 10;
  EXPECT_EQ(a.to_vector<float>(), (Floats{0, 1, 2, 30, 40}));
  a.index({std::vector<int>{0, 3}}) += 5;
  EXPECT_EQ(a.to_vector<float>(), (Floats{5, 1, 2, 35, 40}));
  a[a > 30].fill_(3);
  EXPECT_EQ(a.to_vector<float>(), (Floats{5, 1, 2, 3, 3}));
  a.index({Slice(None, None, -1)}) += counted({5});
  EXPECT_EQ(a.to_vector<float>(), (Floats{9, 4, 4, 4, 3}));
  a[Slice(None, None, -2)] = tensor({7.0F, 8.0F, 9.0F});
  EXPECT_EQ(a.to_vector<float>(), (Floats{9, 4, 8, 4, 7}));
  a[Slice(None, None, -1)] = 7;
  EXPECT_EQ(a.to_vector<float>(), Floats(5, 7));
  a[Slice(1, 3)] -= 2;  // a view
  a[Slice(0, 1)].zero_();
  EXPECT_EQ(a.to_vector<float>(), (Floats{0, 5, 5, 7, 7}));
  a[a == 5].sub_(1).mul_(2);  // the second is of what the first gave: a tensor by itself
  EXPECT_EQ(a.to_vector<float>(), (Floats{0, 4, 4, 7, 7}));
  a[a == 7].clamp_({}, 6);
  a[a == 4].pow_(2).neg_();
  EXPECT_EQ(a.to_vector<float>(), (Floats{0, 16, 16, 6, 6}));
  fill_(a[a == 16], 1);
  copy_(a[a == 6], ones({1}));
  add_(a[a == 1], full({4}, 2.0));
  EXPECT_EQ(a.to_vector<float>(), (Floats{0, 3, 3, 3, 3}));
  a[a == 3] /= 2;
  a[a == 1.5] -= tensor({1.0F, 2.0F, 3.0F, 4.0F});
  a[a < 0] %= 2;
  EXPECT_EQ(a.to_vector<float>(), (Floats{0, 0.5, 1.5, 0.5, 1.5}));
  // What was read stays what it was, and so does what it was read from.
  Tensor part = a[a > 1];
  part += 1;
  auto named = a[a > 1];
  named.fill_(9);
  EXPECT_EQ(part.to_vector<float>(), Floats(2, 2.5));
  EXPECT_EQ(a.to_vector<float>(), (Floats{0, 0.5, 1.5, 0.5, 1.5}));
  const Tensor grid = counted({2, 3});
  grid.index({Slice(), Slice(None, None, -1)}).add_(grid);
  EXPECT_EQ(grid.to_vector<float>(), (Floats{2, 2, 2, 8, 8, 8}));
}

TEST(TensorIndexing, WhatIsDoneInPlaceHasAGradient) {
  const Tensor w = ones({3}).set_requires_grad();
  const Tensor a = w * 2;
  a[tensor({true, false, true})] *= 3;
  a.index({Slice(None, None, -1)}) += w;
  sum(a).backward();
  EXPECT_EQ(w.grad().to_vector<float>(), (Floats{7, 3, 7}));
}

TEST(TensorIndexing, PartsAreTensorsForWhoTakesThem) {
  const Tensor a = counted({4});
  const auto reversed = compile([](const Tensor& x) { return x[Slice(None, None, -1)]; });
  const Tensor back = reversed(a[Slice(1, 4)]);
  EXPECT_EQ(back.to_vector<float>(), (Floats{3, 2, 1}));
  const auto scaled = compile([](const Tensor& x, double k) { return x * k; });
  EXPECT_EQ(scaled(a[a > 1], 2.0).to_vector<float>(), (Floats{4, 6}));
  EXPECT_EQ(nn::L1Loss()(a[Slice(0, 2)], ones({2})).item(), 0.5);
}

TEST(TensorIndexing, AssignsInCompiledFunctionsToo) {
  const auto f = compile([](const Tensor& x) {
    const Tensor y = x.clone();
    y[0] = 2;
    y.index_put_({Slice(1, None)}, 9);
    return y;
  });
  EXPECT_EQ(f(ones({3})).to_vector<float>(), (Floats{2, 9, 9}));
}

TEST(TensorIndexing, RefusesWhatIsNotThere) {
  const Tensor a = zeros({2, 3});
  expect_error<IndexError>("2", [&] { a[2]; });
  expect_error<IndexError>("index: -4 is out of range for axis 1 of shape [2, 3]",
                           [&] { a.index({0, -4}); });
  expect_error<IndexError>("index: 3 indices for a tensor of shape [2, 3]",
                           [&] { a.index({0, 0, 0}); });
  expect_error<IndexError>("index: more than one Ellipsis", [&] { a.index({Ellipsis, Ellipsis}); });
  expect_error<IndexError>("must be of integers or bool, got f32", [&] { a.index({ones({1})}); });
  expect_error<IndexError>("expected \"...\"", [&] { a.index({".."}); });
  expect_error<Error>("the step of a slice is 0", [&] { a[Slice(0, 1, 0)]; });
  expect_error<IndexError>("a 0-d tensor has no axis", [] { scalar(1)[0]; });
}

TEST(MakeTensor, OfListsArraysAndSpans) {
  EXPECT_EQ(tensor({1.0F, 2.0F}).shape(), (Shape{2}));
  EXPECT_EQ(tensor({{1.0, 2.0}, {3.0, 4.0}}).to_vector<double>(),
            (std::vector<double>{1, 2, 3, 4}));
  const Tensor deep = tensor({{{1, 2}}, {{3, 4}}, {{5, 6}}});
  EXPECT_EQ(deep.shape(), (Shape{3, 1, 2}));
  EXPECT_EQ(deep.dtype(), DType::i32);
  EXPECT_EQ(tensor(std::array{1.5F, 2.5F, 3.5F, 4.5F}, {2, 2})[1][0].item(), 3.5);
  EXPECT_EQ(tensor(std::array{true, false}).to_vector<bool>(), (std::vector<bool>{true, false}));
  EXPECT_EQ(tensor(std::vector<bool>{true, false}).dtype(), DType::boolean);
  EXPECT_EQ(tensor(std::vector<long long>{1, 2}).dtype(), DType::i64);
  std::vector<float> values = {1, 2};
  EXPECT_EQ(tensor(std::span(values)).to_vector<float>(), values);
  const float two[] = {1, 2};
  EXPECT_EQ(tensor(two).to_vector<float>(), values);
  EXPECT_EQ(tensor(std::span(two)).to_vector<float>(), values);
  EXPECT_EQ(tensor(2.5).shape(), Shape());
  EXPECT_EQ(tensor(int64_t{1} << 60).item<int64_t>(), int64_t{1} << 60);
  EXPECT_EQ(tensor(true).dtype(), DType::boolean);
  EXPECT_EQ(zeros(std::vector<int>{2, 3}).shape(), (Shape{2, 3}));
  EXPECT_EQ(zeros(std::array<int64_t, 2>{2, 3}).shape(), (Shape{2, 3}));
  EXPECT_EQ(zeros(4).shape(), (Shape{4}));
  EXPECT_EQ(zeros({2}, DType::i64).dtype(), DType::i64);
  EXPECT_EQ(full({2}, 3, DType::f64).dtype(), DType::f64);
  EXPECT_EQ(arange(3, DType::f32).dtype(), DType::f32);
  EXPECT_EQ(uniform({2}, 0, 1, DType::f64).dtype(), DType::f64);
  EXPECT_EQ(rand({2}, DType::f64).dtype(), DType::f64);
  EXPECT_EQ(randn({2}, DType::f64).dtype(), DType::f64);
  EXPECT_EQ(randint(0, 9, {2}, DType::i32).dtype(), DType::i32);
  EXPECT_EQ(eye(2, DType::i64).to_vector<int64_t>(), (Ints{1, 0, 0, 1}));
  EXPECT_EQ(fft::fftfreq(4, 1, DType::f64).dtype(), DType::f64);
  EXPECT_EQ(fft::rfftfreq(4, 1, DType::f64).dtype(), DType::f64);
  expect_error<ShapeError>("rows of a list must have the same length, got 2 and 1",
                           [] { tensor({{1, 2}, {3}}); });
}

TEST(MakeTensor, FromBlobUsesMemoryWhereItLies) {
  std::vector<float> memory = {1, 2, 3, 4, 5, 6};
  const Tensor t = from_blob(memory.data(), {2, 3});
  memory[5] = 9;
  EXPECT_EQ(t[1][2].item(), 9);
  t[0][0] = 7;
  EXPECT_EQ(memory[0], 7);
  EXPECT_EQ(from_blob(memory.data(), {3, 2}, {1, 3}).to_vector<float>(),
            (Floats{7, 4, 2, 5, 3, 9}));
  void* const bytes = memory.data();
  EXPECT_EQ(from_blob(bytes, {6}, DType::f32)[5].item(), 9);
  EXPECT_EQ(from_blob(bytes, {3}, {2}, DType::f32).to_vector<float>(), (Floats{7, 3, 5}));
  int gone = 0;
  {
    const Tensor owned = from_blob(new int64_t[2]{3, 4}, {2}, {}, [&](void* p) {
      delete[] static_cast<int64_t*>(p);
      ++gone;
    });
    const Tensor part = owned[1];
    EXPECT_EQ(part.item<int64_t>(), 4);
    EXPECT_EQ(gone, 0);
  }
  EXPECT_EQ(gone, 1);
  // What the program writes is seen by what was compiled.
  const Tensor w = from_blob(memory.data(), {6});
  const auto f = compile([&](const Tensor& x) { return mul(x, cast(w, DType::f64)).sum(); });
  const Tensor one = ones({6}, {.dtype = DType::f64});
  const double before = f(one).item();
  memory[1] += 1;
  EXPECT_EQ(f(one).item(), before + 1);
  expect_error<Error>("from_blob: no memory was given for a tensor of shape [2]",
                      [] { from_blob(static_cast<float*>(nullptr), {2}); });
  expect_error<ShapeError>("differ in rank", [&] { from_blob(memory.data(), {2}, {1, 1}); });
  expect_error<ShapeError>("must not be negative", [&] { from_blob(memory.data(), {2}, {-1}); });
  expect_error<ShapeError>("reaches past all memory",
                           [&] { from_blob(memory.data(), {3}, {int64_t{1} << 62}); });
}

TEST(MakeTensor, MemoryWithoutAnOwnerIsNotOwned) {
  alignas(16) float memory[4] = {1, 2, 3, 4};
  const size_t before = memory_stats(Device::cpu()).allocated;
  {
    const Ref<Storage> storage = make_ref<Storage>(memory, sizeof memory, Device::cpu(), nullptr);
  }
  EXPECT_EQ(memory_stats(Device::cpu()).allocated, before);
  const Tensor fresh = empty({4});
  EXPECT_NE(fresh.data(), static_cast<void*>(memory));
}

TEST(Values, ItemIsExact) {
  EXPECT_EQ(scalar(uint64_t{1} << 63, {DType::u64}).item<uint64_t>(), uint64_t{1} << 63);
  EXPECT_EQ(scalar(int64_t{-9007199254740993}, {DType::i64}).item<int64_t>(), -9007199254740993);
  EXPECT_EQ(scalar(3.0).item<int>(), 3);
  EXPECT_EQ(scalar(0.5).item<float>(), 0.5F);
  EXPECT_TRUE(scalar(true, {DType::boolean}).item<bool>());
  expect_error<DTypeError>("item: i64 cannot hold 2.5", [] { (void)scalar(2.5).item<int64_t>(); });
  expect_error<DTypeError>("item: u8 cannot hold 256", [] { (void)scalar(256).item<uint8_t>(); });
  expect_error<DTypeError>("item: i64 cannot hold",
                           [] { (void)scalar(uint64_t{1} << 63, {DType::u64}).item<int64_t>(); });
  expect_error<DTypeError>("item: bool cannot hold 2", [] { (void)scalar(2).item<bool>(); });
}

TEST(Values, AccessorsReachElements) {
  const Tensor a = counted({2, 3}).t();
  auto at = a.accessor<float, 2>();
  EXPECT_EQ(at.size(0), 3);
  EXPECT_EQ(at[2][1], 5);
  at[2][1] = 7;
  at.at(0, 0) = -1;
  EXPECT_EQ(a.to_vector<float>(), (Floats{-1, 3, 1, 4, 2, 7}));
  expect_error<IndexError>("accessor: 3 is out of range for axis 0 of size 3",
                           [&] { at.at(3, 0); });
  expect_error<IndexError>("accessor: -1 is out of range", [&] { at.at(0, -1); });
  expect_error<ShapeError>("expected 1 axes, the tensor has shape [3, 2]",
                           [&] { a.accessor<float, 1>(); });
  expect_error<DTypeError>("f32", [&] { a.accessor<double, 2>(); });
}

TEST(Values, AreWrittenToStreams) {
  std::ostringstream text;
  text << tensor({{1.0F, 2.0F}}) << ' ' << Shape{2, 3} << ' ' << DType::i64 << ' ' << Device::cpu();
  EXPECT_EQ(text.str(), "tensor([[1., 2.]]) [2, 3] i64 cpu");
}

}  // namespace
}  // namespace mica
