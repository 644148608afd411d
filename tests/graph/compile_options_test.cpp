// What can be chosen when a function is compiled, and what its calls take.
#include <gtest/gtest.h>

#include "mica/mica.h"
#include "tests/device.h"
#include "tests/unit/expect_error.h"

namespace mica {
namespace {

using Floats = std::vector<float>;

TEST(CompileOptions, ThePlanUsedLongestAgoMakesRoom) {
  std::vector<std::string> said;
  set_log_callback([&](LogLevel level, const std::string& text) {
    EXPECT_EQ(level, LogLevel::warning);
    said.push_back(text);
  });
  const auto f = compile([](const Tensor& x) { return neg(x); }, {.max_plans = 2});
  const auto captures = [&](int64_t n) {
    f(ones({n}));
    return f.function()->captures();
  };
  EXPECT_EQ(captures(1), 1);
  EXPECT_EQ(captures(2), 2);
  EXPECT_EQ(captures(1), 2);
  EXPECT_EQ(captures(3), 3);  // in the place of 2
  EXPECT_EQ(captures(1), 3);
  EXPECT_EQ(captures(2), 4);
  set_log_callback({});
  ASSERT_EQ(said.size(), 1U);
  EXPECT_TRUE(said[0].starts_with("compile: a function was captured for more than 2 kinds"));
  expect_error<Error>("max_plans must be at least 1, got 0", [] {
    compile([](const Tensor& x) { return x; }, {.max_plans = 0})(ones({1}));
  });
}

TEST(CompileOptions, BucketsFillBatchesUp) {
  const Tensor w = tensor<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  const auto plain = [&](const Tensor& x) { return relu(matmul(x, w)); };
  const auto f = compile(plain, {.buckets = {8, 2, 4}});
  for (int64_t rows = 1; rows <= 9; ++rows) {
    const Tensor x = uniform({rows, 2}, -1, 1);
    const Tensor y = f(x);
    EXPECT_EQ(y.shape(), (Shape{rows, 3}));
    EXPECT_EQ(y.to_vector<float>(), plain(x).to_vector<float>());
  }
  EXPECT_EQ(f.function()->captures(), 4);  // 2, 4, 8, and 9 as it is
}

TEST(CompileOptions, BucketsLetGradientsThrough) {
  const Tensor w = ones({2}).set_requires_grad();
  const auto f = compile([&](const Tensor& x) { return mul(x, w); }, {.buckets = {4}});
  const Tensor x = ones({3, 2}).set_requires_grad();
  sum(f(x)).backward();
  EXPECT_EQ(w.grad().to_vector<float>(), (Floats{3, 3}));
  EXPECT_EQ(x.grad().to_vector<float>(), Floats(6, 1));
}

TEST(CompileOptions, BucketsWantBatches) {
  const auto f =
      compile([](const Tensor& x, const Tensor& y) { return add(x, y); }, {.buckets = {4}});
  expect_error<ShapeError>("all arguments are batches of as many rows; argument 1 has shape [3]",
                           [&] { f(ones({2}), ones({3})); });
  const auto total = compile([](const Tensor& x) { return sum(x); }, {.buckets = {4}});
  expect_error<ShapeError>("all results are batches of as many rows", [&] { total(ones({2})); });
  expect_error<Error>("a bucket must have rows", [] {
    compile([](const Tensor& x) { return x; }, {.buckets = {0}})(ones({1}));
  });
}

TEST(CompileOptions, NumbersLieWhereTheTensorsDo) {
  const Device device = test::device();
  const auto f = compile([](const Tensor& x, const Tensor& k, const Tensor& turned) {
    return where(turned, neg(x), x * k);
  });
  const Tensor x = ones({2}, {.device = device});
  EXPECT_EQ(f(x, 3.0, false).to_vector<float>(), Floats(2, 3));
  EXPECT_EQ(f(x, 4.0, false).to_vector<float>(), Floats(2, 4));
  EXPECT_EQ(f(x, 4.0, true).to_vector<float>(), Floats(2, -1));
  EXPECT_EQ(f.function()->captures(), 1);
}

TEST(CompileOptions, NumbersForTensorsDoNotCaptureAgain) {
  const auto f = compile([](const Tensor& x, const Tensor& k) { return mul(x, k); });
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(f(ones({2}), 0.5 * i).to_vector<float>(), Floats(2, 0.5F * static_cast<float>(i)));
  EXPECT_EQ(f.function()->captures(), 1);
  const auto g = compile([](const Tensor& x, double k) { return mul(x, k); });
  for (int i = 0; i < 3; ++i) g(ones({2}), static_cast<double>(i));
  EXPECT_EQ(g.function()->captures(), 3);
}

struct Pair {
  Tensor low;
  Tensor high;
  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("low", self.low);
    f("high", self.high);
  }
};

TEST(CompileOptions, ResultsMayBePairsAndStructs) {
  const auto f = compile([](const Tensor& x) { return std::pair(neg(x), exp(x)); });
  const auto [minus, e] = f(zeros({1}));
  EXPECT_EQ(minus.item(), 0);
  EXPECT_EQ(e.item(), 1);
  const auto g = compile([](const Tensor& x) { return Pair{min(x), max(x)}; });
  const Pair p = g(tensor<float>({3, 1, 2}, {3}));
  EXPECT_EQ(p.low.item(), 1);
  EXPECT_EQ(p.high.item(), 3);
}

TEST(CompileOptions, MessagesGoToTheCallback) {
  std::vector<std::string> said;
  set_log_callback([&](LogLevel, const std::string& text) {
    said.push_back(text);
    throw Error("dropped");
  });
  set_verbose_compile(true);
  compile([](const Tensor& x) { return neg(x); })(ones({1}));
  set_verbose_compile(false);
  set_log_callback({});
  ASSERT_FALSE(said.empty());
  EXPECT_TRUE(said.back().starts_with("compile: planned: 1 steps")) << said.back();
}

}  // namespace
}  // namespace mica
