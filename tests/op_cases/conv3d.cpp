#include "tests/op_cases/conv_oracle.h"

namespace mica::cases {
namespace {

/// The convolutions that all three operators are tested with.
struct Setup {
  const char* name;
  Shape x, w;
  Conv3dParams params = {};
  std::vector<DType> dtypes = kFloats;

  HostConv host() const {
    const auto dims = [](Size3 s) { return Dims{s.d, s.h, s.w}; };
    return {x,
            w,
            {dims(params.stride), dims(params.padding), dims(params.padding), dims(params.dilation),
             params.groups}};
  }
};

std::vector<Setup> setups() {
  return {
      {"3x3x3", {2, 2, 4, 5, 6}, {3, 2, 3, 3, 3}},
      {"padded", {1, 2, 3, 4, 4}, {2, 2, 3, 3, 3}, {.padding = 1}},
      {"strided", {1, 2, 5, 6, 7}, {3, 2, 3, 3, 3}, {.stride = 2, .padding = 1}},
      {"dilated", {1, 1, 5, 6, 5}, {2, 1, 2, 3, 2}, {.padding = {0, 1, 0}, .dilation = 2}},
      {"groups", {2, 4, 3, 4, 4}, {6, 2, 2, 3, 3}, {.padding = 1, .groups = 2}},
      {"depthwise", {1, 3, 4, 4, 4}, {3, 1, 3, 3, 3}, {.padding = 1, .groups = 3}},
      {"1x1x1", {2, 3, 2, 3, 4}, {4, 3, 1, 1, 1}},
      {"oblong",
       {1, 2, 4, 5, 8},
       {2, 2, 1, 2, 4},
       {.stride = {1, 2, 3}, .padding = {0, 1, 2}, .dilation = {1, 2, 1}}},
      {"16 channels", {1, 16, 3, 4, 5}, {17, 16, 3, 3, 3}, {.padding = 1}, {DType::f32}},
      {"two threads", {2, 4, 4, 8, 8}, {8, 4, 3, 3, 3}, {.padding = 1}, {DType::f32}},
      // Not in halves: product and bias nearly cancel, and cuDNN rounds the product before it.
      {"one element", {1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}, {}, {DType::f64, DType::f32}},
      {"no images", {0, 2, 3, 3, 3}, {3, 2, 2, 2, 2}},
  };
}

OpCase conv3d_case() {
  OpCase c{.op = "conv3d", .samples = {}};
  const auto sample = [](const Setup& s, bool bias) -> Sample {
    return {.name = std::string(s.name) + (bias ? "" : " without bias"),
            .in = {x(s.x), x(s.w).in(-1, 1), bias ? x({s.w[0]}) : absent()},
            .call = [s](const Args& a) -> Tensors { return {conv3d(a[0], a[1], a[2], s.params)}; },
            .oracle =
                [s](const HostArgs& in) {
                  return std::vector{host_conv(s.host(), in[0], in[1], in[2].values)};
                },
            .dtypes = s.dtypes};
  };
  for (const Setup& s : setups()) c.samples.push_back(sample(s, true));
  c.samples.push_back(sample(setups()[0], false));
  const auto call = [](Device d, const Shape& input, const Shape& weight,
                       const ConvOptions<Size3>& o) {
    conv3d(zeros(input, {.device = d}), zeros(weight, {.device = d}), {}, o);
  };
  c.bad = {
      bad<ShapeError>("conv3d: input must be [N, C_in, D, H, W] or [C_in, D, H, W], got [3, 8, 8]",
                      [=](Device d) { call(d, {3, 8, 8}, {8, 3, 3, 3, 3}, {}); }),
      bad<ShapeError>("conv3d: weight must be [C_out, C_in/groups, kD, kH, kW], got [8, 3, 3, 3]",
                      [=](Device d) { call(d, {1, 3, 8, 8, 8}, {8, 3, 3, 3}, {}); }),
      bad<ShapeError>("conv3d: kernel of 3 by 3 by 3 does not fit the padded input of 4 by 2 by 4",
                      [=](Device d) { call(d, {1, 3, 4, 2, 4}, {8, 3, 3, 3, 3}, {}); }),
      bad<ShapeError>(
          "conv3d: stride must be at least 1, got [1, 0, 1]",
          [=](Device d) { call(d, {1, 3, 4, 4, 4}, {8, 3, 3, 3, 3}, {.stride = {1, 0, 1}}); }),
      bad<ShapeError>("conv3d: groups must divide C_in = 3 and C_out = 8, got 2",
                      [=](Device d) { call(d, {1, 3, 4, 4, 4}, {8, 3, 3, 3, 3}, {.groups = 2}); }),
      bad<ShapeError>("conv3d: padding to the same size needs a stride of 1, got [2, 2, 2]",
                      [=](Device d) {
                        call(d, {1, 3, 4, 4, 4}, {8, 3, 3, 3, 3},
                             {.stride = 2, .padding = Padding<Size3>::same()});
                      }),
      bad<ShapeError>("conv3d: bias must be [C_out] with C_out = 8, got [7]",
                      [](Device d) {
                        const TensorOptions o{.device = d};
                        conv3d(zeros({1, 3, 4, 4, 4}, o), zeros({8, 3, 3, 3, 3}, o), zeros({7}, o));
                      }),
      bad<DTypeError>("conv3d: expected a floating dtype, got i32", [](Device d) {
        conv3d(zeros({1, 3, 4, 4, 4}, {DType::i32, d}), zeros({8, 3, 3, 3, 3}, {DType::i32, d}));
      })};
  return c;
}

OpCase dgrad_case() {
  OpCase c{.op = "conv3d_dgrad", .samples = {}};
  for (const Setup& s : setups())
    c.samples.push_back({.name = s.name,
                         .in = {x(s.host().y), x(s.w).in(-1, 1)},
                         .call = [s](const Args& a) -> Tensors {
                           return {conv3d_dgrad(a[0], a[1], {s.params, s.x})};
                         },
                         .oracle =
                             [s](const HostArgs& in) {
                               HostArray dx = zeros_of(s.x);
                               s.host().each([&](int64_t i, int64_t j, int64_t k) {
                                 dx.values[at(j)] += in[0].values[at(i)] * in[1].values[at(k)];
                               });
                               return std::vector{dx};
                             },
                         .dtypes = s.dtypes});
  c.bad = {
      bad<ShapeError>("conv3d_dgrad: dy must have the convolution's shape [1, 8, 2, 2, 2], "
                      "got [1, 8, 2, 2, 1]",
                      [](Device d) {
                        conv3d_dgrad(zeros({1, 8, 2, 2, 1}, {.device = d}),
                                     zeros({8, 3, 3, 3, 3}, {.device = d}), {{}, {1, 3, 4, 4, 4}});
                      }),
      bad<DTypeError>("conv3d_dgrad: operands must have one dtype, got f32 and f64", [](Device d) {
        conv3d_dgrad(zeros({1, 8, 2, 2, 2}, {.device = d}), zeros({8, 3, 3, 3, 3}, {DType::f64, d}),
                     {{}, {1, 3, 4, 4, 4}});
      })};
  return c;
}

OpCase wgrad_case() {
  OpCase c{.op = "conv3d_wgrad", .samples = {}};
  for (const Setup& s : setups())
    c.samples.push_back({.name = s.name,
                         .in = {x(s.host().y), x(s.x)},
                         .call = [s](const Args& a) -> Tensors {
                           return {conv3d_wgrad(a[0], a[1], {s.params, s.w})};
                         },
                         .oracle =
                             [s](const HostArgs& in) {
                               HostArray dw = zeros_of(s.w);
                               s.host().each([&](int64_t i, int64_t j, int64_t k) {
                                 dw.values[at(k)] += in[0].values[at(i)] * in[1].values[at(j)];
                               });
                               return std::vector{dw};
                             },
                         .dtypes = s.dtypes});
  c.bad = {
      bad<ShapeError>("conv3d_wgrad: dy must have the convolution's shape [1, 8, 2, 2, 2], "
                      "got [1, 8, 2, 2, 1]",
                      [](Device d) {
                        conv3d_wgrad(zeros({1, 8, 2, 2, 1}, {.device = d}),
                                     zeros({1, 3, 4, 4, 4}, {.device = d}), {{}, {8, 3, 3, 3, 3}});
                      }),
      bad<DTypeError>("conv3d_wgrad: operands must have one dtype, got f32 and f64", [](Device d) {
        conv3d_wgrad(zeros({1, 8, 2, 2, 2}, {.device = d}), zeros({1, 3, 4, 4, 4}, {DType::f64, d}),
                     {{}, {8, 3, 3, 3, 3}});
      })};
  return c;
}

const Room kRoom([] { return std::vector<OpCase>{conv3d_case(), dgrad_case(), wgrad_case()}; });

}  // namespace
}  // namespace mica::cases
