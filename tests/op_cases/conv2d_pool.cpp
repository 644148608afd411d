#include <algorithm>

#include "tests/op_cases/pool_oracle.h"

namespace mica::cases {
namespace {

/// A convolution and a pooling of its result, without the library.
struct Setup {
  const char* name;
  Shape x, w;
  Conv2dParams conv = {};
  MaxPool2dParams pool = {};

  HostConv host_conv() const {
    const auto dims = [](Size2 size) { return Dims{size.h, size.w}; };
    return {x,
            w,
            {dims(conv.stride), dims(conv.padding), dims(conv.padding), dims(conv.dilation),
             conv.groups}};
  }
  Shape conv_shape() const { return host_conv().y_shape(4); }
  std::vector<HostWindows> windows() const {
    const Shape y = conv_shape();
    return {HostWindows::plain(y[2], {pool.kernel.h, pool.stride.h, pool.padding.h, pool.dilation.h,
                                      pool.ceil_mode}),
            HostWindows::plain(y[3], {pool.kernel.w, pool.stride.w, pool.padding.w, pool.dilation.w,
                                      pool.ceil_mode})};
  }
  Pooled run(const HostArgs& in, bool relu) const {
    HostArray y = cases::host_conv(host_conv(), in[0], in[1], in[2].values);
    if (relu)
      for (double& v : y.values) v = std::max(v, 0.0);
    return host_max(y, windows());
  }
  /// Positions of a real pooling.
  Pooled positions() const {
    HostArray grid = zeros_of(conv_shape());
    for (size_t i = 0; i < grid.values.size(); ++i)
      grid.values[i] = static_cast<double>(i * 7919 % 1009);
    return host_max(grid, windows());
  }
};

std::vector<Setup> setups() {
  return {{"3x3, 2x2", {2, 3, 6, 8}, {4, 3, 3, 3}},
          {"LeNet's first", {2, 1, 12, 12}, {6, 1, 5, 5}},
          {"padded", {2, 3, 8, 6}, {4, 3, 3, 3}, {.padding = 1}},
          {"padded, remainder", {1, 2, 7, 9}, {5, 2, 3, 3}, {.padding = 1}},
          {"1x1", {2, 5, 4, 6}, {7, 5, 1, 1}},
          {"oblong", {1, 2, 7, 10}, {3, 2, 2, 4}, {.padding = {1, 2}}, {.kernel = {2, 3}}},
          {"3x3 over 3", {1, 3, 11, 11}, {9, 3, 3, 3}, {}, {.kernel = 3}},
          {"strided", {1, 2, 11, 9}, {3, 2, 3, 3}, {.stride = 2, .padding = 1}},
          {"dilated", {1, 2, 9, 9}, {3, 2, 3, 3}, {.padding = 2, .dilation = 2}},
          {"groups", {2, 4, 6, 6}, {6, 2, 3, 3}, {.padding = 1, .groups = 2}},
          {"overlapping windows",
           {1, 2, 8, 9},
           {3, 2, 3, 3},
           {},
           {.kernel = 3, .stride = 2, .padding = 1}},
          {"ceil_mode", {1, 2, 7, 7}, {3, 2, 3, 3}, {}, {.ceil_mode = true}},
          {"one element", {1, 1, 1, 1}, {1, 1, 1, 1}, {}, {.kernel = 1}},
          {"no images", {0, 2, 6, 6}, {3, 2, 3, 3}}};
}

/// Larger ones, in f32 alone: several tiles of channels, of pixels, of images.
std::vector<Setup> large_setups() {
  return {{"LeNet's second", {3, 20, 12, 12}, {50, 20, 5, 5}},
          {"16 and 32 channels", {2, 16, 16, 16}, {32, 16, 3, 3}, {.padding = 1}},
          {"odd sizes", {5, 7, 13, 19}, {19, 7, 3, 5}, {.padding = {1, 0}}}};
}

/// Whole numbers, whose sums are exact in every dtype, however they are rounded on the way: equal
/// values then are equal everywhere, and the first of them wins.
Input whole(const Shape& shape, int64_t most) {
  std::vector<double> values;
  values.reserve(at(numel(shape)));
  for (int64_t i = 0; i < numel(shape); ++i)
    values.push_back(static_cast<double>((i * 7919 + i / 3) % 1009 % (2 * most + 1) - most));
  return x(shape).of(std::move(values)).constant();
}

OpCase conv2d_pool_case() {
  OpCase c{.op = "conv2d_pool", .samples = {}};
  const auto add = [&](const Setup& s, bool relu, bool bias, const std::vector<DType>& dtypes,
                       bool exact) {
    const auto in = [&](const Shape& shape, int64_t most) {
      return exact ? whole(shape, most) : x(shape);
    };
    c.samples.push_back({.name = std::string(s.name) + (relu ? ", relu" : "") +
                                 (bias ? "" : ", no bias") + (exact ? ", whole numbers" : ""),
                         .in = {in(s.x, 2), exact ? whole(s.w, 1) : x(s.w).in(-1, 1),
                                bias ? in({s.w[0]}, 3) : absent()},
                         .call =
                             [s, relu](const Args& a) {
                               return call_op("conv2d_pool", Conv2dPoolParams{s.conv, s.pool, relu},
                                              a.in);
                             },
                         .oracle =
                             [s, relu](const HostArgs& host) {
                               const Pooled out = s.run(host, relu);
                               return std::vector{out.y, out.positions};
                             },
                         .dtypes = dtypes,
                         .gradient = !exact,
                         .exact = exact});
  };
  for (const Setup& s : setups()) {
    add(s, true, true, {DType::f64, DType::f32}, false);
    add(s, false, s.conv.padding == Size2(0), {DType::f64, DType::f32}, false);
    add(s, true, true, kFloats, true);
  }
  for (const Setup& s : large_setups()) add(s, true, true, {DType::f32}, true);
  const auto call = [](Device d, const Shape& input, const Shape& weight,
                       const Conv2dPoolParams& p) {
    conv2d_pool(zeros(input, {.device = d}), zeros(weight, {.device = d}), {}, p);
  };
  c.bad = {
      bad<ShapeError>("conv2d_pool: input must be [N, C_in, H, W] or [C_in, H, W], got [3, 8, 8]",
                      [=](Device d) { call(d, {3, 8, 8}, {8, 3, 3, 3}, {}); }),
      bad<ShapeError>("conv2d_pool: kernel of 3 by 3 does not fit the padded input of 2 by 2",
                      [=](Device d) { call(d, {1, 3, 2, 2}, {8, 3, 3, 3}, {}); }),
      bad<ShapeError>("conv2d_pool: kernel of 4 by 4 does not fit the padded input of 2 by 2",
                      [=](Device d) { call(d, {1, 3, 4, 4}, {8, 3, 3, 3}, {{}, {.kernel = 4}}); }),
      bad<ShapeError>("conv2d_pool: bias must be [C_out] with C_out = 8, got [7]",
                      [](Device d) {
                        const TensorOptions o{.device = d};
                        conv2d_pool(zeros({1, 3, 8, 8}, o), zeros({8, 3, 3, 3}, o), zeros({7}, o),
                                    {});
                      }),
      bad<DTypeError>("conv2d_pool: operands must have one dtype, got f32 and f64",
                      [](Device d) {
                        conv2d_pool(zeros({1, 3, 8, 8}, {.device = d}),
                                    zeros({8, 3, 3, 3}, {DType::f64, d}), {}, {});
                      }),
      bad<DTypeError>("conv2d_pool: expected a floating dtype, got i32", [](Device d) {
        conv2d_pool(zeros({1, 3, 8, 8}, {DType::i32, d}), zeros({8, 3, 3, 3}, {DType::i32, d}), {},
                    {});
      })};
  return c;
}

/// dy of the convolution, from the pooling's.
HostArray spread(const Setup& s, const HostArray& dy, const HostArray& positions) {
  HostArray wide = zeros_of(s.conv_shape());
  const int64_t plane = wide.shape[2] * wide.shape[3];
  const int64_t pooled = dy.shape[2] * dy.shape[3];
  for (size_t i = 0; i < dy.values.size(); ++i) {
    const int64_t start = static_cast<int64_t>(i) / pooled * plane;
    wide.values[at(start + static_cast<int64_t>(positions.values[i]))] += dy.values[i];
  }
  return wide;
}

Input positions_of(const Pooled& pooled) {
  return x(pooled.y.shape).of(pooled.positions.values).as<DType::i32>();
}

OpCase dgrad_case() {
  OpCase c{.op = "conv2d_pool_dgrad", .samples = {}};
  const auto add = [&](const Setup& s, const std::vector<DType>& dtypes, bool relu) {
    const Pooled pooled = s.positions();
    c.samples.push_back({.name = std::string(s.name) + (relu ? ", of a relu" : ""),
                         .in = {x(pooled.y.shape), positions_of(pooled), x(s.w).in(-1, 1),
                                relu ? x(s.x).constant() : absent()},
                         .call = [s](const Args& a) -> Tensors {
                           return {
                               conv2d_pool_dgrad(a[0], a[1], a[2], {s.conv, s.pool, s.x}, a[3])};
                         },
                         .oracle =
                             [s, relu](const HostArgs& in) {
                               const HostArray dy = spread(s, in[0], in[1]);
                               HostArray dx = zeros_of(s.x);
                               s.host_conv().each([&](int64_t i, int64_t j, int64_t k) {
                                 dx.values[at(j)] += dy.values[at(i)] * in[2].values[at(k)];
                               });
                               for (size_t i = 0; relu && i < dx.values.size(); ++i)
                                 if (!(in[3].values[i] > 0)) dx.values[i] = 0;
                               return std::vector{dx};
                             },
                         .dtypes = dtypes});
  };
  for (const Setup& s : setups())
    for (const bool relu : {false, true}) add(s, kFloats, relu);
  for (const Setup& s : large_setups()) {
    add(s, {DType::f32, DType::bf16}, false);
    add(s, {DType::f32}, true);
  }
  const auto call = [](Device d, const Shape& dy, DType positions, DType weight) {
    conv2d_pool_dgrad(zeros(dy, {.device = d}), zeros(dy, {positions, d}),
                      zeros({8, 3, 3, 3}, {weight, d}), {{}, {}, {1, 3, 8, 8}});
  };
  c.bad = {
      bad<ShapeError>("conv2d_pool_dgrad: dy and positions must be [1, 8, 3, 3], got [1, 8, 6, 6]",
                      [=](Device d) { call(d, {1, 8, 6, 6}, DType::i32, DType::f32); }),
      bad<DTypeError>("conv2d_pool_dgrad: positions must be i32, got i64",
                      [=](Device d) { call(d, {1, 8, 3, 3}, DType::i64, DType::f32); }),
      bad<IndexError>("position 64 is outside the image of 64 elements",
                      [](Device) {
                        conv2d_pool_dgrad(zeros({1, 4, 4, 4}), full({1, 4, 4, 4}, 64, {DType::i32}),
                                          zeros({4, 16, 1, 1}), {{}, {}, {1, 16, 8, 8}});
                      }),
      bad<DTypeError>("conv2d_pool_dgrad: operands must have one dtype, got f32 and f64",
                      [=](Device d) { call(d, {1, 8, 3, 3}, DType::i32, DType::f64); })};
  return c;
}

OpCase wgrad_case() {
  OpCase c{.op = "conv2d_pool_wgrad", .samples = {}};
  const auto add = [&](const Setup& s, bool bias, const std::vector<DType>& dtypes,
                       bool is_pooled) {
    const Pooled pooled = s.positions();
    c.samples.push_back({.name = std::string(s.name) + (bias ? "" : ", no bias") +
                                 (is_pooled ? "" : ", not pooled"),
                         .in = {x(is_pooled ? pooled.y.shape : s.conv_shape()),
                                is_pooled ? positions_of(pooled) : absent(), x(s.x)},
                         .call = [s, bias](const Args& a) -> Tensors {
                           // Some results are channels_last.
                           const auto [dw, db] = conv2d_pool_wgrad(
                               a[0], a[1], a[2], {s.conv, s.pool, s.w, bias, s.x[1] % 4 == 0});
                           return bias ? Tensors{dw, db} : Tensors{dw};
                         },
                         .oracle =
                             [s, bias, is_pooled](const HostArgs& in) {
                               const HostArray dy = is_pooled ? spread(s, in[0], in[1]) : in[0];
                               HostArray dw = zeros_of(s.w);
                               s.host_conv().each([&](int64_t i, int64_t j, int64_t k) {
                                 dw.values[at(k)] += dy.values[at(i)] * in[2].values[at(j)];
                               });
                               if (!bias) return std::vector{dw};
                               HostArray db = zeros_of({s.w[0]});
                               const int64_t plane = dy.shape[2] * dy.shape[3];
                               for (size_t i = 0; i < dy.values.size(); ++i)
                                 db.values[i / at(plane) % db.values.size()] += dy.values[i];
                               return std::vector{dw, db};
                             },
                         .dtypes = dtypes,
                         // Of large dense ones conv2d_wgrad's case has the gradients.
                         .gradient = is_pooled || dtypes.size() > 1});
  };
  for (const Setup& s : setups()) add(s, true, kFloats, false);
  for (const Setup& s : setups()) {
    add(s, true, kFloats, true);
    if (s.conv.padding == Size2(1)) add(s, false, kFloats, true);
  }
  for (const Setup& s : large_setups())
    for (const bool is_pooled : {true, false}) add(s, true, {DType::f32}, is_pooled);
  const auto call = [](Device d, const Shape& dy, DType positions, DType input) {
    conv2d_pool_wgrad(zeros(dy, {.device = d}), zeros(dy, {positions, d}),
                      zeros({1, 3, 8, 8}, {input, d}), {{}, {}, {8, 3, 3, 3}, true});
  };
  c.bad = {
      bad<ShapeError>("conv2d_pool_wgrad: dy and positions must be [1, 8, 3, 3], got [1, 8, 6, 6]",
                      [=](Device d) { call(d, {1, 8, 6, 6}, DType::i32, DType::f32); }),
      bad<DTypeError>("conv2d_pool_wgrad: positions must be i32, got i64",
                      [=](Device d) { call(d, {1, 8, 3, 3}, DType::i64, DType::f32); }),
      bad<IndexError>("position -1 is outside the image of 36 elements",
                      [](Device) {
                        conv2d_pool_wgrad(zeros({1, 8, 3, 3}), full({1, 8, 3, 3}, -1, {DType::i32}),
                                          zeros({1, 3, 8, 8}), {{}, {}, {8, 3, 3, 3}, true});
                      }),
      bad<DTypeError>("conv2d_pool_wgrad: operands must have one dtype, got f32 and f64",
                      [=](Device d) { call(d, {1, 8, 3, 3}, DType::i32, DType::f64); })};
  return c;
}

const Room kRoom([] {
  return std::vector<OpCase>{conv2d_pool_case(), dgrad_case(), wgrad_case()};
});

}  // namespace
}  // namespace mica::cases
