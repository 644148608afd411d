#include "tests/op_cases/positions.h"

namespace mica::cases {
namespace {

struct Zeros {
  const char* name;
  Shape shape;
  std::vector<double> values;
  std::vector<DType> dtypes = kEveryDType;
};

std::vector<Zeros> zeros_cases() {
  std::vector<double> late(70000, 0);
  late[69999] = 1;
  return {{"matrix", {4, 5}, random_indices({4, 5}, 0, 3, 1)},
          {"images", {2, 3, 2, 3}, random_indices({2, 3, 2, 3}, 0, 2, 2)},
          {"vector", {9}, random_indices({9}, 0, 2, 2)},
          {"0-d", {}, {1}},
          {"0-d zero", {}, {0}},
          {"none", {7}, std::vector<double>(7, 0)},
          {"empty", {3, 0}, {}, {DType::f32}},
          {"hostile values", {4, 4}, hostile_values(), kFloats},
          {"the last alone", {70000}, late, {DType::u8}},
          {"several threads",
           {300, 301},
           random_indices({300, 301}, 0, 2, 3),
           {DType::f32, DType::boolean}}};
}

OpCase nonzero_case() {
  OpCase c{.op = "nonzero", .samples = {}};
  for (const Zeros& z : zeros_cases())
    c.samples.push_back({.name = z.name,
                         .in = {x(z.shape).of(z.values)},
                         .call = [](const Args& a) -> Tensors { return {nonzero(a[0])}; },
                         .oracle =
                             [](const HostArgs& in) {
                               HostArray found{{0, in[0].shape.rank()}, {}};
                               each_position(in[0].shape, [&](const Position& at) {
                                 if (in[0].values[flat(in[0].shape, at)] == 0) return;
                                 ++found.shape[0];
                                 for (const int64_t i : at)
                                   found.values.push_back(static_cast<double>(i));
                               });
                               return std::vector{found};
                             },
                         .dtypes = z.dtypes,
                         .gradient = false,
                         .compiled = false});
  const auto call = [](Device d, const std::vector<double>& values, const Tensor& ends,
                       int64_t count) {
    call_op("nonzero", NonzeroParams{count}, {to(tensor<double>(values, {2}), d), to(ends, d)});
  };
  c.bad = {bad<ShapeError>("nonzero: [2] has no 3 elements",
                           [=](Device d) { call(d, {1, 1}, tensor<int64_t>({3}, {1}), 3); }),
           bad<ShapeError>("nonzero: [2] has no -1 elements",
                           [=](Device d) { call(d, {1, 1}, tensor<int64_t>({-1}, {1}), -1); }),
           bad<ShapeError>("nonzero: ends must be [1], got [2]",
                           [=](Device d) { call(d, {1, 1}, tensor<int64_t>({1, 2}, {2}), 2); }),
           bad<DTypeError>("nonzero: ends must be i64, got f32",
                           [=](Device d) { call(d, {1, 1}, ones({1}), 1); }),
           bad<Error>("nonzero: ends are not those of x",
                      [=](Device d) { call(d, {1, 1}, tensor<int64_t>({1}, {1}), 2); }),
           bad<Error>("nonzero: ends are not those of x",
                      [=](Device d) { call(d, {0, 1}, tensor<int64_t>({2}, {1}), 2); })};
  return c;
}

OpCase nonzero_ends_case() {
  constexpr size_t kBlock = 1 << 15;
  OpCase c{.op = "nonzero_ends", .samples = {}};
  for (const Zeros& z : zeros_cases())
    c.samples.push_back({.name = z.name,
                         .in = {x(z.shape).of(z.values)},
                         .call = [](const Args& a) -> Tensors {
                           return call_op("nonzero_ends", NoParams{}, {a[0]});
                         },
                         .oracle =
                             [](const HostArgs& in) {
                               HostArray ends{{}, {}};
                               double count = 0;
                               for (size_t i = 0; i < in[0].values.size(); ++i) {
                                 count += in[0].values[i] != 0;
                                 if (i % kBlock == 0) ends.values.push_back(0);
                                 ends.values.back() = count;
                               }
                               ends.shape = {static_cast<int64_t>(ends.values.size())};
                               return std::vector{ends};
                             },
                         .dtypes = z.dtypes,
                         .gradient = false});
  c.bad = {bad<Error>("nonzero_ends: input 0 (x) is undefined",
                      [](Device) { call_op("nonzero_ends", NoParams{}, {Tensor()}); })};
  return c;
}

/// One element for each of the broadcast shape of x and mask: f(x, mask).
template <class F>
void each_masked(const HostArgs& in, F&& f) {
  each_position(broadcast_shapes(in[0].shape, in[1].shape, "test"), [&](const Position& at) {
    f(broadcast_at(in[0], at), broadcast_at(in[1], at) != 0);
  });
}

OpCase masked_fill_case() {
  OpCase c{.op = "masked_fill", .samples = {}};
  const auto add = [&](const char* name, const Shape& shape, const Shape& mask, bool number,
                       std::vector<DType> dtypes = kFloats) {
    Sample s{.name = name,
             .in = {x(shape), mask_of(mask, 4)},
             .call = [number](const Args& a) -> Tensors {
               return {number ? masked_fill(a[0], a[1], 3) : masked_fill(a[0], a[1], a[2])};
             },
             .oracle =
                 [number](const HostArgs& in) {
                   HostArray y{broadcast_shapes(in[0].shape, in[1].shape, "test"), {}};
                   each_masked(in, [&](double value, bool holds) {
                     y.values.push_back(!holds ? value : number ? 3 : in[2].values[0]);
                   });
                   return std::vector{y};
                 },
             .dtypes = std::move(dtypes),
             .exact = true};
    s.gradient = is_floating(s.dtypes[0]);
    if (!s.gradient) s.in[0] = x(shape).in(0, 4);
    if (!number) s.in.push_back(x({}));
    c.samples.push_back(std::move(s));
  };
  add("a number", {3, 4}, {3, 4}, true);
  add("integers", {3, 4}, {3, 4}, true, kIntegers);
  add("mask broadcasts", {3, 4}, {4}, true);
  add("x broadcasts", {4}, {3, 4}, true);
  add("a tensor", {3, 4}, {3, 1}, false);
  add("images", {2, 3, 4, 5}, {2, 1, 4, 5}, false);
  add("one element", {1}, {1}, true);
  add("empty", {0, 3}, {3}, true);
  c.bad = {bad<DTypeError>("masked_fill: mask must be bool, got u8",
                           [](Device d) {
                             masked_fill(ones({2}, {.device = d}), ones({2}, {DType::u8, d}), 0);
                           }),
           bad<ShapeError>("masked_fill: value must be 0-d, got [1]",
                           [](Device d) {
                             masked_fill(ones({2}, {.device = d}), ones({2}, {DType::boolean, d}),
                                         ones({1}, {.device = d}));
                           }),
           bad<ShapeError>("do not broadcast", [](Device d) {
             masked_fill(ones({2}, {.device = d}), ones({3}, {DType::boolean, d}), 0);
           })};
  return c;
}

OpCase masked_select_case() {
  OpCase c{.op = "masked_select", .samples = {}};
  const auto add = [&](const char* name, const Shape& shape, const Shape& mask,
                       std::vector<DType> dtypes = kFloats) {
    c.samples.push_back(
        {.name = name,
         .in = {x(shape), mask_of(mask, 11)},
         .call = [](const Args& a) -> Tensors { return {masked_select(a[0], a[1])}; },
         .oracle =
             [](const HostArgs& in) {
               HostArray y;
               each_masked(in, [&](double value, bool holds) {
                 if (holds) y.values.push_back(value);
               });
               y.shape = {static_cast<int64_t>(y.values.size())};
               return std::vector{y};
             },
         .dtypes = std::move(dtypes),
         .gradient = numel(shape) < 1000,
         .compiled = false,
         .exact = true});
  };
  add("elements", {3, 4}, {3, 4});
  add("mask broadcasts", {3, 4}, {4});
  add("x broadcasts", {4}, {3, 4});
  add("images", {2, 3, 4, 5}, {2, 1, 4, 5});
  add("one element", {1}, {1});
  add("empty", {0}, {0});
  add("several threads", {300, 300}, {300, 300}, {DType::f32});
  c.bad = {bad<DTypeError>(
               "masked_select: mask must be bool, got f32",
               [](Device d) { masked_select(ones({2}, {.device = d}), ones({2}, {.device = d})); }),
           bad<ShapeError>("masked_select: shapes [2] and [3] do not broadcast", [](Device d) {
             masked_select(ones({2}, {.device = d}), ones({3}, {DType::boolean, d}));
           })};
  return c;
}

const Room kRoom([] {
  return std::vector<OpCase>{nonzero_case(), nonzero_ends_case(), masked_fill_case(),
                             masked_select_case()};
});

}  // namespace
}  // namespace mica::cases
