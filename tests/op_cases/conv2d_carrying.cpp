#include "tests/op_cases/anchored.h"
#include "tests/op_cases/conv_oracle.h"

namespace mica::cases {
namespace {

struct Setup {
  const char* name;
  Shape x, w;
  Conv2dParams conv = {};
};

HostConv host_conv_of(const Setup& s) {
  const auto dims = [](Size2 size) { return Dims{size.h, size.w}; };
  return {s.x,
          s.w,
          {dims(s.conv.stride), dims(s.conv.padding), dims(s.conv.padding), dims(s.conv.dilation),
           s.conv.groups}};
}

/// A convolution, a sum with something of its shape and an activation, as far as asked for.
Sample sample(const Setup& s, Activation activation, bool bias, bool added) {
  const HostConv conv = host_conv_of(s);
  Program program{added ? 2 : 1, {}, {}};
  if (added) program.instructions.push_back(elementwise("add", {0, 1}));
  if (activation != Activation::none)
    program.instructions.push_back(activation_call(activation, added ? 2 : 0));
  program.outputs = {static_cast<int>(program.instructions.size()) - 1};
  Sample sample{
      .name = std::string("conv2d, ") + s.name + ", " + print_field(activation) +
              (bias ? "" : ", no bias") + (added ? ", sum" : ""),
      .in = {x(s.x), x(s.w).in(-1, 1), bias ? x({s.w[0]}) : absent()},
      .call = [=, p = s.conv](const Args& a) { return call_carrying("conv2d", p, program, a.in); },
      .oracle =
          [=](const HostArgs& in) {
            HostArray y = host_conv(conv, in[0], in[1], in[2].values);
            for (size_t i = 0; i < y.values.size(); ++i)
              y.values[i] = activated(y.values[i] + (added ? in[3].values[i] : 0), activation);
            return std::vector{y};
          }};
  if (added) sample.in.push_back(x(conv.y_shape(4)));
  return sample;
}

/// leaky_relu(conv · a number for each channel - a number).
Sample chain(const Setup& s) {
  const HostConv conv = host_conv_of(s);
  const Program program{3,
                        {elementwise("mul", {0, 1}), elementwise("sub", {3, 2}),
                         elementwise("leaky_relu", {4}, LeakyReluParams{.slope = 0.25})},
                        {2}};
  return {
      .name = "conv2d, scaled by channel, a number less, leaky",
      .in = {x(s.x), x(s.w).in(-1, 1), x({s.w[0]}), x({s.w[0], 1, 1}), x({})},
      .call = [=, p = s.conv](const Args& a) { return call_carrying("conv2d", p, program, a.in); },
      .oracle =
          [=](const HostArgs& in) {
            HostArray y = host_conv(conv, in[0], in[1], in[2].values);
            const auto plane = at(y.shape[2] * y.shape[3]);
            for (size_t i = 0; i < y.values.size(); ++i) {
              const double scale = in[3].values[i / plane % in[3].values.size()];
              const double v = y.values[i] * scale - in[4].values[0];
              y.values[i] = v > 0 ? v : 0.25 * v;
            }
            return std::vector{y};
          }};
}

/// The gradient of a convolution's input, which an activation made.
Sample dgrad_sample(const Setup& s, Activation activation) {
  const HostConv conv = host_conv_of(s);
  const Program program{2, {gradient_call(activation, 0, 1)}, {0}};
  const Conv2dGradParams params{s.conv, s.x};
  return {
      .name = std::string("conv2d_dgrad, ") + print_field(activation) + "_grad, " + s.name,
      .in = {x(conv.y_shape(4)), x(s.w).in(-1, 1), x(s.x).away(0.1)},
      .call = [=](const Args& a) { return call_carrying("conv2d_dgrad", params, program, a.in); },
      .oracle =
          [=](const HostArgs& in) {
            HostArray dx = zeros_of(in[2].shape);
            conv.each([&](int64_t i, int64_t j, int64_t k) {
              dx.values[at(j)] += in[0].values[at(i)] * in[1].values[at(k)];
            });
            for (size_t i = 0; i < dx.values.size(); ++i)
              dx.values[i] *= slope_at(in[2].values[i], activation);
            return std::vector{dx};
          }};
}

}  // namespace

std::vector<Sample> conv2d_carrying_samples() {
  std::vector<Sample> samples;
  const Setup padded{"padded", {2, 3, 5, 5}, {4, 3, 3, 3}, {.padding = 1}};
  const Setup channels{"8 channels", {2, 8, 5, 6}, {16, 8, 3, 3}, {.padding = 1}};
  for (const Setup& s :
       {Setup{"3x3", {2, 3, 6, 7}, {4, 3, 3, 3}}, padded,
        Setup{"strided", {1, 2, 9, 8}, {3, 2, 3, 3}, {.stride = 2, .padding = 1}},
        Setup{"dilated groups", {1, 4, 9, 9}, {6, 2, 3, 3}, {.dilation = 2, .groups = 2}},
        Setup{"1x1", {2, 5, 4, 3}, {7, 5, 1, 1}}, Setup{"pixels", {2, 16, 4, 3}, {24, 16, 1, 1}},
        Setup{"few channels, strided", {2, 3, 10, 8}, {16, 3, 3, 3}, {.stride = 2, .padding = 1}},
        channels, Setup{"one element", {1, 1, 1, 1}, {1, 1, 1, 1}},
        Setup{"no images", {0, 2, 5, 5}, {3, 2, 3, 3}}}) {
    samples.push_back(sample(s, Activation::relu, true, false));
    samples.push_back(sample(s, Activation::gelu, true, true));
  }
  for (const Activation activation : kEveryActivation) {
    samples.push_back(sample(padded, activation, true, false));
    samples.push_back(sample(channels, activation, true, true));
  }
  samples.push_back(sample(padded, Activation::none, true, true));
  samples.push_back(sample(padded, Activation::relu, false, true));
  samples.push_back(
      sample({"pixels", {2, 16, 4, 3}, {24, 16, 1, 1}}, Activation::relu, true, true));
  const Setup many{"many pixels", {2, 32, 17, 16}, {64, 32, 1, 1}};
  samples.push_back(sample(many, Activation::relu, true, true));
  samples.push_back(sample(many, Activation::silu, false, false));
  samples.push_back(chain(padded));
  samples.push_back(chain(channels));
  for (const Activation activation : {Activation::relu, Activation::silu}) {
    samples.push_back(dgrad_sample(padded, activation));
    samples.push_back(dgrad_sample(channels, activation));
  }
  return samples;
}

}  // namespace mica::cases
