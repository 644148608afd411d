#include "tests/op_cases/conv_oracle.h"

namespace mica::cases {
namespace {

/// Sizes of one convolution, and the loop over every product in it.
struct Convolution {
  Shape x, w, y;
  Conv2dParams p;

  Convolution(const Shape& x_shape, const Shape& w_shape, const Conv2dParams& params)
      : x(x_shape), w(w_shape), p(params) {
    const auto out = [](int64_t size, int64_t kernel, int64_t stride, int64_t padding,
                        int64_t dilation) {
      return (size + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
    };
    y = {x[0], w[0], out(x[2], w[2], p.stride.h, p.padding.h, p.dilation.h),
         out(x[3], w[3], p.stride.w, p.padding.w, p.dilation.w)};
  }

  /// Calls f(index in y, index in x, index in w).
  template <class F>
  void each(F&& f) const {
    const int64_t outs = w[0] / p.groups;
    for (int64_t n = 0; n < y[0]; ++n)
      for (int64_t o = 0; o < y[1]; ++o)
        for (int64_t i = 0; i < y[2]; ++i)
          for (int64_t j = 0; j < y[3]; ++j)
            for (int64_t c = 0; c < w[1]; ++c)
              for (int64_t u = 0; u < w[2]; ++u)
                for (int64_t v = 0; v < w[3]; ++v) {
                  const int64_t h = i * p.stride.h - p.padding.h + u * p.dilation.h;
                  const int64_t k = j * p.stride.w - p.padding.w + v * p.dilation.w;
                  if (h < 0 || h >= x[2] || k < 0 || k >= x[3]) continue;
                  const int64_t channel = o / outs * w[1] + c;
                  f(((n * y[1] + o) * y[2] + i) * y[3] + j,
                    ((n * x[1] + channel) * x[2] + h) * x[3] + k,
                    ((o * w[1] + c) * w[2] + u) * w[3] + v);
                }
  }
};

/// The convolutions that all three operators are tested with.
struct Setup {
  const char* name;
  Shape x, w;
  Conv2dParams params;
  std::vector<DType> dtypes = kFloats;
};

std::vector<Setup> setups() {
  return {
      {"3x3", {2, 3, 6, 7}, {4, 3, 3, 3}, {}},
      {"5x5, LeNet's first", {2, 1, 12, 12}, {6, 1, 5, 5}, {}},
      {"padded", {2, 3, 5, 5}, {4, 3, 3, 3}, {.padding = 1}},
      {"strided", {1, 2, 9, 8}, {3, 2, 3, 3}, {.stride = 2, .padding = 1}},
      {"dilated", {1, 2, 9, 9}, {3, 2, 3, 3}, {.padding = 2, .dilation = 2}},
      {"groups", {2, 4, 6, 6}, {6, 2, 3, 3}, {.padding = 1, .groups = 2}},
      {"depthwise", {2, 4, 6, 6}, {4, 1, 3, 3}, {.padding = 1, .groups = 4}},
      {"depthwise, strided", {2, 3, 9, 11}, {6, 1, 3, 3}, {.stride = 2, .padding = 1, .groups = 3}},
      {"depthwise, dilated",
       {1, 2, 7, 12},
       {2, 1, 2, 3},
       {.stride = {1, 3}, .padding = {0, 2}, .dilation = 2, .groups = 2}},
      {"depthwise, 5x5", {2, 6, 5, 5}, {6, 1, 5, 5}, {.padding = 2, .groups = 6}},
      {"depthwise, two threads",
       {2, 16, 24, 24},
       {16, 1, 3, 3},
       {.padding = 1, .groups = 16},
       {DType::f32}},
      {"1x1", {2, 5, 4, 3}, {7, 5, 1, 1}, {}},
      {"1x1 of 16 channels", {2, 16, 4, 3}, {24, 16, 1, 1}, {}},
      {"1x1 strided", {2, 5, 5, 5}, {7, 5, 1, 1}, {.stride = 2}},
      {"oblong",
       {1, 2, 7, 10},
       {3, 2, 2, 4},
       {.stride = {1, 3}, .padding = {1, 2}, .dilation = {2, 1}}},
      {"remainder", {1, 2, 8, 8}, {2, 2, 3, 3}, {.stride = 3}},
      {"whole image", {2, 3, 4, 4}, {5, 3, 4, 4}, {}},
      {"16 channels",
       {2, 16, 6, 6},
       {24, 16, 3, 3},
       {.padding = 1},
       {DType::f32, DType::f16, DType::bf16}},
      // Several blocks of channels, and of the window's rows, in the direct kernels.
      {"LeNet's second", {2, 12, 6, 7}, {50, 12, 5, 5}, {}, {DType::f32}},
      {"wide and padded", {2, 20, 5, 7}, {37, 20, 5, 3}, {.padding = {4, 1}}, {DType::f32}},
      {"strided, tiles across rows",
       {3, 5, 11, 9},
       {18, 5, 3, 2},
       {.stride = {2, 1}, .padding = 1},
       {DType::f32}},
      // Several bands, and pixels and channels that are no multiples of four.
      {"few channels in bands",
       {1, 2, 30, 15},
       {10, 2, 5, 5},
       {.padding = {2, 1}},
       {DType::f32, DType::bf16}},
      {"first of an image network",
       {2, 3, 14, 17},
       {16, 3, 7, 7},
       {.stride = 2, .padding = 3},
       {DType::f32, DType::f16, DType::bf16}},
      {"stride 2, even window",
       {3, 4, 9, 10},
       {8, 4, 4, 2},
       {.stride = 2, .padding = {1, 0}},
       {DType::f16, DType::bf16}},
      // Without a format: either would do.
      {"images of one pixel",
       {3, 32, 1, 1},
       {40, 32, 3, 3},
       {.padding = 1},
       {DType::f32, DType::f16, DType::bf16}},
      {"to one pixel",
       {2, 32, 2, 2},
       {32, 32, 3, 3},
       {.stride = 2, .padding = 1},
       {DType::f32, DType::bf16}},
      {"one element", {1, 1, 1, 1}, {1, 1, 1, 1}, {}},
      {"no images", {0, 2, 5, 5}, {3, 2, 3, 3}, {}},
  };
}

/// Paddings that the op itself does not know.
struct Uneven {
  const char* name;
  Shape x, w;
  ConvOptions<Size2> options;
  Dims before, after;  ///< what the padding must come to
};

std::vector<Uneven> unevens() {
  using Pad = Padding<Size2>;
  return {
      {"uneven",
       {2, 3, 5, 6},
       {4, 3, 3, 3},
       {.padding = Pad::sides({0, 2}, {1, 1})},
       {0, 2},
       {1, 1}},
      {"uneven, strided",
       {1, 2, 7, 6},
       {3, 2, 3, 3},
       {.stride = 2, .padding = Pad::sides(0, 1)},
       {0, 0},
       {1, 1}},
      {"same", {1, 2, 5, 6}, {3, 2, 3, 5}, {.padding = Pad::same()}, {1, 2}, {1, 2}},
      {"same, even kernel", {2, 2, 5, 6}, {3, 2, 2, 4}, {.padding = Pad::same()}, {0, 1}, {1, 2}},
      {"same, dilated groups",
       {1, 4, 6, 6},
       {4, 2, 2, 3},
       {.padding = Pad::same(), .dilation = {3, 2}, .groups = 2},
       {1, 2},
       {2, 2}}};
}

OpCase conv2d_case() {
  OpCase c{.op = "conv2d", .samples = {}};
  const auto sample = [](const Setup& s, bool bias) -> Sample {
    return {.name = std::string(s.name) + (bias ? "" : " without bias"),
            .in = {x(s.x), x(s.w).in(-1, 1), bias ? x({s.w[0]}) : absent()},
            .call = [s](const Args& a) -> Tensors { return {conv2d(a[0], a[1], a[2], s.params)}; },
            .oracle =
                [s](const HostArgs& in) {
                  const Convolution conv(s.x, s.w, s.params);
                  HostArray y = zeros_of(conv.y);
                  conv.each([&](int64_t i, int64_t j, int64_t k) {
                    y.values[at(i)] += in[0].values[at(j)] * in[1].values[at(k)];
                  });
                  const int64_t plane = conv.y[2] * conv.y[3];
                  for (size_t i = 0; i < y.values.size() && !in[2].values.empty(); ++i)
                    y.values[i] += in[2].values[i / at(plane) % in[2].values.size()];
                  return std::vector{y};
                },
            .dtypes = s.dtypes};
  };
  for (const Setup& s : setups()) {
    c.samples.push_back(sample(s, true));
    if (s.params.padding == Size2(1)) c.samples.push_back(sample(s, false));
  }
  for (const Uneven& s : unevens())
    c.samples.push_back(
        {.name = s.name,
         .in = {x(s.x), x(s.w).in(-1, 1), x({s.w[0]})},
         .call = [s](const Args& a) -> Tensors { return {conv2d(a[0], a[1], a[2], s.options)}; },
         .oracle =
             [s](const HostArgs& in) {
               const auto dims = [](Size2 size) { return Dims{size.h, size.w}; };
               const HostConv conv(s.x, s.w,
                                   {dims(s.options.stride), s.before, s.after,
                                    dims(s.options.dilation), s.options.groups});
               return std::vector{host_conv(conv, in[0], in[1], in[2].values)};
             }});
  const auto call = [](Device d, const Shape& input, const Shape& weight,
                       const ConvOptions<Size2>& p) {
    conv2d(zeros(input, {.device = d}), zeros(weight, {.device = d}), {}, p);
  };
  c.bad = {bad<ShapeError>("conv2d: weight must be [C_out, C_in/groups, kH, kW] with C_in/groups = "
                           "3, got [8, 4, 3, 3]",
                           [=](Device d) { call(d, {1, 3, 8, 8}, {8, 4, 3, 3}, {}); }),
           bad<ShapeError>("conv2d: input must be [N, C_in, H, W] or [C_in, H, W], got [8, 8]",
                           [=](Device d) { call(d, {8, 8}, {8, 3, 3, 3}, {}); }),
           bad<ShapeError>("conv2d: weight must be [C_out, C_in/groups, kH, kW], got [8, 3, 3]",
                           [=](Device d) { call(d, {1, 3, 8, 8}, {8, 3, 3}, {}); }),
           bad<ShapeError>("conv2d: kernel of 3 by 3 does not fit the padded input of 2 by 2",
                           [=](Device d) { call(d, {1, 3, 2, 2}, {8, 3, 3, 3}, {}); }),
           bad<ShapeError>("conv2d: stride must be at least 1, got",
                           [=](Device d) { call(d, {1, 3, 8, 8}, {8, 3, 3, 3}, {.stride = 0}); }),
           bad<ShapeError>("conv2d: dilation must be at least 1, got",
                           [=](Device d) { call(d, {1, 3, 8, 8}, {8, 3, 3, 3}, {.dilation = 0}); }),
           bad<ShapeError>("conv2d: padding must not be negative, got",
                           [=](Device d) { call(d, {1, 3, 8, 8}, {8, 3, 3, 3}, {.padding = -1}); }),
           bad<ShapeError>("conv2d: groups must divide C_in = 3 and C_out = 8, got 2",
                           [=](Device d) { call(d, {1, 3, 8, 8}, {8, 3, 3, 3}, {.groups = 2}); }),
           bad<ShapeError>("conv2d: bias must be [C_out] with C_out = 8, got [7]",
                           [](Device d) {
                             const TensorOptions o{.device = d};
                             conv2d(zeros({1, 3, 8, 8}, o), zeros({8, 3, 3, 3}, o), zeros({7}, o));
                           }),
           bad<ShapeError>("conv2d: padding to the same size needs a stride of 1, got [1, 2]",
                           [=](Device d) {
                             call(d, {1, 3, 8, 8}, {8, 3, 3, 3},
                                  {.stride = {1, 2}, .padding = Padding<Size2>::same()});
                           }),
           bad<ShapeError>("conv2d: padding must not be negative, got [0, 1] and [1, -1]",
                           [=](Device d) {
                             call(d, {1, 3, 8, 8}, {8, 3, 3, 3},
                                  {.padding = Padding<Size2>::sides({0, 1}, {1, -1})});
                           }),
           bad<ShapeError>("conv2d: the kernel must not be empty, got a weight of [8, 3, 0, 3]",
                           [=](Device d) { call(d, {1, 3, 8, 8}, {8, 3, 0, 3}, {}); }),
           bad<DTypeError>("conv2d: operands must have one dtype, got f32 and f64",
                           [](Device d) {
                             conv2d(zeros({1, 3, 8, 8}, {.device = d}),
                                    zeros({8, 3, 3, 3}, {DType::f64, d}));
                           }),
           bad<DTypeError>("conv2d: expected a floating dtype, got i32", [](Device d) {
             conv2d(zeros({1, 3, 8, 8}, {DType::i32, d}), zeros({8, 3, 3, 3}, {DType::i32, d}));
           })};
  return c;
}

OpCase dgrad_case() {
  OpCase c{.op = "conv2d_dgrad", .samples = {}};
  for (const Setup& s : setups()) {
    const Convolution conv(s.x, s.w, s.params);
    c.samples.push_back({.name = s.name,
                         .in = {x(conv.y), x(s.w).in(-1, 1)},
                         .call = [s](const Args& a) -> Tensors {
                           return {conv2d_dgrad(a[0], a[1], {s.params, s.x})};
                         },
                         .oracle =
                             [conv](const HostArgs& in) {
                               HostArray dx = zeros_of(conv.x);
                               conv.each([&](int64_t i, int64_t j, int64_t k) {
                                 dx.values[at(j)] += in[0].values[at(i)] * in[1].values[at(k)];
                               });
                               return std::vector{dx};
                             },
                         .dtypes = s.dtypes});
  }
  c.bad = {
      bad<ShapeError>(
          "conv2d_dgrad: dy must have the convolution's shape [1, 8, 6, 6], got [1, 8, 5, 5]",
          [](Device d) {
            conv2d_dgrad(zeros({1, 8, 5, 5}, {.device = d}), zeros({8, 3, 3, 3}, {.device = d}),
                         {{}, {1, 3, 8, 8}});
          }),
      bad<DTypeError>("conv2d_dgrad: operands must have one dtype, got f32 and f64", [](Device d) {
        conv2d_dgrad(zeros({1, 8, 6, 6}, {.device = d}), zeros({8, 3, 3, 3}, {DType::f64, d}),
                     {{}, {1, 3, 8, 8}});
      })};
  return c;
}

OpCase wgrad_case() {
  OpCase c{.op = "conv2d_wgrad", .samples = {}};
  const auto add = [&](const Setup& s, bool channels_last) {
    const Convolution conv(s.x, s.w, s.params);
    c.samples.push_back({.name = std::string(s.name) + (channels_last ? ", channels_last" : ""),
                         .in = {x(conv.y), x(s.x)},
                         .call = [=](const Args& a) -> Tensors {
                           return {conv2d_wgrad(a[0], a[1], {s.params, s.w, channels_last})};
                         },
                         .oracle =
                             [conv](const HostArgs& in) {
                               HostArray dw = zeros_of(conv.w);
                               conv.each([&](int64_t i, int64_t j, int64_t k) {
                                 dw.values[at(k)] += in[0].values[at(i)] * in[1].values[at(j)];
                               });
                               return std::vector{dw};
                             },
                         .dtypes = s.dtypes});
  };
  for (const Setup& s : setups()) {
    add(s, false);
    if (s.x[1] % 4 == 0) add(s, true);
  }
  c.bad = {
      bad<ShapeError>(
          "conv2d_wgrad: dy must have the convolution's shape [1, 8, 6, 6], got [1, 8, 5, 5]",
          [](Device d) {
            conv2d_wgrad(zeros({1, 8, 5, 5}, {.device = d}), zeros({1, 3, 8, 8}, {.device = d}),
                         {{}, {8, 3, 3, 3}});
          }),
      bad<DTypeError>("conv2d_wgrad: operands must have one dtype, got f32 and f64", [](Device d) {
        conv2d_wgrad(zeros({1, 8, 6, 6}, {.device = d}), zeros({1, 3, 8, 8}, {DType::f64, d}),
                     {{}, {8, 3, 3, 3}});
      })};
  return c;
}

const Room kRoom([] { return std::vector<OpCase>{conv2d_case(), dgrad_case(), wgrad_case()}; });

}  // namespace
}  // namespace mica::cases
