// What kernels make of weights that stay as they are, a plan keeps from run to run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mica/graph/plan.h"
#include "mica/mica.h"
#include "mica/op/settings.h"

namespace mica {
namespace {

/// Runs with a kernel of the op and without; raises where it cannot.
struct Forced {
  std::string op;
  Forced(std::string name, const std::string& kernel) : op(std::move(name)) {
    force_kernel(op, kernel);
  }
  ~Forced() { force_kernel(op, ""); }
};

using Body = std::function<Tensor(const Tensor&)>;

void expect_equal(const Tensor& a, const Tensor& b) {
  EXPECT_THAT(a.to_vector<float>(),
              testing::Pointwise(testing::FloatNear(1e-5F), b.to_vector<float>()));
}

/// That a compiled function follows its weight, and keeps something of it.
void expect_kept(const Body& body, const Tensor& x, const Tensor& weight) {
  auto f = compile(body);
  for (int run = 0; run < 3; ++run) expect_equal(f(x), body(x));
  EXPECT_GE(f.function()->plan()->kept_bytes(), static_cast<size_t>(weight.numel()) * 4);
  EXPECT_EQ(f.function()->plan()->prologue_steps(), 0U);
  const auto before = f(x).to_vector<float>();
  // A write that no version tells of is not seen, so nothing was made again.
  auto* const memory = static_cast<float*>(weight.data());
  const float first = memory[0];
  memory[0] += 1;
  EXPECT_EQ(f(x).to_vector<float>(), before);
  weight.storage()->bump_version();
  EXPECT_NE(f(x).to_vector<float>(), before);
  expect_equal(f(x), body(x));
  memory[0] = first;
  fill_(weight, 0.25);
  expect_equal(f(x), body(x));
  EXPECT_EQ(f.function()->captures(), 1);
}

TEST(Keep, WeightsOfConvolutionsInTheOrderOfEachKernel) {
  manual_seed(1);
  const Tensor x = uniform({2, 8, 9, 11}, -1, 1);
  for (const char* kernel : {"direct", "im2col", "onednn"}) {
    const std::string name = kernel;
    const Tensor w = uniform({16, 8, 3, 3}, -1, 1);
    const Tensor b = uniform({16}, -1, 1);
    const Forced forced("conv2d", name);
    const auto body = [&](const Tensor& in) { return conv2d(in, w, b, {.padding = {1, 1}}); };
    try {
      body(x);
    } catch (const Error&) {
      continue;  // a library that is not there
    }
    SCOPED_TRACE(name);
    expect_kept(body, name == "onednn" ? contiguous(x, MemoryFormat::channels_last) : x, w);
  }
}

TEST(Keep, WeightsOfRecurrentLayers) {
  manual_seed(2);
  const Tensor w_ih = uniform({32, 5}, -1, 1);
  const Tensor w_hh = uniform({32, 8}, -1, 1);
  const Tensor b = uniform({32}, -1, 1);
  const Tensor state = uniform({3, 8}, -1, 1);
  const Tensor x = uniform({7, 3, 5}, -1, 1);
  const Forced forced("recurrent", "onednn");
  const auto body = [&](const Tensor& in) {
    return recurrent(in, {w_ih, w_hh, b, b}, state, state, {}, RecurrentMode::lstm).y;
  };
  try {
    body(x);
  } catch (const Error& e) {
    GTEST_SKIP() << "skipped: " << e.what();
  }
  expect_kept(body, x, w_hh);
}

TEST(Keep, IsThereBeforeTheFirstCall) {
  const Forced forced("conv2d", "direct");
  const Tensor x = uniform({1, 8, 9, 11}, -1, 1);
  const Tensor w = uniform({16, 8, 3, 3}, -1, 1);
  CompiledFunction f([&](std::span<const Tensor> in) -> Tensors { return {conv2d(in[0], w, {})}; });
  for (int i = 0; i < 2; ++i) f.prepare({&x, 1});
  EXPECT_EQ(f.captures(), 1);
  const Tensor expected = conv2d(x, w, {});
  // A write that no version tells of comes too late.
  static_cast<float*>(w.data())[0] += 1;
  expect_equal(f({&x, 1})[0], expected);
  EXPECT_EQ(f.captures(), 1);
}

TEST(Keep, NothingOfWeightsThatTheFunctionWritesTo) {
  const Tensor x = uniform({2, 8, 9, 11}, -1, 1);
  const Tensor w = uniform({16, 8, 3, 3}, -1, 1);
  auto f = compile([&](const Tensor& in) {
    const Tensor y = conv2d(in, w, {});
    copy_(w, mul(w, 0.5));
    return y;
  });
  for (int run = 0; run < 3; ++run) {
    const Tensor expected = conv2d(x, w, {});
    expect_equal(f(x), expected);
  }
  EXPECT_EQ(f.function()->plan()->kept_bytes(), 0U);
}

TEST(Keep, MemoryThatWasHandedOutIsReadAtEachRun) {
  const Tensor x = uniform({1, 8, 9, 11}, -1, 1);
  const Tensor w = uniform({16, 8, 3, 3}, -1, 1);
  const auto body = [&](const Tensor& in) { return conv2d(in, w, {}); };
  auto f = compile(body);
  f(x);
  auto* held = w.data_as<float>();
  for (const float value : {0.5F, 0.25F}) {
    held[3] = value;
    expect_equal(f(x), body(x));
  }
}

}  // namespace
}  // namespace mica
