#include <algorithm>
#include <bit>

#include "mica/ops/avg_pool2d/cuda_2x2.cuh"

namespace mica {
namespace {

using namespace mica::cuda;

constexpr int kThreads = 256;
constexpr int kSteps = 4;  ///< elements of a window that a thread loads together
/// Windows of so many elements are shared by several threads where images are row-major,
constexpr int64_t kLargeWindow = 32;
/// and in channels_last where there are fewer results than this.
constexpr int64_t kEnoughThreads = 1 << 17;

/// The windows along one axis.
struct Windows {
  int size = 1, outputs = 1, kernel = 1, stride = 1, padding = 0;
  bool adaptive = false;
  bool include_pad = false;  ///< the padding counts
  Divider by_stride;
  Parts inputs;  ///< of each output where windows are adaptive,
  Parts over;    ///< and the outputs that each input belongs to

  Windows() = default;
  Windows(int64_t in, int64_t out, int64_t k, int64_t s, int64_t p, bool divided, bool padded)
      : size(static_cast<int>(in)),
        outputs(static_cast<int>(out)),
        kernel(static_cast<int>(k)),
        stride(static_cast<int>(s)),
        padding(static_cast<int>(p)),
        adaptive(divided),
        include_pad(padded),
        by_stride(static_cast<uint32_t>(std::max<int64_t>(s, 1))),
        inputs(in, out),
        over(out, in) {}

  __device__ Range window(int o) const {
    if (adaptive) return inputs[o];
    const int start = o * stride - padding;
    return {max(start, 0), min(start + kernel, size)};
  }
  /// What the axis gives to an output's divisor.
  __device__ int count(int o) const {
    if (include_pad) return min(kernel, size + 2 * padding - o * stride);
    const Range range = window(o);
    return range.last - range.first;
  }
  __device__ Range windows_over(int i) const {
    if (adaptive) return over[i];
    const auto outputs_up_to = [&](int place) {
      return static_cast<int>(by_stride.quotient(static_cast<uint32_t>(place))) + 1;
    };
    const int end = i + padding;
    return {end < kernel ? 0 : outputs_up_to(end - kernel), min(outputs_up_to(end), outputs)};
  }
};

struct Averages {
  Windows h, w;
  int divisor = 0;  ///< of all sums, where it is not 0

  template <class C>
  __device__ C divisor_of(int oh, int ow) const {
    if (divisor != 0) return static_cast<C>(divisor);
    return static_cast<C>(static_cast<int64_t>(h.count(oh)) * w.count(ow));
  }
};

template <class T, int V>
__device__ void add(const Vec<T, V>& v, Compute<T> (&sum)[V]) {
#pragma unroll
  for (int e = 0; e < V; ++e) sum[e] += to_compute(v.v[e]);
}
template <class T, int V>
__device__ Vec<T, V> quotient(const Compute<T> (&sum)[V], Compute<T> divisor) {
  Vec<T, V> v;
#pragma unroll
  for (int e = 0; e < V; ++e) v.v[e] = convert<T>(sum[e] / divisor);
  return v;
}
template <class T, int V>
__device__ Vec<T, V> zeros() {
  Vec<T, V> v;
#pragma unroll
  for (int e = 0; e < V; ++e) v.v[e] = convert<T>(Compute<T>(0));
  return v;
}

/// Windows of up to K by K that a thread has under way together.
template <int V, int K>
inline constexpr int kWindows = V == 1 && K == 2 ? 4 : 1;

/// Windows of K by K: a thread loads `kWindows` whole ones before it adds up any. Vectors of V
/// elements are V channels.
template <class T, int V, int K>
__global__ void __launch_bounds__(kThreads)
    average_square_windows(const __grid_constant__ PlaneLoop outputs,
                           const __grid_constant__ Averages a, const Vec<T, V>* x, Vec<T, V>* y) {
  constexpr int kMany = kWindows<V, K>;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads * kMany;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * kThreads * kMany + threadIdx.x;
       first < outputs.count; first += stride) {
    Vec<T, V> values[kMany][K * K];
    PlaneLoop::Place place[kMany];
#pragma unroll
    for (int n = 0; n < kMany; ++n) {
      place[n] = outputs.place(min(first + n * kThreads, outputs.count - 1));
      const PlaneLoop::Place& o = place[n];
      const Vec<T, V>* plane = x + o.plane * a.h.size * a.w.size * outputs.inner + o.i;
#pragma unroll
      for (int k = 0; k < K * K; ++k) {
        const int h = o.h * a.h.stride - a.h.padding + k / K;
        const int w = o.w * a.w.stride - a.w.padding + k % K;
        const bool inside = h >= 0 && h < a.h.size && w >= 0 && w < a.w.size;
        values[n][k] = inside ? plane[(static_cast<int64_t>(h) * a.w.size + w) * outputs.inner]
                              : zeros<T, V>();
      }
    }
#pragma unroll
    for (int n = 0; n < kMany; ++n) {
      Compute<T> sum[V] = {};
#pragma unroll
      for (int k = 0; k < K * K; ++k) add(values[n][k], sum);
      if (first + n * kThreads < outputs.count)
        y[first + n * kThreads] =
            quotient<T>(sum, a.divisor_of<Compute<T>>(place[n].h, place[n].w));
    }
  }
}

/// Windows of any size, each by `shares` threads of a block: neighbours where images are row-major,
/// otherwise neighbours have neighbouring channels.
template <class T, int V>
__global__ void __launch_bounds__(kThreads)
    average_windows(const __grid_constant__ PlaneLoop outputs, const __grid_constant__ Averages a,
                    int shares, const Vec<T, V>* x, Vec<T, V>* y) {
  using C = Compute<T>;
  __shared__ C shared[kThreads][V];
  const int across = kThreads / shares;
  const int thread = static_cast<int>(threadIdx.x);
  const bool by_pixels = outputs.inner == 1;
  const int share = by_pixels ? thread % shares : thread / across;
  const int mine = by_pixels ? thread / shares : thread % across;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * across; first < outputs.count;
       first += static_cast<int64_t>(gridDim.x) * across) {
    const bool present = first + mine < outputs.count;
    const PlaneLoop::Place o = outputs.place(present ? first + mine : 0);
    const Range rows = a.h.window(o.h);
    const Range columns = a.w.window(o.w);
    const int width = columns.last - columns.first;
    const int area = present ? (rows.last - rows.first) * width : 0;
    const Vec<T, V>* plane = x + o.plane * a.h.size * a.w.size * outputs.inner + o.i;
    C sum[V] = {};
    for (int p = share; p < area; p += shares * kSteps) {
      Vec<T, V> values[kSteps];
#pragma unroll
      for (int j = 0; j < kSteps; ++j) {
        const int here = p + j * shares;
        const int row = here / width;
        const int64_t pixel = static_cast<int64_t>(rows.first + row) * a.w.size + columns.first +
                              (here - row * width);
        values[j] = here < area ? plane[pixel * outputs.inner] : zeros<T, V>();
      }
#pragma unroll
      for (int j = 0; j < kSteps; ++j) add(values[j], sum);
    }
    if (shares > 1) {
      __syncthreads();  // the step before may still be reading
#pragma unroll
      for (int e = 0; e < V; ++e) shared[thread][e] = sum[e];
      __syncthreads();
      if (share == 0) {
        for (int i = 1; i < shares; ++i) {
#pragma unroll
          for (int e = 0; e < V; ++e) sum[e] += shared[thread + i * (by_pixels ? 1 : across)][e];
        }
      }
    }
    if (share == 0 && present) y[first + mine] = quotient<T>(sum, a.divisor_of<C>(o.h, o.w));
  }
}

/// Each input gathers from the windows over it, in a fixed order.
template <class T, int V, Neighbours kNeighbours>
__global__ void __launch_bounds__(kThreads)
    spread_windows(const __grid_constant__ PlaneLoop inputs, const __grid_constant__ Averages a,
                   const T* __restrict__ dy, Vec<T, V>* __restrict__ dx) {
  using C = Compute<T>;
  constexpr bool kPixels = kNeighbours == Neighbours::pixels;
  constexpr int kRead = kPixels ? 1 : V;    // elements of dy side by side
  constexpr int kPlaces = kPixels ? V : 1;  // pixels of this thread
  const auto* grads = reinterpret_cast<const Vec<T, kRead>*>(dy);
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < inputs.count;
       i += stride) {
    const PlaneLoop::Place in = inputs.place(i);
    Range columns[kPlaces];
#pragma unroll
    for (int p = 0; p < kPlaces; ++p) columns[p] = a.w.windows_over(in.w * kPlaces + p);
    const Range rows = a.h.windows_over(in.h);
    const int first = columns[0].first;
    const int last = columns[kPlaces - 1].last;
    C sum[V] = {};
    for (int oh = rows.first; oh < rows.last; ++oh) {
      const auto* line = grads + (in.plane * a.h.outputs + oh) * a.w.outputs * inputs.inner + in.i;
      // Windows go forward with the pixels: each is read once, for all of this thread's in it.
      for (int ow = first; ow < last; ++ow) {
        const Vec<T, kRead> grad = line[int64_t{ow} * inputs.inner];
        const C scale = C(1) / a.divisor_of<C>(oh, ow);
#pragma unroll
        for (int e = 0; e < V; ++e) {
          const C share = to_compute(grad.v[kPixels ? 0 : e]) * scale;
          const Range& range = columns[kPixels ? e : 0];
          if (!kPixels || (ow >= range.first && ow < range.last)) sum[e] += share;
        }
      }
    }
    dx[i] = pack<T>(sum);
  }
}

struct AverageState : KernelState {
  AverageState(const PlaneLoop& l, const Averages& a) : loop(l), averages(a) {}
  PlaneLoop loop;
  Averages averages;
  bool channels = false;  ///< a thread has several channels,
  bool pixels = false;    ///< or several pixels
  int shares = 1;         ///< threads of a window
};

Averages averages(const Pool2dGeometry& g, bool include_pad, int64_t divisor) {
  return {.h = {g.h, g.oh, g.kernel.h, g.stride.h, g.padding.h, g.adaptive, include_pad},
          .w = {g.w, g.ow, g.kernel.w, g.stride.w, g.padding.w, g.adaptive, include_pad},
          .divisor = static_cast<int>(divisor)};
}

int vector_of(const Specs& s) { return static_cast<int>(16 / size_of(s.out[0].dtype)); }

template <class P>
Support supports(const P&, const Specs& s) {
  return support_for(format_of({&s.in[0], &s.out[0]}), format_of({&s.out[0]}), 0b1);
}

std::shared_ptr<AverageState> plan(const Pool2dGeometry& g, const Averages& a, const Specs& s) {
  const bool last = format_of({&s.in[0], &s.out[0]}) == Format::channels_last;
  const int v = vector_of(s);
  const bool channels = last && g.c % v == 0 && s.in[0].aligned && s.out[0].aligned;
  const PlaneLoop loop = last ? PlaneLoop(g.n, g.oh, g.ow, channels ? g.c / v : g.c)
                              : PlaneLoop(g.n * g.c, g.oh, g.ow, 1);
  auto state = std::make_shared<AverageState>(loop, a);
  state->channels = channels;
  const int64_t area =
      g.adaptive ? ceil_div(g.h, g.oh) * ceil_div(g.w, g.ow) : g.kernel.h * g.kernel.w;
  if (area >= kLargeWindow && (!last || loop.count < kEnoughThreads)) {
    const auto wanted = std::bit_floor(static_cast<uint64_t>(area / kSteps));
    state->shares = static_cast<int>(std::min<uint64_t>(wanted, last ? 32 : kThreads));
  }
  return state;
}

std::shared_ptr<AverageState> prepare(const AvgPool2dParams& p, const Specs& s) {
  const Pool2dGeometry g = average_geometry("avg_pool2d", p, s.in[0].shape);
  return plan(g, averages(g, p.count_include_pad, p.divisor_override), s);
}
std::shared_ptr<AverageState> prepare_adaptive(const AdaptivePool2dParams& p, const Specs& s) {
  const Pool2dGeometry g = adaptive_pool2d_geometry("adaptive_avg_pool2d", s.in[0].shape, p.output);
  return plan(g, averages(g, false, 0), s);
}

template <class T, int V>
void average(const AverageState& s, const Call& c) {
  const Vec<T, V>* x = c.in[0].as<const Vec<T, V>>();
  Vec<T, V>* y = c.out[0].as<Vec<T, V>>();
  const int multiprocessors = c.encoder->multiprocessors();
  const auto squares = [&](auto kernel, int64_t per_thread) {
    c.encoder->launch(kernel, grid_for(s.loop.count, kThreads * per_thread, multiprocessors),
                      kThreads, 0, s.loop, s.averages, x, y);
  };
  const auto square = [&](int k) {
    return !s.averages.h.adaptive && s.averages.h.kernel == k && s.averages.w.kernel == k;
  };
  if (square(2)) return squares(average_square_windows<T, V, 2>, kWindows<V, 2>);
  if (square(3)) return squares(average_square_windows<T, V, 3>, kWindows<V, 3>);
  c.encoder->launch(average_windows<T, V>,
                    grid_for(s.loop.count, kThreads / s.shares, multiprocessors), kThreads, 0,
                    s.loop, s.averages, s.shares, x, y);
}

template <class P>
void run(const P&, const AverageState& state, const Call& c) {
  cuda_switch_float(c.in[0].dtype(), "avg_pool2d", [&]<class T>() {
    state.channels ? average<T, kVec16<T>>(state, c) : average<T, 1>(state, c);
  });
}

std::shared_ptr<AverageState> plan_grad(const Pool2dGeometry& g, const Averages& a,
                                        const Specs& s) {
  const bool last = format_of({&s.in[0], &s.out[0]}) == Format::channels_last;
  const int v = vector_of(s);
  const bool channels = last && g.c % v == 0 && s.in[0].aligned && s.out[0].aligned;
  const bool pixels = !last && g.w % v == 0 && s.out[0].aligned;
  const PlaneLoop loop = last ? PlaneLoop(g.n, g.h, g.w, channels ? g.c / v : g.c)
                              : PlaneLoop(g.n * g.c, g.h, pixels ? g.w / v : g.w, 1);
  auto state = std::make_shared<AverageState>(loop, a);
  state->channels = channels;
  state->pixels = pixels;
  return state;
}

std::shared_ptr<AverageState> prepare_grad(const AvgPool2dGradParams& p, const Specs& s) {
  const Pool2dGeometry g = average_geometry("avg_pool2d_grad", p.pool, p.shape);
  return plan_grad(g, averages(g, p.pool.count_include_pad, p.pool.divisor_override), s);
}
std::shared_ptr<AverageState> prepare_adaptive_grad(const AdaptivePool2dGradParams& p,
                                                    const Specs& s) {
  const Shape& dy = s.in[0].shape;
  const Pool2dGeometry g =
      adaptive_pool2d_geometry("adaptive_avg_pool2d_grad", p.shape, {dy[2], dy[3]});
  return plan_grad(g, averages(g, false, 0), s);
}

template <class T, int V, Neighbours kNeighbours>
void spread(const AverageState& s, const Call& c) {
  c.encoder->launch(spread_windows<T, V, kNeighbours>, grid_over(s.loop.count, kThreads), kThreads,
                    0, s.loop, s.averages, c.in[0].as<const T>(), c.out[0].as<Vec<T, V>>());
}

template <class P>
void run_grad(const P&, const AverageState& state, const Call& c) {
  cuda_switch_float(c.out[0].dtype(), "avg_pool2d_grad", [&]<class T>() {
    if (state.channels) {
      spread<T, kVec16<T>, Neighbours::channels>(state, c);
    } else if (state.pixels) {
      spread<T, kVec16<T>, Neighbours::pixels>(state, c);
    } else {
      spread<T, 1, Neighbours::channels>(state, c);
    }
  });
}

}  // namespace

KernelList avg_pool2d_cuda_kernels() {
  using P = AvgPool2dParams;
  return {kernel<average_2x2::supports, average_2x2::prepare, average_2x2::run>("2x2"),
          kernel<supports<P>, prepare, run<P>>("direct")};
}
KernelList avg_pool2d_grad_cuda_kernels() {
  using P = AvgPool2dGradParams;
  return {
      kernel<average_2x2::supports_grad, average_2x2::prepare_grad, average_2x2::run_grad>("2x2"),
      kernel<supports<P>, prepare_grad, run_grad<P>>("gather")};
}
KernelList adaptive_avg_pool2d_cuda_kernels() {
  using P = AdaptivePool2dParams;
  return {kernel<supports<P>, prepare_adaptive, run<P>>("direct")};
}
KernelList adaptive_avg_pool2d_grad_cuda_kernels() {
  using P = AdaptivePool2dGradParams;
  return {kernel<supports<P>, prepare_adaptive_grad, run_grad<P>>("gather")};
}

}  // namespace mica
