#include <cmath>
#include <numbers>

#include "tests/op_cases/conv_oracle.h"

namespace mica::cases {
namespace {

struct Setup {
  const char* name;
  Shape x, w;
  Conv2dParams conv = {};
};

double activated(double v, Activation activation) {
  if (activation == Activation::relu) return std::max(v, 0.0);
  if (activation == Activation::gelu) return v / 2 * (1 + std::erf(v / std::numbers::sqrt2));
  return v;
}

OpCase conv2d_act_case() {
  OpCase c{.op = "conv2d_act", .samples = {}};
  const auto add = [&](const Setup& s, Activation activation, bool bias, bool residual) {
    const auto dims = [](Size2 size) { return Dims{size.h, size.w}; };
    const HostConv conv(s.x, s.w,
                        {dims(s.conv.stride), dims(s.conv.padding), dims(s.conv.padding),
                         dims(s.conv.dilation), s.conv.groups});
    c.samples.push_back(
        {.name = std::string(s.name) + ", " + print_field(activation) + (bias ? "" : ", no bias") +
                 (residual ? ", residual" : ""),
         .in = {x(s.x), x(s.w).in(-1, 1), bias ? x({s.w[0]}) : absent(),
                residual ? x(conv.y_shape(4)) : absent()},
         .call = [s, activation](const Args& a) -> Tensors {
           return {conv2d_act(a[0], a[1], a[2], a[3], {s.conv, activation})};
         },
         .oracle =
             [conv, activation](const HostArgs& in) {
               HostArray y = host_conv(conv, in[0], in[1], in[2].values);
               for (size_t i = 0; i < y.values.size(); ++i) {
                 const double added = in[3].values.empty() ? 0 : in[3].values[i];
                 y.values[i] = activated(y.values[i] + added, activation);
               }
               return std::vector{y};
             },
         // In f16 and bf16 a sum near zero may have the other sign, and relu's gradient with it.
         .dtypes = activation == Activation::relu ? std::vector{DType::f64, DType::f32} : kFloats});
  };
  for (const Setup& s :
       {Setup{"3x3", {2, 3, 6, 7}, {4, 3, 3, 3}},
        Setup{"padded", {2, 3, 5, 5}, {4, 3, 3, 3}, {.padding = 1}},
        Setup{"strided", {1, 2, 9, 8}, {3, 2, 3, 3}, {.stride = 2, .padding = 1}},
        Setup{"dilated groups", {1, 4, 9, 9}, {6, 2, 3, 3}, {.dilation = 2, .groups = 2}},
        Setup{"1x1", {2, 5, 4, 3}, {7, 5, 1, 1}},
        Setup{"8 channels", {2, 8, 5, 6}, {16, 8, 3, 3}, {.padding = 1}},
        Setup{"one element", {1, 1, 1, 1}, {1, 1, 1, 1}},
        Setup{"no images", {0, 2, 5, 5}, {3, 2, 3, 3}}})
    for (const Activation activation : {Activation::none, Activation::relu, Activation::gelu})
      for (const bool residual : {false, true})
        add(s, activation, activation != Activation::none, residual);
  c.bad = {
      bad<ShapeError>("conv2d_act: kernel of 3 by 3 does not fit the padded input of 2 by 2",
                      [](Device d) {
                        conv2d_act(zeros({1, 3, 2, 2}, {.device = d}),
                                   zeros({8, 3, 3, 3}, {.device = d}), {}, {}, {});
                      }),
      bad<ShapeError>("conv2d_act: bias must be [C_out] with C_out = 8, got [7]",
                      [](Device d) {
                        const TensorOptions o{.device = d};
                        conv2d_act(zeros({1, 3, 8, 8}, o), zeros({8, 3, 3, 3}, o), zeros({7}, o),
                                   {}, {});
                      }),
      bad<ShapeError>(
          "conv2d_act: residual must have the convolution's shape [1, 8, 6, 6], got [1, 8, 6, 5]",
          [](Device d) {
            const TensorOptions o{.device = d};
            conv2d_act(zeros({1, 3, 8, 8}, o), zeros({8, 3, 3, 3}, o), {}, zeros({1, 8, 6, 5}, o),
                       {});
          }),
      bad<DTypeError>("conv2d_act: operands must have one dtype, got f32 and f16",
                      [](Device d) {
                        const TensorOptions o{.device = d};
                        conv2d_act(zeros({1, 3, 8, 8}, o), zeros({8, 3, 3, 3}, o), {},
                                   zeros({1, 8, 6, 6}, {DType::f16, d}), {});
                      }),
      bad<DTypeError>("conv2d_act: operands must have one dtype, got f32 and f64", [](Device d) {
        conv2d_act(zeros({1, 3, 8, 8}, {.device = d}), zeros({8, 3, 3, 3}, {DType::f64, d}), {}, {},
                   {});
      })};
  return c;
}

const Room kRoom([] { return std::vector<OpCase>{conv2d_act_case()}; });

}  // namespace
}  // namespace mica::cases
