#include <gtest/gtest.h>

#include "tests/op_cases/device.h"
#include "tests/op_cases/positions.h"

namespace mica::cases {
namespace {

HostArray gathered(const HostArray& x, int axis, const HostArray& index) {
  HostArray y{index.shape, {}};
  each_position(index.shape, [&](Position at) {
    auto k = static_cast<int64_t>(index.values[flat(index.shape, at)]);
    if (k < 0) k += x.shape[axis];
    if (!at.empty()) at[static_cast<size_t>(axis)] = k;
    y.values.push_back(x.values[flat(x.shape, at)]);
  });
  return y;
}

HostArray scattered(HostArray x, int axis, const HostArray& index, const HostArray& src, bool add) {
  each_position(index.shape, [&](const Position& at) {
    Position to = at;
    if (!at.empty())
      to[static_cast<size_t>(axis)] = static_cast<int64_t>(index.values[flat(index.shape, at)]);
    double& element = x.values[flat(x.shape, to)];
    element = (add ? element : 0) + src.values[flat(src.shape, at)];
  });
  return x;
}

/// The 1-d index of index_select as gather's.
HostArray spread(const HostArray& index, int axis, const Shape& shape) {
  HostArray all{shape, {}};
  each_position(shape, [&](const Position& at) {
    all.values.push_back(index.values[static_cast<size_t>(at[static_cast<size_t>(axis)])]);
  });
  return all;
}

std::vector<double> indices(const Shape& shape, int64_t size, int64_t low = 0) {
  return random_indices(shape, low, size, 7);
}
/// Each position along the axis once in each line.
std::vector<double> permuted(const Shape& shape, int axis) {
  std::vector<double> values;
  each_position(shape, [&](const Position& at) {
    int64_t sum = 0;
    for (const int64_t i : at) sum += i;
    values.push_back(static_cast<double>((3 * sum + 1) % shape[axis]));
  });
  return values;
}

Input index_of(const Shape& shape, std::vector<double> values) {
  return x(shape).of(std::move(values)).as<DType::i64>();
}

struct Setup {
  const char* name;
  Shape x;
  int axis;
  Shape index;
  std::vector<DType> dtypes = kFloats;
};

const std::vector<Setup>& setups() {
  static const std::vector<Setup> list = {
      {"rows", {5, 4}, 0, {3, 4}},
      {"columns", {3, 5}, 1, {3, 7}},
      {"smaller off the axis", {5, 4, 3}, 1, {2, 6, 2}},
      {"images", {2, 3, 4, 5}, 1, {2, 2, 4, 5}},
      {"integers", {5, 4}, 1, {5, 2}, kWhole},
      {"0-d", {}, 0, {}},
      {"one element", {1}, 0, {1}},
      {"empty index", {3, 2}, 0, {0, 2}},
      {"empty", {0, 3}, 1, {0, 2}, {DType::f32}},
      {"several threads", {200, 350}, 1, {200, 350}, {DType::f32}},
      {"several threads, first axis", {70, 1000}, 0, {70, 1000}, {DType::f32}}};
  return list;
}

bool is_integral(const Setup& s) { return !is_floating(s.dtypes[0]); }
/// Gradients are checked on small samples: those of large ones are large samples of other cases.
bool is_small(const Shape& shape) { return numel(shape) < 1000; }
Input values_of(const Setup& s, const Shape& shape) {
  return x(shape).in(is_integral(s) ? 0 : -2, is_integral(s) ? 4 : 2);
}
std::vector<double> index_values(const Setup& s) {
  return indices(s.index, s.x.empty() ? 1 : s.x[s.axis]);
}

template <class E>
BadCall gather_bad(const char* message, const Shape& shape, int64_t axis, Tensor index) {
  return bad<E>(message,
                [=](Device d) { gather(zeros(shape, {.device = d}), axis, to(index, d)); });
}

OpCase gather_case() {
  OpCase c{.op = "gather", .samples = {}};
  for (const Setup& s : setups())
    c.samples.push_back(
        {.name = s.name,
         .in = {values_of(s, s.x), index_of(s.index, index_values(s))},
         .call = [s](const Args& a) -> Tensors { return {gather(a[0], s.axis, a[1])}; },
         .oracle = [s](const HostArgs& in) { return std::vector{gathered(in[0], s.axis, in[1])}; },
         .dtypes = s.dtypes,
         .gradient = !is_integral(s) && is_small(s.x),
         .exact = true});
  const auto call = [](const Args& a) -> Tensors { return {gather(a[0], -1, a[1])}; };
  const auto oracle = [](const HostArgs& in) { return std::vector{gathered(in[0], 1, in[1])}; };
  c.samples.push_back({.name = "i32 index",
                       .in = {x({3, 5}), x({3, 4}).of(indices({3, 4}, 5)).as<DType::i32>()},
                       .call = call,
                       .oracle = oracle});
  c.samples.push_back({.name = "u8 index",
                       .in = {x({3, 5}), x({3, 4}).of(indices({3, 4}, 5)).as<DType::u8>()},
                       .call = call,
                       .oracle = oracle});
  c.samples.push_back(
      {.name = "hostile values",
       .in = {x({1, 16}).of(hostile_values()), index_of({1, 16}, permuted({1, 16}, 1))},
       .call = call,
       .oracle = oracle,
       .gradient = false});
  const auto i64 = [](const Shape& shape) { return zeros(shape, {.dtype = DType::i64}); };
  c.bad = {gather_bad<IndexError>("gather: index 7 at [1, 0] is out of range for axis 1 of size 3",
                                  {2, 3}, 1, tensor<int64_t>({0, 1, 7, -1}, {2, 2})),
           gather_bad<IndexError>("gather: index -1 at [0, 1] is out of range for axis 0 of size 2",
                                  {2, 3}, 0, tensor<int32_t>({0, -1}, {1, 2})),
           gather_bad<IndexError>("gather: index 0 at [0] is out of range for axis 0 of size 0",
                                  {0}, 0, i64({1})),
           gather_bad<IndexError>("gather: axis must be in [-2, 2), got 2", {2, 3}, 2, i64({2, 3})),
           gather_bad<DTypeError>("gather: index must be an integer dtype, got f32", {2, 3}, 0,
                                  zeros({2, 3})),
           gather_bad<ShapeError>("gather: index must have x's rank with x = [2, 3], got [3]",
                                  {2, 3}, 0, i64({3})),
           gather_bad<ShapeError>(
               "gather: index must not be larger than x = [2, 3] off axis 0, got [2, 4]", {2, 3}, 0,
               i64({2, 4}))};
  return c;
}

template <class E>
BadCall scatter_bad(const std::string& op, const char* message, const Shape& shape, int64_t axis,
                    Tensor index, Tensor src) {
  return bad<E>(op + message, [=](Device d) {
    const Tensor x = zeros(shape, {.device = d});
    if (op == "scatter") {
      scatter(x, axis, to(index, d), to(src, d));
    } else {
      scatter_add(x, axis, to(index, d), to(src, d));
    }
  });
}

std::vector<BadCall> scatter_bads(const char* op) {
  const auto i64 = [](const Shape& shape) { return zeros(shape, {.dtype = DType::i64}); };
  return {
      scatter_bad<IndexError>(op, ": index 3 at [0, 1] is out of range for axis 1 of size 3",
                              {2, 3}, 1, tensor<int64_t>({0, 3}, {1, 2}), zeros({1, 2})),
      scatter_bad<IndexError>(op, ": index -2 at [0, 1] is out of range for axis 1 of size 3",
                              {2, 3}, 1, tensor<int64_t>({0, -2}, {1, 2}), zeros({1, 2})),
      scatter_bad<IndexError>(op, ": axis must be in [-2, 2), got -3", {2, 3}, -3, i64({2, 3}),
                              zeros({2, 3})),
      scatter_bad<DTypeError>(op, ": index must be an integer dtype, got bool", {2, 3}, 0,
                              zeros({2, 3}, {.dtype = DType::boolean}), zeros({2, 3})),
      scatter_bad<DTypeError>(op, ": src must have x's dtype, f32, got f64", {2, 3}, 0, i64({2, 3}),
                              zeros({2, 3}, {.dtype = DType::f64})),
      scatter_bad<ShapeError>(op, ": index must not be larger than x = [2, 3] off axis 0, got",
                              {2, 3}, 0, i64({2, 4}), zeros({2, 4})),
      scatter_bad<ShapeError>(op, ": src must be at least as large as index = [2, 3], got [2, 2]",
                              {2, 3}, 0, i64({2, 3}), zeros({2, 2})),
      scatter_bad<ShapeError>(op, ": src must have index's rank with index = [2, 3], got [3]",
                              {2, 3}, 0, i64({2, 3}), zeros({3}))};
}

OpCase scatter_case(bool add) {
  const char* op = add ? "scatter_add" : "scatter";
  OpCase c{.op = op, .samples = {}, .bad = scatter_bads(op)};
  const auto sample = [&](const Setup& s, const Shape& src, std::vector<double> index) {
    Sample made{
        .name = s.name,
        .in = {values_of(s, s.x), index_of(s.index, std::move(index)), values_of(s, src)},
        .call = [axis = s.axis, add](const Args& a) -> Tensors {
          return {add ? scatter_add(a[0], axis, a[1], a[2]) : scatter(a[0], axis, a[1], a[2])};
        },
        .oracle =
            [axis = s.axis, add](const HostArgs& in) {
              return std::vector{scattered(in[0], axis, in[1], in[2], add)};
            },
        .dtypes = s.dtypes,
        .gradient = !is_integral(s) && is_small(s.x),
        .exact = !add};
    if (add && is_integral(s)) made.dtypes = kIntegers;
    c.samples.push_back(std::move(made));
  };
  for (const Setup& s : setups()) sample(s, s.index, index_values(s));
  sample({"larger source", {4, 3}, 0, {2, 2}}, {3, 4}, {0, 3, 1, 0});
  sample({"one slice", {4, 3}, 0, {1, 3}}, {1, 3}, {2, 0, 2});
  sample({"all to one element", {6}, 0, {40}}, {40}, std::vector<double>(40, 2));
  return c;
}

OpCase scatter_write_case() {
  OpCase c = scatter_case(false);
  c.samples.push_back(
      {.name = "a number",
       .in = {x({3, 4}), index_of({3, 2}, {0, 2, 3, 1, 1, 1})},
       .call = [](const Args& a) -> Tensors { return {scatter(a[0], 1, a[1], 0.5)}; },
       .oracle =
           [](const HostArgs& in) {
             const HostArray half{in[1].shape, std::vector<double>(6, 0.5)};
             return std::vector{scattered(in[0], 1, in[1], half, false)};
           },
       .exact = true});
  return c;
}

struct Slices {
  const char* name;
  Shape x;
  int axis;
  int64_t count;
  std::vector<DType> dtypes = kFloats;
};

std::vector<Slices> slices() {
  return {{"rows", {5, 4}, 0, 7},
          {"columns", {3, 5}, 1, 4},
          {"middle", {3, 4, 5}, 1, 6},
          {"images", {2, 3, 4, 5}, 1, 4},
          {"last axis of images", {2, 3, 4, 5}, 3, 3},
          {"integers", {5, 4}, 0, 3, kIntegers},
          {"one element", {1}, 0, 1},
          {"empty index", {3, 2}, 0, 0},
          {"no columns", {3, 0}, 0, 2},
          {"several threads", {50, 1500}, 0, 60, {DType::f32}},
          {"several threads, last axis", {1500, 50}, 1, 60, {DType::f32}},
          {"few long rows", {3, 70000}, 0, 2, {DType::f32}}};
}

Shape slices_shape(const Slices& s) {
  Shape shape = s.x;
  shape[s.axis] = s.count;
  return shape;
}
Input slices_index(const Slices& s) { return index_of({s.count}, indices({s.count}, s.x[s.axis])); }

OpCase index_select_case() {
  OpCase c{.op = "index_select", .samples = {}};
  for (const Slices& s : slices())
    c.samples.push_back(
        {.name = s.name,
         .in = {x(s.x).in(0, 4), slices_index(s)},
         .call = [s](const Args& a) -> Tensors { return {index_select(a[0], s.axis, a[1])}; },
         .oracle =
             [s](const HostArgs& in) {
               return std::vector{gathered(in[0], s.axis, spread(in[1], s.axis, slices_shape(s)))};
             },
         .dtypes = s.dtypes,
         .gradient = is_floating(s.dtypes[0]) && is_small(s.x),
         .exact = true});
  c.samples.push_back(
      {.name = "i32 index",
       .in = {x({3, 5}), x({4}).of({4, 0, 0, 2}).as<DType::i32>()},
       .call = [](const Args& a) -> Tensors { return {index_select(a[0], -1, a[1])}; },
       .oracle =
           [](const HostArgs& in) {
             return std::vector{gathered(in[0], 1, spread(in[1], 1, {3, 4}))};
           },
       .exact = true});
  const auto call = [](Device d, const Shape& shape, int64_t axis, const Tensor& index) {
    index_select(zeros(shape, {.device = d}), axis, to(index, d));
  };
  c.bad = {bad<IndexError>("index_select: index 5 at [2] is out of range for axis 0 of size 5",
                           [=](Device d) { call(d, {5, 2}, 0, tensor<int64_t>({0, 4, 5}, {3})); }),
           bad<IndexError>("index_select: index -1 at [0] is out of range for axis 1 of size 2",
                           [=](Device d) { call(d, {5, 2}, 1, tensor<int64_t>({-1}, {1})); }),
           bad<IndexError>("index_select: axis must be in [-2, 2), got 4",
                           [=](Device d) { call(d, {5, 2}, 4, tensor<int64_t>({0}, {1})); }),
           bad<ShapeError>("index_select: index must be 1-d, got [1, 1]",
                           [=](Device d) { call(d, {5, 2}, 0, tensor<int64_t>({0}, {1, 1})); }),
           bad<DTypeError>("index_select: index must be an integer dtype, got f32",
                           [=](Device d) { call(d, {5, 2}, 0, zeros({1})); })};
  return c;
}

/// index_add and index_copy.
OpCase index_write_case(bool add) {
  const std::string op = add ? "index_add" : "index_copy";
  const auto run = [add](const Tensor& to, int axis, const Tensor& index, const Tensor& src) {
    return add ? index_add(to, axis, index, src) : index_copy(to, axis, index, src);
  };
  OpCase c{.op = add ? "index_add" : "index_copy", .samples = {}};
  for (const Slices& s : slices())
    c.samples.push_back(
        {.name = s.name,
         .in = {x(s.x).in(0, 3), slices_index(s), x(slices_shape(s)).in(0, 3)},
         .call = [=](const Args& a) -> Tensors { return {run(a[0], s.axis, a[1], a[2])}; },
         .oracle =
             [=](const HostArgs& in) {
               return std::vector{
                   scattered(in[0], s.axis, spread(in[1], s.axis, in[2].shape), in[2], add)};
             },
         .dtypes = s.dtypes,
         .gradient = is_floating(s.dtypes[0]) && is_small(s.x),
         .exact = !add});
  const auto call = [=](Device d, int axis, const Tensor& index, const Tensor& src) {
    run(zeros({5, 2}, {.device = d}), axis, to(index, d), to(src, d));
  };
  const Tensor one = tensor<int64_t>({0}, {1});
  c.bad = {bad<IndexError>(add ? "index_add: index 5 at [0] is out of range for axis 0 of size 5"
                               : "index 5 at [0, 0] is out of range for axis 0 of size 5",
                           [=](Device d) { call(d, 0, tensor<int64_t>({5}, {1}), zeros({1, 2})); }),
           bad<IndexError>(op + ": axis must be in [-2, 2), got 2",
                           [=](Device d) { call(d, 2, one, zeros({1, 2})); }),
           bad<ShapeError>(op + ": index must be 1-d, got [1, 1]",
                           [=](Device d) { call(d, 0, reshape(one, {1, 1}), zeros({1, 2})); }),
           bad<ShapeError>(op + ": src must be [1, 2], got [2, 2]",
                           [=](Device d) { call(d, 0, one, zeros({2, 2})); }),
           bad<DTypeError>(op + ": index must be an integer dtype, got f32",
                           [=](Device d) { call(d, 0, zeros({1}), zeros({1, 2})); }),
           bad<DTypeError>("src must have x's dtype, f32, got i64", [=](Device d) {
             call(d, 0, one, zeros({1, 2}, {.dtype = DType::i64}));
           })};
  return c;
}

OpCase take_along_axis_case() {
  OpCase c{.op = "take_along_axis", .samples = {}};
  struct Taken {
    const char* name;
    Shape x, index;
    int axis;
    Shape whole_x, whole_index;  // broadcast
  };
  for (const Taken& s :
       std::vector<Taken>{{"same shapes", {3, 4}, {3, 2}, 1, {3, 4}, {3, 2}},
                          {"index broadcasts", {3, 4}, {1, 2}, 1, {3, 4}, {3, 2}},
                          {"x broadcasts", {5, 1, 2}, {3, 4, 1}, 0, {5, 4, 2}, {3, 4, 2}},
                          {"one element", {1}, {1}, 0, {1}, {1}},
                          {"0-d", {}, {}, 0, {}, {}},
                          {"empty", {3, 0}, {2, 1}, 0, {3, 0}, {2, 0}}})
    c.samples.push_back(
        {.name = s.name,
         .in = {x(s.x), index_of(s.index, indices(s.index, s.x.empty() ? 1 : s.x[s.axis],
                                                  s.x.empty() ? -1 : -s.x[s.axis]))},
         .call = [s](const Args& a) -> Tensors { return {take_along_axis(a[0], a[1], s.axis)}; },
         .oracle =
             [s](const HostArgs& in) {
               const auto whole = [](const HostArray& part, const Shape& shape) {
                 HostArray all{shape, {}};
                 each_position(shape, [&](const Position& at) {
                   all.values.push_back(broadcast_at(part, at));
                 });
                 return all;
               };
               return std::vector{
                   gathered(whole(in[0], s.whole_x), s.axis, whole(in[1], s.whole_index))};
             },
         .exact = true});
  const auto call = [](Device d, int64_t axis, const Tensor& index) {
    take_along_axis(zeros({2, 3}, {.device = d}), to(index, d), axis);
  };
  c.bad = {
      bad<IndexError>("take_along_axis: index -4 at [0, 1] is out of range for axis 1 of size 3",
                      [=](Device d) { call(d, 1, tensor<int64_t>({-3, -4}, {1, 2})); }),
      bad<IndexError>("take_along_axis: axis must be in [-2, 2), got 2",
                      [=](Device d) { call(d, 2, tensor<int64_t>({0}, {1, 1})); }),
      bad<ShapeError>("take_along_axis: index must have x's rank with x = [2, 3], got [1]",
                      [=](Device d) { call(d, 0, tensor<int64_t>({0}, {1})); }),
      bad<ShapeError>("take_along_axis: shapes [2, 1] and [4, 1] do not broadcast",
                      [=](Device d) { call(d, 1, zeros({4, 1}, {.dtype = DType::i64})); }),
      bad<DTypeError>("take_along_axis: index must be an integer dtype, got f32",
                      [=](Device d) { call(d, 1, zeros({2, 1})); })};
  return c;
}

// f16 sums are taken in f32: 4096 times 1 is 4096, where f16 alone would stop at 2048.
TEST(ScatterAdd, HalfSumsAreTakenInFloat) {
  const TensorOptions half{DType::f16, tested_device()};
  if (half.device.is_null() || (half.device.is_cuda() && !cuda_available()))
    GTEST_SKIP() << "skipped: no values on " << to_string(half.device);
  const Tensor index = zeros({4096}, {DType::i64, half.device});
  EXPECT_EQ(scatter_add(zeros({1}, half), 0, index, ones({4096}, half)).item(), 4096);
}

const Room kRoom([] {
  return std::vector<OpCase>{gather_case(),         scatter_write_case(),   scatter_case(true),
                             index_select_case(),   index_write_case(true), index_write_case(false),
                             take_along_axis_case()};
});

}  // namespace
}  // namespace mica::cases
