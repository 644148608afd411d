#include <cmath>

#include "tests/op_cases/op_case.h"

namespace mica::cases {
namespace {

/// What output o takes of input i along one axis.
double share(const Upsample2dParams& p, int64_t in, int64_t out, double scale, int64_t o,
             int64_t i) {
  const auto n = static_cast<double>(in);
  const auto m = static_cast<double>(out);
  const auto clip = [in](double at) {
    return static_cast<int64_t>(std::min(std::max(at, 0.0), static_cast<double>(in - 1)));
  };
  const double step = scale > 0 ? 1 / scale : n / m;
  if (p.mode == UpsampleMode::nearest)
    return clip(std::floor(static_cast<float>(o) * static_cast<float>(step))) == i ? 1 : 0;
  if (p.mode == UpsampleMode::nearest_exact)
    return clip(std::floor((static_cast<float>(o) + 0.5F) * static_cast<float>(step))) == i ? 1 : 0;
  double at = (static_cast<double>(o) + 0.5) * step - 0.5;
  if (p.align_corners) at = out > 1 ? static_cast<double>(o) * (n - 1) / (m - 1) : 0;
  double sum = 0;
  if (p.mode == UpsampleMode::bilinear) {
    at = std::max(at, 0.0);
    for (int k = 0; k < 2; ++k)
      if (clip(std::floor(at) + k) == i)
        sum += k == 0 ? 1 - (at - std::floor(at)) : at - std::floor(at);
    return sum;
  }
  for (int k = -1; k <= 2; ++k) {
    if (clip(std::floor(at) + k) != i) continue;
    const double d = std::abs(std::floor(at) + k - at);
    constexpr double kA = -0.75;
    sum += d <= 1 ? (kA + 2) * d * d * d - (kA + 3) * d * d + 1
                  : kA * d * d * d - 5 * kA * d * d + 8 * kA * d - 4 * kA;
  }
  return sum;
}

/// y = rows * x * cols^T for each plane, or the adjoint of that.
HostArray resampled(const HostArray& from, const Upsample2dParams& p, Size2 small, bool adjoint) {
  const Size2 to = adjoint ? small : p.size;
  const Size2 of = adjoint ? p.size : small;
  HostArray y{{from.shape[0], from.shape[1], to.h, to.w}, {}};
  const auto weight = [&](bool row, int64_t target, int64_t source) {
    return share(p, row ? small.h : small.w, row ? p.size.h : p.size.w, row ? p.scale_h : p.scale_w,
                 adjoint ? source : target, adjoint ? target : source);
  };
  for (int64_t plane = 0; plane < from.shape[0] * from.shape[1]; ++plane)
    for (int64_t h = 0; h < to.h; ++h)
      for (int64_t w = 0; w < to.w; ++w) {
        double sum = 0;
        for (int64_t i = 0; i < of.h; ++i) {
          const double row = weight(true, h, i);
          if (row == 0) continue;
          for (int64_t j = 0; j < of.w; ++j) {
            const double both = row * weight(false, w, j);
            if (both != 0)
              sum += both * from.values[static_cast<size_t>((plane * of.h + i) * of.w + j)];
          }
        }
        y.values.push_back(sum);
      }
  return y;
}

struct Setup {
  std::string name;
  Shape x;
  Upsample2dParams params;
  std::vector<DType> dtypes = kFloats;
};

std::vector<Setup> setups() {
  using enum UpsampleMode;
  std::vector<Setup> list = {
      {"nearest, twice", {2, 3, 3, 4}, {.mode = nearest, .size = {6, 8}}},
      {"nearest, 41 times", {1, 1, 1, 3}, {.mode = nearest, .size = {1, 123}}},
      {"nearest, smaller", {1, 2, 7, 9}, {.mode = nearest, .size = {3, 4}}},
      {"nearest, other scale",
       {1, 2, 3, 4},
       {.mode = nearest, .size = {5, 6}, .scale_h = 1.9, .scale_w = 1.6}},
      {"nearest_exact", {2, 3, 3, 4}, {.mode = nearest_exact, .size = {7, 3}}},
      {"nearest_exact, other scale",
       {1, 5, 3, 4},
       {.mode = nearest_exact, .size = {3, 6}, .scale_h = 1.3, .scale_w = 1.6}},
      {"several threads", {2, 3, 40, 50}, {.mode = bilinear, .size = {80, 100}}, {DType::f32}}};
  for (const UpsampleMode mode : {bilinear, bicubic})
    for (const bool align : {false, true}) {
      const std::string name = print_field(mode) + (align ? ", corners aligned" : "");
      const auto params = [&](Size2 size) {
        return Upsample2dParams{.mode = mode, .size = size, .align_corners = align};
      };
      list.push_back({name, {2, 3, 3, 4}, params({6, 8})});
      list.push_back({name + ", 5 channels", {2, 5, 4, 3}, params({7, 5})});
      list.push_back({name + ", smaller", {1, 2, 9, 8}, params({4, 1})});
      list.push_back({name + ", one element", {1, 1, 1, 1}, params({3, 2})});
      list.push_back({name + ", no images", {0, 3, 4, 4}, params({8, 8})});
    }
  for (const UpsampleMode mode : {bilinear, bicubic})
    list.push_back({print_field(mode) + ", other scale",
                    {1, 2, 4, 5},
                    {.mode = mode, .size = {7, 8}, .scale_h = 1.9, .scale_w = 1.7}});
  return list;
}

OpCase upsample2d_case() {
  OpCase c{.op = "upsample2d", .samples = {}};
  for (const Setup& s : setups())
    c.samples.push_back(
        {.name = s.name,
         .in = {x(s.x)},
         .call = [s](const Args& a) -> Tensors { return {upsample2d(a[0], s.params)}; },
         .oracle =
             [s](const HostArgs& in) {
               return std::vector{resampled(in[0], s.params, {s.x[2], s.x[3]}, false)};
             },
         .dtypes = s.dtypes});
  c.samples.push_back({.name = "NaN and infinity stay where they are",
                       .in = {x({1, 1, 4, 4}).of(hostile_values())},
                       .call = [](const Args& a) -> Tensors {
                         return {upsample2d(a[0], {.mode = UpsampleMode::nearest, .size = 6})};
                       },
                       .gradient = false});
  const auto call = [](Device d, const Shape& shape, const Upsample2dParams& p) {
    upsample2d(zeros(shape, {.device = d}), p);
  };
  c.bad = {
      bad<ShapeError>("upsample2d: input must be [N, C, H, W], got [3, 4]",
                      [=](Device d) { call(d, {3, 4}, {.size = 2}); }),
      bad<ShapeError>(
          "upsample2d: the result's size must be between 1 and 2^31 - 1 each way, got {0, 0}",
          [=](Device d) { call(d, {1, 1, 4, 4}, {}); }),
      bad<ShapeError>(
          "upsample2d: the result's size must be between 1 and 2^31 - 1 each way, got {-2, 3}",
          [=](Device d) { call(d, {1, 1, 4, 4}, {.size = {-2, 3}}); }),
      bad<ShapeError>("upsample2d: an image must be between 1 and 2^31 - 1 each way, got {0, 4}",
                      [=](Device d) { call(d, {1, 1, 0, 4}, {.size = 2}); }),
      bad<ShapeError>("upsample2d: scale must be 0 or between 2^-31 and 2^31, got -1",
                      [=](Device d) { call(d, {1, 1, 4, 4}, {.size = 2, .scale_h = -1}); }),
      bad<Error>(
          "upsample2d: mode linear is not for [N, C, H, W]",
          [=](Device d) { call(d, {1, 1, 4, 4}, {.mode = UpsampleMode::linear, .size = 2}); }),
      bad<DTypeError>("upsample2d: expected a floating dtype, got i64", [](Device d) {
        upsample2d(zeros({1, 1, 4, 4}, {DType::i64, d}), {.size = 2});
      })};
  return c;
}

OpCase upsample2d_grad_case() {
  OpCase c{.op = "upsample2d_grad", .samples = {}};
  for (const Setup& s : setups()) {
    const Size2 input = {s.x[2], s.x[3]};
    c.samples.push_back({.name = s.name,
                         .in = {x({s.x[0], s.x[1], s.params.size.h, s.params.size.w})},
                         .call = [=](const Args& a) -> Tensors {
                           return {upsample2d_grad(a[0], {s.params, input})};
                         },
                         .oracle =
                             [=](const HostArgs& in) {
                               return std::vector{resampled(in[0], s.params, input, true)};
                             },
                         .dtypes = s.dtypes});
  }
  c.samples.push_back(
      {.name = "to one element", .in = {x({1, 1, 1, 1})}, .call = [](const Args& a) -> Tensors {
         return {upsample2d_grad(a[0], {{.size = 1}, 1})};
       }});
  c.bad = {bad<ShapeError>("upsample2d_grad: dy must be [N, C, 4, 6], got [1, 1, 4, 4]",
                           [](Device d) {
                             upsample2d_grad(zeros({1, 1, 4, 4}, {.device = d}),
                                             {{.size = {4, 6}}, {2, 3}});
                           }),
           bad<ShapeError>(
               "upsample2d_grad: an image must be between 1 and 2^31 - 1 each way, got {0, 3}",
               [](Device d) {
                 upsample2d_grad(zeros({1, 1, 4, 6}, {.device = d}), {{.size = {4, 6}}, {0, 3}});
               }),
           bad<DTypeError>("upsample2d_grad: expected a floating dtype, got i32", [](Device d) {
             upsample2d_grad(zeros({1, 1, 4, 4}, {DType::i32, d}), {{.size = 4}, 2});
           })};
  return c;
}

/// A volume, resampled along its planes and then along the depth.
HostArray resampled_volume(const HostArray& from, const Upsample2dParams& planes, int64_t depth,
                           double scale) {
  const Shape& s = from.shape;
  HostArray x = from;
  x.shape = {s[0], s[1] * s[2], s[3], s[4]};
  HostArray y = resampled(x, planes, {s[3], s[4]}, false);
  Upsample2dParams along = planes;
  along.size = {depth, planes.size.h * planes.size.w};
  along.scale_h = scale;
  along.scale_w = 0;
  y.shape = {s[0], s[1], s[2], along.size.w};
  y = resampled(y, along, {s[2], along.size.w}, false);
  y.shape = {s[0], s[1], depth, planes.size.h, planes.size.w};
  return y;
}

std::vector<Sample> volumes() {
  using enum UpsampleMode;
  const auto sample = [](const char* name, const Shape& shape, const UpsampleOptions& o,
                         const Upsample2dParams& planes, int64_t depth, double scale) -> Sample {
    return {.name = name,
            .in = {x(shape)},
            .call = [o](const Args& a) -> Tensors { return {upsample(a[0], o)}; },
            .oracle =
                [=](const HostArgs& in) {
                  return std::vector{resampled_volume(in[0], planes, depth, scale)};
                }};
  };
  return {
      sample("a volume, nearest", {1, 2, 3, 2, 4}, {.scale = 2}, {.size = {4, 8}}, 6, 2),
      sample("a volume, nearest_exact", {2, 2, 3, 2, 4}, {.size = {4, 3, 5}, .mode = nearest_exact},
             {.mode = nearest_exact, .size = {3, 5}}, 4, 0),
      sample("a volume, trilinear", {2, 2, 3, 2, 4}, {.scale = {1.4, 2, 0.8}, .mode = trilinear},
             {.mode = bilinear, .size = {4, 3}, .scale_h = 2, .scale_w = 0.8}, 4, 1.4),
      sample("a volume, trilinear, corners aligned", {1, 2, 2, 3, 2},
             {.size = {5, 4, 3}, .mode = trilinear, .align_corners = true},
             {.mode = bilinear, .size = {4, 3}, .align_corners = true}, 5, 0)};
}

OpCase upsample_case() {
  using enum UpsampleMode;
  const auto sample = [](const char* name, const Shape& shape, const UpsampleOptions& o,
                         const Upsample2dParams& same) -> Sample {
    return {.name = name,
            .in = {x(shape)},
            .call = [o](const Args& a) -> Tensors { return {upsample(a[0], o)}; },
            .oracle =
                [=](const HostArgs& in) {
                  const bool image = shape.rank() == 4;
                  HostArray from = in[0];
                  from.shape = {shape[0], shape[1], image ? shape[2] : 1, shape.back()};
                  HostArray y = resampled(from, same, {from.shape[2], from.shape[3]}, false);
                  if (!image) y.shape = {shape[0], shape[1], same.size.w};
                  return std::vector{y};
                }};
  };
  const auto call = [](Device d, const Shape& shape, const UpsampleOptions& o) {
    upsample(zeros(shape, {.device = d}), o);
  };
  OpCase c = {
      .op = "upsample",
      .samples = {sample("by a factor", {1, 2, 3, 4}, {.scale = 2}, {.size = {6, 8}}),
                  sample("by two factors", {2, 2, 3, 4}, {.scale = {2.5, 1.3}, .mode = bilinear},
                         {.mode = bilinear, .size = {7, 5}, .scale_h = 2.5, .scale_w = 1.3}),
                  sample("one size for both", {1, 2, 3, 4}, {.size = {5}, .mode = bicubic},
                         {.mode = bicubic, .size = 5}),
                  sample("two sizes, corners aligned", {1, 2, 3, 4},
                         {.size = {5, 6}, .mode = bilinear, .align_corners = true},
                         {.mode = bilinear, .size = {5, 6}, .align_corners = true}),
                  sample("a line, nearest", {2, 3, 5}, {.size = {12}}, {.size = {1, 12}}),
                  sample("a line, linear", {2, 3, 5}, {.scale = 2, .mode = linear},
                         {.mode = bilinear, .size = {1, 10}}),
                  sample("a line, linear, corners aligned", {2, 1, 5},
                         {.size = {8}, .mode = linear, .align_corners = true},
                         {.mode = bilinear, .size = {1, 8}, .align_corners = true}),
                  sample("one element", {1, 1, 1, 1}, {.scale = 3}, {.size = 3}),
                  sample("no images", {0, 2, 3, 3}, {.scale = 2}, {.size = 6})},
      .bad = {
          bad<ShapeError>(
              "upsample: input must be [N, C, L], [N, C, H, W] or [N, C, D, H, W], got [3, 4]",
              [=](Device d) { call(d, {3, 4}, {.scale = 2}); }),
          bad<ShapeError>("upsample: mode linear takes [N, C, L], got [1, 1, 4, 4]",
                          [=](Device d) { call(d, {1, 1, 4, 4}, {.scale = 2, .mode = linear}); }),
          bad<ShapeError>("upsample: mode bicubic takes [N, C, H, W], got [1, 1, 4]",
                          [=](Device d) { call(d, {1, 1, 4}, {.scale = 2, .mode = bicubic}); }),
          bad<Error>("upsample: align_corners means nothing for mode nearest",
                     [=](Device d) { call(d, {1, 1, 4, 4}, {.scale = 2, .align_corners = true}); }),
          bad<Error>("upsample: expected either size or scale, got neither",
                     [=](Device d) { call(d, {1, 1, 4, 4}, {}); }),
          bad<Error>("upsample: expected either size or scale, got both",
                     [=](Device d) { call(d, {1, 1, 4, 4}, {.size = {8}, .scale = 2}); }),
          bad<ShapeError>("upsample: size must have 2 entries, got [1, 2, 3]",
                          [=](Device d) { call(d, {1, 1, 4, 4}, {.size = {1, 2, 3}}); }),
          bad<ShapeError>("upsample: scale must be positive and finite, got -2",
                          [=](Device d) { call(d, {1, 1, 4, 4}, {.scale = -2}); }),
          bad<ShapeError>("upsample: scale must be positive and finite, got nan",
                          [=](Device d) { call(d, {1, 1, 4, 4}, {.scale = NAN}); }),
          bad<ShapeError>("upsample: scale 0.1 makes 0 pixels of the 4 along image axis 0 of 2",
                          [=](Device d) { call(d, {1, 1, 4, 4}, {.scale = 0.1}); }),
          bad<Error>("upsample: antialias is for the modes bilinear and bicubic, got area",
                     [=](Device d) {
                       call(d, {1, 1, 4, 4}, {.scale = 2, .mode = area, .antialias = true});
                     })}};
  for (Sample& s : volumes()) c.samples.push_back(std::move(s));
  return c;
}

const Room kRoom([] {
  return std::vector<OpCase>{upsample2d_case(), upsample2d_grad_case(), upsample_case()};
});

}  // namespace
}  // namespace mica::cases
