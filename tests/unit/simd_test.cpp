#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "mica/mica.h"
#include "mica/runtime/cpu/cpu_features.h"

namespace mica {
namespace {

struct Function {
  const char* name;
  Tensor (*call)(const Tensor&);
  double (*exact)(double);
  double ulp;  ///< the largest error allowed, in units in the last place
};

const Function kFunctions[] = {
    {"exp", exp, std::exp, 1}, {"log", log, std::log, 1},    {"sin", sin, std::sin, 2},
    {"cos", cos, std::cos, 2}, {"tanh", tanh, std::tanh, 2}, {"erf", erf, std::erf, 2.5},
};

/// The distance from `x` to the next float; denormal numbers have that of the smallest normal one.
double unit_of(double x) {
  return std::ldexp(1.0, std::max(std::ilogb(static_cast<float>(x)), -126) - 23);
}

/// Floats of every sign and exponent, infinite and NaN ones among them, and numbers near 1.
Tensor many_floats() {
  std::vector<float> x;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 8191)
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  for (int i = -250000; i < 250000; ++i) x.push_back(static_cast<float>(i) * 4e-5F);
  for (const float edge : {0.0F, -0.0F, 0x1p-149F, -0x1p-149F, HUGE_VALF, -HUGE_VALF, NAN})
    x.push_back(edge);
  return tensor(x, {static_cast<int64_t>(x.size())});
}

void expect_near_exact(const Function& f, const char* kernel) {
  const Tensor in = many_floats();
  force_kernel(f.name, kernel);
  const Tensor out = f.call(in);
  force_kernel(f.name, "");
  const auto* x = in.data_as<float>();
  const auto* y = out.data_as<float>();
  double worst = 0;
  float worst_at = 0;
  for (int64_t i = 0; i < in.numel(); ++i) {
    const double exact = f.exact(static_cast<double>(x[i]));
    const auto rounded = static_cast<float>(exact);
    if (!std::isfinite(rounded) || !std::isfinite(y[i])) {
      ASSERT_TRUE(y[i] == rounded || (std::isnan(y[i]) && std::isnan(rounded)))
          << f.name << "(" << x[i] << ") is " << y[i] << " by " << kernel << ", not " << exact;
      continue;
    }
    if (exact == 0 && y[i] == 0) {
      ASSERT_EQ(std::signbit(exact), std::signbit(y[i])) << f.name << "(" << x[i] << ")";
      continue;
    }
    const double error = std::fabs(static_cast<double>(y[i]) - exact) / unit_of(exact);
    if (error > worst) {
      worst = error;
      worst_at = x[i];
    }
  }
  EXPECT_LE(worst, f.ulp) << f.name << "(" << worst_at << ") by " << kernel;
}

TEST(Simd, FunctionsOfFloatsAreWithinUnitsInTheLastPlace) {
  for (const Function& f : kFunctions) expect_near_exact(f, "vectorized");
}

TEST(Simd, FunctionsOfFloatsAreWithinUnitsInTheLastPlaceWithAvx512) {
  if (!has_avx512()) GTEST_SKIP() << "no AVX-512";
  for (const Function& f : kFunctions) expect_near_exact(f, "avx512");
}

/// f of the whole is what f of its pieces is, bit for bit.
void expect_same_in_pieces(const char* name, const Tensor& x, Tensor (*f)(const Tensor&)) {
  const Tensor whole = f(x);
  constexpr int64_t kPiece = 100000;
  for (int64_t i = 0; i < x.numel(); i += kPiece) {
    const int64_t end = std::min(i + kPiece, x.numel());
    const Tensor piece = f(contiguous(slice(x, 0, i, end)));
    const auto size = static_cast<size_t>(size_of(whole.dtype()));
    ASSERT_EQ(std::memcmp(static_cast<const char*>(whole.data()) + static_cast<size_t>(i) * size,
                          piece.data(), static_cast<size_t>(end - i) * size),
              0)
        << name << " between " << i << " and " << end;
  }
}

template <DType dtype>
Tensor to_type(const Tensor& x) {
  return cast(x, dtype);
}

// Large results are written past the caches; threads then begin between vectors.
TEST(Simd, LargeResultsAreThoseOfTheirPieces) {
  const auto values = [](int64_t count, DType dtype) {
    return cast(uniform({count}, -4, 4), dtype);
  };
  // Of 16 MB and more.
  constexpr int64_t kDoubles = 2100001;
  constexpr int64_t kFloats = 2 * kDoubles + 1;
  constexpr int64_t kHalves = 2 * kFloats + 1;
  expect_same_in_pieces("exp", values(kFloats, DType::f32), exp);
  expect_same_in_pieces("exp of f64", values(kDoubles, DType::f64), exp);
  expect_same_in_pieces("sigmoid of f16", values(kHalves, DType::f16), sigmoid);
  expect_same_in_pieces("f32 to f64", values(kDoubles, DType::f32), to_type<DType::f64>);
  expect_same_in_pieces("f32 to f16", values(kHalves, DType::f32), to_type<DType::f16>);
  expect_same_in_pieces("f32 to bf16", values(kHalves, DType::f32), to_type<DType::bf16>);
  expect_same_in_pieces("f64 to f32", values(kFloats, DType::f64), to_type<DType::f32>);
  expect_same_in_pieces("f16 to f32", values(kFloats, DType::f16), to_type<DType::f32>);
  expect_same_in_pieces("bf16 to f32", values(kFloats, DType::bf16), to_type<DType::f32>);
}

}  // namespace
}  // namespace mica
