#include <vector>

#include "mica/core/check.h"
#include "mica/ops/conv/elements.h"
#include "mica/ops/max_pool2d/geometry.h"

namespace mica {
namespace {

struct Positions {
  int32_t* data;
  const Strides& strides;

  explicit Positions(const Arg& arg) : data(arg.as<int32_t>()), strides(arg.strides()) {}
  int32_t& at(int64_t a, int64_t b, int64_t c, int64_t d) const {
    return data[a * strides[0] + b * strides[1] + c * strides[2] + d * strides[3]];
  }
};

void pool(const Pool2dGeometry& g, const Call& call) {
  const Elements x(call.in[0]), y(call.out[0]);
  const Positions positions(call.out[1]);
  for (int64_t n = 0; n < g.n; ++n)
    for (int64_t c = 0; c < g.c; ++c)
      for (int64_t oh = 0; oh < g.oh; ++oh)
        for (int64_t ow = 0; ow < g.ow; ++ow) {
          const PoolRange rows = g.rows(oh);
          const PoolRange cols = g.cols(ow);
          double largest = x.get(n, c, rows.first, cols.first);
          int64_t position = rows.first * g.w + cols.first;
          for (int64_t h = rows.first; h < rows.last; h += rows.step)
            for (int64_t w = cols.first; w < cols.last; w += cols.step) {
              const double value = x.get(n, c, h, w);
              if (!replaces(value, largest)) continue;
              largest = value;
              position = h * g.w + w;
            }
          y.set(largest, n, c, oh, ow);
          positions.at(n, c, oh, ow) = static_cast<int32_t>(position);
        }
}

void run(const MaxPool2dParams& params, const Call& call) {
  pool(pool2d_geometry("max_pool2d", params, call.in[0].shape()), call);
}

void run_adaptive(const AdaptivePool2dParams& params, const Call& call) {
  pool(adaptive_pool2d_geometry("adaptive_max_pool2d", call.in[0].shape(), params.output), call);
}

void run_grad(const MaxPool2dGradParams& params, const Call& call) {
  const Pool2dGeometry g = pool2d_geometry("max_pool2d_grad", params.pool, params.shape);
  const Elements dy(call.in[0]), dx(call.out[0]);
  const Positions positions(call.in[1]);
  for (int64_t n = 0; n < g.n; ++n)
    for (int64_t c = 0; c < g.c; ++c) {
      std::vector<double> sums(static_cast<size_t>(g.h * g.w));
      for (int64_t oh = 0; oh < g.oh; ++oh)
        for (int64_t ow = 0; ow < g.ow; ++ow) {
          const int32_t at = positions.at(n, c, oh, ow);
          check<IndexError>(at >= 0 && at < g.h * g.w,
                            "max_pool2d_grad: position {} is outside the image of {} elements", at,
                            g.h * g.w);
          sums[static_cast<size_t>(at)] += dy.get(n, c, oh, ow);
        }
      for (int64_t h = 0; h < g.h; ++h)
        for (int64_t w = 0; w < g.w; ++w)
          dx.set(sums[static_cast<size_t>(h * g.w + w)], n, c, h, w);
    }
}

}  // namespace

Kernel max_pool2d_reference_kernel() {
  return kernel<supports_all<MaxPool2dParams>, run>("reference");
}
Kernel max_pool2d_grad_reference_kernel() {
  return kernel<supports_all<MaxPool2dGradParams>, run_grad>("reference");
}
Kernel adaptive_max_pool2d_reference_kernel() {
  return kernel<supports_all<AdaptivePool2dParams>, run_adaptive>("reference");
}

}  // namespace mica
