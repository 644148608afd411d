// Sizes, dtypes, 16-bit floats, random words: what knows no tensor.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "mica/core/check.h"
#include "mica/core/half.h"
#include "mica/core/philox.h"
#include "mica/core/spec.h"
#include "mica/op/params.h"
#include "tests/unit/expect_error.h"

namespace mica {
namespace {

TEST(Dims, HoldUpToEight) {
  const Dims d = {2, 3, 4};
  EXPECT_EQ(d.rank(), 3);
  EXPECT_EQ(d[1], 3);
  EXPECT_EQ(d.back(), 4);
  EXPECT_EQ(to_string(d), "[2, 3, 4]");
  EXPECT_EQ(to_string(Dims{}), "[]");
  EXPECT_TRUE(d.contains(4));
  EXPECT_FALSE(d.contains(5));
  EXPECT_EQ(Dims::filled(8, 1).rank(), 8);
  expect_error<ShapeError>("a tensor has at most 8 dimensions, got 9",
                           [] { Dims{1, 1, 1, 1, 1, 1, 1, 1, 1}; });
  expect_error<ShapeError>("a tensor has at most 8 dimensions", [] { Dims::filled(9, 1); });
}

TEST(Dims, CountElements) {
  EXPECT_EQ(numel(Shape{}), 1);
  EXPECT_EQ(numel(Shape{2, 3, 4}), 24);
  EXPECT_EQ(numel(Shape{2, 0, 4}), 0);
  expect_error<ShapeError>("shape [2, -3] has a negative size", [] { (void)numel(Shape{2, -3}); });
  const int64_t big = int64_t{1} << 40;
  expect_error<ShapeError>("has more than 2^63 elements", [&] { (void)numel(Shape{big, big}); });
  EXPECT_EQ(numel(Shape{big, big, 0}), 0);
}

TEST(Dims, Strides) {
  EXPECT_EQ(contiguous_strides({2, 3, 4}), (Strides{12, 4, 1}));
  EXPECT_EQ(contiguous_strides({2, 0, 4}), (Strides{4, 4, 1}));
  EXPECT_EQ(channels_last_strides({2, 3, 4, 5}), (Strides{60, 1, 15, 3}));
  expect_error<ShapeError>("channels_last needs 4 dimensions, got [2, 3]",
                           [] { channels_last_strides({2, 3}); });
}

TEST(Dims, Broadcast) {
  EXPECT_EQ(broadcast_shapes({2, 1, 4}, {3, 1}, "op"), (Shape{2, 3, 4}));
  EXPECT_EQ(broadcast_shapes({}, {3}, "op"), (Shape{3}));
  EXPECT_EQ(broadcast_shapes({0, 3}, {1, 3}, "op"), (Shape{0, 3}));
  EXPECT_EQ(broadcast_shapes({1}, {0}, "op"), (Shape{0}));
  expect_error<ShapeError>("op: shapes [2, 3] and [4, 3] do not broadcast (dimension 0: 2 and 4)",
                           [] { broadcast_shapes({2, 3}, {4, 3}, "op"); });
}

TEST(Dims, NormalizeAxis) {
  EXPECT_EQ(normalize_axis(-1, 3, "op"), 2);
  EXPECT_EQ(normalize_axis(2, 3, "op"), 2);
  expect_error<IndexError>("op: axis must be in [-3, 3), got 3",
                           [] { normalize_axis(3, 3, "op"); });
  expect_error<IndexError>("op: axis must be in [-3, 3), got -4",
                           [] { normalize_axis(-4, 3, "op"); });
}

TEST(TensorSpec, KnowsItsLayout) {
  TensorSpec s = TensorSpec::contiguous({2, 3, 4, 5}, DType::f32);
  EXPECT_TRUE(s.is_contiguous());
  EXPECT_FALSE(s.is_channels_last());
  s.strides = channels_last_strides(s.shape);
  EXPECT_FALSE(s.is_contiguous());
  EXPECT_TRUE(s.is_channels_last());
  EXPECT_EQ(to_string(s), "f32[2, 3, 4, 5] channels_last");

  // One channel, or one pixel: both orders at once.
  TensorSpec one = TensorSpec::contiguous({2, 1, 4, 5}, DType::f16);
  EXPECT_TRUE(one.is_contiguous());
  EXPECT_FALSE(one.is_channels_last());
  EXPECT_TRUE(one.is_channels_last_dense());

  TensorSpec gaps = TensorSpec::contiguous({2, 3}, DType::i64, Device::cuda(1));
  gaps.strides = {6, 2};
  EXPECT_FALSE(gaps.is_contiguous());
  EXPECT_EQ(to_string(gaps), "i64[2, 3] strides [6, 2] on cuda:1");
  EXPECT_EQ(to_string(TensorSpec{}), "none");
}

TEST(TensorSpec, LiesLikeAnother) {
  const TensorSpec a = TensorSpec::contiguous({1, 5}, DType::f32);
  TensorSpec b = a;
  b.strides = {1, 1};  // the stride of a size of 1 means nothing
  EXPECT_TRUE(a.lies_like(b));
  b.strides = {10, 2};
  EXPECT_FALSE(a.lies_like(b));
}

/// IEEE's definition, without the processor's instruction.
double half_value(uint32_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const auto mantissa = static_cast<double>(bits & ((1U << mantissa_bits) - 1));
  const int exponent = static_cast<int>(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const double sign = bits >> (exponent_bits + mantissa_bits) ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return mantissa != 0 ? std::nan("") : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
}

template <class T>
void check_every_value(int exponent_bits, int mantissa_bits) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    T h;
    h.bits = static_cast<uint16_t>(bits);
    const float value = h;
    const double expected = half_value(bits, exponent_bits, mantissa_bits);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_TRUE(std::isnan(static_cast<float>(T(value)))) << bits;
    } else {
      ASSERT_EQ(value, expected) << bits;
      ASSERT_EQ(T(value).bits, bits) << bits;
    }
  }
}

TEST(Half, EveryValueGoesThereAndBack) { check_every_value<Half>(5, 10); }
TEST(BFloat16, EveryValueGoesThereAndBack) { check_every_value<BFloat16>(8, 7); }

/// Between each two neighbours: the nearer one, and of equals the even one.
template <class T>
void check_rounding(uint32_t infinity) {
  for (uint32_t bits = 0; bits + 1 < infinity; ++bits) {
    T low;
    T high;
    low.bits = static_cast<uint16_t>(bits);
    high.bits = static_cast<uint16_t>(bits + 1);
    const float a = low;
    const float b = high;
    const float middle = a + (b - a) / 2;
    ASSERT_EQ(T(middle).bits, bits & 1U ? bits + 1 : bits) << bits;
    ASSERT_EQ(T(std::nextafter(middle, 0.0F)).bits, bits) << bits;
    ASSERT_EQ(T(std::nextafter(middle, INFINITY)).bits, bits + 1) << bits;
    ASSERT_EQ(T(-middle).bits, T(middle).bits | 0x8000U) << bits;
  }
}

TEST(Half, RoundsToNearestEven) {
  check_rounding<Half>(0x7c00);
  EXPECT_EQ(Half(65520.0F).bits, 0x7c00);  // halfway past the largest
  EXPECT_EQ(Half(65519.0F).bits, 0x7bff);
}
TEST(BFloat16, RoundsToNearestEven) {
  check_rounding<BFloat16>(0x7f80);
  EXPECT_EQ(BFloat16(std::bit_cast<float>(0x7f7fffffU)).bits, 0x7f80);
}

TEST(Philox, KnownAnswers) {
  // Random123's kat_vectors for philox4x32-10.
  struct Known {
    unsigned counter[4];
    unsigned key[2];
    unsigned out[4];
  };
  const Known known[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (const Known& k : known) {
    unsigned c[4] = {k.counter[0], k.counter[1], k.counter[2], k.counter[3]};
    unsigned k0 = k.key[0];
    unsigned k1 = k.key[1];
    for (int round = 0; round < 10; ++round) {
      philox_round(c, k0, k1);
      k0 += 0x9E3779B9U;
      k1 += 0xBB67AE85U;
    }
    EXPECT_THAT(c, testing::ElementsAreArray(k.out));
  }
  EXPECT_THAT(philox(0, 0).v, testing::ElementsAreArray(known[0].out));
}

TEST(Philox, UnitFloatsStayBelowOne) {
  EXPECT_EQ(unit_float(0), 0.0F);
  EXPECT_LT(unit_float(0xffffffffU), 1.0F);
  EXPECT_EQ(unit_float(0x80000000U), 0.5F);
}

TEST(Device, Names) {
  EXPECT_EQ(device_from_name("cpu"), Device::cpu());
  EXPECT_EQ(device_from_name("cuda"), Device::cuda(0));
  EXPECT_EQ(device_from_name("cuda:3"), Device::cuda(3));
  EXPECT_EQ(device_from_name("null"), Device::null());
  EXPECT_EQ(to_string(Device::cuda(2)), "cuda:2");
  for (const char* wrong : {"gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", ""})
    expect_error<DeviceError>("expected cpu, cuda, cuda:<index> or null",
                              [&] { device_from_name(wrong); });
}

struct SomeParams {
  int64_t a = 1;
  double b = 0.5;
  Dims dims;
  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("a", self.a);
    f("b", self.b);
    f("dims", self.dims);
  }
};

TEST(Params, CompareHashAndPrintByTheirFields) {
  const SomeParams p{2, 0.25, {3, 4}};
  SomeParams q = p;
  const ParamsInfo& info = params_info<SomeParams>();
  EXPECT_TRUE(info.equal(&p, &q));
  EXPECT_EQ(info.hash(&p), info.hash(&q));
  q.dims = {3, 5};
  EXPECT_FALSE(info.equal(&p, &q));
  EXPECT_NE(info.hash(&p), info.hash(&q));
  EXPECT_EQ(info.print(&p), "{a = 2, b = 0.25, dims = [3, 4]}");
  const AnyParams any(ParamsRef::of(p));
  EXPECT_EQ(any.as<SomeParams>().a, 2);
  EXPECT_TRUE(any == AnyParams(any));
}

}  // namespace
}  // namespace mica
