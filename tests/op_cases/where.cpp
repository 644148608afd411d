#include "tests/op_cases/elementwise_samples.h"

namespace mica::cases {
namespace {

Input condition(const Shape& shape) { return x(shape).in(0, 1).as<DType::boolean>(); }

OpCase where_case() {
  const auto run = [](const Args& a) -> Tensors { return {where(a[0], a[1], a[2])}; };
  const auto oracle = [](const HostArgs& in) {
    HostArray out{broadcast_shapes(broadcast_shapes(in[0].shape, in[1].shape, "oracle"),
                                   in[2].shape, "oracle"),
                  {}};
    for (int64_t i = 0; i < numel(out.shape); ++i)
      out.values.push_back(
          broadcast(in[broadcast(in[0], out.shape, i) != 0 ? 1 : 2], out.shape, i));
    return std::vector{out};
  };
  const auto sample = [&](const char* name, const Shape& c, const Shape& a, const Shape& b) {
    return Sample{.name = name,
                  .in = {condition(c), x(a), x(b)},
                  .call = run,
                  .oracle = oracle,
                  .exact = true};
  };
  Sample whole = sample("integers", {3, 4}, {3, 4}, {4});
  whole.dtypes = kWhole;
  whole.gradient = false;
  for (Input& in : whole.in) in = std::move(in).in(0, 1).constant();
  Sample threads = sample("several threads", {2, 36000}, {2, 36000}, {36000});
  threads.dtypes = {DType::f32};
  threads.gradient = false;
  return {.op = "where",
          .samples = {sample("same shape", {3, 4}, {3, 4}, {3, 4}),
                      sample("numbers", {3, 4}, {}, {3, 4}), sample("0-d else", {5}, {5}, {}),
                      sample("all broadcast", {2, 1, 1}, {3, 1}, {4}),
                      sample("images", {2, 3, 4, 5}, {2, 3, 4, 5}, {3, 1, 1}),
                      sample("one element", {1}, {1}, {1}), sample("empty", {0, 2}, {2}, {1, 2}),
                      whole, threads},
          .bad = {bad<DTypeError>("where: expected bool, got f32",
                                  [](Device d) {
                                    const Tensor t = zeros({2}, {.device = d});
                                    where(t, t, t);
                                  }),
                  bad<ShapeError>("where: shapes [2] and [3] do not broadcast", [](Device d) {
                    where(zeros({2}, {DType::boolean, d}), zeros({2}, {.device = d}),
                          zeros({3}, {.device = d}));
                  })}};
}

OpCase clamp_case() {
  const auto call = [](const Tensor& t) { return clamp(t, -0.75, 1.25); };
  const auto f = [](double v) { return v < -0.75 ? -0.75 : v > 1.25 ? 1.25 : v; };
  OpCase c{.op = "clamp",
           .samples = unary_samples(call, f, {.away = 0}),
           .bad = {bad<DTypeError>("clamp: bounds of i64 must be whole numbers, got 0.5",
                                   [](Device d) { clamp(zeros({2}, {DType::i64, d}), 0.5, 1); }),
                   bad<DTypeError>("clamp: 300 does not fit u8",
                                   [](Device d) { clamp(zeros({2}, {DType::u8, d}), 300, 400); }),
                   refuses("clamp", DType::boolean, "real numbers",
                           [](const Tensor& t) { return clamp(t, 0, 1); })}};
  // Random values may fall on a bound's kink.
  for (Sample& s : c.samples) s.gradient = false;
  c.samples.push_back({.name = "off the bounds",
                       .in = {x({6}).of({-2, -1, -0.5, 1, 1.5, 0})},
                       .call = [call](const Args& a) -> Tensors { return {call(a[0])}; },
                       .oracle = unary_oracle(f)});
  c.samples.push_back({.name = "one bound",
                       .in = {x({6}).of({-2, -1, -0.5, 1, 1.5, 0.25})},
                       .call = [](const Args& a) -> Tensors { return {clamp(a[0], {.low = 0})}; },
                       .oracle = unary_oracle([](double v) { return std::max(v, 0.0); })});
  c.samples.push_back({.name = "tensors as bounds",
                       .in = {x({2, 3}).of({-2, -1, -0.5, 1, 1.5, 0.25}), x({3}).in(-0.9, -0.6),
                              x({3}).in(0.3, 0.9)},
                       .call = [](const Args& a) -> Tensors { return {clamp(a[0], a[1], a[2])}; },
                       .oracle =
                           [](const HostArgs& in) {
                             HostArray out = in[0];
                             for (size_t i = 0; i < 6; ++i)
                               out.values[i] = std::clamp(out.values[i], in[1].values[i % 3],
                                                          in[2].values[i % 3]);
                             return std::vector{out};
                           }});
  c.samples.push_back(unary_integers([](const Tensor& t) { return clamp(t, 2, INFINITY); },
                                     [](double v) { return std::max(v, 2.0); }));
  c.samples.push_back({.name = "a bound that is NaN",
                       .in = {x({4})},
                       .call = [](const Args& a) -> Tensors { return {clamp(a[0], 0, NAN)}; },
                       .oracle = unary_oracle([](double) { return NAN; }),
                       .gradient = false});
  return c;
}

const Room kRoom([] { return std::vector<OpCase>{where_case(), clamp_case()}; });

}  // namespace
}  // namespace mica::cases
