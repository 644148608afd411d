#include "mica/ops/conv/elements.h"
#include "mica/ops/conv3d/geometry.h"

namespace mica {
namespace {

bool inside(const Size3& at, const Size3& size) {
  return at.d >= 0 && at.d < size.d && at.h >= 0 && at.h < size.h && at.w >= 0 && at.w < size.w;
}

// Calls f(position) for every position of a box.
template <class F>
void each(const Size3& size, F&& f) {
  for (int64_t d = 0; d < size.d; ++d)
    for (int64_t h = 0; h < size.h; ++h)
      for (int64_t w = 0; w < size.w; ++w) f(Size3(d, h, w));
}

// Where element `k` of the window of output `y` lies in the input.
Size3 input_of(const Conv3dGeometry& g, const Size3& y, const Size3& k) {
  return {y.d * g.stride.d - g.padding.d + k.d * g.dilation.d,
          y.h * g.stride.h - g.padding.h + k.h * g.dilation.h,
          y.w * g.stride.w - g.padding.w + k.w * g.dilation.w};
}

// The output along one axis whose window has its element `k` at input `x`; -1 if there is none.
int64_t output_of(int64_t x, int64_t k, int64_t padding, int64_t dilation, int64_t stride) {
  const int64_t start = x + padding - k * dilation;
  return start >= 0 && start % stride == 0 ? start / stride : -1;
}

void run(const Conv3dParams& params, const Call& call) {
  const Conv3dGeometry g =
      conv3d_geometry("conv3d", params, call.in[0].shape(), call.in[1].shape());
  const Elements x(call.in[0]), weight(call.in[1]), y(call.out[0]);
  for (int64_t n = 0; n < g.n; ++n)
    for (int64_t o = 0; o < g.o; ++o)
      each(g.out, [&](const Size3& at) {
        double sum = call.in[2].defined() ? Elements(call.in[2]).get(o) : 0.0;
        const int64_t first = o / g.group_out() * g.group_in();
        for (int64_t c = 0; c < g.group_in(); ++c)
          each(g.kernel, [&](const Size3& k) {
            const Size3 from = input_of(g, at, k);
            if (inside(from, g.in))
              sum += x.get(n, first + c, from.d, from.h, from.w) * weight.get(o, c, k.d, k.h, k.w);
          });
        y.set(sum, n, o, at.d, at.h, at.w);
      });
}

void run_dgrad(const Conv3dGradParams& params, const Call& call) {
  const Conv3dGeometry g =
      conv3d_geometry("conv3d_dgrad", params.conv, params.shape, call.in[1].shape());
  const Elements dy(call.in[0]), weight(call.in[1]), dx(call.out[0]);
  for (int64_t n = 0; n < g.n; ++n)
    for (int64_t c = 0; c < g.c; ++c)
      each(g.in, [&](const Size3& at) {
        double sum = 0;
        const int64_t first = c / g.group_in() * g.group_out();
        each(g.kernel, [&](const Size3& k) {
          const Size3 y(output_of(at.d, k.d, g.padding.d, g.dilation.d, g.stride.d),
                        output_of(at.h, k.h, g.padding.h, g.dilation.h, g.stride.h),
                        output_of(at.w, k.w, g.padding.w, g.dilation.w, g.stride.w));
          if (!inside(y, g.out)) return;
          for (int64_t o = first; o < first + g.group_out(); ++o)
            sum += dy.get(n, o, y.d, y.h, y.w) * weight.get(o, c % g.group_in(), k.d, k.h, k.w);
        });
        dx.set(sum, n, c, at.d, at.h, at.w);
      });
}

void run_wgrad(const Conv3dGradParams& params, const Call& call) {
  const Conv3dGeometry g =
      conv3d_geometry("conv3d_wgrad", params.conv, call.in[1].shape(), params.shape);
  const Elements dy(call.in[0]), x(call.in[1]), dw(call.out[0]);
  for (int64_t o = 0; o < g.o; ++o)
    for (int64_t c = 0; c < g.group_in(); ++c)
      each(g.kernel, [&](const Size3& k) {
        double sum = 0;
        const int64_t channel = o / g.group_out() * g.group_in() + c;
        for (int64_t n = 0; n < g.n; ++n)
          each(g.out, [&](const Size3& at) {
            const Size3 from = input_of(g, at, k);
            if (inside(from, g.in))
              sum += dy.get(n, o, at.d, at.h, at.w) * x.get(n, channel, from.d, from.h, from.w);
          });
        dw.set(sum, o, c, k.d, k.h, k.w);
      });
}

}  // namespace

Kernel conv3d_reference_kernel() { return kernel<supports_all<Conv3dParams>, run>("reference"); }
Kernel conv3d_dgrad_reference_kernel() {
  return kernel<supports_all<Conv3dGradParams>, run_dgrad>("reference");
}
Kernel conv3d_wgrad_reference_kernel() {
  return kernel<supports_all<Conv3dGradParams>, run_wgrad>("reference");
}

}  // namespace mica
