#include "mica/core/dtype_switch.h"
#include "mica/ops/max_pool2d/geometry.h"

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

void run(const MaxPool2dParams& params, const Call& call) {
  const Pool2dGeometry g = pool2d_geometry("max_pool2d", params, call.in[0].shape());
  switch_float(call.in[0].dtype(), "max_pool2d", [&]<class T>() {
    const Elements<T> x(call.in[0]), y(call.out[0]);
    const Elements<int32_t> positions(call.out[1]);
    for (int64_t n = 0; n < g.n; ++n)
      for (int64_t c = 0; c < g.c; ++c)
        for (int64_t oh = 0; oh < g.oh; ++oh)
          for (int64_t ow = 0; ow < g.ow; ++ow) {
            const auto rows = pool_range(oh, g.stride.h, g.padding.h, g.kernel.h, g.h);
            const auto cols = pool_range(ow, g.stride.w, g.padding.w, g.kernel.w, g.w);
            double largest = static_cast<double>(x.at(n, c, rows.first, cols.first));
            int64_t position = rows.first * g.w + cols.first;
            for (int64_t h = rows.first; h < rows.last; ++h)
              for (int64_t w = cols.first; w < cols.last; ++w) {
                const double value = static_cast<double>(x.at(n, c, h, w));
                if (!replaces(value, largest)) continue;
                largest = value;
                position = h * g.w + w;
              }
            y.at(n, c, oh, ow) = static_cast<T>(largest);
            positions.at(n, c, oh, ow) = static_cast<int32_t>(position);
          }
  });
}

void run_grad(const MaxPool2dGradParams& params, const Call& call) {
  const Pool2dGeometry g = pool2d_geometry("max_pool2d_grad", params.pool, params.shape);
  switch_float(call.out[0].dtype(), "max_pool2d_grad", [&]<class T>() {
    const Elements<T> dy(call.in[0]), dx(call.out[0]);
    const Elements<int32_t> positions(call.in[1]);
    for (int64_t n = 0; n < g.n; ++n)
      for (int64_t c = 0; c < g.c; ++c)
        for (int64_t h = 0; h < g.h; ++h)
          for (int64_t w = 0; w < g.w; ++w) {
            double sum = 0;  // over the windows that contain (h, w)
            for (int64_t oh = 0; oh < g.oh; ++oh) {
              const auto rows = pool_range(oh, g.stride.h, g.padding.h, g.kernel.h, g.h);
              if (h < rows.first || h >= rows.last) continue;
              for (int64_t ow = 0; ow < g.ow; ++ow) {
                const auto cols = pool_range(ow, g.stride.w, g.padding.w, g.kernel.w, g.w);
                if (w < cols.first || w >= cols.last) continue;
                if (positions.at(n, c, oh, ow) == h * g.w + w)
                  sum += static_cast<double>(dy.at(n, c, oh, ow));
              }
            }
            dx.at(n, c, h, w) = static_cast<T>(sum);
          }
  });
}

}  // namespace

Kernel max_pool2d_reference_kernel() {
  return kernel<supports_all<MaxPool2dParams>, run>("reference");
}
Kernel max_pool2d_grad_reference_kernel() {
  return kernel<supports_all<MaxPool2dGradParams>, run_grad>("reference");
}

}  // namespace mica
