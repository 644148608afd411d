// Integers keep all their digits: what doubles cannot hold, and where each dtype ends.
#include <gtest/gtest.h>

#include <cmath>

#include "mica/mica.h"
#include "tests/op_cases/device.h"
#include "tests/unit/expect_error.h"

namespace mica::cases {
namespace {

constexpr int64_t kLowest = INT64_MIN;
constexpr int64_t kLargest = INT64_MAX;
constexpr int64_t kPast = (int64_t{1} << 53) + 1;  // the first integer that is no double

class Integers : public ::testing::Test {
 protected:
  void SetUp() override {
    if (device().is_null() || (device().is_cuda() && !cuda_available()))
      GTEST_SKIP() << "skipped: no values on " << to_string(device());
  }
  static Device device() { return tested_device(); }
  template <class T>
  Tensor of(std::initializer_list<T> values) {
    return tensor(values, {static_cast<int64_t>(values.size())}, device());
  }
  template <class T>
  static void expect(const Tensor& t, std::initializer_list<T> values) {
    EXPECT_EQ(t.to_vector<T>(), std::vector<T>(values));
  }
};

TEST_F(Integers, ArithmeticPast53Bits) {
  const Tensor a = of({kPast, -kPast, kLargest});
  expect<int64_t>(add(a, 1), {kPast + 1, 1 - kPast, kLowest});  // wraps
  expect<int64_t>(sub(a, of({int64_t{2}})), {kPast - 2, -kPast - 2, kLargest - 2});
  expect<int64_t>(mul(a, 3), {3 * kPast, -3 * kPast, kLargest - 2});
  expect<int64_t>(maximum(a, kPast - 1), {kPast, kPast - 1, kLargest});
  expect<int64_t>(minimum(a, kPast), {kPast, -kPast, kPast});
  expect<int64_t>(clamp(a, 1 - kPast, kPast + 1), {kPast, 1 - kPast, kPast + 1});
  expect<int64_t>(floor_divide(a, 2), {kPast / 2, -kPast / 2 - 1, kLargest / 2});
  expect<int64_t>(remainder(a, 10), {kPast % 10, 10 - kPast % 10, kLargest % 10});
  expect<int64_t>(pow(of({int64_t{3}, int64_t{-7}}), 39),
                  {4052555153018976267, 3522809609551315465});
  expect<int64_t>(where(gt(a, kPast), a, kPast - 4), {kPast - 4, kPast - 4, kLargest});
}

TEST_F(Integers, UnsignedOf64BitsHasACarrierOfItsOwn) {
  const Tensor a = of({UINT64_MAX, uint64_t{1} << 63, uint64_t{5}});
  expect<uint64_t>(add(a, 1), {0, (uint64_t{1} << 63) + 1, 6});
  expect<uint64_t>(floor_divide(a, 10), {UINT64_MAX / 10, (uint64_t{1} << 63) / 10, 0});
  expect<uint64_t>(remainder(a, UINT64_MAX), {0, uint64_t{1} << 63, 5});
  expect<uint64_t>(maximum(a, uint64_t{1} << 63),
                   {UINT64_MAX, uint64_t{1} << 63, uint64_t{1} << 63});
  expect<uint64_t>(right_shift(a, of({uint64_t{63}})), {1, 1, 0});
  expect<uint64_t>(abs(a), {UINT64_MAX, uint64_t{1} << 63, 5});
  expect<bool>(gt(a, 5), {true, true, false});
  expect<bool>(lt(a, -1), {false, false, false});
  expect<uint64_t>(max(a), {UINT64_MAX});
  expect<uint64_t>(min(a), {5});
  EXPECT_EQ(argmax(a, 0).item(), 0);
  EXPECT_EQ(argmin(a, 0).item(), 2);
  expect<uint64_t>(sum(a), {(uint64_t{1} << 63) + 4});
  expect<uint64_t>(cumsum(a, 0), {UINT64_MAX, (uint64_t{1} << 63) - 1, (uint64_t{1} << 63) + 4});
  expect<uint64_t>(sort(a).values, {5, uint64_t{1} << 63, UINT64_MAX});
  expect<int64_t>(searchsorted(of({uint64_t{5}, uint64_t{1} << 63}), a), {2, 1, 0});
  EXPECT_EQ(a.dtype(), DType::u64);
  EXPECT_EQ(max(a).item_number(), Number(UINT64_MAX));
  EXPECT_EQ(cast(a, DType::f64).to_vector<double>()[0], 0x1p64);
  expect<uint64_t>(cast(tensor({0x1p63, 3.5}, {2}, device()), DType::u64), {uint64_t{1} << 63, 3});
}

TEST_F(Integers, EachDtypeWrapsAtItsEnds) {
  for (const DType t : {DType::i64, DType::i32, DType::i16, DType::i8, DType::u64, DType::u32,
                        DType::u16, DType::u8}) {
    const auto [lowest, largest] = integer_limits(t);
    const Tensor low = full({3}, lowest, {t, device()});
    const Tensor high = full({3}, largest, {t, device()});
    const auto first = [](const Tensor& x) { return slice(x, 0, 0, 1).item_number(); };
    EXPECT_EQ(first(low), Number(lowest)) << name_of(t);
    EXPECT_EQ(first(high), Number(largest)) << name_of(t);
    EXPECT_EQ(first(add(high, 1)), Number(lowest)) << name_of(t);
    EXPECT_EQ(first(sub(low, 1)), Number(largest)) << name_of(t);
    EXPECT_EQ(first(bitwise_not(low)), Number(largest)) << name_of(t);
    EXPECT_EQ(first(bitwise_xor(low, high)), is_unsigned(t) ? Number(largest) : Number(-1))
        << name_of(t);
    EXPECT_EQ(first(max(concat({low, high}, 0), {0}, true)), Number(largest)) << name_of(t);
    EXPECT_EQ(first(min(concat({high, low}, 0), {0}, true)), Number(lowest)) << name_of(t);
    EXPECT_EQ(first(sort(concat({high, low}, 0)).values), Number(lowest)) << name_of(t);
    EXPECT_EQ(first(topk(concat({low, high}, 0), 1).values), Number(largest)) << name_of(t);
    EXPECT_TRUE(all(lt(low, high)).item() != 0) << name_of(t);
    EXPECT_EQ(first(cast(cast(high, DType::i64), t)), Number(largest)) << name_of(t);
  }
}

TEST_F(Integers, ComparedWithAnyNumberExactly) {
  const Tensor bytes = of({uint8_t{0}, uint8_t{5}, uint8_t{255}});
  expect<bool>(lt(bytes, 256), {true, true, true});
  expect<bool>(ge(bytes, 256), {false, false, false});
  expect<bool>(gt(bytes, -1), {true, true, true});
  expect<bool>(eq(bytes, 261), {false, false, false});
  expect<bool>(ne(bytes, 261), {true, true, true});
  expect<bool>(le(bytes, INFINITY), {true, true, true});
  expect<bool>(lt(bytes, NAN), {false, false, false});
  expect<bool>(ne(bytes, NAN), {true, true, true});
  expect<bool>(gt(bytes, 4.5), {false, true, true});
  expect<bool>(ge(bytes, 4.5), {false, true, true});
  expect<bool>(lt(bytes, 5.5), {true, true, false});
  expect<bool>(le(bytes, 4.5), {true, false, false});
  expect<bool>(eq(bytes, 5.0), {false, true, false});
  expect<bool>(eq(bytes, 5.5), {false, false, false});
  const Tensor large = of({kPast - 1, kPast, kPast + 1});
  expect<bool>(eq(large, kPast), {false, true, false});
  expect<bool>(lt(large, kPast), {true, false, false});
  expect<bool>(lt(large, 0x1p63), {true, true, true});
  expect<bool>(gt(large, -0x1p63), {true, true, true});
}

TEST_F(Integers, NumbersThatDoNotFitAreRefused) {
  const Tensor bytes = of({uint8_t{5}});
  expect_error<DTypeError>("add: 256 does not fit u8", [&] { add(bytes, 256); });
  expect_error<DTypeError>("mul: -1 does not fit u8", [&] { mul(bytes, -1); });
  expect_error<DTypeError>("full: 300 does not fit u8",
                           [&] { full({1}, 300, {DType::u8, device()}); });
  EXPECT_EQ(add(bytes, 0.5).dtype(), DType::f32);
  EXPECT_EQ(add(bytes, 2.0).dtype(), DType::f32);
  EXPECT_EQ(add(bytes, true).dtype(), DType::u8);
  EXPECT_EQ(add(ones({1}, {DType::boolean, device()}), 1).dtype(), DType::i64);
}

TEST_F(Integers, CountedAndFilled) {
  expect<int64_t>(arange(kPast, kPast + 2, 1, {DType::i64, device()}), {kPast, kPast + 1});
  expect<int64_t>(arange(kLargest - 2, kLargest, 1, {DType::i64, device()}),
                  {kLargest - 2, kLargest - 1});
  expect<int64_t>(arange(kLargest, kLowest, kLowest, {DType::i64, device()}), {kLargest, -1});
  expect<uint64_t>(arange(UINT64_MAX - 1, UINT64_MAX, 1, {DType::u64, device()}), {UINT64_MAX - 1});
  expect<int8_t>(arange(-128, 128, 100, {DType::i8, device()}), {-128, -28, 72});
  expect_error<DTypeError>("arange: 200 does not fit i8",
                           [&] { arange(0, 300, 100, {DType::i8, device()}); });
  expect<int64_t>(full({1}, kLargest, {DType::i64, device()}), {kLargest});
  expect<uint64_t>(full({1}, UINT64_MAX, {DType::u64, device()}), {UINT64_MAX});
  Tensor x = zeros({2}, {DType::i64, device()});
  fill_(x, kPast);
  expect<int64_t>(x, {kPast, kPast});
  expect<int64_t>(masked_fill(x, of({true, false}), kLowest), {kLowest, kPast});
  expect<int64_t>(scatter(x, 0, of({int64_t{1}}), kPast + 2), {kPast, kPast + 2});
}

TEST_F(Integers, FmodOfTheLowest) {
  const Tensor a = of({kLowest, kLowest, kLargest, int64_t{-7}, int64_t{7}});
  expect<int64_t>(fmod(a, 3), {kLowest % 3, kLowest % 3, kLargest % 3, -1, 1});
  expect<int64_t>(fmod(a, -3), {kLowest % 3, kLowest % 3, kLargest % 3, -1, 1});
  expect<int64_t>(fmod(a, of({int64_t{-1}, kLowest, int64_t{10}, int64_t{-5}, int64_t{-5}})),
                  {0, 0, kLargest % 10, -2, 2});
  expect<uint64_t>(fmod(of({UINT64_MAX}), 10), {UINT64_MAX % 10});
}

TEST_F(Integers, IndicesOfEveryIntegerDtype) {
  const Tensor table = arange(10, {DType::i32, device()});
  for (const DType t : {DType::i64, DType::i32, DType::i16, DType::i8, DType::u64, DType::u32,
                        DType::u16, DType::u8}) {
    const Tensor at = cast(of({int64_t{3}, int64_t{0}, int64_t{9}}), t);
    expect<int32_t>(index_select(table, 0, at), {3, 0, 9});
    expect<int32_t>(gather(table, 0, at), {3, 0, 9});
    expect<int32_t>(scatter_add(table, 0, at, gather(table, 0, at)),
                    {0, 1, 2, 6, 4, 5, 6, 7, 8, 18});
  }
}

TEST_F(Integers, AnUnsignedIndexPast63BitsIsNoNegativeOne) {
  if (!device().is_cpu()) GTEST_SKIP() << "skipped: a fault on the device raises later";
  const Tensor table = arange(4, {DType::i64, device()});
  expect_error<IndexError>("index 18446744073709551615 at [0] is out of range for axis 0 of size 4",
                           [&] { take_along_axis(table, of({UINT64_MAX}), 0); });
}

TEST_F(Integers, ZerosOfBothSignsAreTwoConstants) {
  const Tensor one = ones({1}, {.device = device()});
  EXPECT_TRUE(std::signbit(mul(one, -0.0).item()));
  EXPECT_EQ(div(one, 0.0).item(), INFINITY);
  EXPECT_EQ(div(one, -0.0).item(), -INFINITY);
  EXPECT_FALSE(std::signbit(mul(one, 0.0).item()));
  EXPECT_TRUE(std::signbit(full({1}, -0.0, {.device = device()}).item()));
}

TEST_F(Integers, LogaddexpKeepsSmallDigits) {
  const TensorOptions f64{DType::f64, device()};
  const auto of_two = [&](double a, double b) {
    return logaddexp(full({1}, a, f64), full({1}, b, f64)).item();
  };
  EXPECT_DOUBLE_EQ(of_two(-40, 0), std::exp(-40.0));
  EXPECT_DOUBLE_EQ(of_two(0, 0), std::log(2.0));
  EXPECT_EQ(of_two(-INFINITY, -INFINITY), -INFINITY);
  EXPECT_EQ(of_two(INFINITY, INFINITY), INFINITY);
  EXPECT_EQ(of_two(INFINITY, -INFINITY), INFINITY);
  EXPECT_TRUE(std::isnan(of_two(NAN, 0)));
}

}  // namespace
}  // namespace mica::cases
