#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "mica/core/philox.h"
#include "tests/op_cases/op_case.h"

namespace mica::cases {
namespace {

/// Lane and pair of the block that element i uses, as floats in [0, 1).
double unit(const HostArray& state, int64_t i, int64_t lane) {
  const auto seed = static_cast<uint64_t>(state.values[0]);
  const auto block = static_cast<uint64_t>(state.values[1]) + static_cast<uint64_t>(i / 4);
  return unit_float(philox(seed, block).v[lane]);
}

OpCase rng_take_case() {
  const auto sample = [](const char* name, double seed, double block, int64_t count) {
    return Sample{.name = name,
                  .in = {counter(seed, block)},
                  .call = [count](const Args& a) -> Tensors {
                    const Tensor state = clone(a[0]);
                    const Tensor taken = call_op("rng_take", RngTakeParams{count}, {state})[0];
                    return {taken, state};
                  },
                  .oracle =
                      [count](const HostArgs& in) {
                        HostArray after = in[0];
                        after.values[1] += static_cast<double>(count);
                        return std::vector{in[0], after};
                      },
                  .dtypes = {DType::i64},
                  .layouts = false};
  };
  return {
      .op = "rng_take",
      .samples = {sample("from the start", 5, 0, 3), sample("further", 5, 1000, 1),
                  sample("nothing", 5, 7, 0)},
      .bad = {bad<DTypeError>(
          "rng_take: expected an i64 counter, got f32",
          [](Device d) { call_op("rng_take", RngTakeParams{1}, {zeros({2}, {.device = d})}); })},
      .no_empty = "its state has two elements",
      .no_single = "its state has two elements"};
}

Sample random_sample(const char* op, const char* name, const Shape& shape, double a, double b,
                     double (*make)(const HostArray&, int64_t)) {
  return {.name = name,
          .in = {counter(1234567, 42)},
          .call =
              [=](const Args& args) {
                return call_op(op, RandomParams{shape, a, b, args.dtype}, {args[0]});
              },
          .oracle =
              [=](const HostArgs& in) {
                HostArray out{shape, {}};
                for (int64_t i = 0; i < numel(shape); ++i)
                  out.values.push_back(a + b * make(in[0], i));
                return std::vector{out};
              },
          .layouts = false};
}

std::vector<BadCall> random_bad(const char* op) {
  return {bad<DTypeError>("random: expected a floating dtype, got i32",
                          [op](Device d) {
                            call_op(op, RandomParams{{3}, 0, 1, DType::i32},
                                    {zeros({2}, {DType::i64, d})});
                          }),
          bad<DTypeError>("random: the counter must be i64[2], got i64[3]", [op](Device d) {
            call_op(op, RandomParams{{3}, 0, 1, DType::f32}, {zeros({3}, {DType::i64, d})});
          })};
}

OpCase uniform_case() {
  const auto make = [](const HostArray& state, int64_t i) { return unit(state, i, i % 4); };
  const auto sample = [&](const char* name, const Shape& shape) {
    return random_sample("uniform", name, shape, 0, 1, make);
  };
  // The op's numbers are a and b: low and high.
  Sample range = random_sample("uniform", "a range", {3, 7}, -2, 0, make);
  range.call = [](const Args& args) {
    return call_op("uniform", RandomParams{{3, 7}, -2, 6, args.dtype}, {args[0]});
  };
  range.oracle = [make](const HostArgs& in) {
    HostArray out{{3, 7}, {}};
    for (int64_t i = 0; i < 21; ++i) out.values.push_back(-2 + 8 * make(in[0], i));
    return std::vector{out};
  };
  return {.op = "uniform",
          .samples = {sample("matrix", {5, 6}), sample("images", {2, 3, 4, 5}), sample("odd", {13}),
                      sample("one", {1}), sample("nothing", {0, 3}),
                      sample("several threads", {20000}), range},
          .bad = random_bad("uniform"),
          .no_empty = "its input is a counter; one sample's output is empty",
          .no_single = "its input is a counter; one sample's output has one element"};
}

OpCase normal_case() {
  const auto make = [](const HostArray& state, int64_t i) {
    const int64_t lane = i % 4;
    const double u = unit(state, i, lane & ~int64_t{1});
    const double v = unit(state, i, lane | 1);
    const double angle = 2 * std::numbers::pi * v;
    return std::sqrt(-2 * std::log(1 - u)) * (lane & 1 ? std::sin(angle) : std::cos(angle));
  };
  const auto sample = [&](const char* name, const Shape& shape, double mean, double std) {
    return random_sample("normal", name, shape, mean, std, make);
  };
  return {.op = "normal",
          .samples = {sample("matrix", {5, 6}, 0, 1), sample("moved", {3, 7}, 4, 0.5),
                      sample("odd", {13}, 0, 1), sample("one", {1}, 0, 1),
                      sample("nothing", {0, 3}, 0, 1), sample("several threads", {20000}, 0, 2)},
          .bad = random_bad("normal"),
          .no_empty = "its input is a counter; one sample's output is empty",
          .no_single = "its input is a counter; one sample's output has one element"};
}

OpCase randint_case() {
  // A seed past 32 bits, blocks on both sides of 2^32.
  const auto sample = [](const char* name, const Shape& shape, int64_t low, int64_t high,
                         std::vector<DType> dtypes = {DType::i64}) {
    return Sample{
        .name = name,
        .in = {counter(77e9, 4294967294)},
        .call =
            [=](const Args& a) {
              return call_op("randint", RandintParams{shape, low, high, a.dtype}, {a[0]});
            },
        .oracle =
            [=](const HostArgs&) {
              HostArray out{shape, {}};
              for (int64_t i = 0; i < numel(shape); ++i) {
                const double word =
                    philox(77'000'000'000, 4294967294 + static_cast<uint64_t>(i / 4)).v[i % 4];
                out.values.push_back(
                    static_cast<double>(low) +
                    std::floor(word * static_cast<double>(high - low) / 4294967296.0));
              }
              return std::vector{out};
            },
        .dtypes = std::move(dtypes),
        .layouts = false};
  };
  const auto call = [](Device d, int64_t low, int64_t high, DType t) {
    randint(low, high, {3}, {t, d});
  };
  return {
      .op = "randint",
      .samples = {sample("digits", {5, 6}, 0, 10, kIntegers),
                  sample("both signs", {13}, -7, 8, kSigned),
                  sample("every byte", {4, 9}, 0, 256, {DType::u8}),
                  sample("every word", {10}, -(int64_t{1} << 31), int64_t{1} << 31,
                         {DType::i64, DType::i32}),
                  sample("every unsigned word", {10}, 0, int64_t{1} << 32,
                         {DType::i64, DType::u64, DType::u32}),
                  sample("one number", {5}, 3, 4), sample("one", {1}, 0, 1 << 20),
                  sample("nothing", {0, 3}, 0, 10),
                  sample("several threads", {40000}, -1000, 1000)},
      .bad = {bad<Error>("randint: expected low < high, at most 2^32 apart, got 3 and 3",
                         [=](Device d) { call(d, 3, 3, DType::i64); }),
              bad<Error>("randint: expected low < high, at most 2^32 apart, got -1 and 4294967296",
                         [=](Device d) { call(d, -1, int64_t{1} << 32, DType::i64); }),
              bad<Error>("randint: u8 does not hold every number from 0 to 256",
                         [=](Device d) { call(d, 0, 257, DType::u8); }),
              bad<DTypeError>("randint: expected an integer dtype, got f32",
                              [=](Device d) { call(d, 0, 3, DType::f32); }),
              bad<ShapeError>("shape [-1] has a negative size",
                              [](Device d) { randint(0, 3, {-1}, {DType::i64, d}); })},
      .no_empty = "its input is a counter; one sample's output is empty",
      .no_single = "its input is a counter; one sample's output has one element"};
}

// They draw from the device's generator, so that no case can say what comes.
TEST(Random, BernoulliIsAComparisonWithUniformNumbers) {
  manual_seed(3);
  const std::vector<float> numbers = uniform({1000}).to_vector<float>();
  manual_seed(3);
  const std::vector<float> ones = bernoulli({1000}, 0.25).to_vector<float>();
  manual_seed(3);
  const std::vector<float> given = bernoulli(full({1000}, 0.25)).to_vector<float>();
  for (size_t i = 0; i < numbers.size(); ++i)
    EXPECT_EQ(ones[i], numbers[i] < 0.25F ? 1.0F : 0.0F) << i;
  EXPECT_EQ(given, ones);
  EXPECT_EQ(bernoulli({50}, 1, {.dtype = DType::boolean}).dtype(), DType::boolean);
  EXPECT_THROW(bernoulli({3}, 1.5), Error);
  EXPECT_THROW(bernoulli(zeros({3}, {.dtype = DType::i64})), DTypeError);
}

TEST(Random, LikeAnotherTensor) {
  const Tensor x = zeros({2, 3}, {.dtype = DType::f64});
  EXPECT_EQ(uniform_like(x).dtype(), DType::f64);
  EXPECT_EQ(normal_like(x).shape(), x.shape());
}

const Room kRoom([] {
  return std::vector<OpCase>{rng_take_case(), uniform_case(), normal_case(), randint_case()};
});

}  // namespace
}  // namespace mica::cases
