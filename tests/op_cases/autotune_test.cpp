// Convolutions and products whose kernels were chosen by timing compute what those of the heuristic
// do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/op_cases/device.h"
#include "tests/op_cases/tolerance.h"
#include "tests/op_cases/values.h"
#include "tests/temporary_directory.h"

namespace mica::cases {
namespace {

class Autotune : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!device_.is_cuda()) GTEST_SKIP() << "skipped: only kernels on CUDA are timed";
    if (!cuda_available()) GTEST_SKIP() << "skipped: no CUDA device: " << cuda_unavailable_reason();
    setenv("MICA_CACHE", directory_.file("cache").c_str(), 1);
  }
  void TearDown() override {
    set_autotune(false);
    set_deterministic(false);
    set_verbose_dispatch(false);
    unsetenv("MICA_CACHE");
  }

  const TemporaryDirectory directory_;  // answers of earlier runs are not wanted
  const Device device_ = tested_device();
};

/// A convolution and its two gradients.
Tensors convolve(DType dtype, Device device, MemoryFormat format) {
  manual_seed(5);
  const auto draw = [&](const Shape& shape) {
    return contiguous(uniform(shape, -1, 1, {dtype, device}), format);
  };
  const Tensor x = draw({8, 6, 14, 14});
  const Tensor w = draw({16, 6, 5, 5});
  const Tensor dy = draw({8, 16, 10, 10});
  const Tensor b = uniform({16}, -1, 1, {dtype, device});
  return {conv2d(x, w, b), conv2d_dgrad(dy, w, {{}, x.shape()}),
          conv2d_wgrad(dy, x, {{}, w.shape()})};
}

TEST_F(Autotune, TheFastestKernelsGiveTheSameResults) {
  for (const DType dtype : kFloats)
    for (const MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
      set_autotune(false);
      const Tensors expected = convolve(dtype, device_, format);
      set_autotune(true);
      const Tensors timed = convolve(dtype, device_, format);
      // Both are within the tolerance of the exact result.
      const double tolerance = 2 * tolerance_of("conv2d").forward.of(dtype);
      for (size_t i = 0; i < timed.size(); ++i)
        EXPECT_EQ(
            difference(to_host(timed[i]), to_host(expected[i]), dtype, tolerance).value_or(""), "")
            << mica::name_of(dtype) << ", result " << i;
    }
}

TEST_F(Autotune, VerboseDispatchTellsTheTimes) {
  set_verbose_dispatch(true);
  set_autotune(true);
  const auto told = [&](int64_t batch) {
    testing::internal::CaptureStderr();
    conv2d(ones({batch, 3, 9, 9}, {.device = device_}), ones({4, 3, 3, 3}, {.device = device_}));
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(told(3), testing::ContainsRegex("mica: conv2d: direct takes [0-9.]+ µs"));
  set_deterministic(true);
  EXPECT_THAT(told(4), testing::Not(testing::HasSubstr("takes")));
}

TEST_F(Autotune, TimedProductsGiveTheSameResults) {
  for (const DType dtype : kFloats) {
    manual_seed(5);
    const Tensor x = uniform({48, 64}, -1, 1, {dtype, device_});
    const Tensor w = uniform({40, 64}, -1, 1, {dtype, device_});
    const Tensor b = uniform({40}, -1, 1, {dtype, device_});
    set_autotune(false);
    const Tensor expected = linear(x, w, b, {.activation = Activation::relu});
    set_autotune(true);
    const Tensor timed = linear(x, w, b, {.activation = Activation::relu});
    EXPECT_EQ(difference(to_host(timed), to_host(expected), dtype,
                         2 * tolerance_of("linear_act").forward.of(dtype))
                  .value_or(""),
              "")
        << mica::name_of(dtype);
  }
}

TEST_F(Autotune, AnswersAreKept) {
  set_verbose_dispatch(true);
  set_autotune(true);
  const auto told = [&] {
    testing::internal::CaptureStderr();
    matmul(ones({33, 65}, {.device = device_}), ones({65, 17}, {.device = device_}));
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_THAT(told(), testing::ContainsRegex("cublaslt's answer 0 takes [0-9.]+ µs"));
  // Another setting and back: the kernel is prepared again, from the answer that was kept.
  set_deterministic(true);
  set_deterministic(false);
  const std::string again = told();
  EXPECT_THAT(again, testing::HasSubstr("cublaslt"));
  EXPECT_THAT(again, testing::Not(testing::HasSubstr("takes")));
}

}  // namespace
}  // namespace mica::cases
