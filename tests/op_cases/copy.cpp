#include <cmath>

#include "tests/op_cases/gathered.h"

namespace mica::cases {
namespace {

std::vector<HostArray> same(const HostArgs& in) { return {in[0]}; }

Sample copied(const char* name, const Shape& shape, std::function<Tensors(const Args&)> call) {
  return {.name = name, .in = {x(shape)}, .call = std::move(call), .oracle = same};
}

OpCase copy_case() {
  const auto to_clone = [](const Args& a) -> Tensors { return {clone(a[0])}; };
  const auto to_rows = [](const Args& a) -> Tensors {
    return call_op("copy", CopyParams{a.dtype, false}, {a[0]});
  };
  const auto to_channels_last = [](const Args& a) -> Tensors {
    return call_op("copy", CopyParams{a.dtype, true}, {a[0]});
  };
  OpCase c{.op = "copy",
           .samples = {copied("clone", {3, 5}, to_clone),
                       copied("clone of images", {2, 3, 4, 5}, to_clone),
                       copied("to row-major", {2, 3, 4, 5}, to_rows),
                       copied("to channels_last", {2, 3, 4, 5}, to_channels_last),
                       copied("wide channels_last", {2, 40, 7, 9}, to_channels_last),
                       copied("pictures to channels_last", {2, 3, 9, 7}, to_channels_last),
                       copied("pictures of whole vectors", {3, 3, 4, 8}, to_channels_last),
                       copied("two channels", {2, 2, 8, 8}, to_channels_last),
                       copied("four channels", {1, 4, 8, 24}, to_channels_last),
                       copied("one channel", {2, 1, 5, 4}, to_channels_last),
                       copied("0-d", {}, to_clone), copied("one element", {1, 1}, to_clone),
                       copied("empty", {3, 0, 2}, to_clone)},
           .bad = {bad<ShapeError>("channels_last needs 4 dimensions, got [2, 3]", [](Device d) {
             contiguous(zeros({2, 3}, {.device = d}), MemoryFormat::channels_last);
           })}};
  c.samples.push_back({.name = "hostile values",
                       .in = {x({16}).of(hostile_values())},
                       .call = to_clone,
                       .oracle = same,
                       .gradient = false});
  // Each dtype to each: values that all of them hold.
  for (int i = 0; i < kDTypes; ++i) {
    const auto to = static_cast<DType>(i);
    if (is_complex(to)) continue;  // complex.cpp has those
    Sample s{.name = "cast to " + std::string(name_of(to)),
             .in = {x({3, 4}).of({0, 1, 1, 0, 1, 0, 1, 1, 1, 0, 0, 1})},
             .call = [to](const Args& a) -> Tensors { return {cast(a[0], to)}; },
             .oracle = same,
             .dtypes = joined(kEveryDType, {DType::f8_e4m3, DType::f8_e5m2}),
             .gradient = false};
    c.samples.push_back(s);
  }
  // Permuted copies: every size of tile and what is left beside them, in every width of element.
  const auto permuted = [](const char* name, const Shape& shape, const Dims& axes, DType to) {
    return Sample{.name = name,
                  .in = {x(shape).in(0, 100)},
                  .call = [=](const Args& a) -> Tensors {
                    return call_op("copy", CopyParams{to, false}, {permute(a[0], axes)});
                  },
                  .oracle =
                      [=](const HostArgs& in) {
                        Shape result;
                        for (const int64_t axis : axes)
                          result.push_back(shape[static_cast<int>(axis)]);
                        return gathered(in[0], result, [&](const Dims& index) {
                          Dims from = index;
                          for (int i = 0; i < axes.rank(); ++i)
                            from[static_cast<int>(axes[i])] = index[i];
                          return from;
                        });
                      },
                  .gradient = false};
  };
  for (const DType to : {DType::f64, DType::f32, DType::bf16, DType::i32, DType::u16, DType::u8}) {
    Sample s = permuted("transposed matrix", {37, 83}, {1, 0}, to);
    s.name += " to " + std::string(name_of(to));
    s.dtypes = {to, DType::f16};
    if (!is_floating(to)) s.dtypes = {to, DType::u8};
    c.samples.push_back(s);
  }
  c.samples.push_back(permuted("heads", {2, 5, 3, 40}, {0, 2, 1, 3}, DType::f32));
  c.samples.push_back(permuted("rotated", {5, 18, 33}, {2, 0, 1}, DType::f32));
  Sample rows = permuted("several threads, transposed", {190, 310}, {1, 0}, DType::f32);
  rows.dtypes = {DType::f32, DType::f16};
  c.samples.push_back(rows);
  for (Sample large : {copied("past the caches", {1050, 2001}, to_clone),
                       permuted("past the caches, transposed", {1050, 2048}, {1, 0}, DType::f64),
                       copied("past the caches, cast", {1050, 2001}, [](const Args& a) -> Tensors {
                         return {cast(cast(a[0], DType::bf16), DType::f64)};
                       })}) {
    // Numbers that bf16 holds too.
    large.in[0].values.resize(static_cast<size_t>(numel(large.in[0].shape)));
    for (size_t i = 0; i < large.in[0].values.size(); ++i)
      large.in[0].values[i] = static_cast<double>(i % 251);
    large.dtypes = {DType::f64};
    large.gradient = large.compiled = large.layouts = false;
    c.samples.push_back(large);
  }
  // What the numbers of one dtype become in another where it has no such number.
  c.samples.push_back(
      {.name = "cast to u8 wraps",
       .in = {x({5}).of({-1, -2.5, 300, 255.9, 0.5})},
       .call = [](const Args& a) -> Tensors { return {cast(a[0], DType::u8)}; },
       .oracle =
           [](const HostArgs&) { return std::vector{HostArray{{5}, {255, 254, 44, 255, 0}}}; },
       .dtypes = {DType::f64, DType::f32},
       .gradient = false});
  std::vector<double> wholes;
  for (int i = 0; i < 30; ++i) wholes.push_back((i % 2 == 0 ? 1 : -1) * std::ldexp(7, 2 * i));
  for (const DType to : {DType::i64, DType::f64, DType::f32})
    c.samples.push_back({.name = "large whole numbers to " + std::string(name_of(to)),
                         .in = {x({30}).of(wholes)},
                         .call = [to](const Args& a) -> Tensors { return {cast(a[0], to)}; },
                         .oracle = same,
                         .dtypes = {DType::f64, DType::f32, DType::i64},
                         .gradient = false});
  c.samples.push_back({.name = "cast to f32 rounds",
                       .in = {x({4, 9}).as<DType::f64>()},
                       .call = [](const Args& a) -> Tensors { return {cast(a[0], DType::f32)}; },
                       .oracle = same,
                       .dtypes = {DType::f64},
                       .gradient = false});
  for (const DType to : {DType::i32, DType::i64})
    c.samples.push_back({.name = "truncated to " + std::string(name_of(to)),
                         .in = {x({6}).of({1.75, -1.75, 0.5, -0.5, 9.99, -3})},
                         .call = [to](const Args& a) -> Tensors { return {cast(a[0], to)}; },
                         .oracle =
                             [](const HostArgs& in) {
                               HostArray out = in[0];
                               for (double& v : out.values) v = std::trunc(v);
                               return std::vector{out};
                             },
                         .gradient = false});
  return c;
}

/// copy_ writes to a destination that is made here, so that the inputs stay as they are.
OpCase copy_into_case() {
  const auto into = [](const Args& a) -> Tensors {
    const Tensor destination = clone(a[0]);
    copy_(destination, a[1]);
    return {destination};
  };
  const auto broadcast_rows = [](const HostArgs& in) {
    HostArray out = in[0];
    for (size_t i = 0; i < out.values.size(); ++i)
      out.values[i] = in[1].values[i % in[1].values.size()];
    return std::vector{out};
  };
  // Every second column of a wider tensor: the others must keep their values.
  const auto into_view = [](const Args& a) -> Tensors {
    const Tensor destination = clone(a[0]);
    copy_(slice(destination, 1, 1, 8, 2), a[1]);
    return {destination};
  };
  const auto columns = [](const HostArgs& in) {
    HostArray out = in[0];
    for (size_t row = 0; row < 3; ++row)
      for (size_t k = 0; k < 4; ++k) out.values[row * 8 + 2 * k + 1] = in[1].values[row * 4 + k];
    return std::vector{out};
  };
  const auto sample = [&](const char* name, const Shape& to, const Shape& from) {
    return Sample{.name = name,
                  .in = {x(to), x(from)},
                  .call = into,
                  .oracle = broadcast_rows,
                  .gradient = false};
  };
  Sample all = sample("every dtype", {2, 3}, {2, 3});
  all.in = {x({2, 3}), x({2, 3}).in(0, 2)};
  all.dtypes = kEveryDType;
  Sample casts = sample("from f64", {2, 3}, {2, 3});
  casts.in = {x({2, 3}), x({2, 3}).as<DType::f64>()};
  return {
      .op = "copy_into",
      .samples = {sample("same shape", {3, 5}, {3, 5}), sample("row", {3, 5}, {5}),
                  sample("one value", {3, 5}, {}), sample("images", {2, 3, 4, 5}, {2, 3, 4, 5}),
                  sample("one element", {1}, {1}), sample("empty", {0, 4}, {4}), all, casts,
                  Sample{.name = "into a view",
                         .in = {x({3, 8}), x({3, 4})},
                         .call = into_view,
                         .oracle = columns,
                         .gradient = false,
                         .compiled = false}},
      .bad = {bad<ShapeError>(
                  "copy_: source [3] does not broadcast to destination [1]",
                  [](Device d) { copy_(zeros({1}, {.device = d}), zeros({3}, {.device = d})); }),
              bad<Error>(
                  "copy_into: writes to a tensor that requires a gradient; do it under NoGrad",
                  [](Device d) {
                    copy_(zeros({2}, {.device = d}).set_requires_grad(), zeros({2}, {.device = d}));
                  })}};
}

/// Whole numbers, which every dtype holds.
Input small(const Shape& shape) {
  std::vector<double> values;
  for (int64_t i = 0; i < numel(shape); ++i) values.push_back(static_cast<double>(i % 17 - 8));
  return x(shape).of(std::move(values));
}

OpCase copies_case() {
  OpCase c{.op = "copies", .samples = {}};
  const auto add = [&](const std::string& name, const std::vector<Shape>& shapes,
                       std::optional<DType> dtype, bool channels_last) {
    Sample s{.name = name,
             .in = {},
             .call =
                 [=](const Args& a) {
                   return call_op("copies", CopyParams{dtype.value_or(a.dtype), channels_last},
                                  a.in);
                 },
             .oracle = [](const HostArgs& in) { return in.in; },
             .gradient = false,
             .exact = true};
    for (const Shape& shape : shapes) s.in.push_back(small(shape));
    c.samples.push_back(std::move(s));
  };
  const std::vector<Shape> weights = {{16, 8, 3, 3}, {40, 24, 1, 1}, {5, 7, 3, 5},
                                      {3, 72, 7, 7}, {9, 512, 3, 3}, {2, 1, 4, 4}};
  for (const std::optional<DType> dtype : {std::optional<DType>(), std::optional(DType::f32),
                                           std::optional(DType::f16), std::optional(DType::bf16)}) {
    const std::string to = dtype ? " in " + std::string(name_of(*dtype)) : "";
    add("row-major" + to, weights, dtype, false);
    add("channels_last" + to, weights, dtype, true);
    add("vectors" + to, {{1}, {7}, {64, 130}, {3, 5001}, {1, 1, 2, 3, 4}}, dtype, false);
  }
  add("empty", {{0, 3}, {4}}, {}, false);
  add("matrices too large for shared memory", {{2, 300, 6, 5}, {4, 4, 3, 3}}, {}, true);
  c.bad = {bad<ShapeError>("channels_last needs 4 dimensions, got [2, 3]", [](Device d) {
    call_op("copies", CopyParams{DType::f32, true}, {zeros({2, 3}, {.device = d})});
  })};
  return c;
}

const Room kRoom([] { return std::vector<OpCase>{copy_case(), copy_into_case(), copies_case()}; });

}  // namespace
}  // namespace mica::cases
