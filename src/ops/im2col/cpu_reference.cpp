#include "mica/core/dtype_switch.h"
#include "mica/ops/im2col/windows.h"

namespace mica {
namespace {

// Calls f(n, c, i, j, oh, ow, h, w) for every element (i, j) of every window and the pixel it is
// over, which may lie outside.
template <class F>
void each_element(const Windows& g, F&& f) {
  const Im2colParams& p = g.params;
  for (int64_t n = 0; n < g.n; ++n)
    for (int64_t c = 0; c < g.c; ++c)
      for (int64_t i = 0; i < p.kernel.h; ++i)
        for (int64_t j = 0; j < p.kernel.w; ++j)
          for (int64_t oh = 0; oh < g.oh; ++oh)
            for (int64_t ow = 0; ow < g.ow; ++ow)
              f(n, (c * p.kernel.h + i) * p.kernel.w + j, oh * g.ow + ow, c,
                oh * p.stride.h + g.first_row(i), ow * p.stride.w + g.first_col(j));
}

void run(const Im2colParams& p, const Call& call) {
  const Shape& s = call.in[0].shape();
  const Windows g = im2col_windows("im2col", p, s[0], s[1], s[2], s[3]);
  const Strides& x = call.in[0].strides();
  const Strides& y = call.out[0].strides();
  switch_float(call.out[0].dtype(), "im2col", [&]<class T>() {
    each_element(g, [&](int64_t n, int64_t row, int64_t window, int64_t c, int64_t h, int64_t w) {
      const bool inside = h >= 0 && h < g.h && w >= 0 && w < g.w;
      call.out[0].as<T>()[n * y[0] + row * y[1] + window * y[2]] =
          inside ? call.in[0].as<T>()[n * x[0] + c * x[1] + h * x[2] + w * x[3]] : T(0);
    });
  });
}

struct Sums : KernelState {};  // the images in double

std::shared_ptr<Sums> prepare_col2im(const Col2imParams&, const Specs& specs) {
  auto state = std::make_shared<Sums>();
  state->workspace_bytes = static_cast<size_t>(specs.out[0].numel()) * sizeof(double);
  return state;
}

void run_col2im(const Col2imParams& p, const Sums&, const Call& call) {
  const Shape& s = call.out[0].shape();
  const Windows g = im2col_windows("col2im", p.im2col, s[0], s[1], s[2], s[3]);
  const Strides& from = call.in[0].strides();
  auto* sums = static_cast<double*>(call.workspace);
  std::fill_n(sums, call.out[0].numel(), 0.0);
  switch_float(call.out[0].dtype(), "col2im", [&]<class T>() {
    each_element(g, [&](int64_t n, int64_t row, int64_t window, int64_t c, int64_t h, int64_t w) {
      if (h >= 0 && h < g.h && w >= 0 && w < g.w)
        sums[((n * g.c + c) * g.h + h) * g.w + w] +=
            static_cast<double>(call.in[0].as<T>()[n * from[0] + row * from[1] + window * from[2]]);
    });
    for (int64_t i = 0; i < call.out[0].numel(); ++i)
      call.out[0].as<T>()[i] = static_cast<T>(sums[i]);
  });
}

Support supports_row_major(const Col2imParams&, const Specs& specs) {
  if (!specs.out[0].is_contiguous()) return Support::no("writes row-major results only");
  return Support::yes();
}

}  // namespace

Kernel im2col_reference_kernel() { return kernel<supports_all<Im2colParams>, run>("reference"); }
Kernel col2im_reference_kernel() {
  return kernel<supports_row_major, prepare_col2im, run_col2im>("reference");
}

}  // namespace mica
