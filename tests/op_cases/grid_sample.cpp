#include <cmath>

#include "tests/op_cases/op_case.h"

namespace mica::cases {
namespace {

double mirrored(double at, double low, double high) {
  if (low == high) return low;
  while (at < low || at > high) at = at < low ? 2 * low - at : 2 * high - at;
  return at;
}

/// Where a pixel position goes as the padding says.
double padded(double at, int64_t size, const GridSampleParams& p) {
  const auto last = static_cast<double>(size - 1);
  if (p.padding == GridPadding::zeros || !std::isfinite(at)) return at;
  if (p.padding == GridPadding::reflection)
    at = p.align_corners ? mirrored(at, 0, last) : mirrored(at, -0.5, last + 0.5);
  return std::min(std::max(at, 0.0), last);
}

/// What a point at coordinate g takes of pixel i along one axis.
double share(double g, int64_t size, int64_t i, const GridSampleParams& p) {
  const auto n = static_cast<double>(size);
  const auto pixel = static_cast<double>(i);
  const double raw = p.align_corners ? (g + 1) / 2 * (n - 1) : ((g + 1) * n - 1) / 2;
  if (p.mode == GridMode::nearest) return std::rint(padded(raw, size, p)) == pixel ? 1 : 0;
  if (p.mode == GridMode::bilinear) {
    const double d = std::abs(padded(raw, size, p) - pixel);
    return d < 1 ? 1 - d : 0;
  }
  double sum = 0;
  for (int k = -1; k <= 2; ++k) {
    const double at = std::floor(raw) + k;
    if (padded(at, size, p) != pixel) continue;
    const double d = std::abs(raw - at);
    constexpr double kA = -0.75;
    sum += d <= 1 ? (kA + 2) * d * d * d - (kA + 3) * d * d + 1
                  : kA * d * d * d - 5 * kA * d * d + 8 * kA * d - 4 * kA;
  }
  return sum;
}

std::vector<HostArray> sampled(const HostArgs& in, const GridSampleParams& p) {
  const Shape& x = in[0].shape;
  const Shape& grid = in[1].shape;
  const int64_t points = grid[1] * grid[2];
  HostArray y{{x[0], x[1], grid[1], grid[2]}, {}};
  for (int64_t n = 0; n < x[0]; ++n)
    for (int64_t c = 0; c < x[1]; ++c)
      for (int64_t i = 0; i < points; ++i) {
        const double* point = in[1].values.data() + 2 * (n * points + i);
        const double* plane = in[0].values.data() + (n * x[1] + c) * x[2] * x[3];
        double sum = 0;
        for (int64_t h = 0; h < x[2]; ++h) {
          const double row = share(point[1], x[2], h, p);
          if (row == 0) continue;
          for (int64_t w = 0; w < x[3]; ++w) {
            const double both = row * share(point[0], x[3], w, p);
            if (both != 0) sum += both * plane[h * x[3] + w];
          }
        }
        y.values.push_back(sum);
      }
  return {y};
}

/// Points in and around an image of `size` pixels, away from where a mode or padding has a kink.
std::vector<double> points(const Shape& grid, Size2 size, bool align_corners) {
  std::vector<double> values;
  const auto coordinate = [&](int64_t i, int64_t pixels) {
    const int64_t cell = i * 11 % (pixels + 4) - 2;
    const double at =
        static_cast<double>(cell) + (i % 2 == 0 ? 0.2 : 0.6) + 0.02 * static_cast<double>(i % 9);
    const auto n = static_cast<double>(pixels);
    if (!align_corners) return (2 * at + 1) / n - 1;
    return n > 1 ? 2 * at / (n - 1) - 1 : at;
  };
  for (int64_t i = 0; i < numel(grid) / 2; ++i) {
    values.push_back(coordinate(i, size.w));
    values.push_back(coordinate(3 * i + 1, size.h));
  }
  return values;
}

struct Setup {
  std::string name;
  Shape x, grid;
  GridSampleParams params;
  std::vector<DType> dtypes = kFloats;

  Input grid_input() const {
    return cases::x(grid).of(points(grid, {x[2], x[3]}, params.align_corners));
  }
};

std::vector<Setup> setups() {
  std::vector<Setup> list;
  for (const GridMode mode : {GridMode::bilinear, GridMode::nearest, GridMode::bicubic})
    for (const GridPadding padding :
         {GridPadding::zeros, GridPadding::border, GridPadding::reflection})
      for (const bool align : {false, true})
        list.push_back(
            {print_field(mode) + ", " + print_field(padding) + (align ? ", corners aligned" : ""),
             {2, 2, 3, 4},
             {2, 2, 3, 2},
             {mode, padding, align}});
  list.push_back({"9 channels", {1, 9, 3, 3}, {1, 3, 5, 2}, {}});
  list.push_back({"one pixel", {1, 1, 1, 1}, {1, 2, 2, 2}, {}});
  list.push_back({"one pixel, mirrored",
                  {1, 1, 1, 1},
                  {1, 2, 2, 2},
                  {GridMode::bilinear, GridPadding::reflection, true}});
  list.push_back({"several threads", {2, 3, 12, 10}, {2, 30, 40, 2}, {}, {DType::f32}});
  list.push_back({"no points", {1, 2, 3, 3}, {1, 0, 4, 2}, {}});
  list.push_back({"no images", {0, 2, 3, 3}, {0, 2, 4, 2}, {}});
  list.push_back({"no channels", {1, 0, 3, 3}, {1, 2, 2, 2}, {}});
  return list;
}

template <class F>
std::vector<BadCall> bad_operands(const std::string& op, F call) {
  const auto zero = [](Device d, const Shape& s, DType t = DType::f32) { return zeros(s, {t, d}); };
  return {
      bad<ShapeError>(op + ": input must be [N, C, H, W], got [3, 4]",
                      [=](Device d) { call(zero(d, {3, 4}), zero(d, {1, 2, 2, 2})); }),
      bad<ShapeError>(op + ": grid must be [2, H', W', 2], got [1, 2, 2, 2]",
                      [=](Device d) { call(zero(d, {2, 1, 3, 3}), zero(d, {1, 2, 2, 2})); }),
      bad<ShapeError>(op + ": grid must be [2, H', W', 2], got [2, 2, 2, 3]",
                      [=](Device d) { call(zero(d, {2, 1, 3, 3}), zero(d, {2, 2, 2, 3})); }),
      bad<ShapeError>(op + ": an image must have between 1 and 2^31 - 1 pixels, got 0 by 3",
                      [=](Device d) { call(zero(d, {2, 1, 0, 3}), zero(d, {2, 2, 2, 2})); }),
      bad<DTypeError>(op + ": input and grid must have one dtype, got f32 and f64", [=](Device d) {
        call(zero(d, {2, 1, 3, 3}), zero(d, {2, 2, 2, 2}, DType::f64));
      })};
}

OpCase grid_sample_case() {
  OpCase c{.op = "grid_sample", .samples = {}};
  for (const Setup& s : setups())
    c.samples.push_back(
        {.name = s.name,
         .in = {x(s.x), s.grid_input()},
         .call = [s](const Args& a) -> Tensors { return {grid_sample(a[0], a[1], s.params)}; },
         .oracle = [s](const HostArgs& in) { return sampled(in, s.params); },
         .dtypes = s.dtypes});
  c.samples.push_back({.name = "points that are not finite lie outside",
                       .in = {x({1, 2, 4, 4}), x({1, 2, 4, 2}).of(hostile_values())},
                       .call = [](const Args& a) -> Tensors { return {grid_sample(a[0], a[1])}; },
                       .oracle = [](const HostArgs& in) { return sampled(in, {}); },
                       .gradient = false});
  c.samples.push_back({.name = "NaN outside the four pixels stays there",
                       .in = {x({1, 1, 4, 4}).of(hostile_values()),
                              x({1, 1, 2, 2}).of({0.3, 0.6, 2.0, 2.0}).constant()},
                       .call = [](const Args& a) -> Tensors { return {grid_sample(a[0], a[1])}; },
                       .oracle = [](const HostArgs& in) { return sampled(in, {}); },
                       .gradient = false});
  c.bad = bad_operands("grid_sample", [](const Tensor& a, const Tensor& b) { grid_sample(a, b); });
  c.bad.push_back(bad<DTypeError>("grid_sample: expected a floating dtype, got i64", [](Device d) {
    grid_sample(zeros({1, 1, 2, 2}, {DType::i64, d}), zeros({1, 1, 1, 2}, {DType::i64, d}));
  }));
  return c;
}

OpCase grid_sample_grad_case() {
  OpCase c{.op = "grid_sample_grad", .samples = {}};
  for (const Setup& s : setups()) {
    const auto add = [&c](const Setup& t, bool gradient) {
      c.samples.push_back(
          {.name = t.name + (gradient ? "" : ", values"),
           .in = {x({t.x[0], t.x[1], t.grid[1], t.grid[2]}), x(t.x), t.grid_input()},
           .call = [t](const Args& a) -> Tensors {
             const auto grads = grid_sample_grad(a[0], a[1], a[2], t.params);
             return {grads.x, grads.grid};
           },
           .dtypes = gradient ? std::vector{DType::f64, DType::f32} : t.dtypes,
           .gradient = gradient});
    };
    add(s, false);
    // The gradient is made of many ops: few pixels will do.
    Setup small = s;
    for (int64_t& size : small.x) size = std::min<int64_t>(size, 3);
    for (int i = 0; i < 3; ++i) small.grid[i] = std::min<int64_t>(small.grid[i], i == 2 ? 3 : 1);
    if (small.x[0] > 0) small.x[0] = small.x[1] = 1;
    if (s.name != "several threads") add(small, true);
  }
  c.bad = bad_operands("grid_sample_grad",
                       [](const Tensor& a, const Tensor& b) { grid_sample_grad(a, a, b); });
  c.bad.push_back(
      bad<ShapeError>("grid_sample_grad: dy must be [1, 2, 4, 5], got [1, 2, 3, 3]", [](Device d) {
        const Tensor image = zeros({1, 2, 3, 3}, {.device = d});
        grid_sample_grad(image, image, zeros({1, 4, 5, 2}, {.device = d}));
      }));
  c.bad.push_back(bad<DTypeError>(
      "grid_sample_grad: dy and input must have one dtype, got f64 and f32", [](Device d) {
        grid_sample_grad(zeros({1, 2, 4, 5}, {DType::f64, d}), zeros({1, 2, 3, 3}, {.device = d}),
                         zeros({1, 4, 5, 2}, {.device = d}));
      }));
  return c;
}

OpCase affine_grid_case() {
  const auto sample = [](const char* name, int64_t n, Size2 size, bool align) -> Sample {
    return {
        .name = name,
        .in = {x({n, 2, 3})},
        .call = [=](const Args& a) -> Tensors {
          return {affine_grid(a[0], size, {.align_corners = align})};
        },
        .oracle =
            [=](const HostArgs& in) {
              HostArray y{{n, size.h, size.w, 2}, {}};
              const auto at = [&](int64_t i, int64_t count) {
                const auto k = static_cast<double>(count);
                if (align && count == 1) return 0.0;
                const double edge = -1 + 2 * static_cast<double>(i) / (align ? k - 1 : k);
                return align ? edge : edge + 1 / k;
              };
              for (int64_t b = 0; b < n; ++b)
                for (int64_t h = 0; h < size.h; ++h)
                  for (int64_t w = 0; w < size.w; ++w)
                    for (int64_t k = 0; k < 2; ++k) {
                      const double* row = in[0].values.data() + b * 6 + k * 3;
                      y.values.push_back(row[0] * at(w, size.w) + row[1] * at(h, size.h) + row[2]);
                    }
              return std::vector{y};
            }};
  };
  return {
      .op = "affine_grid",
      .samples = {sample("edges", 2, {3, 4}, false), sample("corners", 2, {3, 5}, true),
                  sample("one pixel", 1, {1, 1}, true), sample("empty", 0, {2, 2}, false)},
      .bad = {bad<ShapeError>("affine_grid: theta must be [N, 2, 3], got [1, 3, 3]",
                              [](Device d) { affine_grid(zeros({1, 3, 3}, {.device = d}), 2); }),
              bad<ShapeError>(
                  "affine_grid: size must not be negative, got {-1, 2}",
                  [](Device d) { affine_grid(zeros({1, 2, 3}, {.device = d}), {-1, 2}); }),
              bad<DTypeError>("affine_grid: expected a floating dtype, got i64",
                              [](Device d) { affine_grid(zeros({1, 2, 3}, {DType::i64, d}), 2); })},
      .no_single = "theta has six elements"};
}

const Room kRoom([] {
  return std::vector<OpCase>{grid_sample_case(), grid_sample_grad_case(), affine_grid_case()};
});

}  // namespace
}  // namespace mica::cases
