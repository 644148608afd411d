// Random programs give the same bits eagerly and compiled, whichever passes are on.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "mica/graph/memory_plan.h"
#include "mica/graph/passes/passes.h"
#include "mica/graph/plan.h"
#include "mica/mica.h"
#include "tests/device.h"

namespace mica {
namespace {

constexpr int64_t kSize = 6;
constexpr int kPrograms = 100;

/// A program of matrices that a seed chooses. It reads and writes `state`.
class Program {
 public:
  explicit Program(uint32_t seed) : seed_(seed) {}

  Tensors operator()(const Tensor& x, const Tensor& y, const Tensor& state) const {
    std::mt19937 random(seed_);
    const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
    Tensors pool = {x, y, tanh(state)};
    const auto any = [&]() -> const Tensor& { return pool[below(pool.size())]; };
    const int length = 6 + static_cast<int>(below(20));
    for (int i = 0; i < length; ++i) {
      pool.push_back(step(below(24), any(), any(), below, state));
      if (pool.size() > 4) pool.erase(pool.begin() + static_cast<std::ptrdiff_t>(below(4)));
    }
    Tensors results = {any(), any(), any(), sum(pool.back()), sum(any(), {1})};
    for (Tensor& t : results)
      if (t.impl() == x.impl() || t.impl() == y.impl()) t = neg(t);
    return results;
  }

 private:
  template <class Below>
  static Tensor step(size_t kind, const Tensor& a, const Tensor& b, const Below& below,
                     const Tensor& state) {
    constexpr double kNumbers[] = {0, 1, -1, 2, 0.5};
    switch (kind) {
      case 0:
        return add(a, b);
      case 1:
        return sub(a, b);
      case 2:
        return tanh(mul(a, b));
      case 3:
        return maximum(a, b);
      case 4:
        return neg(a);
      case 5:
        return relu(a);
      case 6:
        return exp(neg(abs(a)));
      case 7:
        return tanh(matmul(a, b));
      case 8:
        return add(a, kNumbers[below(5)]);
      case 9:
        return mul(a, kNumbers[below(5)]);
      case 10:
        return sub(a, kNumbers[below(5)]);
      case 11:
        return mul(a, full_like(a, kNumbers[below(5)]));
      case 12:
        return add(a,
                   sub(ones_like(a), full({1, kSize}, kNumbers[below(5)], {.device = a.device()})));
      case 13:
        return transpose(a, 0, 1);
      case 14:
        return transpose(reshape(reshape(a, {kSize * kSize}), {kSize, kSize}), 0, 1);
      case 15:
        return cast(cast(a, DType::f64), DType::f32);
      case 16:
        return cast(cast(a, DType::f16), DType::f32);
      case 17:
        return clone(a);
      case 18:
        return tanh(add(a, sum(b, {0}, true)));
      case 19:
        return div(a, 1.0);
      case 20: {
        copy_(state, tanh(add(state, a)));
        return mul(state, b);
      }
      case 21:
        return clone(state);
      case 22:
        return exp(transpose(state, 0, 1));
      default: {
        const Tensor own = clone(a);
        const Tensor before = neg(own);
        copy_(own, b);
        return add(own, before);
      }
    }
  }

  uint32_t seed_;
};

void expect_same_bits(const Tensor& a, const Tensor& b, const std::string& what) {
  ASSERT_EQ(a.shape(), b.shape()) << what;
  const auto left = a.to_vector<float>();
  const auto right = b.to_vector<float>();
  EXPECT_EQ(std::memcmp(left.data(), right.data(), left.size() * sizeof(float)), 0) << what;
}

/// Runs every program twice with a pass left out; none for an empty name.
void compare(const std::string& without) {
  set_deterministic(true);
  if (!without.empty()) set_pass(without, false);
  manual_seed(11);
  for (uint32_t seed = 0; seed < kPrograms; ++seed) {
    const Program program(seed);
    const auto drawn = [] { return to(uniform({kSize, kSize}, -1, 1), test::device()); };
    const Tensor x = drawn();
    const Tensor y = drawn();
    const Tensor state = drawn();
    const Tensor compiled_state = clone(state);
    auto compiled =
        compile([&](const Tensor& a, const Tensor& b) { return program(a, b, compiled_state); });
    for (int run = 0; run < 2; ++run) {
      const size_t before = memory_stats(test::device()).allocated;
      runtime(test::device()).reset_peak(test::device().index);
      const Tensors expected = program(x, y, state);
      const size_t peak = memory_stats(test::device()).peak - before;
      const Tensors got = compiled(x, y);
      const std::string what = "program " + std::to_string(seed) + " without '" + without + "':\n" +
                               compiled.function()->plan()->graph().dump();
      for (size_t i = 0; i < expected.size(); ++i) expect_same_bits(expected[i], got[i], what);
      expect_same_bits(state, compiled_state, what);
      const size_t arguments = 2 * round_up(x.storage()->bytes(), alignment(x.device()));
      EXPECT_LE(compiled.function()->plan()->planned_bytes(), peak + arguments) << what;
    }
    if (testing::Test::HasFailure()) break;
  }
  if (!without.empty()) set_pass(without, true);
  set_deterministic(false);
}

class RandomGraphs : public testing::Test {
 protected:
  void SetUp() override {
    if (test::device().is_cuda() && !cuda_available())
      GTEST_SKIP() << "no CUDA device: " << cuda_unavailable_reason();
  }
};

TEST_F(RandomGraphs, AgreeWithEagerBitForBit) { compare(""); }

TEST_F(RandomGraphs, AgreeWithEagerWithoutAnyOnePass) {
  for (const Pass& pass : passes()) compare(pass.name);
}

}  // namespace
}  // namespace mica
