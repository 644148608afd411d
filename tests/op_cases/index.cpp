#include "tests/op_cases/positions.h"

namespace mica::cases {
namespace {

constexpr int64_t kAll = -1;  ///< an axis without an index

struct Case {
  const char* name;
  Shape x;
  std::vector<int64_t> inputs;  ///< for each leading axis: number of its index, or kAll
  std::vector<Shape> indices;
  std::vector<DType> dtypes = kFloats;
};

/// The result's shape, and each element's position in it and in x, in row-major order of the
/// result.
struct Walk {
  Shape shape;
  std::vector<std::pair<Position, Position>> steps;
};

Walk walk_of(const Shape& x, const std::vector<int64_t>& axes,
             const std::vector<HostArray>& indices) {
  Shape both;
  for (const HostArray& i : indices) both = broadcast_shapes(both, i.shape, "test");
  const bool neighbours = axes.back() - axes[0] + 1 == static_cast<int64_t>(axes.size());
  Walk walk;
  std::vector<int> from;  // of each result axis: x's axis, or -1 - k for axis k of the indices
  const auto is_indexed = [&](int i) {
    return std::find(axes.begin(), axes.end(), i) != axes.end();
  };
  const auto add_indices = [&] {
    for (int k = 0; k < both.rank(); ++k) from.push_back(-1 - k), walk.shape.push_back(both[k]);
  };
  if (!neighbours) add_indices();
  for (int i = 0; i < x.rank(); ++i) {
    if (neighbours && i == axes[0]) add_indices();
    if (!is_indexed(i)) from.push_back(i), walk.shape.push_back(x[i]);
  }
  each_position(walk.shape, [&](const Position& at) {
    Position index(static_cast<size_t>(both.rank()));
    Position source(static_cast<size_t>(x.rank()));
    for (size_t i = 0; i < at.size(); ++i) {
      if (from[i] < 0) {
        index[static_cast<size_t>(-1 - from[i])] = at[i];
      } else {
        source[static_cast<size_t>(from[i])] = at[i];
      }
    }
    for (size_t k = 0; k < axes.size(); ++k) {
      const auto axis = static_cast<size_t>(axes[k]);
      auto value = static_cast<int64_t>(broadcast_at(indices[k], index));
      if (value < 0) value += x[static_cast<int>(axis)];
      source[axis] = value;
    }
    walk.steps.emplace_back(at, source);
  });
  return walk;
}

HostArray indexed(const HostArray& x, const std::vector<int64_t>& axes,
                  const std::vector<HostArray>& indices) {
  const Walk walk = walk_of(x.shape, axes, indices);
  HostArray y{walk.shape, {}};
  for (const auto& step : walk.steps) y.values.push_back(x.values[flat(x.shape, step.second)]);
  return y;
}

HostArray put(HostArray x, const std::vector<int64_t>& axes, const std::vector<HostArray>& indices,
              const HostArray& values, bool accumulate) {
  for (const auto& [at, to] : walk_of(x.shape, axes, indices).steps) {
    double& element = x.values[flat(x.shape, to)];
    element = (accumulate ? element : 0) + broadcast_at(values, at);
  }
  return x;
}

std::vector<Case> integer_cases() {
  return {{"rows", {5, 4}, {0}, {{3}}},
          {"a table of rows", {5, 4}, {0}, {{2, 3}}},
          {"one row", {5, 4}, {0}, {{}}},
          {"second axis", {3, 5}, {kAll, 0}, {{4}}},
          {"last of three", {2, 3, 5}, {kAll, kAll, 0}, {{2, 2}}},
          {"points", {4, 5}, {0, 1}, {{6}, {6}}},
          {"broadcast", {4, 5, 3}, {0, 1}, {{3, 1}, {2}}},
          {"neighbours inside", {2, 4, 5, 3}, {kAll, 0, 1}, {{3}, {3}}},
          {"apart: in front", {4, 3, 5}, {0, kAll, 1}, {{2}, {2}}},
          {"apart and inside", {2, 3, 4, 5}, {kAll, 0, kAll, 1}, {{2, 2}, {2}}},
          {"three", {3, 4, 5, 2}, {0, 1, 2}, {{3}, {1}, {3}}},
          {"integers", {5, 4}, {0}, {{3}}, kIntegers},
          {"one element", {1}, {0}, {{1}}},
          {"no indices", {3, 2}, {0}, {{0}}},
          {"no columns", {3, 0}, {0}, {{2}}},
          {"several threads", {60, 1200}, {0}, {{70}}, {DType::f32}},
          {"several threads, points", {300, 300}, {0, 1}, {{70000}, {70000}}, {DType::f32}}};
}

std::vector<int64_t> axes_of(const Case& c) {
  std::vector<int64_t> axes;
  for (size_t i = 0; i < c.inputs.size(); ++i)
    if (c.inputs[i] != kAll) axes.push_back(static_cast<int64_t>(i));
  return axes;
}

std::vector<Input> index_inputs(const Case& c) {
  std::vector<Input> inputs;
  const auto axes = axes_of(c);
  for (size_t k = 0; k < c.indices.size(); ++k) {
    const int64_t size = c.x[static_cast<int>(axes[k])];
    inputs.push_back(
        x(c.indices[k]).of(random_indices(c.indices[k], -size, size, k + 3)).as<DType::i64>());
  }
  return inputs;
}

/// The list of indices of a call whose index inputs begin at `first`.
Tensors list_of(const Case& c, const Args& a, size_t first) {
  Tensors list;
  for (const int64_t i : c.inputs)
    list.push_back(i == kAll ? Tensor() : a[first + static_cast<size_t>(i)]);
  return list;
}

std::vector<HostArray> host_indices(const HostArgs& in, size_t first) {
  return {in.in.begin() + static_cast<std::ptrdiff_t>(first), in.in.end()};
}

/// The positions where a mask holds, as one array for each of its axes.
std::vector<HostArray> positions(const HostArray& mask) {
  std::vector<HostArray> found(static_cast<size_t>(mask.shape.rank()));
  each_position(mask.shape, [&](const Position& at) {
    if (mask.values[flat(mask.shape, at)] == 0) return;
    for (size_t i = 0; i < at.size(); ++i) found[i].values.push_back(static_cast<double>(at[i]));
  });
  for (HostArray& a : found) a.shape = {static_cast<int64_t>(a.values.size())};
  return found;
}

Input numbers(const Case& c, const Shape& shape) {
  return is_floating(c.dtypes[0]) ? x(shape) : x(shape).in(0, 4);
}

OpCase index_case() {
  OpCase c{.op = "index", .samples = {}};
  for (const Case& k : integer_cases()) {
    Sample s{.name = k.name,
             .in = {numbers(k, k.x)},
             .call = [k](const Args& a) -> Tensors { return {index(a[0], list_of(k, a, 1))}; },
             .oracle =
                 [k](const HostArgs& in) {
                   return std::vector{indexed(in[0], axes_of(k), host_indices(in, 1))};
                 },
             .dtypes = k.dtypes,
             .gradient = is_floating(k.dtypes[0]) && numel(k.x) < 1000,
             .exact = true};
    for (Input& i : index_inputs(k)) s.in.push_back(std::move(i));
    c.samples.push_back(std::move(s));
  }
  c.samples.push_back({.name = "i32 and u8",
                       .in = {x({4, 5}), x({3}).of({-1, 0, 3}).as<DType::i32>(),
                              x({3}).of({4, 0, 2}).as<DType::u8>()},
                       .call = [](const Args& a) -> Tensors { return {index(a[0], {a[1], a[2]})}; },
                       .oracle =
                           [](const HostArgs& in) {
                             return std::vector{indexed(in[0], {0, 1}, host_indices(in, 1))};
                           },
                       .exact = true});
  struct Mask {
    const char* name;
    Shape x;
    int axis;
    Shape mask;
  };
  for (const Mask& m : std::vector<Mask>{{"mask of rows", {5, 4}, 0, {5}},
                                         {"mask of elements", {3, 4}, 0, {3, 4}},
                                         {"mask inside", {2, 3, 4, 2}, 1, {3, 4}},
                                         {"mask of nothing", {0, 2}, 0, {0}}})
    c.samples.push_back({.name = m.name,
                         .in = {x(m.x), mask_of(m.mask, 5)},
                         .call = [m](const Args& a) -> Tensors {
                           Tensors list(static_cast<size_t>(m.axis));
                           list.push_back(a[1]);
                           return {index(a[0], list)};
                         },
                         .oracle =
                             [m](const HostArgs& in) {
                               std::vector<int64_t> axes;
                               for (int i = 0; i < m.mask.rank(); ++i) axes.push_back(m.axis + i);
                               return std::vector{indexed(in[0], axes, positions(in[1]))};
                             },
                         .compiled = false,
                         .exact = true});
  const auto call = [](Device d, const Tensors& indices) {
    Tensors there;
    for (const Tensor& i : indices) there.push_back(i.defined() ? to(i, d) : i);
    index(zeros({4, 3}, {.device = d}), there);
  };
  const Tensor two = tensor<int64_t>({0, 1}, {2});
  const auto mask = [](const Shape& shape) { return zeros(shape, {.dtype = DType::boolean}); };
  c.bad = {
      bad<IndexError>("index: index 4 at [1] is out of range for axis 0 of size 4",
                      [=](Device d) { call(d, {tensor<int64_t>({-4, 4}, {2})}); }),
      bad<IndexError>("index: index -4 at [0] is out of range for axis 1 of size 3",
                      [=](Device d) { call(d, {two, tensor<int64_t>({-4}, {1})}); }),
      bad<IndexError>("index: the indices stand for 3 axes, x has shape [4, 3]",
                      [=](Device d) { call(d, {two, two, two}); }),
      bad<IndexError>("index: the indices stand for 3 axes, x has shape [4, 3]",
                      [=](Device d) { call(d, {two, mask({3, 1})}); }),
      bad<DTypeError>("index: index must be an integer dtype, got f32",
                      [=](Device d) { call(d, {zeros({2})}); }),
      bad<ShapeError>("index: shapes [2] and [3] do not broadcast",
                      [=](Device d) { call(d, {two, tensor<int64_t>({0, 1, 2}, {3})}); }),
      bad<IndexError>("index: mask [3] does not fit x = [4, 3] at axis 0",
                      [=](Device d) { call(d, {mask({3})}); }),
      bad<ShapeError>("index: a mask must have an axis, got a 0-d one",
                      [=](Device d) { call(d, {mask({})}); }),
      bad<ShapeError>(
          "index: indices of shape [1, 1, 1, 1, 1, 1, 1, 1] in place of 1 of the axes of",
          [=](Device d) { call(d, {zeros({1, 1, 1, 1, 1, 1, 1, 1}, {.dtype = DType::i64})}); })};
  return c;
}

OpCase index_put_case() {
  OpCase c{.op = "index_put", .samples = {}};
  const auto add = [&](const Case& k, const std::string& name, bool accumulate,
                       const Shape& values) {
    Sample s{
        .name = name,
        .in = {numbers(k, k.x), numbers(k, values)},
        .call = [k, accumulate](const Args& a) -> Tensors {
          return {index_put(a[0], list_of(k, a, 2), a[1], accumulate)};
        },
        .oracle =
            [k, accumulate](const HostArgs& in) {
              return std::vector{put(in[0], axes_of(k), host_indices(in, 2), in[1], accumulate)};
            },
        .dtypes = k.dtypes,
        .gradient = is_floating(k.dtypes[0]) && numel(k.x) < 1000,
        .exact = !accumulate};
    for (Input& i : index_inputs(k)) s.in.push_back(std::move(i));
    c.samples.push_back(std::move(s));
  };
  for (const Case& k : integer_cases()) {
    std::vector<HostArray> indices;
    for (const Input& i : index_inputs(k)) indices.push_back({i.shape, i.values});
    const Shape shape = walk_of(k.x, axes_of(k), indices).shape;
    add(k, k.name, false, shape);
    add(k, std::string(k.name) + ", accumulated", true, shape);
  }
  const Case row{"", {4, 3}, {0}, {{2}}};
  add(row, "one value", false, {});
  add(row, "one value, accumulated", true, {});
  add(row, "one row of values", true, {3});
  const auto call = [](Device d, const Tensors& indices, const Tensor& values, bool accumulate) {
    Tensors there;
    for (const Tensor& i : indices) there.push_back(to(i, d));
    index_put(zeros({4, 3}, {values.dtype() == DType::i64 ? DType::f32 : values.dtype(), d}), there,
              to(values, d), accumulate);
  };
  const Tensor two = tensor<int64_t>({0, 1}, {2});
  c.samples.push_back(
      {.name = "mask",
       .in = {x({3, 4}), x({}), mask_of({3, 4}, 9)},
       .call = [](const Args& a) -> Tensors { return {index_put(a[0], {a[2]}, a[1])}; },
       .oracle =
           [](const HostArgs& in) {
             return std::vector{put(in[0], {0, 1}, positions(in[2]), in[1], false)};
           },
       .compiled = false,
       .exact = true});
  c.bad = {
      bad<IndexError>("index_put: index 4 at [1] is out of range for axis 0 of size 4",
                      [=](Device d) { call(d, {tensor<int64_t>({0, 4}, {2})}, ones({}), false); }),
      bad<IndexError>("index_put: the indices stand for 3 axes, x has shape [4, 3]",
                      [=](Device d) { call(d, {two, two, two}, ones({}), false); }),
      bad<ShapeError>("index_put: values must broadcast to [2, 3], got [4, 2, 3]",
                      [=](Device d) { call(d, {two}, ones({4, 2, 3}), false); }),
      bad<ShapeError>("index_put: shapes [2] and [2, 3] do not broadcast",
                      [=](Device d) { call(d, {two}, ones({2}), false); }),
      bad<DTypeError>("index_put: values must have x's dtype, f32, got i64",
                      [=](Device d) { call(d, {two}, ones({}, {.dtype = DType::i64}), false); }),
      bad<DTypeError>("index_put: expected numbers to accumulate, got bool",
                      [=](Device d) { call(d, {two}, ones({}, {.dtype = DType::boolean}), true); }),
      bad<Error>("index_put: expected at least one index",
                 [=](Device d) { call(d, {}, ones({}), false); })};
  return c;
}

const Room kRoom([] { return std::vector<OpCase>{index_case(), index_put_case()}; });

}  // namespace
}  // namespace mica::cases
