// The table of dtypes, what two of them give, numbers of the host, and floats of eight bits.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <sstream>

#include "mica/mica.h"
#include "tests/unit/expect_error.h"

namespace mica {
namespace {

TEST(DType, NamesLeadBack) {
  EXPECT_EQ(name_of(DType::bf16), "bf16");
  EXPECT_EQ(name_of(DType::boolean), "bool");
  for (const DTypeInfo& i : kDTypeTable) {
    EXPECT_EQ(dtype_from_name(i.name), i.dtype);
    EXPECT_EQ(dtype_from_name(i.long_name), i.dtype);
  }
  expect_error<DTypeError>("no dtype is named 'f8'; expected one of f64, f32",
                           [] { dtype_from_name("f8"); });
}

TEST(DType, NamesInFilesAreDistinct) {
  for (const DTypeInfo& a : kDTypeTable)
    for (const DTypeInfo& b : kDTypeTable) {
      if (a.dtype == b.dtype) continue;
      EXPECT_NE(a.safetensors, b.safetensors);
      EXPECT_NE(a.onnx, b.onnx);
      EXPECT_FALSE(a.dlpack == b.dlpack && a.size == b.size) << a.name << " and " << b.name;
    }
}

// What two dtypes give, written down: "-" where they have nothing in common.
constexpr const char* kPromotion = R"(
        f64  f32  f16  bf16 f8_e4m3 f8_e5m2 i64  i32  i16  i8   u64  u32  u16  u8   bool c64  c128
f64     f64  f64  f64  f64  -       -       f64  f64  f64  f64  f64  f64  f64  f64  f64  c128 c128
f32     f64  f32  f32  f32  -       -       f32  f32  f32  f32  f32  f32  f32  f32  f32  c64  c128
f16     f64  f32  f16  f32  -       -       f16  f16  f16  f16  f16  f16  f16  f16  f16  c64  c128
bf16    f64  f32  f32  bf16 -       -       bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 c64  c128
f8_e4m3 -    -    -    -    f8_e4m3 -       -    -    -    -    -    -    -    -    -    -    -
f8_e5m2 -    -    -    -    -       f8_e5m2 -    -    -    -    -    -    -    -    -    -    -
i64     f64  f32  f16  bf16 -       -       i64  i64  i64  i64  -    i64  i64  i64  i64  c64  c128
i32     f64  f32  f16  bf16 -       -       i64  i32  i32  i32  -    i64  i32  i32  i32  c64  c128
i16     f64  f32  f16  bf16 -       -       i64  i32  i16  i16  -    i64  i32  i16  i16  c64  c128
i8      f64  f32  f16  bf16 -       -       i64  i32  i16  i8   -    i64  i32  i16  i8   c64  c128
u64     f64  f32  f16  bf16 -       -       -    -    -    -    u64  u64  u64  u64  u64  c64  c128
u32     f64  f32  f16  bf16 -       -       i64  i64  i64  i64  u64  u32  u32  u32  u32  c64  c128
u16     f64  f32  f16  bf16 -       -       i64  i32  i32  i32  u64  u32  u16  u16  u16  c64  c128
u8      f64  f32  f16  bf16 -       -       i64  i32  i16  i16  u64  u32  u16  u8   u8   c64  c128
bool    f64  f32  f16  bf16 -       -       i64  i32  i16  i8   u64  u32  u16  u8   bool c64  c128
c64     c128 c64  c64  c64  -       -       c64  c64  c64  c64  c64  c64  c64  c64  c64  c64  c128
c128    c128 c128 c128 c128 -       -       c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128
)";

TEST(DType, PromotionIsTheTable) {
  std::istringstream words(kPromotion);
  std::vector<std::string> columns(kDTypes);
  for (std::string& name : columns) words >> name;
  for (int i = 0; i < kDTypes; ++i) {
    std::string row;
    words >> row;
    const DType a = dtype_from_name(row);
    for (const std::string& column : columns) {
      const DType b = dtype_from_name(column);
      std::string expected;
      words >> expected;
      const std::optional<DType> common = common_dtype(a, b);
      EXPECT_EQ(common ? std::string(name_of(*common)) : "-", expected) << row << " and " << column;
      EXPECT_EQ(common, common_dtype(b, a)) << row << " and " << column;
    }
  }
  expect_error<DTypeError>("u64 and i8 have no common dtype: no integer holds both; cast one",
                           [] { promote(DType::u64, DType::i8); });
  expect_error<DTypeError>("f8_e4m3 and f32 have no common dtype: f8_e4m3 only holds values",
                           [] { promote(DType::f8_e4m3, DType::f32); });
}

/// Every value of `from` must come back from `to`, or some must not.
TEST(DType, HoldsAllIsWhatCastsDo) {
  const auto ends = [](DType t) {
    std::vector<Number> values = {0, 1};
    if (is_floating(t)) {
      const DTypeInfo& i = info_of(t);
      const double least = std::ldexp(i.smallest_normal, 1 - i.digits);
      values.insert(values.end(), {Number(i.largest), Number(-i.largest), Number(least),
                                   Number(1 + std::ldexp(1, 1 - i.digits)), Number(-0.0)});
    } else if (t != DType::boolean) {
      const IntegerLimits limits = integer_limits(t);
      values.insert(values.end(),
                    {Number(limits.lowest), Number(limits.largest), Number(limits.largest - 1)});
    }
    return values;
  };
  for (const DTypeInfo& from : kDTypeTable)
    for (const DTypeInfo& to : kDTypeTable) {
      if (is_complex(from.dtype) || is_complex(to.dtype)) continue;  // the next test
      bool all = true;
      for (const Number value : ends(from.dtype)) {
        const Tensor x = scalar(value, {.dtype = from.dtype});
        const Tensor there = cast(x, to.dtype);
        const Tensor back = cast(there, from.dtype);
        // Casts past a range have no defined value: the type must hold the number first.
        const bool in_range = to.dtype != DType::boolean && fits(value, to.dtype) &&
                              (is_floating(to.dtype) || !value.is_floating());
        const bool same = x.item_number() == back.item_number() &&
                          there.item_number().to_double() == value.to_double();
        all = all && (value.to_double() == 0 || value.to_double() == 1 || (in_range && same));
        if (value == Number(-0.0)) all = all && is_floating(to.dtype);
      }
      EXPECT_EQ(holds_all(to.dtype, from.dtype), all) << from.name << " in " << to.name;
    }
}

TEST(DType, ComplexNumbersHoldRealOnesAndNotTheOtherWay) {
  EXPECT_TRUE(holds_all(DType::c64, DType::f32) && holds_all(DType::c128, DType::c64));
  EXPECT_FALSE(holds_all(DType::c64, DType::f64) || holds_all(DType::c64, DType::i32));
  EXPECT_FALSE(holds_all(DType::f64, DType::c64) || holds_all(DType::c64, DType::c128));
  expect_error<DTypeError>("cast: f32 does not hold the complex numbers of c64",
                           [] { cast(zeros({2}, DType::c64), DType::f32); });
  expect_error<DTypeError>("full: 0+1j does not fit f32",
                           [] { full({2}, std::complex<double>(0, 1), DType::f32); });
}

TEST(DType, ComplexNumbersAreValuesOfCpp) {
  using C = std::complex<float>;
  const Tensor x = tensor({C(1, 2), C(3, -4)});
  EXPECT_EQ(x.dtype(), DType::c64);
  EXPECT_EQ(to_string(x), "tensor([1.+2.j, 3.-4.j], c64[2])");
  EXPECT_EQ(x.to_vector<C>(), (std::vector<C>{C(1, 2), C(3, -4)}));
  EXPECT_EQ(x[1].item<std::complex<double>>(), std::complex<double>(3, -4));
  EXPECT_EQ((x * C(0, 1)).to_vector<C>()[0], C(-2, 1));
  EXPECT_EQ(x.conj().to_vector<C>()[1], C(3, 4));
  EXPECT_EQ(abs(x)[1].item(), 5);
  expect_error<DTypeError>("item: 3-4j is a complex number", [&] { x[1].item(); });
  EXPECT_EQ(Number(C(1, 2)), Number(C(1, 2)));
  EXPECT_NE(Number(C(1, 2)), Number(C(1, 3)));
}

TEST(Number, KeepsKindAndDigits) {
  EXPECT_TRUE(Number(true).is_bool());
  EXPECT_EQ(Number(int64_t{1} << 62).as<int64_t>(), int64_t{1} << 62);
  EXPECT_EQ(Number(UINT64_MAX).kind(), Number::Kind::unsigned_integer);
  EXPECT_EQ(Number(UINT64_MAX).as<uint64_t>(), UINT64_MAX);
  EXPECT_NE(Number(0.0), Number(-0.0));
  EXPECT_EQ(Number(NAN), Number(NAN));
  EXPECT_NE(Number(1), Number(1.0));
  EXPECT_EQ(to_string(Number(UINT64_MAX)), "18446744073709551615");
  EXPECT_EQ(to_string(Number(-3)), "-3");
  EXPECT_EQ(to_string(Number(0.5)), "0.5");
  EXPECT_EQ(to_string(Number(true)), "true");
  EXPECT_TRUE(fits(255, DType::u8));
  EXPECT_FALSE(fits(256, DType::u8));
  EXPECT_FALSE(fits(-1, DType::u64));
  EXPECT_TRUE(fits(-0.5, DType::u8));  // cut off
  EXPECT_FALSE(fits(0x1p63, DType::i64));
  EXPECT_TRUE(fits(0x1p63, DType::u64));
  EXPECT_FALSE(fits(0x1p64, DType::u64));
  EXPECT_FALSE(fits(NAN, DType::i32));
  EXPECT_EQ(held_in(DType::f32, 0.1), Number(double{0.1F}));
  EXPECT_EQ(held_in(DType::i16, 2.75), Number(2));
  EXPECT_EQ(element_bits(-2, DType::i16), 0xfffeU);
}

/// The definition: a sign, an exponent, a mantissa. The largest exponent is infinity and NaN, or of
/// e4m3 only its last number, NaN.
double value_of(uint32_t bits, int mantissa_bits, bool has_infinity) {
  const int exponent_bits = 7 - mantissa_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const uint32_t mantissa = bits & ((1U << mantissa_bits) - 1);
  const int exponent = static_cast<int>(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const double sign = bits & 0x80U ? -1 : 1;
  const bool last = exponent == (1 << exponent_bits) - 1;
  if (has_infinity && last) return mantissa != 0 ? std::nan("") : sign * INFINITY;
  if (!has_infinity && (bits & 0x7fU) == 0x7fU) return std::nan("");
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1U << mantissa_bits), exponent - bias - mantissa_bits);
}

template <class T>
void check_float8(int mantissa_bits, bool has_infinity) {
  const auto of = [](uint32_t bits) {
    T x;
    x.bits = static_cast<uint8_t>(bits);
    return x;
  };
  for (uint32_t bits = 0; bits < 256; ++bits) {
    const float value = of(bits);
    const double expected = value_of(bits, mantissa_bits, has_infinity);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(value)) << bits;
      EXPECT_TRUE(std::isnan(float{T(value)})) << bits;
    } else {
      EXPECT_EQ(value, expected) << bits;
      EXPECT_EQ(T(value).bits, bits) << bits;
    }
  }
  // Between neighbours: the nearer one, and of equals the even one.
  const uint32_t largest = has_infinity ? 0x7bU : 0x7eU;
  for (uint32_t bits = 0; bits < largest; ++bits) {
    const float a = of(bits);
    const float b = of(bits + 1);
    const float middle = a + (b - a) / 2;
    EXPECT_EQ(T(middle).bits, bits & 1U ? bits + 1 : bits) << bits;
    EXPECT_EQ(T(std::nextafter(middle, 0.0F)).bits, bits) << bits;
    EXPECT_EQ(T(std::nextafter(middle, INFINITY)).bits, bits + 1) << bits;
    EXPECT_EQ(T(-middle).bits, T(middle).bits | 0x80U) << bits;
  }
}

TEST(Float8, EveryValueAndItsNeighbours) {
  check_float8<Float8E4M3>(3, false);
  check_float8<Float8E5M2>(2, true);
  EXPECT_EQ(Float8E4M3(464.0F).bits, 0x7eU);  // halfway past the largest: to the even one
  EXPECT_TRUE(std::isnan(float{Float8E4M3(465.0F)}));
  EXPECT_TRUE(std::isnan(float{Float8E4M3(INFINITY)}));
  EXPECT_EQ(Float8E5M2(61439.0F).bits, 0x7bU);
  EXPECT_EQ(float{Float8E5M2(61440.0F)}, INFINITY);
  EXPECT_EQ(float{Float8E5M2(-1e30F)}, -INFINITY);
}

TEST(Float8, HoldsValuesAndIsNotComputedWith) {
  const Tensor x = tensor({0.3F, -2.0F, 500.0F, 1e-4F}, {2, 2});
  const Tensor e4m3 = cast(x, DType::f8_e4m3);
  const std::vector<float> back = cast(e4m3, DType::f32).to_vector<float>();
  EXPECT_EQ(back[0], 0.3125F);
  EXPECT_EQ(back[1], -2);
  EXPECT_TRUE(std::isnan(back[2]));
  EXPECT_EQ(back[3], 0);
  EXPECT_EQ(cast(permute(e4m3, {1, 0}), DType::f64).to_vector<double>()[2], -2);
  EXPECT_EQ(concat({e4m3, e4m3}, 0).shape(), (Shape{4, 2}));
  EXPECT_EQ(to_string(cast(tensor({0.3F, 2.0F}, {2}), DType::f8_e5m2)),
            "tensor([0.3125, 2.0000], f8_e5m2[2])");
  expect_error<DTypeError>("add: expected numbers or bool, got f8_e4m3", [&] { add(e4m3, e4m3); });
  expect_error<DTypeError>("exp: expected a floating or complex dtype, got f8_e4m3",
                           [&] { exp(e4m3); });
  expect_error<DTypeError>("sum: expected real numbers or bool, got f8_e4m3", [&] { sum(e4m3); });
  expect_error<DTypeError>("matmul: expected a floating dtype, got f8_e4m3",
                           [&] { matmul(e4m3, e4m3); });
  expect_error<DTypeError>("f8_e4m3 and f32 have no common dtype", [&] { mul(e4m3, x); });
}

}  // namespace
}  // namespace mica
