#pragma once

// Groups of threads of a GPU, and kernels that give each matrix of a batch to one.
#include <cstddef>

#include "mica/ops/linalg/group.h"

namespace mica::linalg::group {

template <class T>
__device__ T from_lane(T x, int lane) {
  return __shfl_sync(0xffffffffU, x, lane);
}
template <class R>
__device__ Complex<R> from_lane(Complex<R> x, int lane) {
  return {from_lane(x.re, lane), from_lane(x.im, lane)};
}
template <class R>
__device__ Pivot<R> from_lane(Pivot<R> x, int lane) {
  return {from_lane(x.size, lane), from_lane(x.row, lane)};
}

/// Combines the values of a warp in a fixed order; every lane gets the result.
template <class T, class F>
__device__ T combine_lanes(T x, F combine) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int offset = 16; offset > 0; offset /= 2) x = combine(x, from_lane(x, lane ^ offset));
  return x;
}

struct AddTwo {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct LargerOfTwo {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};
struct BetterOfTwo {
  template <class R>
  __device__ Pivot<R> operator()(Pivot<R> a, Pivot<R> b) const {
    return a.better(b);
  }
};

/// A warp, of which each lane has a row. Shuffles order no memory: what all lanes combine waits for
/// what they wrote, as in a block.
struct WarpGroup {
  static constexpr int kThreads = 128;  ///< of a block
  static constexpr int kSize = 32;
  static constexpr int kRowWide = 1;
  static constexpr int kProductWide = 8;
  static constexpr int kPanel = 32;

  __device__ int rank() const { return static_cast<int>(threadIdx.x) % 32; }
  __device__ int size() const { return kSize; }
  __device__ void sync() const { __syncwarp(); }
  __device__ int team() const { return 0; }
  __device__ int teams() const { return 1; }
  __device__ int lane() const { return rank(); }
  __device__ int lanes() const { return kSize; }
  template <class T>
  __device__ T team_sum(T x) const {
    return combine_lanes(x, AddTwo());
  }
  template <class T>
  __device__ T sum(T x) const {
    __syncwarp();
    return combine_lanes(x, AddTwo());
  }
  template <class T>
  __device__ T largest(T x) const {
    __syncwarp();
    return combine_lanes(x, LargerOfTwo());
  }
  __device__ bool any(bool x) const { return __any_sync(0xffffffffU, x) != 0; }
  template <class R>
  __device__ Pivot<R> best(Pivot<R> x) const {
    __syncwarp();
    return combine_lanes(x, BetterOfTwo());
  }
};

/// A block, whose warps are the teams.
struct BlockGroup {
  static constexpr int kThreads = 256;
  static constexpr int kSize = kThreads;
  static constexpr int kRowWide = 16;
  static constexpr int kProductWide = 16;
  static constexpr int kPanel = 16;

  __device__ int rank() const { return static_cast<int>(threadIdx.x); }
  __device__ int size() const { return kSize; }
  __device__ void sync() const { __syncthreads(); }
  __device__ int team() const { return rank() / 32; }
  __device__ int teams() const { return kSize / 32; }
  __device__ int lane() const { return rank() % 32; }
  __device__ int lanes() const { return 32; }
  template <class T>
  __device__ T team_sum(T x) const {
    return combine_lanes(x, AddTwo());
  }
  template <class T>
  __device__ T sum(T x) const {
    return combine(x, AddTwo());
  }
  template <class T>
  __device__ T largest(T x) const {
    return combine(x, LargerOfTwo());
  }
  __device__ bool any(bool x) const { return __syncthreads_or(x) != 0; }
  template <class R>
  __device__ Pivot<R> best(Pivot<R> x) const {
    return combine(x, BetterOfTwo());
  }

 private:
  /// Synchronises the block.
  template <class T, class F>
  __device__ T combine(T x, F two) const {
    __shared__ __align__(16) std::byte memory[kSize / 32 * sizeof(T)];
    T* const partial = reinterpret_cast<T*>(memory);
    x = combine_lanes(x, two);
    __syncthreads();  // an earlier call may still be reading
    if (lane() == 0) partial[team()] = x;
    __syncthreads();
    x = partial[0];
    for (int t = 1; t < kSize / 32; ++t) x = two(x, partial[t]);
    return x;
  }
};

/// f(group, number of the matrix, memory of the group) for each matrix of a batch; a group has
/// `bytes`, of the block's shared memory or, where there is one, of the workspace.
template <class Group, class F>
__global__ void __launch_bounds__(Group::kThreads)
    each_matrix(const F f, int64_t count, std::byte* workspace, size_t bytes) {
  extern __shared__ __align__(16) std::byte shared[];
  constexpr int kGroups = Group::kThreads / Group::kSize;
  const int own = static_cast<int>(threadIdx.x) / Group::kSize;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kGroups + own;
  std::byte* const memory = workspace ? workspace + first * static_cast<int64_t>(bytes)
                                      : shared + static_cast<size_t>(own) * bytes;
  const Group g;
  for (int64_t b = first; b < count; b += static_cast<int64_t>(gridDim.x) * kGroups) {
    f(g, b, memory);
    g.sync();
  }
}

}  // namespace mica::linalg::group
