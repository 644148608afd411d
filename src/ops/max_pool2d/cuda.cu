#include <algorithm>

#include "mica/op/kernel.h"
#include "mica/ops/max_pool2d/cuda_stride_2.cuh"
#include "mica/ops/max_pool2d/geometry.h"
#include "mica/ops/pool/cuda_planes.cuh"
#include "mica/runtime/cuda/encoder.h"

namespace mica {
namespace {

using namespace mica::cuda;

constexpr int kThreads = 256;

/// Sizes along one axis.
struct Axis {
  int size, outputs, kernel, stride, padding, dilation;
  int extent;  ///< from a window's first place past its last
  bool adaptive;
  Divider by_stride;
  Parts parts;  ///< the windows where they are adaptive

  Axis(int64_t in, int64_t out, int64_t k, int64_t s, int64_t p, int64_t d, bool divided)
      : size(static_cast<int>(in)),
        outputs(static_cast<int>(out)),
        kernel(static_cast<int>(k)),
        stride(static_cast<int>(s)),
        padding(static_cast<int>(p)),
        dilation(static_cast<int>(d)),
        extent((kernel - 1) * dilation + 1),
        adaptive(divided),
        by_stride(static_cast<uint32_t>(std::max<int64_t>(s, 1))),
        parts(in, out) {}
};

struct Axes {
  Axis h, w;
  explicit Axes(const Pool2dGeometry& g)
      : h(g.h, g.oh, g.kernel.h, g.stride.h, g.padding.h, g.dilation.h, g.adaptive),
        w(g.w, g.ow, g.kernel.w, g.stride.w, g.padding.w, g.dilation.w, g.adaptive) {}
};

/// Inputs of output o, `dilation` apart.
__device__ Range window(const Axis& a, int o) {
  if (a.adaptive) return a.parts[o];
  int start = o * a.stride - a.padding;
  const int end = min(start + a.extent, a.size);
  while (start < 0) start += a.dilation;
  return {start, end};
}
/// Outputs whose window reaches over input i: at most one where windows do not overlap.
template <bool kOverlap>
__device__ Range windows_over(const Axis& a, int i) {
  const auto outputs_up_to = [&](int place) {
    return static_cast<int>(a.by_stride.quotient(static_cast<uint32_t>(place))) + 1;
  };
  const int end = i + a.padding;
  const int last = outputs_up_to(end);
  if constexpr (kOverlap)
    return {end < a.extent ? 0 : outputs_up_to(end - a.extent), min(last, a.outputs)};
  const int first = end - (last - 1) * a.stride < a.extent ? last - 1 : last;
  return {first, min(last, a.outputs)};
}

/// The largest value of a window, in V channels.
template <class T, int V>
struct Largest {
  Compute<T> value[V];
  int position[V];

  __device__ void start(const Vec<T, V>& x, int at) {
#pragma unroll
    for (int e = 0; e < V; ++e) {
      value[e] = to_compute(x.v[e]);
      position[e] = at;
    }
  }
  /// NaN is the largest, the first of equals stays.
  __device__ void take(const Vec<T, V>& x, int at) {
#pragma unroll
    for (int e = 0; e < V; ++e) {
      const Compute<T> here = to_compute(x.v[e]);
      if (!(here <= value[e]) && !isnan(value[e])) {
        value[e] = here;
        position[e] = at;
      }
    }
  }
  __device__ void store(Vec<T, V>& y, Vec<int, V>& positions) const {
    Vec<T, V> values;
    Vec<int, V> places;
#pragma unroll
    for (int e = 0; e < V; ++e) {
      values.v[e] = convert<T>(value[e]);
      places.v[e] = position[e];
    }
    y = values;
    positions = places;
  }
};

/// Windows of any size. Vectors of V elements are V channels.
template <class T, int V>
__global__ void __launch_bounds__(kThreads)
    pool_windows(const __grid_constant__ PlaneLoop outputs, Axes axes, const Vec<T, V>* x,
                 Vec<T, V>* y, Vec<int, V>* positions) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < outputs.count;
       i += stride) {
    const PlaneLoop::Place o = outputs.place(i);
    const Range rows = window(axes.h, o.h);
    const Range columns = window(axes.w, o.w);
    const Vec<T, V>* plane = x + o.plane * axes.h.size * axes.w.size * outputs.inner + o.i;
    const auto at = [&](int position) {
      return plane[static_cast<int64_t>(position) * outputs.inner];
    };
    Largest<T, V> largest;
    const int first = rows.first * axes.w.size + columns.first;
    largest.start(at(first), first);
    for (int h = rows.first; h < rows.last; h += axes.h.dilation) {
#pragma unroll 4
      for (int w = columns.first; w < columns.last; w += axes.w.dilation)
        largest.take(at(h * axes.w.size + w), h * axes.w.size + w);
    }
    largest.store(y[i], positions[i]);
  }
}

/// Windows of K by K that a thread has under way together.
template <int V, int K>
inline constexpr int kWindows = V == 1 && K == 2 ? 4 : 1;

/// Windows of K by K: a thread loads `kWindows` whole ones before it looks at any. Places beyond
/// the edge are read at the edge, which belongs to the window too, so that neither the maximum nor
/// which of equals is the first changes.
template <class T, int V, int K>
__global__ void __launch_bounds__(kThreads)
    pool_square_windows(const __grid_constant__ PlaneLoop outputs, Axes axes, const Vec<T, V>* x,
                        Vec<T, V>* y, Vec<int, V>* positions) {
  constexpr int kMany = kWindows<V, K>;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads * kMany;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * kThreads * kMany + threadIdx.x;
       first < outputs.count; first += stride) {
    Vec<T, V> values[kMany][K * K];
    int place[kMany][K * K];
#pragma unroll
    for (int n = 0; n < kMany; ++n) {
      const PlaneLoop::Place o = outputs.place(min(first + n * kThreads, outputs.count - 1));
      const Vec<T, V>* plane = x + o.plane * axes.h.size * axes.w.size * outputs.inner + o.i;
#pragma unroll
      for (int k = 0; k < K * K; ++k) {
        const int h = o.h * axes.h.stride - axes.h.padding + k / K;
        const int w = o.w * axes.w.stride - axes.w.padding + k % K;
        place[n][k] =
            min(max(h, 0), axes.h.size - 1) * axes.w.size + min(max(w, 0), axes.w.size - 1);
        values[n][k] = plane[static_cast<int64_t>(place[n][k]) * outputs.inner];
      }
    }
#pragma unroll
    for (int n = 0; n < kMany; ++n) {
      const int64_t i = first + n * kThreads;
      Largest<T, V> largest;
      largest.start(values[n][0], place[n][0]);
#pragma unroll
      for (int k = 1; k < K * K; ++k) largest.take(values[n][k], place[n][k]);
      if (i < outputs.count) largest.store(y[i], positions[i]);
    }
  }
}

/// Each input gathers from the windows over it, in a fixed order. Where windows do not overlap
/// there is at most one.
template <class T, int V, Neighbours kNeighbours, bool kOverlap>
__global__ void __launch_bounds__(kThreads)
    gather_windows(const __grid_constant__ PlaneLoop inputs, Axes axes, const T* dy,
                   const int* positions, Vec<T, V>* dx) {
  constexpr bool kPixels = kNeighbours == Neighbours::pixels;
  constexpr int kRead = kPixels ? 1 : V;    // elements of dy side by side
  constexpr int kPlaces = kPixels ? V : 1;  // pixels of this thread
  const auto* grads = reinterpret_cast<const Vec<T, kRead>*>(dy);
  const auto* places = reinterpret_cast<const Vec<int, kRead>*>(positions);
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < inputs.count;
       i += stride) {
    const PlaneLoop::Place in = inputs.place(i);
    const Range rows = windows_over<kOverlap>(axes.h, in.h);
    const int64_t plane = in.plane * axes.h.outputs;
    Compute<T> sum[V] = {};
#pragma unroll
    for (int p = 0; p < kPlaces; ++p) {
      const int w = in.w * kPlaces + p;
      const Range columns = windows_over<kOverlap>(axes.w, w);
      const int here = in.h * axes.w.size + w;
      for (int oh = rows.first; oh < rows.last; ++oh) {
        for (int ow = columns.first; ow < columns.last; ++ow) {
          const int64_t from = ((plane + oh) * axes.w.outputs + ow) * inputs.inner + in.i;
          const Vec<int, kRead> place = places[from];
          const Vec<T, kRead> grad = grads[from];
#pragma unroll
          for (int e = 0; e < kRead; ++e)
            sum[p + e] += place.v[e] == here ? to_compute(grad.v[e]) : Compute<T>(0);
          if constexpr (!kOverlap) break;
        }
        if constexpr (!kOverlap) break;
      }
    }
    Vec<T, V> result;
#pragma unroll
    for (int e = 0; e < V; ++e) result.v[e] = convert<T>(sum[e]);
    dx[i] = result;
  }
}

/// Elements of a thread that are neighbours: 16 bytes of the values or of the positions.
constexpr int vector_of(size_t element_bytes) { return element_bytes == 8 ? 2 : 4; }

struct PoolState : KernelState {
  PoolState(const PlaneLoop& l, const Axes& a) : loop(l), axes(a) {}
  PlaneLoop loop;
  Axes axes;
  bool channels = false;  ///< a thread has several channels,
  bool pixels = false;    ///< or several pixels
};

template <class P>
Support supports(const P&, const Specs& s) {
  return support_for(format_of({&s.in[0], &s.out[0], &s.out[1]}), format_of({&s.out[0], &s.out[1]}),
                     0b1);
}

Pool2dGeometry geometry(const MaxPool2dParams& p, const Shape& x) {
  return pool2d_geometry("max_pool2d", p, x);
}
Pool2dGeometry geometry(const AdaptivePool2dParams& p, const Shape& x) {
  return adaptive_pool2d_geometry("adaptive_max_pool2d", x, p.output);
}

template <class P>
std::shared_ptr<PoolState> prepare(const P& p, const Specs& s) {
  const Pool2dGeometry g = geometry(p, s.in[0].shape);
  const bool last = format_of({&s.in[0], &s.out[0], &s.out[1]}) == Format::channels_last;
  const int v = vector_of(size_of(s.in[0].dtype));
  const bool channels =
      last && g.c % v == 0 && s.in[0].aligned && s.out[0].aligned && s.out[1].aligned;
  const PlaneLoop loop = last ? PlaneLoop(g.n, g.oh, g.ow, channels ? g.c / v : g.c)
                              : PlaneLoop(g.n * g.c, g.oh, g.ow, 1);
  auto state = std::make_shared<PoolState>(loop, Axes(g));
  state->channels = channels;
  return state;
}

template <class T, int V>
void pool(const PoolState& s, const Call& c) {
  const Axis& h = s.axes.h;
  const Axis& w = s.axes.w;
  const auto launch = [&](auto kernel, int64_t per_thread) {
    const unsigned grid =
        grid_for(s.loop.count, kThreads * per_thread, c.encoder->multiprocessors());
    c.encoder->launch(kernel, grid, kThreads, 0, s.loop, s.axes, c.in[0].as<const Vec<T, V>>(),
                      c.out[0].as<Vec<T, V>>(), c.out[1].as<Vec<int, V>>());
  };
  const bool dense = h.dilation == 1 && w.dilation == 1 && !h.adaptive;
  if (dense && h.kernel == 2 && w.kernel == 2) {
    launch(pool_square_windows<T, V, 2>, kWindows<V, 2>);
  } else if (dense && h.kernel == 3 && w.kernel == 3) {
    launch(pool_square_windows<T, V, 3>, kWindows<V, 3>);
  } else {
    launch(pool_windows<T, V>, 1);
  }
}

template <class P>
void run(const P&, const PoolState& state, const Call& c) {
  cuda_switch_float(c.in[0].dtype(), "max_pool2d", [&]<class T>() {
    state.channels ? pool<T, vector_of(sizeof(T))>(state, c) : pool<T, 1>(state, c);
  });
}

Support supports_grad(const MaxPool2dGradParams&, const Specs& s) {
  return support_for(format_of({&s.in[0], &s.in[1], &s.out[0]}), format_of({&s.out[0]}), 0b11);
}

std::shared_ptr<PoolState> prepare_grad(const MaxPool2dGradParams& p, const Specs& s) {
  const Pool2dGeometry g = pool2d_geometry("max_pool2d_grad", p.pool, p.shape);
  const bool last = format_of({&s.in[0], &s.in[1], &s.out[0]}) == Format::channels_last;
  const int v = vector_of(size_of(s.out[0].dtype));
  const bool aligned = s.out[0].aligned;
  const bool channels = last && g.c % v == 0 && aligned && s.in[0].aligned && s.in[1].aligned;
  const bool pixels = !last && g.w % v == 0 && aligned;
  const PlaneLoop loop = last ? PlaneLoop(g.n, g.h, g.w, channels ? g.c / v : g.c)
                              : PlaneLoop(g.n * g.c, g.h, pixels ? g.w / v : g.w, 1);
  auto state = std::make_shared<PoolState>(loop, Axes(g));
  state->channels = channels;
  state->pixels = pixels;
  return state;
}

template <class T, int V, Neighbours kNeighbours>
void gather(const PoolState& s, const Call& c) {
  const auto overlaps = [](const Axis& a) { return a.stride < a.extent; };
  const auto kernel = overlaps(s.axes.h) || overlaps(s.axes.w)
                          ? gather_windows<T, V, kNeighbours, true>
                          : gather_windows<T, V, kNeighbours, false>;
  const unsigned grid = grid_for(s.loop.count, kThreads, c.encoder->multiprocessors());
  c.encoder->launch(kernel, grid, kThreads, 0, s.loop, s.axes, c.in[0].as<const T>(),
                    c.in[1].as<const int>(), c.out[0].as<Vec<T, V>>());
}

void run_grad(const MaxPool2dGradParams&, const PoolState& state, const Call& c) {
  cuda_switch_float(c.out[0].dtype(), "max_pool2d_grad", [&]<class T>() {
    if (state.channels) {
      gather<T, vector_of(sizeof(T)), Neighbours::channels>(state, c);
    } else if (state.pixels) {
      gather<T, vector_of(sizeof(T)), Neighbours::pixels>(state, c);
    } else {
      gather<T, 1, Neighbours::channels>(state, c);
    }
  });
}

}  // namespace

KernelList max_pool2d_cuda_kernels() {
  using P = MaxPool2dParams;
  namespace pairs = pool_stride_2;
  return {kernel<pairs::supports, pairs::prepare, pairs::run>("stride_2"),
          kernel<supports<P>, prepare<P>, run<P>>("direct")};
}
KernelList adaptive_max_pool2d_cuda_kernels() {
  using P = AdaptivePool2dParams;
  return {kernel<supports<P>, prepare<P>, run<P>>("direct")};
}
KernelList max_pool2d_grad_cuda_kernels() {
  namespace pairs = pool_stride_2;
  return {kernel<pairs::supports_grad, pairs::prepare_grad, pairs::run_grad>("stride_2"),
          kernel<supports_grad, prepare_grad, run_grad>("gather")};
}

}  // namespace mica
