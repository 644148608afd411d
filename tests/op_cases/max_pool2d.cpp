#include <cmath>

#include "tests/op_cases/op_case.h"

namespace mica::cases {
namespace {

struct Pooled {
  HostArray y, positions;
};

Pooled pool(const HostArray& x, const MaxPool2dParams& p) {
  const int64_t h = x.shape[2];
  const int64_t w = x.shape[3];
  const Size2 stride(p.stride.h == 0 ? p.kernel.h : p.stride.h,
                     p.stride.w == 0 ? p.kernel.w : p.stride.w);
  const Shape shape = {x.shape[0], x.shape[1], (h + 2 * p.padding.h - p.kernel.h) / stride.h + 1,
                       (w + 2 * p.padding.w - p.kernel.w) / stride.w + 1};
  Pooled out{{shape, {}}, {shape, {}}};
  for (int64_t plane = 0; plane < shape[0] * shape[1]; ++plane)
    for (int64_t i = 0; i < shape[2]; ++i)
      for (int64_t j = 0; j < shape[3]; ++j) {
        int64_t best = -1;
        const auto value = [&](int64_t at) {
          return x.values[static_cast<size_t>(plane * h * w + at)];
        };
        for (int64_t u = i * stride.h - p.padding.h; u < i * stride.h - p.padding.h + p.kernel.h;
             ++u)
          for (int64_t v = j * stride.w - p.padding.w; v < j * stride.w - p.padding.w + p.kernel.w;
               ++v) {
            if (u < 0 || u >= h || v < 0 || v >= w) continue;
            const int64_t at = u * w + v;
            if (best < 0 ||
                (!std::isnan(value(best)) && (std::isnan(value(at)) || value(at) > value(best))))
              best = at;
          }
        out.y.values.push_back(value(best));
        out.positions.values.push_back(static_cast<double>(best));
      }
  return out;
}

struct Setup {
  const char* name;
  Shape x;
  MaxPool2dParams params;
};

std::vector<Setup> setups() {
  return {{"2x2", {2, 3, 6, 8}, {}},
          {"2x2, remainder", {2, 3, 7, 5}, {}},
          {"3x3 over 2", {2, 3, 8, 9}, {.kernel = 3, .stride = 2, .padding = 1}},
          {"overlapping", {1, 2, 6, 6}, {.kernel = 3, .stride = 1}},
          {"oblong", {1, 2, 6, 9}, {.kernel = {1, 3}, .stride = {2, 1}, .padding = {0, 1}}},
          {"16 channels", {2, 16, 6, 6}, {}},
          {"37 channels", {1, 37, 4, 4}, {}},
          {"stride past the kernel", {1, 2, 9, 9}, {.kernel = 2, .stride = 3}},
          {"one element", {1, 1, 1, 1}, {.kernel = 1}},
          {"no images", {0, 3, 4, 4}, {}}};
}

Tensors both(const Args& a, const MaxPool2dParams& p) { return call_op("max_pool2d", p, {a[0]}); }

OpCase max_pool2d_case() {
  OpCase c{.op = "max_pool2d", .samples = {}, .second_order = false};
  const auto oracle = [](const MaxPool2dParams& p) {
    return [p](const HostArgs& in) {
      const Pooled out = pool(in[0], p);
      return std::vector{out.y, out.positions};
    };
  };
  for (const Setup& s : setups()) {
    // f16 and bf16 hold fewer distinct values than some samples have elements.
    const bool few = numel(s.x) <= 200;
    c.samples.push_back(
        {.name = s.name,
         .in = {x(s.x).spread()},
         .call = [s](const Args& a) { return both(a, s.params); },
         .oracle = oracle(s.params),
         .dtypes = few ? kFloats : std::vector{DType::f64, DType::f32, DType::f16}});
  }
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
  const auto call = [](Device d, const Shape& shape, const MaxPool2dParams& p) {
    max_pool2d(zeros(shape, {.device = d}), p);
  };
  c.bad = {bad<ShapeError>("max_pool2d: input must be [N, C, H, W], got [3, 4]",
                           [=](Device d) { call(d, {3, 4}, {}); }),
           bad<ShapeError>("max_pool2d: kernel must be at least 1, got",
                           [=](Device d) { call(d, {1, 1, 4, 4}, {.kernel = 0}); }),
           bad<ShapeError>("max_pool2d: stride must not be negative, got",
                           [=](Device d) { call(d, {1, 1, 4, 4}, {.stride = -1}); }),
           bad<ShapeError>("max_pool2d: padding must be in [0, kernel / 2]",
                           [=](Device d) { call(d, {1, 1, 4, 4}, {.kernel = 2, .padding = 2}); }),
           bad<ShapeError>("max_pool2d: kernel of 5 by 5 does not fit the padded input of 4 by 4",
                           [=](Device d) { call(d, {1, 1, 4, 4}, {.kernel = 5}); }),
           bad<DTypeError>("max_pool2d: expected a floating input, got i64",
                           [](Device d) { max_pool2d(zeros({1, 1, 4, 4}, {DType::i64, d})); })};
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
  c.bad = {bad<ShapeError>("max_pool2d_grad: dy and positions must be [1, 1, 2, 2], got",
                           [](Device d) {
                             max_pool2d_grad(zeros({1, 1, 3, 3}, {.device = d}),
                                             zeros({1, 1, 3, 3}, {DType::i32, d}),
                                             {{}, {1, 1, 4, 4}});
                           }),
           bad<DTypeError>("max_pool2d_grad: positions must be i32, got i64", [](Device d) {
             max_pool2d_grad(zeros({1, 1, 2, 2}, {.device = d}),
                             zeros({1, 1, 2, 2}, {DType::i64, d}), {{}, {1, 1, 4, 4}});
           })};
  return c;
}

const Room kRoom([] { return std::vector<OpCase>{max_pool2d_case(), max_pool2d_grad_case()}; });

}  // namespace
}  // namespace mica::cases
