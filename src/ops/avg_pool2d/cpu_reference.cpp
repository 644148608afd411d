#include "mica/ops/avg_pool2d/windows.h"
#include "mica/ops/conv/elements.h"

namespace mica {
namespace {

// Calls f(oh, ow, window's rows, window's columns, divisor) for every output.
template <class F>
void each(const Average& a, F&& f) {
  for (int64_t oh = 0; oh < a.g.oh; ++oh)
    for (int64_t ow = 0; ow < a.g.ow; ++ow) {
      const auto i = static_cast<size_t>(oh);
      const auto j = static_cast<size_t>(ow);
      f(oh, ow, a.rows.windows[i], a.cols.windows[j], a.rows.counts[i] * a.cols.counts[j]);
    }
}

void forward(const Average& a, const Call& call) {
  const Elements x(call.in[0]), y(call.out[0]);
  for (int64_t n = 0; n < a.g.n; ++n)
    for (int64_t c = 0; c < a.g.c; ++c)
      each(a, [&](int64_t oh, int64_t ow, PoolRange rows, PoolRange cols, double divisor) {
        double sum = 0;
        for (int64_t h = rows.first; h < rows.last; ++h)
          for (int64_t w = cols.first; w < cols.last; ++w) sum += x.get(n, c, h, w);
        y.set(sum / divisor, n, c, oh, ow);
      });
}

void backward(const Average& a, const Call& call) {
  const Elements dy(call.in[0]), dx(call.out[0]);
  for (int64_t n = 0; n < a.g.n; ++n)
    for (int64_t c = 0; c < a.g.c; ++c) {
      std::vector<double> sums(static_cast<size_t>(a.g.h * a.g.w));
      each(a, [&](int64_t oh, int64_t ow, PoolRange rows, PoolRange cols, double divisor) {
        for (int64_t h = rows.first; h < rows.last; ++h)
          for (int64_t w = cols.first; w < cols.last; ++w)
            sums[static_cast<size_t>(h * a.g.w + w)] += dy.get(n, c, oh, ow) / divisor;
      });
      for (int64_t h = 0; h < a.g.h; ++h)
        for (int64_t w = 0; w < a.g.w; ++w)
          dx.set(sums[static_cast<size_t>(h * a.g.w + w)], n, c, h, w);
    }
}

void run(const AvgPool2dParams& params, const Call& call) {
  forward(average(params, call.in[0].shape()), call);
}
void run_grad(const AvgPool2dGradParams& params, const Call& call) {
  backward(average(params.pool, params.shape), call);
}
void run_adaptive(const AdaptivePool2dParams& params, const Call& call) {
  forward(adaptive_average(params.output, call.in[0].shape()), call);
}
void run_adaptive_grad(const AdaptivePool2dGradParams& params, const Call& call) {
  const Shape& dy = call.in[0].shape();
  backward(adaptive_average({dy[2], dy[3]}, params.shape), call);
}

}  // namespace

Kernel avg_pool2d_reference_kernel() {
  return kernel<supports_all<AvgPool2dParams>, run>("reference");
}
Kernel avg_pool2d_grad_reference_kernel() {
  return kernel<supports_all<AvgPool2dGradParams>, run_grad>("reference");
}
Kernel adaptive_avg_pool2d_reference_kernel() {
  return kernel<supports_all<AdaptivePool2dParams>, run_adaptive>("reference");
}
Kernel adaptive_avg_pool2d_grad_reference_kernel() {
  return kernel<supports_all<AdaptivePool2dGradParams>, run_adaptive_grad>("reference");
}

}  // namespace mica
