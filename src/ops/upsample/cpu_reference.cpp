#include "mica/core/dtype_switch.h"
#include "mica/ops/upsample/taps.h"

namespace mica {
namespace {

template <class T>
struct Images {
  T* data;
  const Strides& strides;

  explicit Images(const Arg& arg) : data(arg.as<T>()), strides(arg.strides()) {}
  T& at(int64_t n, int64_t c, int64_t h, int64_t w) const {
    return data[n * strides[0] + c * strides[1] + h * strides[2] + w * strides[3]];
  }
};

// Calls f(n, c, h, w) for every pixel.
template <class F>
void each_pixel(const Shape& s, F&& f) {
  for (int64_t n = 0; n < s[0]; ++n)
    for (int64_t c = 0; c < s[1]; ++c)
      for (int64_t h = 0; h < s[2]; ++h)
        for (int64_t w = 0; w < s[3]; ++w) f(n, c, h, w);
}

void run(const Upsample2dParams& p, const Call& call) {
  const Shape& from = call.in[0].shape();
  const AxisTaps rows(p.mode, from[2], p.size.h, p.scale_h, p.align_corners);
  const AxisTaps cols(p.mode, from[3], p.size.w, p.scale_w, p.align_corners);
  switch_float(call.out[0].dtype(), "upsample2d", [&]<class T>() {
    const Images<const T> x(call.in[0]);
    const Images<T> y(call.out[0]);
    const auto taps = static_cast<size_t>(rows.per_output);
    each_pixel(call.out[0].shape(), [&](int64_t n, int64_t c, int64_t oh, int64_t ow) {
      double sum = 0;
      for (size_t i = static_cast<size_t>(oh) * taps; i < static_cast<size_t>(oh + 1) * taps; ++i)
        for (size_t j = static_cast<size_t>(ow) * taps; j < static_cast<size_t>(ow + 1) * taps; ++j)
          sum += rows.weight[i] * cols.weight[j] *
                 static_cast<double>(x.at(n, c, rows.index[i], cols.index[j]));
      y.at(n, c, oh, ow) = static_cast<T>(sum);
    });
  });
}

void run_grad(const Upsample2dGradParams& params, const Call& call) {
  const Upsample2dParams& p = params.upsample;
  const AxisScatter rows(AxisTaps(p.mode, params.input.h, p.size.h, p.scale_h, p.align_corners));
  const AxisScatter cols(AxisTaps(p.mode, params.input.w, p.size.w, p.scale_w, p.align_corners));
  switch_float(call.out[0].dtype(), "upsample2d_grad", [&]<class T>() {
    const Images<const T> dy(call.in[0]);
    const Images<T> dx(call.out[0]);
    each_pixel(call.out[0].shape(), [&](int64_t n, int64_t c, int64_t h, int64_t w) {
      double sum = 0;
      for (auto i = static_cast<size_t>(rows.start[static_cast<size_t>(h)]);
           i < static_cast<size_t>(rows.start[static_cast<size_t>(h) + 1]); ++i)
        for (auto j = static_cast<size_t>(cols.start[static_cast<size_t>(w)]);
             j < static_cast<size_t>(cols.start[static_cast<size_t>(w) + 1]); ++j)
          sum += rows.weight[i] * cols.weight[j] *
                 static_cast<double>(dy.at(n, c, rows.index[i], cols.index[j]));
      dx.at(n, c, h, w) = static_cast<T>(sum);
    });
  });
}

}  // namespace

Kernel upsample2d_reference_kernel() {
  return kernel<supports_all<Upsample2dParams>, run>("reference");
}
Kernel upsample2d_grad_reference_kernel() {
  return kernel<supports_all<Upsample2dGradParams>, run_grad>("reference");
}

}  // namespace mica
