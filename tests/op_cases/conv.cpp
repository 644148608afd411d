#include "tests/op_cases/conv_oracle.h"

namespace mica::cases {
namespace {

struct Setup1 {
  const char* name;
  Shape x, w;
  ConvOptions<int64_t> options = {};
  int64_t before = 0, after = 0;  ///< what the padding must come to
};

OpCase conv1d_case() {
  using Pad = Padding<int64_t>;
  const std::vector<Setup1> setups = {
      {"3", {2, 3, 9}, {4, 3, 3}},
      {"padded", {2, 3, 9}, {4, 3, 3}, {.padding = 2}, 2, 2},
      {"strided", {1, 2, 10}, {3, 2, 4}, {.stride = 3, .padding = 1}, 1, 1},
      {"dilated, groups", {2, 4, 11}, {6, 2, 3}, {.padding = 2, .dilation = 2, .groups = 2}, 2, 2},
      {"uneven", {2, 3, 7}, {2, 3, 3}, {.stride = 2, .padding = Pad::sides(0, 3)}, 0, 3},
      {"causal", {1, 2, 8}, {2, 2, 3}, {.padding = Pad::sides(4, 0), .dilation = 2}, 4, 0},
      {"same, odd kernel", {1, 2, 8}, {2, 2, 5}, {.padding = Pad::same()}, 2, 2},
      {"same, even kernel", {1, 2, 8}, {2, 2, 4}, {.padding = Pad::same()}, 1, 2},
      {"same, dilated", {1, 2, 8}, {2, 2, 2}, {.padding = Pad::same(), .dilation = 3}, 1, 2},
      {"one element", {1, 1, 1}, {1, 1, 1}},
      {"no images", {0, 2, 5}, {3, 2, 2}},
  };
  OpCase c{.op = "conv1d", .samples = {}};
  for (const Setup1& s : setups)
    for (const bool bias : {true, false}) {
      if (!bias && s.options.stride == 1) continue;
      c.samples.push_back(
          {.name = std::string(s.name) + (bias ? " with bias" : ""),
           .in = {x(s.x), x(s.w).in(-1, 1), bias ? x({s.w[0]}) : absent()},
           .call = [s](const Args& a) -> Tensors { return {conv1d(a[0], a[1], a[2], s.options)}; },
           .oracle =
               [s](const HostArgs& in) {
                 const HostConv conv(s.x, s.w,
                                     {{s.options.stride},
                                      {s.before},
                                      {s.after},
                                      {s.options.dilation},
                                      s.options.groups});
                 return std::vector{host_conv(conv, in[0], in[1], in[2].values)};
               }});
    }
  const auto call = [](Device d, const Shape& input, const Shape& weight,
                       const ConvOptions<int64_t>& o) {
    conv1d(zeros(input, {.device = d}), zeros(weight, {.device = d}), {}, o);
  };
  c.bad = {
      bad<ShapeError>("conv1d: input must be [N, C_in, L] or [C_in, L], got [1, 3, 8, 8]",
                      [=](Device d) { call(d, {1, 3, 8, 8}, {8, 3, 3}, {}); }),
      bad<ShapeError>("conv1d: weight must be [C_out, C_in/groups, k], got [8, 3]",
                      [=](Device d) { call(d, {1, 3, 8}, {8, 3}, {}); }),
      bad<ShapeError>("conv1d: weight must be [C_out, C_in/groups, k], got [8, 3]",
                      [=](Device d) { call(d, {1, 3, 8}, {8, 3}, {.padding = Pad::same()}); }),
      bad<ShapeError>("conv1d: weight must be [C_out, C_in/groups, k] with C_in/groups = 3, got",
                      [=](Device d) { call(d, {1, 3, 8}, {8, 4, 3}, {}); }),
      bad<ShapeError>("conv1d: the kernel must not be empty",
                      [=](Device d) { call(d, {1, 3, 8}, {8, 3, 0}, {}); }),
      bad<ShapeError>("conv1d: kernel of 9 does not fit the padded input of 8",
                      [=](Device d) { call(d, {1, 3, 8}, {8, 3, 9}, {}); }),
      bad<ShapeError>(
          "conv1d: padding must not be negative, got [2] and [-1]",
          [=](Device d) { call(d, {1, 3, 8}, {8, 3, 3}, {.padding = Pad::sides(2, -1)}); }),
      bad<ShapeError>("conv1d: dilation must be at least 1, got [9223372036854775807]",
                      [=](Device d) { call(d, {1, 3, 8}, {8, 3, 3}, {.dilation = INT64_MAX}); }),
      bad<ShapeError>(
          "conv1d: padding to the same size needs a stride of 1, got [2]",
          [=](Device d) { call(d, {1, 3, 8}, {8, 3, 3}, {.stride = 2, .padding = Pad::same()}); }),
      bad<ShapeError>("conv1d: bias must be [C_out] with C_out = 8, got [7]",
                      [](Device d) {
                        const TensorOptions o{.device = d};
                        conv1d(zeros({1, 3, 8}, o), zeros({8, 3, 3}, o), zeros({7}, o));
                      }),
      bad<DTypeError>("conv1d: expected a floating dtype, got i64", [](Device d) {
        conv1d(zeros({1, 3, 8}, {DType::i64, d}), zeros({8, 3, 3}, {DType::i64, d}));
      })};
  return c;
}

template <class Size>
struct TransposedSetup {
  const char* name;
  Shape x, w;  ///< (N, C_in, …), (C_in, C_out / groups, …)
  ConvTransposeOptions<Size> options = {};
};

Dims dims(int64_t s) { return {s}; }
Dims dims(Size2 s) { return {s.h, s.w}; }
Dims dims(Size3 s) { return {s.d, s.h, s.w}; }

/// The convolution whose gradient the transposed one is, and its result.
template <class Size>
HostArray host_transposed(const TransposedSetup<Size>& s, const HostArgs& in) {
  const auto& o = s.options;
  const Dims stride = dims(o.stride);
  const Dims padding = dims(o.padding);
  const Dims dilation = dims(o.dilation);
  Shape shape = {s.x[0], s.w[1] * o.groups};
  for (int i = 0; i < stride.rank(); ++i)
    shape.push_back((s.x[i + 2] - 1) * stride[i] - 2 * padding[i] + dilation[i] * (s.w[i + 2] - 1) +
                    1 + dims(o.output_padding)[i]);
  HostArray y = zeros_of(shape);
  HostConv(shape, s.w, {stride, padding, padding, dilation, o.groups})
      .each([&](int64_t i, int64_t j, int64_t k) {
        y.values[at(j)] += in[0].values[at(i)] * in[1].values[at(k)];
      });
  const std::vector<double>& bias = in[2].values;
  int64_t plane = 1;
  for (int i = 2; i < shape.rank(); ++i) plane *= shape[i];
  for (size_t i = 0; i < y.values.size() && !bias.empty(); ++i)
    y.values[i] += bias[i / at(plane) % bias.size()];
  return y;
}

template <class Size, auto function>
OpCase transposed_case(const char* op, const std::vector<TransposedSetup<Size>>& setups) {
  OpCase c{.op = op, .samples = {}};
  for (const auto& s : setups)
    for (const bool bias : {true, false}) {
      if (!bias && s.options.stride == Size(1)) continue;
      c.samples.push_back(
          {.name = std::string(s.name) + (bias ? " with bias" : ""),
           .in = {x(s.x), x(s.w).in(-1, 1), bias ? x({s.w[1] * s.options.groups}) : absent()},
           .call = [s](const Args& a) -> Tensors {
             return {function(a[0], a[1], a[2], s.options)};
           },
           .oracle = [s](const HostArgs& in) { return std::vector{host_transposed(s, in)}; }});
    }
  return c;
}

OpCase conv_transpose1d_case() {
  OpCase c = transposed_case<int64_t, conv_transpose1d>(
      "conv_transpose1d",
      {{"3", {2, 3, 5}, {3, 2, 3}},
       {"strided", {1, 2, 5}, {2, 3, 4}, {.stride = 3, .padding = 1, .output_padding = 2}},
       {"dilated, groups", {2, 4, 6}, {4, 2, 3}, {.padding = 1, .dilation = 2, .groups = 2}},
       {"one element", {1, 1, 1}, {1, 1, 1}},
       {"no images", {0, 2, 4}, {2, 3, 2}}});
  const auto call = [](Device d, const Shape& input, const Shape& weight,
                       const ConvTransposeOptions<int64_t>& o) {
    conv_transpose1d(zeros(input, {.device = d}), zeros(weight, {.device = d}), {}, o);
  };
  c.bad = {bad<ShapeError>("conv_transpose1d: input must be [N, C_in, L] or [C_in, L], got [8]",
                           [=](Device d) { call(d, {8}, {3, 3, 3}, {}); }),
           bad<ShapeError>("conv_transpose1d: weight must be [C_in, C_out/groups, k], got [3, 3]",
                           [=](Device d) { call(d, {1, 3, 8}, {3, 3}, {}); }),
           bad<DTypeError>("conv_transpose1d: operands must have one dtype, got f32 and f64",
                           [](Device d) {
                             conv_transpose1d(zeros({1, 3, 8}, {.device = d}),
                                              zeros({3, 2, 3}, {DType::f64, d}));
                           })};
  return c;
}

OpCase conv_transpose2d_case() {
  OpCase c = transposed_case<Size2, conv_transpose2d>(
      "conv_transpose2d",
      {{"3x3", {2, 3, 4, 5}, {3, 2, 3, 3}},
       {"2x2 over 2", {1, 3, 4, 4}, {3, 4, 2, 2}, {.stride = 2}},
       {"strided", {1, 2, 4, 3}, {2, 3, 3, 3}, {.stride = 2, .padding = 1, .output_padding = 1}},
       {"oblong",
        {1, 2, 3, 4},
        {2, 3, 2, 4},
        {.stride = {3, 2}, .padding = {0, 2}, .output_padding = {2, 0}, .dilation = {2, 1}}},
       {"groups", {2, 4, 3, 3}, {4, 3, 3, 3}, {.padding = 1, .groups = 2}},
       {"one element", {1, 1, 1, 1}, {1, 1, 1, 1}},
       {"no images", {0, 2, 4, 4}, {2, 3, 2, 2}}});
  const auto call = [](Device d, const Shape& input, const Shape& weight,
                       const ConvTransposeOptions<Size2>& o) {
    conv_transpose2d(zeros(input, {.device = d}), zeros(weight, {.device = d}), {}, o);
  };
  c.bad = {
      bad<ShapeError>("conv_transpose2d: input must be [N, C_in, H, W] or [C_in, H, W], got [8, 8]",
                      [=](Device d) { call(d, {8, 8}, {3, 3, 3, 3}, {}); }),
      bad<ShapeError>("conv_transpose2d: weight must be [C_in, C_out/groups, kH, kW] with C_in = "
                      "3, got [2, 3, 3, 3]",
                      [=](Device d) { call(d, {1, 3, 8, 8}, {2, 3, 3, 3}, {}); }),
      bad<ShapeError>("conv_transpose2d: groups must divide C_in = 3, got 2",
                      [=](Device d) { call(d, {1, 3, 8, 8}, {3, 3, 3, 3}, {.groups = 2}); }),
      bad<ShapeError>("conv_transpose2d: stride must be at least 1, got [0, 0]",
                      [=](Device d) { call(d, {1, 3, 8, 8}, {3, 3, 3, 3}, {.stride = 0}); }),
      bad<ShapeError>("conv_transpose2d: output_padding must be in [0, stride) with stride = [2, "
                      "2], got [2, 2]",
                      [=](Device d) {
                        call(d, {1, 3, 8, 8}, {3, 3, 3, 3}, {.stride = 2, .output_padding = 2});
                      }),
      bad<ShapeError>("conv_transpose2d: an input of [1, 3, 1, 1] leaves no result",
                      [=](Device d) { call(d, {1, 3, 1, 1}, {3, 3, 3, 3}, {.padding = 2}); }),
      bad<ShapeError>("conv_transpose2d: bias must be [C_out] with C_out = 2, got [3]",
                      [](Device d) {
                        const TensorOptions o{.device = d};
                        conv_transpose2d(zeros({1, 3, 8, 8}, o), zeros({3, 2, 3, 3}, o),
                                         zeros({3}, o));
                      }),
      bad<DTypeError>("conv_transpose2d: expected a floating dtype, got i64", [](Device d) {
        conv_transpose2d(zeros({1, 3, 8, 8}, {DType::i64, d}),
                         zeros({3, 2, 3, 3}, {DType::i64, d}));
      })};
  return c;
}

OpCase conv_transpose3d_case() {
  OpCase c = transposed_case<Size3, conv_transpose3d>(
      "conv_transpose3d", {{"2x2x2 over 2", {1, 2, 2, 3, 2}, {2, 3, 2, 2, 2}, {.stride = 2}},
                           {"oblong",
                            {1, 2, 2, 3, 3},
                            {2, 2, 1, 2, 3},
                            {.stride = {1, 2, 2},
                             .padding = {0, 1, 1},
                             .output_padding = {0, 1, 0},
                             .dilation = {1, 2, 1}}},
                           {"groups", {2, 4, 2, 2, 3}, {4, 1, 2, 2, 2}, {.groups = 2}},
                           {"one element", {1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}},
                           {"no images", {0, 2, 2, 2, 2}, {2, 3, 2, 2, 2}}});
  c.bad = {
      bad<ShapeError>(
          "conv_transpose3d: input must be [N, C_in, D, H, W] or [C_in, D, H, W], got [3, 8, 8]",
          [](Device d) {
            conv_transpose3d(zeros({3, 8, 8}, {.device = d}),
                             zeros({3, 2, 3, 3, 3}, {.device = d}));
          }),
      bad<ShapeError>("conv_transpose3d: weight must be [C_in, C_out/groups, kD, kH, kW] with "
                      "C_in = 3, got [2, 2, 3, 3, 3]",
                      [](Device d) {
                        conv_transpose3d(zeros({1, 3, 4, 4, 4}, {.device = d}),
                                         zeros({2, 2, 3, 3, 3}, {.device = d}));
                      })};
  return c;
}

const Room kRoom([] {
  return std::vector<OpCase>{conv1d_case(), conv_transpose1d_case(), conv_transpose2d_case(),
                             conv_transpose3d_case()};
});

}  // namespace
}  // namespace mica::cases
