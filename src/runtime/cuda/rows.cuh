#pragma once

// Rows that a few neighbouring threads, or a whole block, work on together.
#include <algorithm>
#include <bit>

#include "mica/runtime/cuda/types.cuh"

namespace mica::cuda {

/// Combines the values of `group` neighbouring threads in a fixed order; each gets the result.
/// `group` is a power of two up to 32, or the block of a multiple of 32 threads, which is
/// synchronised. All threads of the block call it. `zero` is the neutral value.
template <class C, class F>
__device__ inline C group_reduce(C x, C zero, int group, F combine) {
  for (int offset = min(group, 32) / 2; offset > 0; offset /= 2)
    x = combine(x, __shfl_xor_sync(0xffffffffU, x, offset));
  if (group <= 32) return x;
  __shared__ C partial[32];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  __syncthreads();  // an earlier call may still be reading
  if (lane == 0) partial[threadIdx.x / 32] = x;
  __syncthreads();
  return warp_reduce(lane < group / 32 ? partial[lane] : zero, combine);
}
template <class C>
__device__ inline C group_sum(C x, int group) {
  return group_reduce(x, C(0), group, SumOf{});
}
/// Two sums with one synchronisation.
template <class C>
__device__ inline void group_sums(C& a, C& b, int group) {
  for (int offset = min(group, 32) / 2; offset > 0; offset /= 2) {
    a += __shfl_xor_sync(0xffffffffU, a, offset);
    b += __shfl_xor_sync(0xffffffffU, b, offset);
  }
  if (group <= 32) return;
  __shared__ C partial[2][32];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  __syncthreads();
  if (lane == 0) {
    partial[0][threadIdx.x / 32] = a;
    partial[1][threadIdx.x / 32] = b;
  }
  __syncthreads();
  a = warp_sum(lane < group / 32 ? partial[0][lane] : C(0));
  b = warp_sum(lane < group / 32 ? partial[1][lane] : C(0));
}

/// Threads of a row, and of a block: of one row where it takes more than a warp.
struct RowThreads {
  int group = 1;
  int threads = 256;
};

/// For rows of `loads` loads of which a thread holds up to `held`, and `held` / 2 where rows are
/// short. `most` is the largest block.
inline RowThreads row_threads(int64_t loads, int held, int most) {
  const auto power = [](int64_t threads) {
    return static_cast<int>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(threads, 1))));
  };
  if (loads <= int64_t{32} * held)
    return {.group = std::min(power(ceil_div<int64_t>(loads, held / 2)), 32)};
  const int block = power(std::min<int64_t>(ceil_div<int64_t>(loads, held), most));
  return {.group = block, .threads = block};
}

/// Blocks for `rows` of them; kernels loop over what is left.
inline unsigned row_grid(int64_t rows, const RowThreads& t) {
  constexpr int64_t kMostBlocks = 1 << 20;
  return static_cast<unsigned>(std::min(ceil_div<int64_t>(rows, t.threads / t.group), kMostBlocks));
}

}  // namespace mica::cuda
