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
    set_allow_tf32(false);
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
                         2 * tolerance_of("anchored").forward.of(dtype))
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
  EXPECT_THAT(told(), testing::ContainsRegex("cublaslt \\(plain [0-9a-f]+\\) takes [0-9.]+ µs"));
  // Another setting and back: the kernel is prepared again, from the answer that was kept.
  set_deterministic(true);
  set_deterministic(false);
  const std::string again = told();
  EXPECT_THAT(again, testing::HasSubstr("cublaslt"));
  EXPECT_THAT(again, testing::Not(testing::HasSubstr("takes")));
}

/// Channels, groups and sizes that no vector of four or eight divides. A candidate that reads past
/// them, or at addresses that do not suit it, would end the context and every test after this one.
TEST_F(Autotune, OddShapesAreSafeToTime) {
  struct Case {
    int64_t n, c, o, groups, kernel, size;
  };
  constexpr Case kCases[] = {{5, 3, 6, 3, 3, 3}, {5, 5, 10, 5, 5, 5}, {1, 7, 14, 7, 3, 5},
                             {2, 7, 7, 7, 5, 7}, {3, 6, 9, 3, 3, 5},  {2, 5, 7, 1, 3, 5},
                             {5, 1, 3, 1, 5, 9}, {1, 9, 15, 3, 3, 7}};
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (const MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last})
      for (const Case& k : kCases) {
        manual_seed(7);
        const auto draw = [&](const Shape& shape) {
          return contiguous(uniform(shape, -1, 1, {dtype, device_}), format);
        };
        const Conv2dParams params{.padding = k.kernel / 2, .groups = k.groups};
        const Tensor x = draw({k.n, k.c, k.size, k.size});
        const Tensor w = draw({k.o, k.c / k.groups, k.kernel, k.kernel});
        const Tensor dy = draw({k.n, k.o, k.size, k.size});
        const auto all = [&] {
          return Tensors{conv2d(x, w, {}, params), conv2d_dgrad(dy, w, {params, x.shape()}),
                         conv2d_wgrad(dy, x, {params, w.shape()})};
        };
        set_allow_tf32(false);
        set_autotune(false);
        const Tensors expected = all();
        set_allow_tf32(true);
        set_autotune(true);
        const Tensors timed = all();
        // TF32 rounds the factors of f32 to as many bits as f16 has.
        const double tolerance =
            2 * tolerance_of("conv2d").forward.of(dtype == DType::f32 ? DType::f16 : dtype);
        for (size_t i = 0; i < timed.size(); ++i)
          EXPECT_EQ(
              difference(to_host(timed[i]), to_host(expected[i]), dtype, tolerance).value_or(""),
              "")
              << mica::name_of(dtype) << ", " << k.c << " to " << k.o << " channels, result " << i;
      }
}

/// Operands that start in the middle of a vector.
TEST_F(Autotune, UnalignedOperandsAreSafeToTime) {
  set_allow_tf32(true);
  const auto offset = [&](const Shape& shape) {
    manual_seed(3);
    const Tensor all = uniform({numel(shape) + 1}, -1, 1, {.device = device_});
    return reshape(slice(all, 0, 1, numel(shape) + 1), shape);
  };
  const Tensor a = offset({33, 64});
  const Tensor b = offset({64, 36});
  const Tensor x = offset({2, 8, 9, 9});
  const Tensor w = offset({8, 8, 3, 3});
  const auto all = [&] {
    return Tensors{matmul(a, b), linear(a, transpose(b, 0, 1)), conv2d(x, w),
                   conv2d_wgrad(offset({2, 8, 7, 7}), x, {{}, w.shape()})};
  };
  set_autotune(false);
  const Tensors expected = all();
  set_autotune(true);
  const Tensors timed = all();
  for (size_t i = 0; i < timed.size(); ++i)
    EXPECT_EQ(difference(to_host(timed[i]), to_host(expected[i]), DType::f32,
                         4 * tolerance_of("conv2d").forward.of(DType::f16))
                  .value_or(""),
              "")
        << "result " << i;
}

}  // namespace
}  // namespace mica::cases
