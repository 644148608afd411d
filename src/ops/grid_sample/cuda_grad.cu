// The points' gradients are sums over the channels. Those of x are sums over the points, whichever
// come to lie at a pixel: added atomically or, where the same bits are wanted, plane by plane in
// the points' order. f16 and bf16 are added up in f32.
#include "mica/op/settings.h"
#include "mica/ops/grid_sample/cuda_points.cuh"
#include "mica/runtime/cuda/encoder.h"

namespace mica {
namespace {

using namespace mica::cuda;
using namespace mica::cuda::grid_points;

/// dgrid and, unless `sums` is null, x's gradient, added to it.
template <class T, int V, int K>
__global__ void __launch_bounds__(kThreads)
    differentiate(const __grid_constant__ Layout l, GridSampleParams params, int shares,
                  const Vec<T, V>* dy, const Vec<T, V>* x, const T* grid, T* dgrid,
                  Compute<T>* sums) {
  using C = Compute<T>;
  __shared__ C shared[2][kThreads];
  const Share mine(l, shares);
  const bool present = mine.point < l.all_points();
  C along_x = 0;
  C along_y = 0;
  if (present) {
    const PointTaps<K> taps(grid, mine.point, l, params);
    const int64_t image = mine.point / l.points;
    const int64_t point = mine.point - image * l.points;
    for (int64_t channel = mine.share; channel < l.channels; channel += shares) {
      const Vec<T, V> d = dy[l.in_y(image, channel, point)];
#pragma unroll
      for (int i = 0; i < K; ++i) {
#pragma unroll
        for (int j = 0; j < K; ++j) {
          const int pixel = taps.pixel(i, j, l);
          if (pixel < 0) continue;
          const int64_t at = l.in_x(image, channel, pixel);
          const Vec<T, V> v = x[at];
          const auto weight = static_cast<C>(taps.weight(i, j));
          C product = 0;
#pragma unroll
          for (int e = 0; e < V; ++e) {
            const C slope = to_compute(d.v[e]);
            product += slope * to_compute(v.v[e]);
            if (sums != nullptr) atomicAdd(sums + at * V + e, slope * weight);
          }
          along_x += product * static_cast<C>(taps.along_x(i, j));
          along_y += product * static_cast<C>(taps.along_y(i, j));
        }
      }
    }
  }
  shared[0][threadIdx.x] = along_x;
  shared[1][threadIdx.x] = along_y;
  __syncthreads();
  if (!present || mine.share != 0) return;
  const int step = l.last ? 1 : kThreads / shares;
  for (int i = 1; i < shares; ++i) {
    along_x += shared[0][static_cast<int>(threadIdx.x) + i * step];
    along_y += shared[1][static_cast<int>(threadIdx.x) + i * step];
  }
  dgrid[2 * mine.point] = convert<T>(along_x);
  dgrid[2 * mine.point + 1] = convert<T>(along_y);
}

/// Adds the values of a warp's lanes to their places (none where negative), those for one place in
/// the lanes' order. No other warp adds to these places.
template <class C>
__device__ void add_in_order(C* sums, int64_t place, C value) {
  constexpr unsigned kAll = 0xffffffffU;
  const unsigned lane = threadIdx.x % 32;
  const unsigned same = __match_any_sync(kAll, place);
  unsigned left = same;
  C sum = 0;
  while (__any_sync(kAll, left != 0)) {
    const C next = __shfl_sync(kAll, value, left != 0 ? __ffs(static_cast<int>(left)) - 1 : 0);
    if (left != 0) sum += next;
    left &= left - 1;
  }
  if (place >= 0 && lane + 1 == static_cast<unsigned>(__ffs(static_cast<int>(same))))
    sums[place] += sum;
  __syncwarp();
}

/// x's gradient: a warp has a plane and takes the points in their order, 32 at a time. Channels are
/// counted one by one.
template <class T, int K>
__global__ void __launch_bounds__(kThreads)
    add_planes(const __grid_constant__ Layout l, GridSampleParams params, const T* dy,
               const T* grid, Compute<T>* sums) {
  using C = Compute<T>;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t plane =
      static_cast<int64_t>(blockIdx.x) * (kThreads / 32) + static_cast<int>(threadIdx.x) / 32;
  if (plane >= l.images * l.channels) return;
  const int64_t image = plane / l.channels;
  const int64_t channel = plane - image * l.channels;
  for (int64_t first = 0; first < l.points; first += 32) {
    const bool present = first + lane < l.points;
    const int64_t point = present ? first + lane : first;
    const PointTaps<K> taps(grid, image * l.points + point, l, params);
    const C d = to_compute(dy[l.in_y(image, channel, point)]);
#pragma unroll
    for (int i = 0; i < K; ++i) {
#pragma unroll
      for (int j = 0; j < K; ++j) {
        const int pixel = present ? taps.pixel(i, j, l) : -1;
        add_in_order(sums, pixel < 0 ? int64_t{-1} : l.in_x(image, channel, pixel),
                     d * static_cast<C>(taps.weight(i, j)));
      }
    }
  }
}

template <class C>
__global__ void __launch_bounds__(kThreads) set_to_zero(int64_t n, C* sums) {
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < n;
       i += static_cast<int64_t>(gridDim.x) * kThreads)
    sums[i] = 0;
}

template <class T>
__global__ void __launch_bounds__(kThreads) narrow_sums(int64_t n, const Compute<T>* sums, T* dx) {
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < n;
       i += static_cast<int64_t>(gridDim.x) * kThreads)
    dx[i] = convert<T>(sums[i]);
}

// Inputs: dy, x, grid. Outputs: dx, dgrid.
Support supports_ordered(const GridSampleParams&, const Specs& specs) {
  return supports_layouts(specs, 0b011, 0b100);
}
Support supports_atomic(const GridSampleParams& p, const Specs& specs) {
  if (deterministic()) return Support::no("adds in an order that differs from run to run");
  return supports_ordered(p, specs);
}

struct GradState : KernelState {
  GradState(const Layout& l, const Layout& s) : layout(l), shares(shares_of(l)), single(s) {}
  Layout layout;
  int shares;
  Layout single;  ///< with channels counted one by one
};

std::shared_ptr<GradState> prepare(const GridSampleParams&, const Specs& s) {
  const TensorSpec& x = s.in[1];
  const bool aligned = s.in[0].aligned && x.aligned;
  auto state = std::make_shared<GradState>(layout_of(x, s.in[2], s.out[0], aligned),
                                           layout_of(x, s.in[2], s.out[0], false));
  if (x.dtype == DType::f16 || x.dtype == DType::bf16)
    state->workspace_bytes = static_cast<size_t>(x.numel()) * sizeof(float);
  return state;
}

template <class T, int V>
void launch_points(const GridSampleParams& p, const GradState& s, const Call& c, Compute<T>* sums) {
  with_taps(p.mode, [&]<int K>() {
    c.encoder->launch(differentiate<T, V, K>, blocks_of(s.layout, s.shares), kThreads, 0, s.layout,
                      p, s.shares, c.in[0].as<const Vec<T, V>>(), c.in[1].as<const Vec<T, V>>(),
                      c.in[2].as<const T>(), c.out[1].as<T>(), sums);
  });
}

template <bool atomic>
void run(const GridSampleParams& p, const GradState& s, const Call& c) {
  cuda_switch_float(c.out[0].dtype(), "grid_sample_grad", [&]<class T>() {
    using C = Compute<T>;
    T* dx = c.out[0].as<T>();
    C* sums = nullptr;
    if constexpr (is_half<T>) {
      sums = static_cast<C*>(c.workspace);
    } else {
      sums = dx;
    }
    const int64_t n = c.out[0].numel();
    const unsigned grid = grid_for(n, kThreads, c.encoder->multiprocessors());
    c.encoder->launch(set_to_zero<C>, grid, kThreads, 0, n, sums);
    C* added = atomic ? sums : nullptr;
    s.layout.vector > 1 ? launch_points<T, kVec16<T>>(p, s, c, added)
                        : launch_points<T, 1>(p, s, c, added);
    if constexpr (!atomic) {
      const int64_t planes = s.single.images * s.single.channels;
      const auto blocks = static_cast<unsigned>(ceil_div<int64_t>(planes, kThreads / 32));
      with_taps(p.mode, [&]<int K>() {
        c.encoder->launch(add_planes<T, K>, blocks, kThreads, 0, s.single, p, c.in[0].as<const T>(),
                          c.in[2].as<const T>(), sums);
      });
    }
    if constexpr (is_half<T>) c.encoder->launch(narrow_sums<T>, grid, kThreads, 0, n, sums, dx);
  });
}

}  // namespace

KernelList grid_sample_grad_cuda_kernels() {
  return {kernel<supports_atomic, prepare, run<true>>("atomic"),
          kernel<supports_ordered, prepare, run<false>>("ordered")};
}

}  // namespace mica
