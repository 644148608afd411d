// A group of an image is held in registers by a few threads or a block; what of a large one does
// not fit is read again. The parameters' gradients are first summed over parts of each channel.
#include <algorithm>

#include "mica/op/kernel.h"
#include "mica/ops/group_norm/cpu.h"
#include "mica/ops/layer_norm/cuda_parameter.cuh"
#include "mica/ops/layouts.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/rows.cuh"
#include "mica/runtime/cuda/strided.cuh"
#include "mica/runtime/runtime.h"

namespace mica {
namespace {

using namespace mica::cuda;

constexpr int kMostThreads = 512;
constexpr int kAcross = 32;  ///< channels of a block of channel_sums
constexpr int kDown = 8;     ///< and its rows at a time

/// Loads of V elements of a group that a thread holds.
constexpr int held_loads(int v) { return v == 1 ? 8 : 4; }

/// Groups of x (n, c, size) in memory or, `last`, (n, size, c), in loads of V elements. A run is
/// the loads of a channel's plane or, `last`, of a pixel's channels in the group.
struct Groups {
  int64_t count = 0;  ///< of all images
  int64_t per_image = 1, width = 0, size = 0;
  int64_t loads = 0;  ///< of a group
  int64_t run = 1;
  Divider by_run;
  bool narrow = true;  ///< load numbers fit the divider
  bool last = false;

  __device__ int64_t values() const { return width * size; }
  __device__ int64_t run_of(int64_t load) const {
    return narrow ? int64_t{by_run.quotient(static_cast<uint32_t>(load))} : load / run;
  }

  struct Place {
    int64_t offset;   ///< of the load's first element
    int64_t channel;  ///< its channel
  };
  template <int V>
  __device__ Place place(int64_t group, int64_t load) const {
    const int64_t image = group / per_image;
    const int64_t channel = (group - image * per_image) * width;
    const int64_t in_run = run_of(load);
    if (!last) return {group * values() + load * V, channel + in_run};
    const int64_t inside = channel + (load - in_run * run) * V;
    return {(image * size + in_run) * per_image * width + inside, inside};
  }
  /// A parameter for the elements of a load.
  template <class T, int V>
  __device__ void load(const Parameter& parameter, int64_t channel, double otherwise,
                       Compute<T> (&values)[V]) const {
    if (last) return parameter.load<T>(channel, otherwise, values);
    const Compute<T> value = parameter.get<T>(channel, otherwise);
#pragma unroll
    for (int e = 0; e < V; ++e) values[e] = value;
  }
};

template <class T, int V>
__global__ void __launch_bounds__(kMostThreads)
    normalise_groups(const __grid_constant__ Groups groups, int threads, Compute<T> eps, const T* x,
                     Parameter weight, Parameter bias, T* y, Compute<T>* mean, Compute<T>* rstd) {
  using C = Compute<T>;
  constexpr int K = held_loads(V);
  const int lane = static_cast<int>(threadIdx.x) % threads;
  const int together = static_cast<int>(blockDim.x) / threads;
  const int64_t step = static_cast<int64_t>(gridDim.x) * together;
  // All threads of a block stay in the loop, since they reduce together.
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * together; first < groups.count;
       first += step) {
    const int64_t group = first + static_cast<int>(threadIdx.x) / threads;
    const int64_t loads = group < groups.count ? groups.loads : 0;
    Vec<T, V> held[K];
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const int64_t i = lane + k * threads;
      if (i < loads) held[k] = load_vec<V>(x + groups.place<V>(group, i).offset);
    }
    const auto each = [&](auto f) {
#pragma unroll
      for (int k = 0; k < K; ++k)
        if (lane + k * threads < loads) f(lane + k * threads, held[k]);
      for (int64_t i = lane + K * threads; i < loads; i += threads)
        f(i, load_vec<V>(x + groups.place<V>(group, i).offset));
    };
    C centre = 0;
    each([&](int64_t, const Vec<T, V>& v) {
#pragma unroll
      for (int e = 0; e < V; ++e) centre += to_compute(v.v[e]);
    });
    centre = group_sum(centre, threads) / static_cast<C>(groups.values());
    C squares = 0;
    each([&](int64_t, const Vec<T, V>& v) {
#pragma unroll
      for (int e = 0; e < V; ++e) {
        const C off = to_compute(v.v[e]) - centre;
        squares += off * off;
      }
    });
    const C inverse =
        C(1) / sqrt(group_sum(squares, threads) / static_cast<C>(groups.values()) + eps);
    each([&](int64_t i, const Vec<T, V>& v) {
      const Groups::Place place = groups.place<V>(group, i);
      C scale[V];
      C shift[V];
      groups.load<T>(weight, place.channel, 1, scale);
      groups.load<T>(bias, place.channel, 0, shift);
      Vec<T, V> result;
#pragma unroll
      for (int e = 0; e < V; ++e)
        result.v[e] = convert<T>((to_compute(v.v[e]) - centre) * inverse * scale[e] + shift[e]);
      store_vec<V>(y + place.offset, result);
    });
    if (lane == 0 && group < groups.count) {
      mean[group] = centre;
      rstd[group] = inverse;
    }
  }
}

template <class T, int V>
__global__ void __launch_bounds__(kMostThreads)
    differentiate_groups(const __grid_constant__ Groups groups, int threads, const T* dy,
                         const T* x, Parameter weight, const Compute<T>* mean,
                         const Compute<T>* rstd, T* dx) {
  using C = Compute<T>;
  constexpr int K = held_loads(V);
  const int lane = static_cast<int>(threadIdx.x) % threads;
  const int together = static_cast<int>(blockDim.x) / threads;
  const int64_t step = static_cast<int64_t>(gridDim.x) * together;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * together; first < groups.count;
       first += step) {
    const int64_t group = first + static_cast<int>(threadIdx.x) / threads;
    const int64_t loads = group < groups.count ? groups.loads : 0;
    const C centre = group < groups.count ? mean[group] : C(0);
    const C inverse = group < groups.count ? rstd[group] : C(0);
    Vec<T, V> slope[K];
    Vec<T, V> value[K];
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const int64_t i = lane + k * threads;
      if (i < loads) {
        const int64_t at = groups.place<V>(group, i).offset;
        slope[k] = load_vec<V>(dy + at);
        value[k] = load_vec<V>(x + at);
      }
    }
    const auto each = [&](auto f) {
#pragma unroll
      for (int k = 0; k < K; ++k) {
        const int64_t i = lane + k * threads;
        if (i < loads) f(groups.place<V>(group, i), slope[k], value[k]);
      }
      for (int64_t i = lane + K * threads; i < loads; i += threads) {
        const Groups::Place place = groups.place<V>(group, i);
        f(place, load_vec<V>(dy + place.offset), load_vec<V>(x + place.offset));
      }
    };
    C total = 0;    // of dy * weight
    C product = 0;  // of its product with x - mean
    each([&](const Groups::Place& place, const Vec<T, V>& d, const Vec<T, V>& v) {
      C scale[V];
      groups.load<T>(weight, place.channel, 1, scale);
#pragma unroll
      for (int e = 0; e < V; ++e) {
        const C g = rounded_product(to_compute(d.v[e]), scale[e]);
        total += g;
        product += g * (to_compute(v.v[e]) - centre);
      }
    });
    group_sums(total, product, threads);
    const C shift = total / static_cast<C>(groups.values());
    const C factor = product * inverse * inverse / static_cast<C>(groups.values());
    each([&](const Groups::Place& place, const Vec<T, V>& d, const Vec<T, V>& v) {
      C scale[V];
      groups.load<T>(weight, place.channel, 1, scale);
      Vec<T, V> result;
#pragma unroll
      for (int e = 0; e < V; ++e) {
        const C off = to_compute(v.v[e]) - centre;
        const C g = rounded_product(to_compute(d.v[e]), scale[e]);
        result.v[e] = convert<T>((g - shift - off * factor) * inverse);
      }
      store_vec<V>(dx + place.offset, result);
    });
  }
}

/// Of each plane (n, c), the sums for dweight[n * c] and dbias[n * c]; `threads` have one together.
template <class T, int V>
__global__ void __launch_bounds__(kMostThreads)
    plane_sums(const __grid_constant__ Groups groups, int threads, const T* dy, const T* x,
               const Compute<T>* mean, const Compute<T>* rstd, Compute<T>* dweight,
               Compute<T>* dbias) {
  using C = Compute<T>;
  const int lane = static_cast<int>(threadIdx.x) % threads;
  const int together = static_cast<int>(blockDim.x) / threads;
  const int64_t planes = groups.count * groups.width;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * together; first < planes;
       first += static_cast<int64_t>(gridDim.x) * together) {
    const int64_t plane = first + static_cast<int>(threadIdx.x) / threads;
    const bool present = plane < planes;
    const C centre = present ? mean[plane / groups.width] : C(0);
    C weight = 0;
    C bias = 0;
#pragma unroll 4
    for (int64_t i = lane; i < (present ? groups.size / V : 0); i += threads) {
      const int64_t at = plane * groups.size + i * V;
      const Vec<T, V> d = load_vec<V>(dy + at);
      const Vec<T, V> v = load_vec<V>(x + at);
#pragma unroll
      for (int e = 0; e < V; ++e) {
        const C slope = to_compute(d.v[e]);
        bias += slope;
        weight += slope * (to_compute(v.v[e]) - centre);
      }
    }
    group_sums(weight, bias, threads);
    if (lane == 0 && present) {
      dweight[plane] = weight * rstd[plane / groups.width];
      dbias[plane] = bias;
    }
  }
}

/// The same of channels that are innermost: of part blockIdx.y of the pixels, for kAcross channels.
template <class T>
__global__ void __launch_bounds__(kAcross* kDown)
    channel_sums(const __grid_constant__ Groups groups, Divider by_size, const T* dy, const T* x,
                 const Compute<T>* mean, const Compute<T>* rstd, Compute<T>* dweight,
                 Compute<T>* dbias) {
  using C = Compute<T>;
  __shared__ C shared[2][kDown][kAcross];
  const int64_t channels = groups.per_image * groups.width;
  const int64_t channel = int64_t{blockIdx.x} * kAcross + threadIdx.x;
  const int64_t pixels = groups.count / groups.per_image * groups.size;
  const bool narrow = pixels < kNarrowLimit;
  C weight = 0;
  C bias = 0;
  if (channel < channels) {
    const int64_t group = channel / groups.width;
#pragma unroll 4
    for (int64_t i = int64_t{blockIdx.y} * kDown + threadIdx.y; i < pixels;
         i += int64_t{gridDim.y} * kDown) {
      const int64_t image =
          narrow ? int64_t{by_size.quotient(static_cast<uint32_t>(i))} : i / groups.size;
      const int64_t at = image * groups.per_image + group;
      const C slope = to_compute(dy[i * channels + channel]);
      bias += slope;
      weight += slope * (to_compute(x[i * channels + channel]) - mean[at]) * rstd[at];
    }
  }
  shared[0][threadIdx.y][threadIdx.x] = weight;
  shared[1][threadIdx.y][threadIdx.x] = bias;
  __syncthreads();
  if (threadIdx.y != 0 || channel >= channels) return;
  for (int i = 1; i < kDown; ++i) {
    weight += shared[0][i][threadIdx.x];
    bias += shared[1][i][threadIdx.x];
  }
  dweight[blockIdx.y * channels + channel] = weight;
  dbias[blockIdx.y * channels + channel] = bias;
}

struct GroupNormState : KernelState {
  Groups groups;
  int width = 1;  ///< elements of a load
  RowThreads layout;
  RowThreads planes;  ///< of plane_sums
  int parts = 0;      ///< of each channel, added up apart
};

Support supports(const GroupNormParams&, const Specs& specs) {
  return supports_layouts(specs, 0b1, 0b110);
}
Support supports_grad(const GroupNormGradParams&, const Specs& specs) {
  return supports_layouts(specs, 0b11, 0b11100);
}

std::shared_ptr<GroupNormState> plan(const Specs& specs, int64_t group_count) {
  const TensorSpec& out = specs.out[0];
  const GroupShape shape(out.shape, group_count);
  auto state = std::make_shared<GroupNormState>();
  Groups& g = state->groups;
  g.count = shape.n * shape.groups;
  g.per_image = shape.groups;
  g.width = shape.width;
  g.size = shape.size;
  g.last = out.is_channels_last() || shape.size == 1;
  const auto v = static_cast<int64_t>(16 / size_of(out.dtype));
  const int64_t stretch = g.last ? g.width : g.size;
  state->width = all_aligned(specs) && stretch % v == 0 ? static_cast<int>(v) : 1;
  g.loads = shape.count() / state->width;
  g.run = std::max<int64_t>(stretch / state->width, 1);
  g.narrow = g.loads < kNarrowLimit;
  if (g.narrow) g.by_run = Divider(static_cast<uint32_t>(g.run));
  state->layout = row_threads(g.loads, held_loads(state->width), kMostThreads);
  return state;
}

std::shared_ptr<GroupNormState> prepare(const GroupNormParams& p, const Specs& specs) {
  return plan(specs, p.groups);
}

void run(const GroupNormParams& p, const GroupNormState& s, const Call& c) {
  const DType dtype = c.in[0].dtype();
  cuda_switch_float(dtype, "group_norm", [&]<class T>() {
    using C = Compute<T>;
    const auto kernel = s.width > 1 ? normalise_groups<T, kVec16<T>> : normalise_groups<T, 1>;
    c.encoder->launch(kernel, row_grid(s.groups.count, s.layout), s.layout.threads, 0, s.groups,
                      s.layout.group, static_cast<C>(p.eps), c.in[0].as<const T>(),
                      Parameter(c.in[1], dtype), Parameter(c.in[2], dtype), c.out[0].as<T>(),
                      c.out[1].as<C>(), c.out[2].as<C>());
  });
}

std::shared_ptr<GroupNormState> prepare_grad(const GroupNormGradParams& p, const Specs& specs) {
  auto state = plan(specs, p.groups);
  if (!p.parameters) return state;
  const TensorSpec& x = specs.in[1];
  const Groups& g = state->groups;
  const int64_t images = x.shape[0], channels = x.shape[1];
  if (g.last) {
    const int multiprocessors =
        runtime(DeviceKind::cuda).encoder(x.device.index)->multiprocessors();
    const int64_t tiles = ceil_div<int64_t>(std::max<int64_t>(channels, 1), kAcross);
    const int64_t wanted = ceil_div<int64_t>(int64_t{multiprocessors} * 8, tiles);
    const int64_t most = ceil_div<int64_t>(images * g.size, kDown * 4);
    state->parts = static_cast<int>(std::clamp<int64_t>(std::min(wanted, most), 1, 65535));
  } else {
    state->parts = static_cast<int>(images);
    state->planes = row_threads(g.run, 4, 256);
  }
  const size_t bytes = x.dtype == DType::f64 ? sizeof(double) : sizeof(float);
  state->workspace_bytes = 2 * static_cast<size_t>(state->parts * channels) * bytes;
  return state;
}

template <class T>
void launch_sums(const GroupNormState& s, const Call& c, Compute<T>* dweight, Compute<T>* dbias) {
  using C = Compute<T>;
  const Groups& g = s.groups;
  const T* dy = c.in[0].as<const T>();
  const T* x = c.in[1].as<const T>();
  const C* mean = c.in[3].as<const C>();
  const C* rstd = c.in[4].as<const C>();
  if (!g.last) {
    const auto kernel = s.width > 1 ? plane_sums<T, kVec16<T>> : plane_sums<T, 1>;
    c.encoder->launch(kernel, row_grid(g.count * g.width, s.planes), s.planes.threads, 0, g,
                      s.planes.group, dy, x, mean, rstd, dweight, dbias);
    return;
  }
  const int64_t channels = g.per_image * g.width;
  const dim3 grid(static_cast<unsigned>(ceil_div<int64_t>(channels, kAcross)),
                  static_cast<unsigned>(s.parts));
  const Divider by_size(static_cast<uint32_t>(std::clamp<int64_t>(g.size, 1, kNarrowLimit - 1)));
  c.encoder->launch(channel_sums<T>, grid, dim3(kAcross, kDown), 0, g, by_size, dy, x, mean, rstd,
                    dweight, dbias);
}

void run_grad(const GroupNormGradParams& p, const GroupNormState& s, const Call& c) {
  const DType dtype = c.in[1].dtype();
  cuda_switch_float(dtype, "group_norm_grad", [&]<class T>() {
    using C = Compute<T>;
    const auto kernel =
        s.width > 1 ? differentiate_groups<T, kVec16<T>> : differentiate_groups<T, 1>;
    c.encoder->launch(kernel, row_grid(s.groups.count, s.layout), s.layout.threads, 0, s.groups,
                      s.layout.group, c.in[0].as<const T>(), c.in[1].as<const T>(),
                      Parameter(c.in[2], dtype), c.in[3].as<const C>(), c.in[4].as<const C>(),
                      c.out[0].as<T>());
    if (!p.parameters) return;
    const int64_t channels = s.groups.per_image * s.groups.width;
    auto* partial = static_cast<C*>(c.workspace);
    launch_sums<T>(s, c, partial, partial + s.parts * channels);
    c.encoder->launch(add_parts<C>, dim3(static_cast<unsigned>(ceil_div<int64_t>(channels, 32)), 2),
                      dim3(32, 8), 0, channels, s.parts, partial, c.out[1].as<C>(),
                      c.out[2].as<C>());
  });
}

}  // namespace

KernelList group_norm_cuda_kernels() { return {kernel<supports, prepare, run>("groups")}; }
KernelList group_norm_grad_cuda_kernels() {
  return {kernel<supports_grad, prepare_grad, run_grad>("groups")};
}

}  // namespace mica
