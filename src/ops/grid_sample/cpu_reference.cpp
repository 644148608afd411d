#include "mica/core/dtype_switch.h"
#include "mica/ops/grid_sample/taps.h"

namespace mica {
namespace {

template <class T>
struct Elements {
  T* data;
  const Strides& strides;

  explicit Elements(const Arg& arg) : data(arg.as<T>()), strides(arg.strides()) {}
  T& at(int64_t a, int64_t b, int64_t c, int64_t d) const {
    return data[a * strides[0] + b * strides[1] + c * strides[2] + d * strides[3]];
  }
};

// Calls f(n, oh, ow, taps of the row, taps of the column) for every point.
template <class T, class F>
void each_point(const GridSampleParams& p, const Arg& grid, const Shape& image, F&& f) {
  const Elements<const T> points(grid);
  const Shape& s = grid.shape();
  for (int64_t n = 0; n < s[0]; ++n)
    for (int64_t oh = 0; oh < s[1]; ++oh)
      for (int64_t ow = 0; ow < s[2]; ++ow)
        f(n, oh, ow, grid_taps_at(static_cast<double>(points.at(n, oh, ow, 1)), image[2], p),
          grid_taps_at(static_cast<double>(points.at(n, oh, ow, 0)), image[3], p));
}

// Calls f(tap of the row, tap of the column) for those inside the image.
template <class F>
void each_tap(GridMode mode, const GridTaps& rows, const GridTaps& cols, F&& f) {
  const auto taps = static_cast<size_t>(grid_taps(mode));
  for (size_t i = 0; i < taps; ++i)
    for (size_t j = 0; j < taps; ++j)
      if (rows.index[i] >= 0 && cols.index[j] >= 0) f(i, j);
}

void run(const GridSampleParams& p, const Call& call) {
  const Shape& image = call.in[0].shape();
  switch_float(call.out[0].dtype(), "grid_sample", [&]<class T>() {
    const Elements<const T> x(call.in[0]);
    const Elements<T> y(call.out[0]);
    each_point<T>(
        p, call.in[1], image,
        [&](int64_t n, int64_t oh, int64_t ow, const GridTaps& rows, const GridTaps& cols) {
          for (int64_t c = 0; c < image[1]; ++c) {
            double sum = 0;
            each_tap(p.mode, rows, cols, [&](size_t i, size_t j) {
              sum += rows.weight[i] * cols.weight[j] *
                     static_cast<double>(x.at(n, c, rows.index[i], cols.index[j]));
            });
            y.at(n, c, oh, ow) = static_cast<T>(sum);
          }
        });
  });
}

struct Sums : KernelState {};  // dx in double, row-major

std::shared_ptr<Sums> prepare_grad(const GridSampleParams&, const Specs& specs) {
  auto state = std::make_shared<Sums>();
  state->workspace_bytes = static_cast<size_t>(specs.out[0].numel()) * sizeof(double);
  return state;
}

void run_grad(const GridSampleParams& p, const Sums&, const Call& call) {
  const Shape& image = call.in[1].shape();
  auto* sums = static_cast<double*>(call.workspace);
  std::fill_n(sums, call.out[0].numel(), 0.0);
  const auto at = [&](int64_t n, int64_t c, int64_t h, int64_t w) {
    return ((n * image[1] + c) * image[2] + h) * image[3] + w;
  };
  switch_float(call.out[0].dtype(), "grid_sample_grad", [&]<class T>() {
    const Elements<const T> dy(call.in[0]), x(call.in[1]);
    const Elements<T> dx(call.out[0]), dgrid(call.out[1]);
    each_point<T>(
        p, call.in[2], image,
        [&](int64_t n, int64_t oh, int64_t ow, const GridTaps& rows, const GridTaps& cols) {
          double along_x = 0;
          double along_y = 0;
          for (int64_t c = 0; c < image[1]; ++c)
            each_tap(p.mode, rows, cols, [&](size_t i, size_t j) {
              const auto g = static_cast<double>(dy.at(n, c, oh, ow));
              const auto v = static_cast<double>(x.at(n, c, rows.index[i], cols.index[j]));
              sums[at(n, c, rows.index[i], cols.index[j])] += g * rows.weight[i] * cols.weight[j];
              along_x += g * v * rows.weight[i] * cols.slope[j];
              along_y += g * v * rows.slope[i] * cols.weight[j];
            });
          dgrid.at(n, oh, ow, 0) = static_cast<T>(along_x);
          dgrid.at(n, oh, ow, 1) = static_cast<T>(along_y);
        });
    for (int64_t n = 0; n < image[0]; ++n)
      for (int64_t c = 0; c < image[1]; ++c)
        for (int64_t h = 0; h < image[2]; ++h)
          for (int64_t w = 0; w < image[3]; ++w)
            dx.at(n, c, h, w) = static_cast<T>(sums[at(n, c, h, w)]);
  });
}

}  // namespace

Kernel grid_sample_reference_kernel() {
  return kernel<supports_all<GridSampleParams>, run>("reference");
}
Kernel grid_sample_grad_reference_kernel() {
  return kernel<supports_all<GridSampleParams>, prepare_grad, run_grad>("reference");
}

}  // namespace mica
