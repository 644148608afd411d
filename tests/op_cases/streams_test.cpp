// One seed gives the same numbers everywhere: on every device, in every layout, eager and compiled.
#include <gtest/gtest.h>

#include "tests/op_cases/device.h"
#include "tests/op_cases/values.h"

namespace mica::cases {
namespace {

class Streams : public ::testing::Test {
 protected:
  void SetUp() override {
    if (device_.is_null()) GTEST_SKIP() << "the null device has no values";
    if (device_.is_cuda() && !cuda_available())
      GTEST_SKIP() << "skipped: no CUDA device: " << cuda_unavailable_reason();
  }

  const Device device_ = tested_device();
};

constexpr uint64_t kSeed = 77;

std::vector<double> masks(const Tensor& x, Device device) {
  manual_seed(kSeed);
  std::vector<double> all;
  for (int i = 0; i < 3; ++i)
    for (const double v : to_host(dropout(to(x, device), 0.3)).values) all.push_back(v);
  return all;
}

TEST_F(Streams, DropoutMasksAreThoseOfTheCpu) {
  const Tensor x = ones({3, 5, 7, 9});
  EXPECT_EQ(masks(x, device_), masks(x, Device::cpu()));
}

TEST_F(Streams, DropoutMasksDoNotDependOnTheLayout) {
  const Tensor x = ones({3, 5, 7, 9});
  const std::vector<double> expected = masks(x, device_);
  EXPECT_EQ(masks(contiguous(x, MemoryFormat::channels_last), device_), expected);
  manual_seed(kSeed);
  const Tensor strided = transpose(ones({9, 5, 7, 3}, {.device = device_}), 0, 3);
  const auto first = to_host(dropout(strided, 0.3)).values;
  EXPECT_TRUE(std::equal(first.begin(), first.end(), expected.begin()));
}

TEST_F(Streams, DropoutMasksAreTheSameCompiled) {
  for (const MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
    const Tensor x = contiguous(ones({3, 5, 7, 9}, {.device = device_}), format);
    const std::vector<double> expected = masks(x, device_);
    auto compiled = compile([](const Tensor& t) { return dropout(t, 0.3); });
    manual_seed(kSeed);
    std::vector<double> all;
    for (int i = 0; i < 3; ++i)
      for (const double v : to_host(compiled(x)).values) all.push_back(v);
    EXPECT_EQ(all, expected);
    EXPECT_EQ(compiled.function()->captures(), 1);
  }
}

TEST_F(Streams, UniformNumbersAreThoseOfTheCpuBitForBit) {
  for (const DType dtype : kFloats) {
    manual_seed(kSeed);
    const Tensor here = uniform({1001}, -3, 5, {dtype, device_});
    manual_seed(kSeed);
    const Tensor cpu = uniform({1001}, -3, 5, {.dtype = dtype});
    EXPECT_EQ(bit_difference(here, cpu).value_or(""), "") << mica::name_of(dtype);
  }
}

TEST_F(Streams, NormalNumbersAreThoseOfTheCpuToAFewUlp) {
  manual_seed(kSeed);
  const HostArray here = to_host(normal({1001}, 0, 1, {.device = device_}));
  manual_seed(kSeed);
  const HostArray cpu = to_host(normal({1001}));
  EXPECT_EQ(difference(here, cpu, DType::f32, 5e-7).value_or(""), "");
}

TEST_F(Streams, TheStateCanBeSavedAndWrittenBack) {
  manual_seed(kSeed);
  uniform({10}, 0, 1, {.device = device_});
  const Tensor saved = clone(rng_state(device_));
  const Tensor a = uniform({10}, 0, 1, {.device = device_});
  copy_(rng_state(device_), saved);
  EXPECT_EQ(bit_difference(a, uniform({10}, 0, 1, {.device = device_})).value_or(""), "");
}

TEST_F(Streams, DrawsLookUniformAndNormal) {
  manual_seed(kSeed);
  constexpr int64_t kMany = 100000;
  const Tensor u = uniform({kMany}, 0, 1, {.dtype = DType::f64, .device = device_});
  EXPECT_NEAR(mean(u).item(), 0.5, 0.005);
  EXPECT_NEAR(mean(mul(u, u)).item(), 1.0 / 3, 0.005);
  const Tensor z = normal({kMany}, 1, 2, {.dtype = DType::f64, .device = device_});
  EXPECT_NEAR(mean(z).item(), 1, 0.03);
  EXPECT_NEAR(mean(mul(z, z)).item(), 5, 0.1);
  const Tensor kept = dropout(ones({kMany}, {.dtype = DType::f64, .device = device_}), 0.25);
  EXPECT_NEAR(mean(kept).item(), 1, 0.01);
}

TEST_F(Streams, DropoutOutsideTrainingIsTheInput) {
  const Tensor x = ones({4}, {.device = device_});
  EXPECT_EQ(dropout(x, 0.5, false).impl(), x.impl());
  EXPECT_EQ(dropout(x, 0.0).impl(), x.impl());
}

TEST_F(Streams, RandpermIsAPermutation) {
  manual_seed(kSeed);
  std::vector<int64_t> order = randperm(1000).to_vector<int64_t>();
  EXPECT_FALSE(std::is_sorted(order.begin(), order.end()));
  std::sort(order.begin(), order.end());
  for (int64_t i = 0; i < 1000; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

}  // namespace
}  // namespace mica::cases
