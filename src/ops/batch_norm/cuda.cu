// Batch norm in three launches: partial statistics of parts of each channel, their combination in a
// fixed order, and the elementwise pass. The gradient has the same three.
#include <algorithm>

#include "mica/op/kernel.h"
#include "mica/ops/batch_norm/batch_norm.h"
#include "mica/runtime/cuda/check.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/types.cuh"
#include "mica/runtime/runtime.h"

namespace mica {
namespace {

using cuda::Compute;
using cuda::Vec;

constexpr int kThreads = 256;
/// Items of a thread in a tile, of which it has all loads under way together.
constexpr int kDepth = 4;
/// The gradient loads from two tensors; items of one element are small.
constexpr int grad_depth(int width) { return width == 1 ? 4 : 2; }
constexpr int kSweep = 8;      ///< most tiles of a block of an elementwise pass
constexpr int kGradSweep = 4;  ///< shorter blocks stream better, until their start costs too much
constexpr int kElementwiseBlocks = 3;  ///< of an elementwise pass, on a multiprocessor at least
constexpr int64_t kMostBlocksY = 65535;

/// How blocks walk over x (N, C, S), S being all axes after the second. `last`: channels are
/// innermost, an item is a row of C, a group is `width` channels. Otherwise planes of S elements
/// are innermost, an item is `width` elements of a channel's planes, a group is a channel.
struct Geometry {
  int64_t items = 0;
  int64_t channels = 0;
  int64_t groups = 0;
  int64_t plane = 1;  ///< items in a plane
  int64_t count = 0;  ///< elements of a channel
  cuda::Divider by_plane;
  bool narrow = true;  ///< item numbers fit the divider
  bool last = false;
  int width = 1;
  int block_x = 1;    ///< groups of a block; kThreads / block_x items at a time
  int64_t tiles = 0;  ///< a tile is `depth` items for each thread of a block
  int splits = 1;     ///< parts of a channel: a block of the statistics has each splits-th tile
  int64_t sweep = 1;  ///< neighbouring tiles of a block of an elementwise pass
};

template <bool kLast, int V>
__device__ int64_t offset_of(const Geometry& g, int64_t item, int64_t group) {
  if constexpr (kLast) {
    return item * g.channels + group * V;
  } else {
    const int64_t n =
        g.narrow ? int64_t{g.by_plane.quotient(static_cast<uint32_t>(item))} : item / g.plane;
    return (n * g.channels + group) * g.plane * V + (item - n * g.plane) * V;
  }
}

/// This thread's items in a tile: calls f(k, offset) with k below kItems.
template <bool kLast, int V, int kItems, class F>
__device__ void for_items(const Geometry& g, int64_t tile, int64_t group, F&& f) {
  const int64_t first = tile * kItems * blockDim.y + threadIdx.y;
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    const int64_t item = first + k * blockDim.y;
    if (item < g.items) f(k, offset_of<kLast, V>(g, item, group));
  }
}

/// The tiles of a block of an elementwise pass. They are taken from the end, where the pass over
/// the statistics left off: what it read last may still be in the cache.
template <class F>
__device__ void for_tiles_backwards(const Geometry& g, F&& f) {
  const int64_t from = int64_t{blockIdx.y} * g.sweep;
  for (int64_t i = from; i < from + g.sweep && i < g.tiles; ++i) f(g.tiles - 1 - i);
}

/// The channel of element j of a vector.
template <bool kLast, int V>
__device__ int64_t channel_of(int64_t group, int j) {
  return kLast ? group * V + j : group;
}

/// Count, mean and sum of squared deviations of some values.
template <class C>
struct Moments {
  C n;
  C mean;
  C m2;

  __device__ static Moments zero() { return {C(0), C(0), C(0)}; }
  __device__ Moments shuffled(int lanes) const {
    return {__shfl_xor_sync(0xffffffffU, n, lanes), __shfl_xor_sync(0xffffffffU, mean, lanes),
            __shfl_xor_sync(0xffffffffU, m2, lanes)};
  }
  __device__ friend Moments combine(const Moments& a, const Moments& b) {
    const C n = a.n + b.n;
    if (n == C(0)) return a;
    const C share = b.n / n;
    const C delta = b.mean - a.mean;
    return {n, a.mean + delta * share, a.m2 + b.m2 + delta * delta * a.n * share};
  }
};

/// Sums over a channel of dy and of dy · (x − mean).
template <class C>
struct GradSums {
  C dy;
  C dy_x;

  __device__ static GradSums zero() { return {C(0), C(0)}; }
  __device__ GradSums shuffled(int lanes) const {
    return {__shfl_xor_sync(0xffffffffU, dy, lanes), __shfl_xor_sync(0xffffffffU, dy_x, lanes)};
  }
  __device__ friend GradSums combine(const GradSums& a, const GradSums& b) {
    return {a.dy + b.dy, a.dy_x + b.dy_x};
  }
};

/// Combines what the threads of a block hold for the same group and writes it as part blockIdx.y.
template <bool kLast, int V, class A>
__device__ void write_partial(const Geometry& g, int64_t group, A (&lanes)[V], A* partial) {
  constexpr int kKept = kLast ? V : 1;
  if constexpr (!kLast)
    for (int j = 1; j < V; ++j) lanes[0] = combine(lanes[0], lanes[j]);
  __shared__ A shared[kThreads * kKept];
  const int at = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x) * kKept;
  for (int j = 0; j < kKept; ++j) shared[at + j] = lanes[j];
  for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half) {
      const int other = at + static_cast<int>(half * blockDim.x) * kKept;
      for (int j = 0; j < kKept; ++j) shared[at + j] = combine(shared[at + j], shared[other + j]);
    }
  }
  if (threadIdx.y == 0 && group < g.groups)
    for (int j = 0; j < kKept; ++j)
      partial[channel_of<kLast, V>(group, j) * g.splits + blockIdx.y] = shared[at + j];
}

/// Combines the parts of channel blockIdx.x; thread 0 gets the result.
template <class A>
__device__ A combine_parts(int splits, const A* partial) {
  const int tid = static_cast<int>(threadIdx.x);
  A all = A::zero();
  for (int s = tid; s < splits; s += kThreads)
    all = combine(all, partial[int64_t{blockIdx.x} * splits + s]);
  for (int lanes = 16; lanes > 0; lanes /= 2) all = combine(all, all.shuffled(lanes));
  __shared__ A warps[kThreads / 32];
  if (tid % 32 == 0) warps[tid / 32] = all;
  __syncthreads();
  if (tid == 0)
    for (int w = 1; w < kThreads / 32; ++w) all = combine(all, warps[w]);
  return all;
}

/// A thread takes the moments from sums of differences to its first value, which lose nothing to a
/// large mean and cost less than a running mean.
template <class T, bool kLast, int V>
__global__ void __launch_bounds__(kThreads)
    partial_moments(Geometry g, const T* __restrict__ x, Moments<Compute<T>>* partial) {
  using C = Compute<T>;
  const int64_t group = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t tiles = group < g.groups ? g.tiles : 0;
  C n = 0;
  C shift[V] = {};
  C sum[V] = {};
  C squares[V] = {};
  for (int64_t tile = blockIdx.y; tile < tiles; tile += gridDim.y) {
    Vec<T, V> v[kDepth];
    for_items<kLast, V, kDepth>(g, tile, group,
                                [&](int k, int64_t at) { v[k] = cuda::load_vec<V>(x + at); });
    if (n == C(0))
#pragma unroll
      for (int j = 0; j < V; ++j) shift[j] = cuda::to_compute(v[0].v[j]);
    for_items<kLast, V, kDepth>(g, tile, group, [&](int k, int64_t) {
      n += C(1);
#pragma unroll
      for (int j = 0; j < V; ++j) {
        const C delta = cuda::to_compute(v[k].v[j]) - shift[j];
        sum[j] += delta;
        squares[j] += delta * delta;
      }
    });
  }
  Moments<C> lanes[V];
  const C share = n > C(0) ? C(1) / n : C(0);
#pragma unroll
  for (int j = 0; j < V; ++j) {
    const C mean = sum[j] * share;
    const C m2 = squares[j] - sum[j] * mean;
    lanes[j] = {n, n > C(0) ? shift[j] + mean : C(0), m2 < C(0) ? C(0) : m2};
  }
  write_partial<kLast, V>(g, group, lanes, partial);
}

/// A (C) vector that may have been left out.
template <class C>
struct PerChannel {
  C* data = nullptr;
  int64_t stride = 0;
  __device__ C get(int64_t c, C otherwise) const { return data ? data[c * stride] : otherwise; }
};

template <class C>
__global__ void __launch_bounds__(kThreads)
    finish_moments(Geometry g, double eps, double momentum, const Moments<C>* partial,
                   PerChannel<C> running_mean, PerChannel<C> running_var, C* mean, C* invstd) {
  const int64_t c = blockIdx.x;
  const Moments<C> all = combine_parts(g.splits, partial);
  if (threadIdx.x != 0) return;
  const C n = g.count > 0 ? static_cast<C>(g.count) : C(1);
  mean[c] = all.mean;
  invstd[c] = C(1) / sqrt(all.m2 / n + static_cast<C>(eps));
  if (g.count < 2) return;
  const C fresh = static_cast<C>(momentum);
  if (running_mean.data) {
    C& r = running_mean.data[c * running_mean.stride];
    r = (C(1) - fresh) * r + fresh * all.mean;
  }
  if (running_var.data) {
    C& r = running_var.data[c * running_var.stride];
    r = (C(1) - fresh) * r + fresh * (all.m2 / (n - C(1)));
  }
}

/// Inference: the statistics are the running ones.
template <class C>
__global__ void take_running(int64_t channels, double eps, PerChannel<C> running_mean,
                             PerChannel<C> running_var, C* mean, C* invstd) {
  const int64_t c = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (c >= channels) return;
  mean[c] = running_mean.get(c, C(0));
  invstd[c] = C(1) / sqrt(running_var.get(c, C(1)) + static_cast<C>(eps));
}

template <class T, bool kLast, int V>
__global__ void __launch_bounds__(kThreads, kElementwiseBlocks)
    normalise(Geometry g, const T* __restrict__ x, PerChannel<Compute<T>> weight,
              PerChannel<Compute<T>> bias, const Compute<T>* __restrict__ mean,
              const Compute<T>* __restrict__ invstd, T* __restrict__ y) {
  using C = Compute<T>;
  const int64_t group = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (group >= g.groups) return;
  C centre[V];
  C scale[V];
  C shift[V];
  for (int j = 0; j < V; ++j) {
    const int64_t c = channel_of<kLast, V>(group, j);
    centre[j] = mean[c];
    scale[j] = weight.get(c, C(1)) * invstd[c];
    shift[j] = bias.get(c, C(0));
  }
  for_tiles_backwards(g, [&](int64_t tile) {
    Vec<T, V> v[kDepth];
    for_items<kLast, V, kDepth>(g, tile, group,
                                [&](int k, int64_t at) { v[k] = cuda::load_vec<V>(x + at); });
    for_items<kLast, V, kDepth>(g, tile, group, [&](int k, int64_t at) {
      Vec<T, V> r;
#pragma unroll
      for (int j = 0; j < V; ++j)
        r.v[j] = cuda::convert<T>((cuda::to_compute(v[k].v[j]) - centre[j]) * scale[j] + shift[j]);
      cuda::store_vec<V>(y + at, r);
    });
  });
}

template <class T, bool kLast, int V>
__global__ void __launch_bounds__(kThreads)
    partial_grad_sums(Geometry g, const T* __restrict__ dy, const T* __restrict__ x,
                      PerChannel<Compute<T>> mean, GradSums<Compute<T>>* partial) {
  using C = Compute<T>;
  constexpr int kItems = grad_depth(V);
  const int64_t group = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t tiles = group < g.groups ? g.tiles : 0;
  C centre[V];
  GradSums<C> lanes[V];
  for (int j = 0; j < V; ++j) {
    centre[j] = group < g.groups ? mean.get(channel_of<kLast, V>(group, j), C(0)) : C(0);
    lanes[j] = GradSums<C>::zero();
  }
  for (int64_t tile = blockIdx.y; tile < tiles; tile += gridDim.y) {
    Vec<T, V> d[kItems];
    Vec<T, V> v[kItems];
    for_items<kLast, V, kItems>(g, tile, group, [&](int k, int64_t at) {
      d[k] = cuda::load_vec<V>(dy + at);
      v[k] = cuda::load_vec<V>(x + at);
    });
    for_items<kLast, V, kItems>(g, tile, group, [&](int k, int64_t) {
#pragma unroll
      for (int j = 0; j < V; ++j) {
        const C slope = cuda::to_compute(d[k].v[j]);
        lanes[j].dy += slope;
        lanes[j].dy_x += slope * (cuda::to_compute(v[k].v[j]) - centre[j]);
      }
    });
  }
  write_partial<kLast, V>(g, group, lanes, partial);
}

template <class C>
__global__ void __launch_bounds__(kThreads)
    finish_grad_sums(Geometry g, const GradSums<C>* partial, PerChannel<C> invstd, C* dweight,
                     C* dbias) {
  const int64_t c = blockIdx.x;
  const GradSums<C> all = combine_parts(g.splits, partial);
  if (threadIdx.x != 0) return;
  dweight[c] = all.dy_x * invstd.get(c, C(0));
  dbias[c] = all.dy;
}

/// dx = weight · invstd · (dy − dbias/n − x̂ · dweight/n); without the means when the statistics are
/// constants.
template <class T, bool kLast, int V>
__global__ void __launch_bounds__(kThreads, kElementwiseBlocks)
    input_gradient(Geometry g, bool training, const T* __restrict__ dy, const T* __restrict__ x,
                   PerChannel<Compute<T>> weight, PerChannel<Compute<T>> mean,
                   PerChannel<Compute<T>> invstd, const Compute<T>* __restrict__ dweight,
                   const Compute<T>* __restrict__ dbias, T* __restrict__ dx) {
  using C = Compute<T>;
  constexpr int kItems = grad_depth(V);
  const int64_t group = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (group >= g.groups) return;
  C centre[V];
  C scale[V];
  C mean_dy[V];
  C slope_x[V];
  for (int j = 0; j < V; ++j) {
    const int64_t c = channel_of<kLast, V>(group, j);
    const C inverse = invstd.get(c, C(1));
    const C share = training ? C(1) / static_cast<C>(g.count) : C(0);
    centre[j] = mean.get(c, C(0));
    scale[j] = weight.get(c, C(1)) * inverse;
    mean_dy[j] = dbias[c] * share;
    slope_x[j] = dweight[c] * share * inverse;
  }
  for_tiles_backwards(g, [&](int64_t tile) {
    Vec<T, V> d[kItems];
    Vec<T, V> v[kItems];
    for_items<kLast, V, kItems>(g, tile, group, [&](int k, int64_t at) {
      d[k] = cuda::load_vec<V>(dy + at);
      v[k] = cuda::load_vec<V>(x + at);
    });
    for_items<kLast, V, kItems>(g, tile, group, [&](int k, int64_t at) {
      Vec<T, V> r;
#pragma unroll
      for (int j = 0; j < V; ++j) {
        const C deviation = cuda::to_compute(v[k].v[j]) - centre[j];
        const C value = cuda::to_compute(d[k].v[j]) - mean_dy[j] - deviation * slope_x[j];
        r.v[j] = cuda::convert<T>(value * scale[j]);
      }
      cuda::store_vec<V>(dx + at, r);
    });
  });
}

struct BatchNormState : KernelState {
  Geometry geometry;
};

bool channels_innermost(const TensorSpec& out) {
  return out.is_channels_last_dense() || (out.rank() == 2 && out.is_contiguous());
}

int64_t blocks_x(const Geometry& g) { return cuda::ceil_div<int64_t>(g.groups, g.block_x); }

Geometry plan_geometry(const TensorSpec& out, bool aligned, bool grad, int multiprocessors) {
  Geometry g;
  g.channels = out.shape[1];
  g.last = channels_innermost(out);
  int64_t plane = 1;
  for (int i = 2; i < out.rank(); ++i) plane *= out.shape[i];
  g.count = out.shape[0] * plane;
  const auto vector = static_cast<int>(16 / size_of(out.dtype));
  g.width = aligned && (g.last ? g.channels : plane) % vector == 0 ? vector : 1;
  g.groups = g.last ? g.channels / g.width : g.channels;
  g.plane = g.last ? 1 : plane / g.width;
  g.items = g.last ? g.count : g.count / g.width;
  g.narrow = g.items < (int64_t{1} << 31);
  if (g.narrow && g.plane > 0) g.by_plane = cuda::Divider(static_cast<uint32_t>(g.plane));
  if (g.last)
    while (g.block_x < 32 && g.block_x < g.groups) g.block_x *= 2;
  const int depth = grad ? grad_depth(g.width) : kDepth;
  g.tiles = cuda::ceil_div<int64_t>(g.items * g.block_x, int64_t{kThreads} * depth);
  // Fewer tiles at a time where blocks would be few, more where they would be more than a grid has.
  const int64_t all_tiles = g.tiles * blocks_x(g);
  g.sweep = std::clamp<int64_t>(all_tiles / (int64_t{multiprocessors} * 16), 1,
                                grad ? kGradSweep : kSweep);
  g.sweep = std::max(g.sweep, cuda::ceil_div<int64_t>(g.tiles, kMostBlocksY));
  return g;
}

dim3 block_of(const Geometry& g) {
  return {static_cast<unsigned>(g.block_x), static_cast<unsigned>(kThreads / g.block_x)};
}
dim3 statistics_grid(const Geometry& g) {
  return {static_cast<unsigned>(blocks_x(g)), static_cast<unsigned>(g.splits)};
}
dim3 elementwise_grid(const Geometry& g) {
  return {static_cast<unsigned>(blocks_x(g)),
          static_cast<unsigned>(cuda::ceil_div<int64_t>(g.tiles, g.sweep))};
}

/// Calls f.operator()<T, kLast, V>() for the dtype and the layout.
template <class F>
void switch_layout(DType dtype, const Geometry& g, F&& f) {
  cuda::cuda_switch_float(dtype, "batch_norm", [&]<class T>() {
    constexpr int kWidth = cuda::kVec16<T>;
    if (g.last)
      g.width == 1 ? f.template operator()<T, true, 1>() : f.template operator()<T, true, kWidth>();
    else
      g.width == 1 ? f.template operator()<T, false, 1>()
                   : f.template operator()<T, false, kWidth>();
  });
}

template <class C>
PerChannel<C> per_channel(const Arg& arg) {
  if (!arg.defined()) return {};
  return {arg.as<C>(), arg.strides()[0]};
}

/// The inputs `big` have x's shape and are wanted as the first output lies.
Support supports_layout(const Specs& specs, uint32_t big) {
  const TensorSpec& out = specs.out[0];
  if (out.rank() == 4 && out.is_channels_last_dense())
    return Support::yes().with_channels_last(big);
  if (out.is_contiguous()) return Support::yes().with_contiguous(big);
  return Support::no("the output is neither row-major nor channels_last");
}

/// The statistics are taken by the kernel that `statistics.operator()<T, kLast, V>()` returns, and
/// a channel's part of them has `partial_bytes`.
template <class F>
std::shared_ptr<BatchNormState> prepare_layout(const Specs& specs, bool aligned, bool grad,
                                               size_t partial_bytes, F&& statistics) {
  auto state = std::make_shared<BatchNormState>();
  Geometry& g = state->geometry;
  const Encoder* encoder = runtime(DeviceKind::cuda).encoder(specs.out[0].device.index);
  g = plan_geometry(specs.out[0], aligned, grad, encoder->multiprocessors());
  if (partial_bytes == 0) return state;
  // As many blocks as are resident at once: they stay together on their way through the tensor.
  int resident = 0;
  switch_layout(specs.out[0].dtype, g, [&]<class T, bool kLast, int V>() {
    const void* kernel = statistics.template operator()<T, kLast, V>();
    check_cuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, kThreads, 0));
  });
  const int64_t most = int64_t{resident} * encoder->multiprocessors();
  const int64_t wanted = most / std::max<int64_t>(blocks_x(g), 1);
  g.splits = static_cast<int>(std::clamp<int64_t>(std::min(wanted, g.tiles), 1, kMostBlocksY));
  state->workspace_bytes =
      static_cast<size_t>(g.splits) * static_cast<size_t>(g.channels) * partial_bytes;
  return state;
}

Support supports(const BatchNormParams&, const Specs& specs) { return supports_layout(specs, 1); }

std::shared_ptr<BatchNormState> prepare(const BatchNormParams& params, const Specs& specs) {
  const size_t bytes =
      specs.out[0].dtype == DType::f64 ? sizeof(Moments<double>) : sizeof(Moments<float>);
  return prepare_layout(specs, specs.in[0].aligned && specs.out[0].aligned, false,
                        params.training ? bytes : 0, [&]<class T, bool kLast, int V>() {
                          return reinterpret_cast<const void*>(partial_moments<T, kLast, V>);
                        });
}

void run(const BatchNormParams& params, const BatchNormState& state, const Call& call) {
  const Geometry& g = state.geometry;
  Encoder& encoder = *call.encoder;
  switch_layout(call.in[0].dtype(), g, [&]<class T, bool kLast, int V>() {
    using C = Compute<T>;
    const auto* x = call.in[0].as<const T>();
    const auto running_mean = per_channel<C>(call.in[3]);
    const auto running_var = per_channel<C>(call.in[4]);
    auto* mean = call.out[1].as<C>();
    auto* invstd = call.out[2].as<C>();
    if (params.training) {
      auto* partial = static_cast<Moments<C>*>(call.workspace);
      encoder.launch(partial_moments<T, kLast, V>, statistics_grid(g), block_of(g), 0, g, x,
                     partial);
      encoder.launch(finish_moments<C>, static_cast<unsigned>(g.channels), kThreads, 0, g,
                     params.eps, params.momentum, partial, running_mean, running_var, mean, invstd);
    } else {
      encoder.launch(take_running<C>,
                     static_cast<unsigned>(cuda::ceil_div<int64_t>(g.channels, kThreads)), kThreads,
                     0, g.channels, params.eps, running_mean, running_var, mean, invstd);
    }
    encoder.launch(normalise<T, kLast, V>, elementwise_grid(g), block_of(g), 0, g, x,
                   per_channel<C>(call.in[1]), per_channel<C>(call.in[2]), mean, invstd,
                   call.out[0].as<T>());
  });
}

Support supports_grad(const BatchNormParams&, const Specs& specs) {
  return supports_layout(specs, 0b11);
}

std::shared_ptr<BatchNormState> prepare_grad(const BatchNormParams&, const Specs& specs) {
  const size_t bytes =
      specs.out[0].dtype == DType::f64 ? sizeof(GradSums<double>) : sizeof(GradSums<float>);
  return prepare_layout(specs, specs.in[0].aligned && specs.in[1].aligned && specs.out[0].aligned,
                        true, bytes, [&]<class T, bool kLast, int V>() {
                          return reinterpret_cast<const void*>(partial_grad_sums<T, kLast, V>);
                        });
}

void run_grad(const BatchNormParams& params, const BatchNormState& state, const Call& call) {
  const Geometry& g = state.geometry;
  Encoder& encoder = *call.encoder;
  switch_layout(call.in[0].dtype(), g, [&]<class T, bool kLast, int V>() {
    using C = Compute<T>;
    const auto* dy = call.in[0].as<const T>();
    const auto* x = call.in[1].as<const T>();
    const auto weight = per_channel<C>(call.in[2]);
    const auto mean = per_channel<C>(call.in[3]);
    const auto invstd = per_channel<C>(call.in[4]);
    auto* dweight = call.out[1].as<C>();
    auto* dbias = call.out[2].as<C>();
    auto* partial = static_cast<GradSums<C>*>(call.workspace);
    encoder.launch(partial_grad_sums<T, kLast, V>, statistics_grid(g), block_of(g), 0, g, dy, x,
                   mean, partial);
    encoder.launch(finish_grad_sums<C>, static_cast<unsigned>(g.channels), kThreads, 0, g, partial,
                   invstd, dweight, dbias);
    encoder.launch(input_gradient<T, kLast, V>, elementwise_grid(g), block_of(g), 0, g,
                   params.training, dy, x, weight, mean, invstd, dweight, dbias,
                   call.out[0].as<T>());
  });
}

}  // namespace

KernelList batch_norm_cuda_kernels() { return {kernel<supports, prepare, run>("split_reduction")}; }

KernelList batch_norm_grad_cuda_kernels() {
  return {kernel<supports_grad, prepare_grad, run_grad>("split_reduction")};
}

}  // namespace mica
