#include "mica/core/dtype_switch.h"
#include "mica/ops/conv2d/geometry.h"

namespace mica {
namespace {

// A 4-d tensor of any strides.
template <class T>
struct Elements {
  T* data;
  const Strides& strides;

  explicit Elements(const Arg& arg) : data(arg.as<T>()), strides(arg.strides()) {}
  T& at(int64_t a, int64_t b, int64_t c, int64_t d) const {
    return data[a * strides[0] + b * strides[1] + c * strides[2] + d * strides[3]];
  }
};

template <class T>
double product(T a, T b) {
  return static_cast<double>(a) * static_cast<double>(b);
}

void run(const Conv2dParams& params, const Call& call) {
  const Conv2dGeometry g =
      conv2d_geometry("conv2d", params, call.in[0].shape(), call.in[1].shape());
  switch_float(call.out[0].dtype(), "conv2d", [&]<class T>() {
    const Elements<T> x(call.in[0]), weight(call.in[1]), y(call.out[0]);
    const Arg& bias = call.in[2];
    for (int64_t n = 0; n < g.n; ++n)
      for (int64_t o = 0; o < g.o; ++o)
        for (int64_t oh = 0; oh < g.oh; ++oh)
          for (int64_t ow = 0; ow < g.ow; ++ow) {
            double sum =
                bias.defined() ? static_cast<double>(bias.as<T>()[o * bias.strides()[0]]) : 0.0;
            const int64_t first = o / g.group_out() * g.group_in();
            for (int64_t c = 0; c < g.group_in(); ++c)
              for (int64_t i = 0; i < g.kh; ++i)
                for (int64_t j = 0; j < g.kw; ++j) {
                  const int64_t h = oh * g.stride.h - g.padding.h + i * g.dilation.h;
                  const int64_t w = ow * g.stride.w - g.padding.w + j * g.dilation.w;
                  if (h < 0 || h >= g.h || w < 0 || w >= g.w) continue;
                  sum += product(x.at(n, first + c, h, w), weight.at(o, c, i, j));
                }
            y.at(n, o, oh, ow) = static_cast<T>(sum);
          }
  });
}

// The output position whose window has its element `at` at the input position, if there is one.
bool source(int64_t input, int64_t at, int64_t padding, int64_t dilation, int64_t stride,
            int64_t size, int64_t& output) {
  const int64_t start = input + padding - at * dilation;
  output = start / stride;
  return start >= 0 && start % stride == 0 && output < size;
}

void run_dgrad(const Conv2dGradParams& params, const Call& call) {
  const Conv2dGeometry g =
      conv2d_geometry("conv2d_dgrad", params.conv, params.shape, call.in[1].shape());
  switch_float(call.out[0].dtype(), "conv2d_dgrad", [&]<class T>() {
    const Elements<T> dy(call.in[0]), weight(call.in[1]), dx(call.out[0]);
    for (int64_t n = 0; n < g.n; ++n)
      for (int64_t c = 0; c < g.c; ++c)
        for (int64_t h = 0; h < g.h; ++h)
          for (int64_t w = 0; w < g.w; ++w) {
            double sum = 0;
            const int64_t first = c / g.group_in() * g.group_out();
            for (int64_t i = 0; i < g.kh; ++i)
              for (int64_t j = 0; j < g.kw; ++j) {
                int64_t oh, ow;
                if (!source(h, i, g.padding.h, g.dilation.h, g.stride.h, g.oh, oh) ||
                    !source(w, j, g.padding.w, g.dilation.w, g.stride.w, g.ow, ow))
                  continue;
                for (int64_t o = first; o < first + g.group_out(); ++o)
                  sum += product(dy.at(n, o, oh, ow), weight.at(o, c % g.group_in(), i, j));
              }
            dx.at(n, c, h, w) = static_cast<T>(sum);
          }
  });
}

void run_wgrad(const Conv2dGradParams& params, const Call& call) {
  const Conv2dGeometry g =
      conv2d_geometry("conv2d_wgrad", params.conv, call.in[1].shape(), params.shape);
  switch_float(call.out[0].dtype(), "conv2d_wgrad", [&]<class T>() {
    const Elements<T> dy(call.in[0]), x(call.in[1]), dw(call.out[0]);
    for (int64_t o = 0; o < g.o; ++o)
      for (int64_t c = 0; c < g.group_in(); ++c)
        for (int64_t i = 0; i < g.kh; ++i)
          for (int64_t j = 0; j < g.kw; ++j) {
            double sum = 0;
            const int64_t channel = o / g.group_out() * g.group_in() + c;
            for (int64_t n = 0; n < g.n; ++n)
              for (int64_t oh = 0; oh < g.oh; ++oh)
                for (int64_t ow = 0; ow < g.ow; ++ow) {
                  const int64_t h = oh * g.stride.h - g.padding.h + i * g.dilation.h;
                  const int64_t w = ow * g.stride.w - g.padding.w + j * g.dilation.w;
                  if (h < 0 || h >= g.h || w < 0 || w >= g.w) continue;
                  sum += product(dy.at(n, o, oh, ow), x.at(n, channel, h, w));
                }
            dw.at(o, c, i, j) = static_cast<T>(sum);
          }
  });
}

}  // namespace

Kernel conv2d_reference_kernel() { return kernel<supports_all<Conv2dParams>, run>("reference"); }
Kernel conv2d_dgrad_reference_kernel() {
  return kernel<supports_all<Conv2dGradParams>, run_dgrad>("reference");
}
Kernel conv2d_wgrad_reference_kernel() {
  return kernel<supports_all<Conv2dGradParams>, run_wgrad>("reference");
}

}  // namespace mica
