#include <algorithm>

#include "mica/op/settings.h"
#include "mica/ops/avg_pool2d/windows.h"
#include "mica/ops/conv/shape.h"
#include "mica/runtime/cpu/parallel.h"

// The rows of a window are added first, whole lines of the image at a time, and then its columns;
// the gradient goes the other way. A line has w pixels of `inner` elements: 1 in row-major images,
// c in channels_last ones.
namespace mica {
namespace {

constexpr int64_t kElementsPerThread = 1 << 14;

// Workspace: a line with its padding and a line of sums for each thread.
struct State : KernelState {
  Average a;
  std::vector<float> col_counts;  ///< a.cols.counts, as the kernel for f32 wants them
  bool channels_last = false;
  int64_t threads = 1;
  int64_t inner = 1;
  int64_t images = 0;  ///< n, or n * c
  int64_t line = 0;    ///< elements of a padded line
  int64_t sums = 0;    ///< elements of a line of sums

  template <class T>
  const T* counts() const {
    if constexpr (sizeof(T) == 4) {
      return col_counts.data();
    } else {
      return a.cols.counts.data();
    }
  }
};

Support supports_layouts(const Specs& specs) {
  const TensorSpec& out = specs.out[0];
  if (out.dtype != DType::f32 && out.dtype != DType::f64)
    return Support::no("computes f32 and f64 only");
  if (works_channels_last(out, specs.in[0])) return Support::yes().with_channels_last(1);
  if (out.is_contiguous()) return Support::yes().with_contiguous(1);
  return Support::no("writes row-major and channels_last results only");
}
template <class P>
Support supports(const P&, const Specs& specs) {
  return supports_layouts(specs);
}

std::shared_ptr<State> make_state(Average average, const Specs& specs) {
  auto s = std::make_shared<State>();
  s->a = std::move(average);
  s->col_counts.assign(s->a.cols.counts.begin(), s->a.cols.counts.end());
  const Pool2dGeometry& g = s->a.g;
  s->channels_last = works_channels_last(specs.out[0], specs.in[0]);
  s->inner = s->channels_last ? g.c : 1;
  s->images = s->channels_last ? g.n : g.n * g.c;
  s->threads = std::clamp<int64_t>(g.n * g.c * g.h * g.w / kElementsPerThread, 1, num_threads());
  // Windows start `stride` apart from the left padding on; the gradient of a last one may reach
  // into the next.
  const int64_t reach = g.adaptive ? 0 : g.ow * g.stride.w + g.kernel.w;
  s->line = (std::max(reach, g.padding.w + g.w) + 1) * s->inner;
  s->sums = (g.ow + 2 * g.kernel.w + 2) * s->inner;
  s->workspace_bytes =
      static_cast<size_t>(s->threads * (s->line + s->sums)) * size_of(specs.out[0].dtype);
  return s;
}

template <class T>
void add(const T* from, int64_t n, T* to) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) to[i] += from[i];
}

// to[i] = sum of `kernel` elements of `line` from i * stride on.
template <int Stride, class T>
void sum_windows(const T* line, int64_t stride, int64_t kernel, int64_t n, T* to) {
  const int64_t step = Stride == 0 ? stride : Stride;
  if (kernel == 2) {
    for (int64_t i = 0; i < n; ++i) to[i] = line[i * step] + line[i * step + 1];
    return;
  }
  if (kernel == 3) {
    for (int64_t i = 0; i < n; ++i)
      to[i] = line[i * step] + line[i * step + 1] + line[i * step + 2];
    return;
  }
  for (int64_t i = 0; i < n; ++i) to[i] = line[i * step];
  for (int64_t j = 1; j < kernel; ++j)
    for (int64_t i = 0; i < n; ++i) to[i] += line[i * step + j];
}

// One line of the result (ow, inner) from the sums of the rows of its windows, which start behind
// the left padding.
template <class T>
void average_columns(const State& s, const T* line, T rows, T* y) {
  const Pool2dGeometry& g = s.a.g;
  const T* counts = s.counts<T>();
  if (s.inner == 1 && !g.adaptive) {
    const T* start = line - g.padding.w;
    if (g.stride.w == 1) {
      sum_windows<1>(start, 1, g.kernel.w, g.ow, y);
    } else if (g.stride.w == 2) {
      sum_windows<2>(start, 2, g.kernel.w, g.ow, y);
    } else {
      sum_windows<0>(start, g.stride.w, g.kernel.w, g.ow, y);
    }
    for (int64_t i = 0; i < g.ow; ++i) y[i] /= rows * counts[i];
    return;
  }
  for (int64_t ow = 0; ow < g.ow; ++ow, y += s.inner) {
    const PoolRange cols = s.a.cols.windows[static_cast<size_t>(ow)];
    const T divisor = rows * counts[ow];
    if (s.inner == 1) {
      T sum = 0;
      for (int64_t w = cols.first; w < cols.last; ++w) sum += line[w];
      *y = sum / divisor;
      continue;
    }
    const T* from = line + cols.first * s.inner;
    std::copy_n(from, s.inner, y);
    for (int64_t w = cols.first + 1; w < cols.last; ++w) add(line + w * s.inner, s.inner, y);
    for (int64_t c = 0; c < s.inner; ++c) y[c] /= divisor;
  }
}

// Calls f(line, sums, begin, end) in each thread, with its part of the workspace and of [0, tasks).
template <class T, class F>
void for_tasks(const State& s, const Call& call, int64_t tasks, F&& f) {
  parallel_for(s.threads, 1, [&](int64_t first, int64_t last) {
    for (int64_t t = first; t < last; ++t) {
      T* line = static_cast<T*>(call.workspace) + t * (s.line + s.sums);
      f(line, line + s.line, tasks * t / s.threads, tasks * (t + 1) / s.threads);
    }
  });
}

template <class T>
void forward(const State& s, const Call& call) {
  const Pool2dGeometry& g = s.a.g;
  const int64_t width = g.w * s.inner;
  for_tasks<T>(s, call, s.images * g.oh, [&](T* padded, T*, int64_t begin, int64_t end) {
    std::fill_n(padded, s.line, T(0));
    T* line = padded + g.padding.w * s.inner;
    for (int64_t row = begin; row < end; ++row) {
      const auto oh = static_cast<size_t>(row % g.oh);
      const PoolRange rows = s.a.rows.windows[oh];
      const T* x = call.in[0].as<T>() + row / g.oh * g.h * width;
      const T* first = x + rows.first * width;
      if (rows.last - rows.first == 1) {
        std::copy_n(first, width, line);
      } else {
#pragma omp simd
        for (int64_t i = 0; i < width; ++i) line[i] = first[i] + first[i + width];
        for (int64_t h = rows.first + 2; h < rows.last; ++h) add(x + h * width, width, line);
      }
      average_columns<T>(s, line, static_cast<T>(s.a.rows.counts[oh]),
                         call.out[0].as<T>() + row * g.ow * s.inner);
    }
  });
}

// line[i * stride + j] += sums[i] for j in [0, kernel), written as sums over the windows that end
// at i: `sums` has zeros on both sides.
template <class T>
bool spread_by_two(const T* sums, int64_t kernel, int64_t n, T* line) {
  if (kernel == 2) {
    for (int64_t i = 0; i < n; ++i) {
      line[2 * i] = sums[i];
      line[2 * i + 1] = sums[i];
    }
    return true;
  }
  if (kernel == 3) {
    for (int64_t i = 0; i < n; ++i) {
      line[2 * i] = sums[i] + sums[i - 1];
      line[2 * i + 1] = sums[i];
    }
    return true;
  }
  return false;
}

// One line dx (w, inner) from the sums over its windows' rows.
template <class T>
void spread_columns(const State& s, const T* sums, T* padded, T* dx) {
  const Pool2dGeometry& g = s.a.g;
  if (s.inner == 1 && !g.adaptive && g.stride.w == 2 &&
      spread_by_two(sums, g.kernel.w, g.ow + 1, padded)) {
    std::copy_n(padded + g.padding.w, g.w, dx);
    return;
  }
  if (s.inner == 1 && !g.adaptive && g.stride.w == 1) {
    const T* from = sums + g.padding.w;
    for (int64_t w = 0; w < g.w; ++w) dx[w] = from[w];
    for (int64_t j = 1; j < g.kernel.w; ++j)
      for (int64_t w = 0; w < g.w; ++w) dx[w] += from[w - j];
    return;
  }
  for (int64_t w = 0; w < g.w; ++w, dx += s.inner) {
    const PoolRange over = s.a.cols.over[static_cast<size_t>(w)];
    if (s.inner == 1) {
      T sum = 0;
      for (int64_t ow = over.first; ow < over.last; ++ow) sum += sums[ow];
      *dx = sum;
    } else if (over.first >= over.last) {
      std::fill_n(dx, s.inner, T(0));
    } else {
      std::copy_n(sums + over.first * s.inner, s.inner, dx);
      for (int64_t ow = over.first + 1; ow < over.last; ++ow) add(sums + ow * s.inner, s.inner, dx);
    }
  }
}

template <class T>
void backward(const State& s, const Call& call) {
  const Pool2dGeometry& g = s.a.g;
  const int64_t width = g.ow * s.inner;
  const T* counts = s.counts<T>();
  for_tasks<T>(s, call, s.images * g.h, [&](T* padded, T* all_sums, int64_t begin, int64_t end) {
    std::fill_n(padded, s.line, T(0));
    std::fill_n(all_sums, s.sums, T(0));
    T* sums = all_sums + g.kernel.w * s.inner;
    for (int64_t row = begin; row < end; ++row) {
      const PoolRange over = s.a.rows.over[static_cast<size_t>(row % g.h)];
      std::fill_n(sums, width, T(0));
      for (int64_t oh = over.first; oh < over.last; ++oh) {
        const T rows = static_cast<T>(s.a.rows.counts[static_cast<size_t>(oh)]);
        const T* dy = call.in[0].as<T>() + (row / g.h * g.oh + oh) * width;
        if (s.inner == 1) {
#pragma omp simd
          for (int64_t i = 0; i < width; ++i) sums[i] += dy[i] / (rows * counts[i]);
        } else {
          for (int64_t ow = 0; ow < g.ow; ++ow)
#pragma omp simd
            for (int64_t i = ow * s.inner; i < (ow + 1) * s.inner; ++i)
              sums[i] += dy[i] / (rows * counts[ow]);
        }
      }
      spread_columns<T>(s, sums, padded, call.out[0].as<T>() + row * g.w * s.inner);
    }
  });
}

template <class P>
void run_forward(const P&, const State& state, const Call& call) {
  if (call.out[0].dtype() == DType::f64) return forward<double>(state, call);
  forward<float>(state, call);
}
template <class P>
void run_backward(const P&, const State& state, const Call& call) {
  if (call.out[0].dtype() == DType::f64) return backward<double>(state, call);
  backward<float>(state, call);
}

std::shared_ptr<State> prepare(const AvgPool2dParams& params, const Specs& specs) {
  return make_state(average(params, specs.in[0].shape), specs);
}
std::shared_ptr<State> prepare_grad(const AvgPool2dGradParams& params, const Specs& specs) {
  return make_state(average(params.pool, params.shape), specs);
}
std::shared_ptr<State> prepare_adaptive(const AdaptivePool2dParams& params, const Specs& specs) {
  return make_state(adaptive_average(params.output, specs.in[0].shape), specs);
}
std::shared_ptr<State> prepare_adaptive_grad(const AdaptivePool2dGradParams& params,
                                             const Specs& specs) {
  const Shape& dy = specs.in[0].shape;
  return make_state(adaptive_average({dy[2], dy[3]}, params.shape), specs);
}

}  // namespace

Kernel avg_pool2d_separable_kernel() {
  return kernel<supports<AvgPool2dParams>, prepare, run_forward<AvgPool2dParams>>("separable");
}
Kernel avg_pool2d_grad_separable_kernel() {
  return kernel<supports<AvgPool2dGradParams>, prepare_grad, run_backward<AvgPool2dGradParams>>(
      "separable");
}
Kernel adaptive_avg_pool2d_separable_kernel() {
  return kernel<supports<AdaptivePool2dParams>, prepare_adaptive,
                run_forward<AdaptivePool2dParams>>("separable");
}
Kernel adaptive_avg_pool2d_grad_separable_kernel() {
  return kernel<supports<AdaptivePool2dGradParams>, prepare_adaptive_grad,
                run_backward<AdaptivePool2dGradParams>>("separable");
}

}  // namespace mica
