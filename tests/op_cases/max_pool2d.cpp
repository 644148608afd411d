#include <algorithm>
#include <cmath>

#include "tests/op_cases/pool_oracle.h"

namespace mica::cases {
namespace {

std::vector<HostWindows> windows(const Shape& x, const MaxPool2dParams& p) {
  return {
      HostWindows::plain(x[2], {p.kernel.h, p.stride.h, p.padding.h, p.dilation.h, p.ceil_mode}),
      HostWindows::plain(x[3], {p.kernel.w, p.stride.w, p.padding.w, p.dilation.w, p.ceil_mode})};
}

Pooled pool(const HostArray& x, const MaxPool2dParams& p) {
  return host_max(x, windows(x.shape, p));
}

struct Setup {
  const char* name;
  Shape x;
  MaxPool2dParams params;
};

std::vector<Setup> setups() {
  return {{"2x2", {2, 3, 6, 8}, {}},
          {"2x2, remainder", {2, 3, 7, 5}, {}},
          {"2x2, remainders of pairs and vectors", {2, 3, 7, 27}, {}},
          {"2x2, one row", {1, 2, 3, 9}, {}},
          {"3x3 over 2", {2, 3, 8, 9}, {.kernel = 3, .stride = 2, .padding = 1}},
          {"3x3, rows of 8", {1, 3, 7, 8}, {.kernel = 3, .stride = 2, .padding = 1}},
          {"3x3, 8 channels", {1, 8, 7, 9}, {.kernel = 3, .stride = 2, .padding = 1}},
          {"2x2, ceil_mode", {1, 4, 5, 8}, {.ceil_mode = true}},
          {"overlapping", {1, 2, 6, 6}, {.kernel = 3, .stride = 1}},
          {"oblong", {1, 2, 6, 9}, {.kernel = {1, 3}, .stride = {2, 1}, .padding = {0, 1}}},
          {"16 channels", {2, 16, 6, 6}, {}},
          {"37 channels", {1, 37, 4, 4}, {}},
          {"stride past the kernel", {1, 2, 9, 9}, {.kernel = 2, .stride = 3}},
          {"dilated", {1, 3, 9, 10}, {.kernel = 3, .stride = 1, .padding = 1, .dilation = 2}},
          {"dilated over 2", {1, 2, 8, 24}, {.kernel = 2, .stride = 2, .dilation = {1, 3}}},
          {"dilated over 3", {1, 9, 8, 13}, {.kernel = {3, 2}, .stride = 3, .dilation = {2, 4}}},
          {"ceil_mode", {1, 9, 6, 6}, {.kernel = 3, .stride = 2, .ceil_mode = true}},
          {"ceil_mode, padded",
           {1, 2, 7, 8},
           {.kernel = {3, 2}, .stride = {3, 5}, .padding = 1, .ceil_mode = true}},
          {"two threads", {4, 16, 32, 32}, {.kernel = 3, .stride = 2, .padding = 1}},
          {"one element", {1, 1, 1, 1}, {.kernel = 1}},
          {"no images", {0, 3, 4, 4}, {}}};
}

Tensors both(const Args& a, const MaxPool2dParams& p) { return call_op("max_pool2d", p, {a[0]}); }

OpCase max_pool2d_case() {
  OpCase c{.op = "max_pool2d", .samples = {}};
  const auto oracle = [](const MaxPool2dParams& p) {
    return [p](const HostArgs& in) {
      const Pooled out = pool(in[0], p);
      return std::vector{out.y, out.positions};
    };
  };
  for (const Setup& s : setups())
    c.samples.push_back(
        {.name = s.name,
         .in = {x(s.x).spread()},
         .call = [s](const Args& a) { return both(a, s.params); },
         .oracle = oracle(s.params),
         .dtypes = numel(s.x) > 2000 ? std::vector{DType::f32} : dtypes_for_distinct(s.x)});
  c.samples.push_back({.name = "equal values: the first",
                       .in = {x({1, 2, 4, 4}).of(std::vector<double>(32, 1.5))},
                       .call = [](const Args& a) { return both(a, {}); },
                       .oracle = oracle({}),
                       .gradient = false});
  c.samples.push_back(
      {.name = "all -infinity",
       .in = {x({1, 1, 4, 4}).of(std::vector<double>(16, -INFINITY))},
       .call = [](const Args& a) { return both(a, {.kernel = 3, .stride = 1, .padding = 1}); },
       .oracle = oracle({.kernel = 3, .stride = 1, .padding = 1}),
       .gradient = false});
  c.samples.push_back({.name = "NaN wins",
                       .in = {x({1, 1, 4, 4}).of(hostile_values())},
                       .call = [](const Args& a) { return both(a, {.kernel = 2, .stride = 1}); },
                       .oracle = oracle({.kernel = 2, .stride = 1}),
                       .gradient = false});
  std::vector<double> turned;
  for (int row = 0; row < 16; ++row) {
    auto values = hostile_values();
    std::rotate(values.begin(), values.begin() + row * 7 % 16, values.end());
    turned.insert(turned.end(), values.begin(), values.end());
  }
  c.samples.push_back({.name = "NaN wins in 2x2",
                       .in = {x({1, 1, 16, 16}).of(turned)},
                       .call = [](const Args& a) { return both(a, {}); },
                       .oracle = oracle({}),
                       .gradient = false});
  const auto call = [](Device d, const Shape& shape, const MaxPool2dParams& p) {
    max_pool2d(zeros(shape, {.device = d}), p);
  };
  c.bad = {bad<ShapeError>("max_pool2d: input must be [N, C, H, W] or [C, H, W], got [3, 4]",
                           [=](Device d) { call(d, {3, 4}, {}); }),
           bad<ShapeError>("max_pool2d: kernel must be at least 1, got",
                           [=](Device d) { call(d, {1, 1, 4, 4}, {.kernel = 0}); }),
           bad<ShapeError>("max_pool2d: stride must not be negative, got",
                           [=](Device d) { call(d, {1, 1, 4, 4}, {.stride = -1}); }),
           bad<ShapeError>("max_pool2d: padding must be in [0, kernel / 2]",
                           [=](Device d) { call(d, {1, 1, 4, 4}, {.kernel = 2, .padding = 2}); }),
           bad<ShapeError>("max_pool2d: kernel of 5 by 5 does not fit the padded input of 4 by 4",
                           [=](Device d) { call(d, {1, 1, 4, 4}, {.kernel = 5}); }),
           bad<ShapeError>("max_pool2d: dilation must be at least 1, got",
                           [=](Device d) { call(d, {1, 1, 4, 4}, {.dilation = 0}); }),
           bad<ShapeError>(
               "max_pool2d: a padded image of [1, 1, 4, 1] needs a dilation of at most",
               [=](Device d) { call(d, {1, 1, 4, 1}, {.padding = {0, 1}, .dilation = {1, 2}}); }),
           bad<ShapeError>("max_pool2d: kernel must be at least 1, got [9223372036854775807, 1]",
                           [=](Device d) { call(d, {1, 1, 4, 4}, {.kernel = {INT64_MAX, 1}}); }),
           bad<DTypeError>("max_pool2d: expected a floating dtype, got i64",
                           [](Device d) { max_pool2d(zeros({1, 1, 4, 4}, {DType::i64, d})); })};
  return c;
}

OpCase max_pool2d_values_case() {
  OpCase c{.op = "max_pool2d_values", .samples = {}};
  std::vector<Setup> all = setups();
  all.push_back({"8 channels, two threads", {4, 16, 15, 17}, {.kernel = 2, .stride = 2}});
  all.push_back({"8 channels, oblong", {2, 8, 9, 7}, {.kernel = {1, 3}, .padding = {0, 1}}});
  for (const Setup& s : all)
    c.samples.push_back(
        {.name = s.name,
         .in = {x(s.x)},
         .call = [s](const Args& a) { return call_op("max_pool2d_values", s.params, {a[0]}); },
         .oracle = [s](const HostArgs& in) { return std::vector{pool(in[0], s.params).y}; },
         .gradient = false});
  c.samples.push_back({.name = "NaN wins",
                       .in = {x({1, 16, 1, 1}).of(hostile_values())},
                       .call =
                           [](const Args& a) {
                             return call_op("max_pool2d_values", MaxPool2dParams{.kernel = 1},
                                            {a[0]});
                           },
                       .oracle = [](const HostArgs& in) { return std::vector{in[0]}; },
                       .gradient = false});
  c.bad = {bad<ShapeError>("max_pool2d: kernel must be at least 1, got", [](Device d) {
    call_op("max_pool2d_values", MaxPool2dParams{.kernel = 0},
            {zeros({1, 1, 4, 4}, {DType::f32, d})});
  })};
  return c;
}

OpCase max_pool2d_grad_case() {
  OpCase c{.op = "max_pool2d_grad", .samples = {}};
  for (const Setup& s : setups()) {
    // Positions of a real pooling.
    HostArray grid{s.x, {}};
    for (int64_t i = 0; i < numel(s.x); ++i)
      grid.values.push_back(static_cast<double>(i * 7919 % 1009));
    const Pooled pooled = pool(grid, s.params);
    c.samples.push_back(
        {.name = s.name,
         .in = {x(pooled.y.shape), x(pooled.y.shape).of(pooled.positions.values).as<DType::i32>()},
         .call = [s](const Args& a) -> Tensors {
           return {max_pool2d_grad(a[0], a[1], {s.params, s.x})};
         },
         .oracle =
             [s](const HostArgs& in) {
               HostArray dx{s.x, std::vector<double>(static_cast<size_t>(numel(s.x)))};
               const int64_t plane = s.x[2] * s.x[3];
               const int64_t out = in[0].shape[2] * in[0].shape[3];
               for (size_t i = 0; i < in[0].values.size(); ++i) {
                 const int64_t p = static_cast<int64_t>(i) / out * plane;
                 dx.values[static_cast<size_t>(p + static_cast<int64_t>(in[1].values[i]))] +=
                     in[0].values[i];
               }
               return std::vector{dx};
             }});
  }
  c.bad = {
      bad<ShapeError>("max_pool2d_grad: dy and positions must be [1, 1, 2, 2], got",
                      [](Device d) {
                        max_pool2d_grad(zeros({1, 1, 3, 3}, {.device = d}),
                                        zeros({1, 1, 3, 3}, {DType::i32, d}), {{}, {1, 1, 4, 4}});
                      }),
      bad<IndexError>("max_pool2d_grad: position 16 is outside the image of 16 elements",
                      [](Device) {
                        max_pool2d_grad(zeros({1, 1, 2, 2}), full({1, 1, 2, 2}, 16, {DType::i32}),
                                        {{}, {1, 1, 4, 4}});
                      }),
      bad<IndexError>("max_pool2d_grad: position 64 is outside the image of 64 elements",
                      [](Device) {
                        max_pool2d_grad(zeros({1, 1, 4, 4}), full({1, 1, 4, 4}, 64, {DType::i32}),
                                        {{}, {1, 1, 8, 8}});
                      }),
      bad<IndexError>("max_pool2d_grad: position -1 is outside the image of 16 elements",
                      [](Device) {
                        const auto last = MemoryFormat::channels_last;
                        max_pool2d_grad(contiguous(zeros({1, 2, 2, 2}), last),
                                        contiguous(full({1, 2, 2, 2}, -1, {DType::i32}), last),
                                        {{}, {1, 2, 4, 4}});
                      }),
      bad<DTypeError>("max_pool2d_grad: positions must be i32, got i64", [](Device d) {
        max_pool2d_grad(zeros({1, 1, 2, 2}, {.device = d}), zeros({1, 1, 2, 2}, {DType::i64, d}),
                        {{}, {1, 1, 4, 4}});
      })};
  return c;
}

OpCase adaptive_case() {
  struct Adaptive {
    const char* name;
    Shape x;
    Size2 output;
  };
  OpCase c{.op = "adaptive_max_pool2d", .samples = {}};
  for (const Adaptive& s :
       {Adaptive{"whole parts", {2, 3, 6, 8}, {3, 4}}, Adaptive{"unequal", {2, 3, 7, 10}, {3, 4}},
        Adaptive{"9 channels", {1, 9, 5, 7}, {2, 3}}, Adaptive{"larger", {1, 2, 3, 4}, {5, 4}},
        Adaptive{"one result", {2, 3, 5, 5}, 1}, Adaptive{"one element", {1, 1, 1, 1}, 1},
        Adaptive{"no images", {0, 2, 4, 4}, 2}})
    c.samples.push_back(
        {.name = s.name,
         .in = {x(s.x).spread()},
         .call =
             [s](const Args& a) {
               return call_op("adaptive_max_pool2d", AdaptivePool2dParams{s.output}, {a[0]});
             },
         .oracle =
             [s](const HostArgs& in) {
               const Pooled out = host_max(in[0], {HostWindows::adaptive(s.x[2], s.output.h),
                                                   HostWindows::adaptive(s.x[3], s.output.w)});
               return std::vector{out.y, out.positions};
             },
         .dtypes = dtypes_for_distinct(s.x)});
  c.bad = {
      bad<ShapeError>("adaptive_max_pool2d: input must be [N, C, H, W] or [C, H, W], got [3, 4]",
                      [](Device d) { adaptive_max_pool2d(zeros({3, 4}, {.device = d}), 1); }),
      bad<ShapeError>(
          "adaptive_max_pool2d: output must be at least 1, got [0, 1]",
          [](Device d) { adaptive_max_pool2d(zeros({1, 1, 4, 4}, {.device = d}), {0, 1}); }),
      bad<DTypeError>("adaptive_max_pool2d: expected a floating dtype, got i64", [](Device d) {
        adaptive_max_pool2d(zeros({1, 1, 4, 4}, {DType::i64, d}), 1);
      })};
  return c;
}

const Room kRoom([] {
  return std::vector<OpCase>{max_pool2d_case(), max_pool2d_values_case(), max_pool2d_grad_case(),
                             adaptive_case()};
});

}  // namespace
}  // namespace mica::cases
