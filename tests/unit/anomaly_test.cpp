#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <thread>

#include "mica/mica.h"
#include "tests/unit/expect_error.h"

namespace mica {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

Tensor leaf(std::initializer_list<float> values) {
  return tensor(values, {static_cast<int64_t>(values.size())}).set_requires_grad();
}

TEST(Anomaly, IsOffByDefaultAndPerThread) {
  EXPECT_FALSE(detect_anomaly());
  log(zeros({2}));
  {
    const AnomalyMode guard;
    EXPECT_TRUE(detect_anomaly());
    std::thread([] { EXPECT_FALSE(detect_anomaly()); }).join();
    {
      const AnomalyMode off(false);
      EXPECT_FALSE(detect_anomaly());
    }
    EXPECT_TRUE(detect_anomaly());
  }
  EXPECT_FALSE(detect_anomaly());
  set_detect_anomaly(true);
  expect_error<Error>("log: output 0 (f32[2]) is -inf at [0]", [] { log(zeros({2})); });
  set_detect_anomaly(false);
}

TEST(Anomaly, NamesTheOpThatMadeTheFirstOne) {
  const AnomalyMode guard;
  const Tensor x = leaf({1, 2, 0});
  expect_error<Error>(
      "div: output 0 (f32[3]) is inf at [2] though its inputs are finite; input 1 (f32[3]) came "
      "from mul ← leaf f32[3]",
      [&] { exp(div(ones({3}), mul(x, 2))); });
  expect_error<Error>("sqrt: output 0 (f32[2, 2]) is ", [] { sqrt(full({2, 2}, -1)); });
}

TEST(Anomaly, DoesNotBlameAnOpForWhatItWasGiven) {
  const AnomalyMode guard;
  const Tensor inf = full({2}, kInf);  // asked for
  EXPECT_EQ(sum(add(inf, 1)).item(), kInf);
  EXPECT_EQ(mul(ones({1}), kInf).item(), kInf);
  EXPECT_EQ(masked_fill(ones({1}), ones({1}, {.dtype = DType::boolean}), kInf).item(), kInf);
}

TEST(Anomaly, SeesWrites) {
  const AnomalyMode guard;
  const Tensor w = full({2}, 3e38);
  const Tensor g = full({2}, -3e38);
  expect_error<Error>("sgd_update: wrote inf at [0] to input 2 (f32[2]) though its inputs were",
                      [&] { sgd_update(scalar(1), {w}, {g}, {}, {}); });
}

TEST(Anomaly, InBackwardNamesTheOpAndWhereItWasRecorded) {
  const AnomalyMode guard;
  const Tensor x = leaf({4, 0});
  const Tensor y = sum(sqrt(mul(mul(x, x), 3)));  // finite; its gradient at 0 is not
  expect_error<Error>(
      "sqrt: its gradient for input 0 (f32[2]) is inf at [1] though what came back to it is "
      "finite; it was recorded as sqrt ← mul ← mul ← leaf f32[2]",
      [&] { y.backward(); });
  EXPECT_FALSE(x.grad().defined());
  // A long history is cut.
  Tensor z = x;
  for (int i = 0; i < 10; ++i) z = mul(z, 1.5);
  expect_error<Error>("it was recorded as sqrt ← mul ← mul ← mul ← mul ← …",
                      [&] { sum(sqrt(z)).backward(); });
}

TEST(Anomaly, InsideACheckpoint) {
  const Tensor x = leaf({4, 0});
  const AnomalyMode guard;
  const Tensor y = checkpoint([](const Tensor& t) { return sqrt(mul(t, t)); }, mul(x, 1));
  expect_error<Error>("sqrt: its gradient for input 0", [&] { sum(y).backward(); });
}

TEST(Anomaly, InACompiledFunctionStepByStep) {
  const Tensor w = leaf({4, 1});
  auto step = compile([&](const Tensor& x) -> Tensors {
    const Tensor loss = sum(sqrt(mul(mul(w, x), 3)));
    return {loss.detach(), grad({loss}, {w})[0]};
  });
  const Tensor good = tensor({1.0F, 2.0F}, {2});
  const Tensor bad = tensor({1.0F, -2.0F}, {2});
  step(good);
  step(bad);
  const AnomalyMode guard;
  step(good);
  expect_error<Error>(
      "sqrt: output 0 (f32[2]) is nan at [1] though its inputs are finite; it is a step of a "
      "compiled function, sqrt ← mul ← mul",
      [&] { step(bad); });
  step(good);
}

}  // namespace
}  // namespace mica
