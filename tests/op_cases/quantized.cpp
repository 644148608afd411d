#include "mica/ops/quantized/quantized.h"

#include <cmath>

#include "mica/ops/copy/copy.h"
#include "mica/ops/where/functor_params.h"
#include "tests/op_cases/anchored.h"

namespace mica::cases {
namespace {

const std::vector<DType> kF32 = {DType::f32};

/// Whole numbers of a byte, the ends among them.
Input bytes(const Shape& shape) {
  std::vector<double> values;
  for (int64_t i = 0; i < numel(shape); ++i)
    values.push_back(i == 0   ? -127.0
                     : i == 1 ? 127.0
                              : static_cast<double>((i * 37 + 11) % 255 - 127));
  return Input{.shape = shape, .values = values, .dense = true}.as<DType::i8>().constant();
}
/// What a layer is given: numbers, or the integers that stand for them.
Input operand(const Shape& shape, const Quantization& q, bool as_integers) {
  if (!as_integers) return x(shape).constant();
  Input in = bytes(shape);
  in.dense = false;
  if (q.has_sign) return in;
  for (double& v : in.values) v += 127;
  return std::move(in).as<DType::u8>();
}
Input scales(int64_t count) { return x({count}).in(1e-3, 3e-3).constant(); }

/// The integer that stands for a number, and what is made of a sum of products.
double integer(const Quantization& q, double value) {
  const float scaled = static_cast<float>(value) * static_cast<float>(1 / q.scale);
  return std::fmin(std::fmax(std::nearbyint(double{scaled}), q.lowest()), q.highest());
}
double integer(const Quantization& q, double value, bool is_one) {
  return is_one ? value : integer(q, value);
}
double finished(const HostArgs& in, size_t channel, double sum) {
  const double bias = in[3].values.empty() ? 0 : in[3].values[channel];
  return in[2].values[channel] * sum + bias;
}

struct Setup {
  const char* name;
  Shape x;
  Shape weight;
  QuantizedConv2dParams params;
  bool bias = true;
  bool integers = false;  ///< x is given so
};

std::vector<HostArray> conv_oracle(const Setup& s, const HostArgs& in) {
  const Conv2dParams& p = s.params.conv;
  const auto places = [&](int axis, int64_t pad, int64_t dilation, int64_t stride) {
    return (s.x[axis] + 2 * pad - dilation * (s.weight[axis] - 1) - 1) / stride + 1;
  };
  HostArray y{{s.x[0], s.weight[0], places(2, p.padding.h, p.dilation.h, p.stride.h),
               places(3, p.padding.w, p.dilation.w, p.stride.w)},
              {}};
  const int64_t group_in = s.weight[1];
  const int64_t group_out = s.weight[0] / p.groups;
  for (int64_t n = 0; n < y.shape[0]; ++n)
    for (int64_t o = 0; o < y.shape[1]; ++o)
      for (int64_t h = 0; h < y.shape[2]; ++h)
        for (int64_t w = 0; w < y.shape[3]; ++w) {
          double sum = 0;
          for (int64_t c = 0; c < group_in; ++c)
            for (int64_t i = 0; i < s.weight[2]; ++i)
              for (int64_t j = 0; j < s.weight[3]; ++j) {
                const int64_t row = h * p.stride.h - p.padding.h + i * p.dilation.h;
                const int64_t col = w * p.stride.w - p.padding.w + j * p.dilation.w;
                if (row < 0 || col < 0 || row >= s.x[2] || col >= s.x[3]) continue;
                const int64_t channel = o / group_out * group_in + c;
                const int64_t from = ((n * s.x[1] + channel) * s.x[2] + row) * s.x[3] + col;
                const int64_t at = ((o * group_in + c) * s.weight[2] + i) * s.weight[3] + j;
                sum += integer(s.params.x, in[0].values[static_cast<size_t>(from)], s.integers) *
                       in[1].values[static_cast<size_t>(at)];
              }
          y.values.push_back(finished(in, static_cast<size_t>(o), sum));
        }
  return {y};
}

constexpr Tolerances kTolerance = {{0, 4e-6, 0, 0}, {0, 0, 0, 0}};

OpCase conv_case() {
  OpCase c{.op = "quantized_conv2d", .samples = {}, .tolerance = kTolerance};
  const Quantization with_sign{.scale = 2.0 / 127};
  const Quantization without{.scale = 2.0 / 255, .has_sign = false};
  const std::vector<Setup> setups = {
      {"3x3", {2, 3, 6, 5}, {4, 3, 3, 3}, {{.padding = 1}, with_sign}},
      {"1x1", {2, 32, 4, 4}, {16, 32, 1, 1}, {{}, with_sign}},
      {"without a sign", {1, 16, 5, 5}, {8, 16, 3, 3}, {{.stride = 2, .padding = 1}, without}},
      {"no bias", {1, 8, 5, 5}, {8, 8, 3, 3}, {{.dilation = 2}, with_sign}, false},
      {"groups", {2, 4, 5, 6}, {6, 2, 3, 2}, {{.padding = {1, 0}, .groups = 2}, with_sign}},
      {"depthwise", {1, 16, 6, 6}, {16, 1, 3, 3}, {{.padding = 1, .groups = 16}, without}},
      {"held to its range", {1, 4, 3, 3}, {2, 4, 2, 2}, {{}, {.scale = 0.5 / 127}}},
      {"one element", {1, 1, 1, 1}, {1, 1, 1, 1}, {{}, with_sign}},
      {"no images", {0, 2, 4, 4}, {3, 2, 2, 2}, {{}, with_sign}},
      {"bytes", {2, 32, 5, 6}, {48, 32, 3, 3}, {{.padding = 1}, with_sign}, true, true},
      {"bytes, 1x1", {3, 64, 4, 4}, {32, 64, 1, 1}, {{}, with_sign}, true, true},
      {"bytes, strided",
       {1, 16, 9, 8},
       {32, 16, 3, 3},
       {{.stride = 2, .padding = 1}, with_sign},
       false,
       true},
      {"bytes, groups", {1, 4, 5, 6}, {6, 2, 3, 2}, {{.groups = 2}, with_sign}, true, true},
      {"bytes without a sign", {2, 16, 5, 5}, {16, 16, 3, 3}, {{}, without}, true, true}};
  for (const Setup& s : setups)
    c.samples.push_back(
        {.name = s.name,
         .in = {operand(s.x, s.params.x, s.integers), bytes(s.weight), scales(s.weight[0]),
                s.bias ? x({s.weight[0]}).constant() : absent()},
         .call = [s](const Args& a) -> Tensors {
           return {quantized_conv2d(a[0], a[1], a[2], a[3], s.params)};
         },
         .oracle = [s](const HostArgs& in) { return conv_oracle(s, in); },
         .dtypes = kF32,
         .gradient = false});
  const auto call = [](Device d, const Tensor& weight, const Tensor& scale, double x_scale) {
    quantized_conv2d(zeros({1, 2, 4, 4}, {.device = d}), to(weight, d), to(scale, d), {},
                     {{}, {.scale = x_scale}});
  };
  const auto weight = [] { return zeros({3, 2, 1, 1}, {.dtype = DType::i8}); };
  c.bad = {bad<DTypeError>("quantized_conv2d: weight must be i8, got f32",
                           [=](Device d) { call(d, zeros({3, 2, 1, 1}), ones({3}), 1); }),
           bad<ShapeError>("quantized_conv2d: scale must be [out] with out = 3, got [2]",
                           [=](Device d) { call(d, weight(), ones({2}), 1); }),
           bad<Error>("quantized_conv2d: x_scale must be positive, got 0",
                      [=](Device d) { call(d, weight(), ones({3}), 0); }),
           bad<DTypeError>("quantized_conv2d: integers with a sign are i8, got u8",
                           [=](Device d) {
                             quantized_conv2d(zeros({1, 2, 4, 4}, {DType::u8, d}), to(weight(), d),
                                              ones({3}, {.device = d}), {}, {});
                           }),
           bad<DTypeError>("quantized_conv2d: expected f32, i8 or u8, got f64", [=](Device d) {
             quantized_conv2d(zeros({1, 2, 4, 4}, {DType::f64, d}), to(weight(), d),
                              ones({3}, {.device = d}), {}, {});
           })};
  return c;
}

OpCase linear_case() {
  OpCase c{.op = "quantized_linear", .samples = {}, .tolerance = kTolerance};
  struct Layer {
    const char* name;
    Shape x;
    int64_t out;
    Quantization q;
    bool bias = true;
    bool integers = false;
  };
  const std::vector<Layer> layers = {
      {"rows", {5, 24}, 7, {.scale = 2.0 / 127}},
      {"without a sign", {3, 40}, 16, {.scale = 2.0 / 255, .has_sign = false}},
      {"several axes", {2, 3, 9}, 4, {.scale = 2.0 / 127}, false},
      {"one row", {33}, 5, {.scale = 2.0 / 127}},
      {"many", {70, 130}, 65, {.scale = 2.0 / 127}},
      {"one element", {1, 1}, 1, {.scale = 2.0 / 127}},
      {"no rows", {0, 4}, 3, {.scale = 2.0 / 127}},
      {"bytes", {5, 48}, 32, {.scale = 2.0 / 127}, true, true},
      {"bytes, several axes", {2, 3, 33}, 7, {.scale = 2.0 / 127}, false, true}};
  for (const Layer& l : layers)
    c.samples.push_back({.name = l.name,
                         .in = {operand(l.x, l.q, l.integers), bytes({l.out, l.x.back()}),
                                scales(l.out), l.bias ? x({l.out}).constant() : absent()},
                         .call = [l](const Args& a) -> Tensors {
                           return {quantized_linear(a[0], a[1], a[2], a[3], {l.q})};
                         },
                         .oracle =
                             [l](const HostArgs& in) {
                               HostArray y{l.x, {}};
                               y.shape[l.x.rank() - 1] = l.out;
                               const auto depth = static_cast<size_t>(l.x.back());
                               for (size_t r = 0; r < in[0].values.size() / depth; ++r)
                                 for (size_t o = 0; o < static_cast<size_t>(l.out); ++o) {
                                   double sum = 0;
                                   for (size_t k = 0; k < depth; ++k)
                                     sum += integer(l.q, in[0].values[r * depth + k], l.integers) *
                                            in[1].values[o * depth + k];
                                   y.values.push_back(finished(in, o, sum));
                                 }
                               return std::vector{y};
                             },
                         .dtypes = kF32,
                         .gradient = false});
  c.bad = {bad<ShapeError>("quantized_linear: input must be […, in] with in = 4, got [2, 3]",
                           [](Device d) {
                             quantized_linear(zeros({2, 3}, {.device = d}),
                                              zeros({5, 4}, {DType::i8, d}),
                                              ones({5}, {.device = d}), {}, {});
                           }),
           bad<ShapeError>("quantized_linear: weight must be [out, in], got [4]", [](Device d) {
             quantized_linear(zeros({2, 4}, {.device = d}), zeros({4}, {DType::i8, d}),
                              ones({4}, {.device = d}), {}, {});
           })};
  return c;
}

/// What follows a convolution of bytes in a network.
struct After {
  const char* name;
  enum { nothing, numbers, bytes } added = nothing;
  bool relu = true;
  bool to_bytes = true;
  bool bias = true;
};

/// With scales that are powers of two all of it is exact, and nothing lies halfway between two
/// bytes.
Sample carrying_sample(const After& after) {
  const Setup s{"",         {2, 32, 6, 5}, {32, 32, 3, 3}, {{.padding = 1}, {.scale = 0x1p-4}},
                after.bias, true};
  const Shape y = {2, 32, 6, 5};
  Program program{1, {}, {}};
  std::vector<Input> more;
  const auto input = [&](Input in) {
    more.push_back(std::move(in).constant());
    return program.inputs++;
  };
  const int added = after.added == After::nothing ? -1
                    : after.added == After::bytes
                        ? input(operand(y, s.params.x, true))
                        : input(x(y).of([&] {
                            std::vector<double> all;
                            for (int64_t i = 0; i < numel(y); ++i)
                              all.push_back(static_cast<double>(i % 97) / 4 - 12);
                            return all;
                          }()));
  const int step = after.added == After::bytes ? input(x({}).of({0.125})) : -1;
  const int factor = after.to_bytes ? input(x({}).of({0.5})) : -1;
  const auto call = [&](Instruction one) {
    program.instructions.push_back(std::move(one));
    return program.inputs + static_cast<int>(program.instructions.size()) - 1;
  };
  int value = 0;
  if (added >= 0) {
    int other = added;
    if (step >= 0) {
      other = call(elementwise("copy", {added}, CopyParams{.dtype = DType::f32}));
      other = call(elementwise("mul", {other, step}));
    }
    value = call(elementwise("add", {value, other}));
  }
  if (after.relu) value = call(elementwise("relu", {value}));
  if (after.to_bytes) {
    value = call(elementwise("mul", {value, factor}));
    value = call(elementwise("round", {value}));
    value = call(elementwise("clamp", {value}, ClampParams{-128, 127}));
    value = call(elementwise("copy", {value}, CopyParams{.dtype = DType::i8}));
  }
  program.outputs = {static_cast<int>(program.instructions.size()) - 1};
  Sample sample{
      .name = std::string("quantized_conv2d, ") + after.name,
      .in = {operand(s.x, s.params.x, true), bytes(s.weight),
             x({32}).of(std::vector<double>(32, 0x1p-9)).constant(),
             s.bias ? x({32}).of(std::vector<double>(32, 3 + 0x1p-10)).constant() : absent()},
      .call = [=, p = s.params](
                  const Args& a) { return call_carrying("quantized_conv2d", p, program, a.in); },
      .oracle =
          [=](const HostArgs& in) {
            HostArray result = conv_oracle(s, in)[0];
            for (size_t i = 0; i < result.values.size(); ++i) {
              double& v = result.values[i];
              if (after.added == After::bytes) v += 0.125 * in[4].values[i];
              if (after.added == After::numbers) v += in[4].values[i];
              if (after.relu) v = std::fmax(v, 0);
              if (after.to_bytes) v = std::fmin(std::fmax(std::nearbyint(0.5 * v), -128), 127);
            }
            return std::vector{result};
          },
      .dtypes = kF32,
      .gradient = false,
      .exact = after.to_bytes};
  for (Input& in : more) sample.in.push_back(std::move(in));
  return sample;
}

const Room kRoom([] { return std::vector<OpCase>{conv_case(), linear_case()}; });

}  // namespace

std::vector<Sample> quantized_carrying_samples() {
  std::vector<Sample> samples;
  for (const After& after :
       {After{"ReLU to bytes"}, After{"to bytes", After::nothing, false},
        After{"ReLU", After::nothing, true, false},
        After{"bytes added, ReLU to bytes", After::bytes},
        After{"bytes added, no bias, ReLU to bytes", After::bytes, true, true, false},
        After{"bytes added, ReLU", After::bytes, true, false},
        After{"numbers added, ReLU to bytes", After::numbers},
        After{"numbers added", After::numbers, false, false}})
    samples.push_back(carrying_sample(after));
  return samples;
}

}  // namespace mica::cases
