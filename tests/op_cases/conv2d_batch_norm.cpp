#include <fmt/core.h>

#include "mica/ops/conv2d_batch_norm/conv2d_batch_norm.h"
#include "tests/op_cases/anchored.h"
#include "tests/op_cases/conv_oracle.h"
#include "tests/op_cases/norm_oracle.h"

namespace mica::cases {
namespace {

struct Setup {
  const char* name;
  Shape x, w;
  Conv2dParams conv = {};
  bool bias = false;
  bool affine = true;

  HostConv host_conv() const {
    const auto dims = [](Size2 size) { return Dims{size.h, size.w}; };
    return {x,
            w,
            {dims(conv.stride), dims(conv.padding), dims(conv.padding), dims(conv.dilation),
             conv.groups}};
  }
};

std::vector<Setup> setups() {
  return {{"3x3", {2, 3, 6, 7}, {4, 3, 3, 3}, {.padding = 1}, true},
          {"1x1", {3, 5, 4, 3}, {7, 5, 1, 1}},
          {"16 channels", {2, 8, 5, 6}, {16, 8, 1, 1}},
          {"no weight", {2, 16, 4, 4}, {8, 16, 1, 1}, {}, false, false},
          {"several tiles", {3, 72, 11, 13}, {136, 72, 1, 1}},
          {"rows that are no whole tile", {1, 64, 3, 7}, {128, 64, 1, 1}},
          {"no images", {0, 8, 4, 4}, {8, 8, 1, 1}}};
}

/// Whole numbers, whose products are exact in every dtype: what is rounded between the two ops has
/// no part in the difference.
Input whole(const Shape& shape, int64_t most, int64_t middle = 0) {
  std::vector<double> values;
  values.reserve(at(numel(shape)));
  for (int64_t i = 0; i < numel(shape); ++i)
    values.push_back(
        static_cast<double>((i * 7919 + i / 3) % 1009 % (2 * most + 1) - most + middle));
  return x(shape).of(std::move(values));
}

/// Without a program, or relu(norm + residual), or silu(norm).
enum class After { nothing, residual, silu };

Sample forward_sample(const Setup& s, After after) {
  const int64_t c = s.w[0];
  const HostConv conv = s.host_conv();
  const Conv2dBatchNormParams p{s.conv, {}};
  const auto channel = [&] { return s.affine ? x({c}).statistic() : absent(); };
  Sample sample{.name = s.name,
                .in = {whole(s.x, 2, 2), whole(s.w, 1), s.bias ? whole({c}, 3) : absent(),
                       channel(), channel(), x({c}).statistic(), x({c}).in(0.5, 2).statistic()},
                .call = nullptr};
  Program program{after == After::residual ? 2 : 1, {}, {}};
  if (after == After::residual) {
    sample.name = std::string("conv2d_batch_norm, residual, relu, ") + s.name;
    sample.in.push_back(x(conv.y_shape(4)));
    program.instructions = {elementwise("add", {0, 1}), elementwise("relu", {2})};
    program.outputs = {1};
  } else if (after == After::silu) {
    sample.name = std::string("conv2d_batch_norm, silu, ") + s.name;
    program.instructions = {elementwise("silu", {0})};
    program.outputs = {0};
  }
  sample.call = [=](const Args& a) -> Tensors {
    Tensors in = a.in;
    in[5] = clone(a[5]);
    in[6] = clone(a[6]);
    Tensors out = after == After::nothing ? call_op("conv2d_batch_norm", p, in)
                                          : call_carrying("conv2d_batch_norm", p, program, in);
    return {out[0], out[1], out[3], in[5], in[6]};
  };
  sample.oracle = [=](const HostArgs& in) {
    const HostArray y = host_conv(conv, in[0], in[1], in[2].values);
    std::vector<HostArray> norm = normalised({{y, in[3], in[4], in[5], in[6]}}, p.norm);
    for (size_t i = 0; i < y.values.size() && after != After::nothing; ++i) {
      double& v = norm[0].values[i];
      v = after == After::residual ? std::max(v + in[7].values[i], 0.0)
                                   : activated(v, Activation::silu);
    }
    return std::vector{norm[0], HostArray{{s.w[0]}, statistics_of(y).mean}, y, norm[1], norm[2]};
  };
  return sample;
}

OpCase conv2d_batch_norm_case() {
  OpCase c{.op = "conv2d_batch_norm",
           .samples = {},
           .no_single = "training needs more than one value per channel"};
  for (const Setup& s : setups()) c.samples.push_back(forward_sample(s, After::nothing));
  c.bad = {
      bad<ShapeError>("conv2d_batch_norm: weight must be [C] with C = 8, got [4]", [](Device d) {
        const TensorOptions o{.device = d};
        call_op("conv2d_batch_norm", Conv2dBatchNormParams{},
                {zeros({2, 8, 3, 3}, o), zeros({8, 8, 1, 1}, o), {}, zeros({4}, o), {}, {}, {}});
      })};
  return c;
}

/// `apart`: each so many-th pixel has something that is added.
Sample backward_sample(const Setup& s, int64_t apart) {
  const int64_t c = s.x[1];
  const HostConv conv = s.host_conv();
  const Conv2dBatchNormGradParams p{{s.conv, s.x}, {}, apart};
  return {.name = s.name + (apart > 1 ? fmt::format(", {} pixels apart", apart) : std::string()),
          .in = {whole(conv.y_shape(4), 2), whole(s.w, 1), whole(p.more_shape(), 3),
                 x(s.x).away(0.1), x(s.x), s.affine ? x({c}).statistic() : absent(),
                 x({c}).statistic(), x({c}).in(0.5, 2).statistic()},
          .call = [p](const Args& a) { return call_op("conv2d_dgrad_batch_norm_grad", p, a.in); },
          .oracle =
              [=](const HostArgs& in) {
                HostArray dz = zeros_of(s.x);
                const Shape few = p.more_shape();
                for (size_t i = 0; i < in[2].values.size(); ++i) {
                  const auto j = static_cast<int64_t>(i);
                  const int64_t row = j / few[3] % few[2] * apart;
                  const int64_t column = j % few[3] * apart;
                  dz.values[at((j / few[3] / few[2] * s.x[2] + row) * s.x[3] + column)] =
                      in[2].values[i];
                }
                conv.each([&](int64_t i, int64_t j, int64_t k) {
                  dz.values[at(j)] += in[0].values[at(i)] * in[1].values[at(k)];
                });
                for (size_t i = 0; i < dz.values.size(); ++i)
                  if (in[3].values[i] <= 0) dz.values[i] = 0;
                std::vector<HostArray> out =
                    norm_gradients({{dz, in[4], in[5], in[6], in[7]}}, p.norm);
                out.push_back(dz);
                return out;
              }};
}

OpCase conv2d_dgrad_batch_norm_grad_case() {
  OpCase c{.op = "conv2d_dgrad_batch_norm_grad",
           .samples = {},
           .no_single = "training needs more than one value per channel"};
  for (const Setup& s : setups())
    for (const int64_t apart : {1, 2, 3}) c.samples.push_back(backward_sample(s, apart));
  c.bad = {
      bad<ShapeError>("conv2d_dgrad_batch_norm_grad: input 3 must be [2, 8, 3, 3] as the "
                      "convolution's input, got f32[2, 8, 3, 4]",
                      [](Device d) {
                        const TensorOptions o{.device = d};
                        const Tensor x = zeros({2, 8, 3, 3}, o);
                        call_op("conv2d_dgrad_batch_norm_grad",
                                Conv2dBatchNormGradParams{{{}, {2, 8, 3, 3}}, {}, 1},
                                {x,
                                 zeros({8, 8, 1, 1}, o),
                                 x,
                                 zeros({2, 8, 3, 4}, o),
                                 x,
                                 {},
                                 zeros({8}, o),
                                 ones({8}, o)});
                      })};
  return c;
}

}  // namespace

std::vector<Sample> conv2d_batch_norm_carrying_samples() {
  std::vector<Sample> samples;
  for (const Setup& s : setups())
    for (const After after : {After::residual, After::silu})
      samples.push_back(forward_sample(s, after));
  return samples;
}

namespace {

const Room kRoom([] {
  return std::vector<OpCase>{conv2d_batch_norm_case(), conv2d_dgrad_batch_norm_grad_case()};
});

}  // namespace
}  // namespace mica::cases
