// Kernels from source, and libraries of operators.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "mica/custom/load_ops.h"
#include "mica/custom/parameter.h"
#include "mica/kernels.h"
#include "mica/mica.h"
#include "mica/op/dispatch.h"
#include "mica/profile/profile.h"
#include "tests/unit/expect_error.h"

namespace mica {
namespace {

TEST(KernelParameters, AreReadFromTheCompilersWords) {
  const auto p = parse_parameters("float const*, __half*, long long, void const*, float4*", "k");
  ASSERT_EQ(p.size(), 5U);
  EXPECT_TRUE(p[0].pointer && !p[0].written && p[0].dtype == DType::f32);
  EXPECT_TRUE(p[1].pointer && p[1].written && p[1].dtype == DType::f16);
  EXPECT_TRUE(!p[2].pointer && p[2].dtype == DType::i64);
  EXPECT_TRUE(p[3].pointer && !p[3].written && !p[3].dtype);
  EXPECT_TRUE(p[4].pointer && p[4].dtype == DType::f32);
  EXPECT_TRUE(parse_parameters("", "k").empty());
  expect_error<Unsupported>("k: parameter 1 has the type Pair<int, float>",
                            [] { parse_parameters("int, Pair<int, float>", "k"); });
  expect_error<Unsupported>("has the type float const (*) [3]",
                            [] { parse_parameters("float const (*) [3]", "k"); });
}

/// Null where the machine has no compiler.
std::unique_ptr<cpu::Kernel> scale_kernel() {
  try {
    return std::make_unique<cpu::Kernel>(
        "void scale(float* x, float a, long n) { for (long i = 0; i < n; ++i) x[i] *= a; }",
        "scale");
  } catch (const Unsupported&) {
    return nullptr;
  }
}

TEST(HostKernel, WritesAndIsPartOfCompiledFunctions) {
  const auto scale = scale_kernel();
  if (!scale) GTEST_SKIP() << "no C++ compiler";
  const Tensor x = ones({4});
  const uint32_t before = x.storage()->version();
  (*scale)(x, 2.0, 4);
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{2, 2, 2, 2}));
  EXPECT_NE(x.storage()->version(), before);  // so that backward sees the write
  const auto f = compile([&](const Tensor& v) {
    Tensor y = v * 1;
    (*scale)(y, 3.0, 4);
    return y + 1;
  });
  for (const double v : {1.0, 5.0})
    EXPECT_EQ(f(full({4}, v)).to_vector<float>()[3], static_cast<float>(3 * v + 1));
  EXPECT_EQ(x.to_vector<float>()[0], 2);
}

TEST(HostKernel, HoldsArgumentsToItsParameters) {
  const auto scale = scale_kernel();
  if (!scale) GTEST_SKIP() << "no C++ compiler";
  const Tensor x = ones({4});
  expect_error<Error>("scale: expected 3 arguments, got 2", [&] { (*scale)(x, 2.0); });
  expect_error<DTypeError>("argument 2 must be an integer", [&] { (*scale)(x, 2.0, 2.5); });
  expect_error<DTypeError>("argument 0 must be a tensor", [&] { (*scale)(3, 2.0, 4); });
  expect_error<DTypeError>("argument 0 must be a tensor of f32",
                           [&] { (*scale)(x.cast(DType::f64), 2.0, 4); });
  const Tensor leaf = ones({4}).set_requires_grad();
  expect_error<Error>("requires a gradient", [&] { (*scale)(leaf, 2.0, 4); });
}

TEST(HostKernel, IsInAProfileAndInTimelines) {
  const auto scale = scale_kernel();
  if (!scale) GTEST_SKIP() << "no C++ compiler";
  const Tensor x = ones({4});
  profiler::Profiler profiler;
  profiler.start();
  (*scale)(x, 2.0, 4);
  profiler.stop();
  const profiler::Profile& p = profiler.profile();
  ASSERT_EQ(p.runs.size(), 1U);
  EXPECT_EQ(p.kinds[static_cast<size_t>(p.runs[0].kind)].op, "kernel scale");
  EXPECT_EQ(x.to_vector<float>()[0], 2);
}

TEST(HostKernel, TakesAnyNumberOfArguments) {
  std::string parameters = "float* y";
  std::string sum;
  std::vector<KernelArgument> arguments = {zeros({1})};
  for (int i = 0; i < 20; ++i) {
    parameters += fmt::format(", long a{}", i);
    sum += fmt::format(" + {} * a{}", i + 1, i);
    arguments.emplace_back(i);
  }
  try {
    const cpu::Kernel k(fmt::format("void many({}) {{ y[0] = 0{}; }}", parameters, sum), "many");
    k.launch(arguments);
  } catch (const Unsupported&) {
    GTEST_SKIP() << "no C++ compiler";
  }
  EXPECT_EQ(std::get<Tensor>(arguments[0]).item(), 2660);  // the sum of i * (i + 1)
}

TEST(Elementwise, TakesNoComplexNumbers) {
  const cuda::Elementwise f("y = a * x", "a, x");
  const Tensor x = ones({3}, {.device = Device::null()});
  EXPECT_EQ(f(2.0, x)[0].shape(), Shape({3}));
  expect_error<DTypeError>("elementwise: a is 0+2j; a kernel takes no complex numbers",
                           [&] { f(Complex<double>(0, 2), x); });
}

TEST(LoadOps, NamesTheFile) {
  expect_error<IoError>("/no/such/library.so", [] { load_ops("/no/such/library.so"); });
}

TEST(LoadOps, TellsWhatBothSidesMustShare) {
  EXPECT_NE(ops_abi().find("mica 0."), std::string::npos);
  EXPECT_NE(ops_abi().find("OpDef of " + std::to_string(sizeof(OpDef))), std::string::npos);
}

}  // namespace
}  // namespace mica
