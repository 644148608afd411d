#pragma once

#include "mica/ops/sparse/cuda_pattern.cuh"

// The product of a sparse and a dense matrix, a band of the dense one's columns after the other.
namespace mica::cuda {

inline constexpr int kMatmulThreads = 256;

/// Which part of y a block has: rows of one band, a team of lanes to each, or those of its rows
/// that are too long for a team.
struct MatmulGrid {
  int64_t row_blocks;   ///< of each band
  int64_t long_blocks;  ///< behind them
  int64_t blocks;       ///< of all bands
  int64_t most;         ///< entries of a row that a team takes
};

template <class T, class I>
struct Matmul {
  DevicePattern<I> a;
  const T* values;
  const T* dense;  ///< (columns, k)
  T* y;            ///< (rows, k)
  int64_t k;
  MatmulGrid grid;
};

/// Sums of entries `first`, first + step, … before `end`: kVec columns from `column` on. Columns
/// out of range are noted at the end: in between it would keep loads from being under way together.
template <int kUnroll, int kVec, class T, class I>
__device__ void add_entries(const Matmul<T, I>& p, int64_t first, int64_t end, int64_t step,
                            int64_t column, Compute<T> (&sums)[kVec]) {
  const T* band = p.dense + column;
  bool wrong = p.a.columns == 0;  // there is nothing to read
  const auto row_at = [&](int64_t e) {
    const auto c = static_cast<int64_t>(__ldcs(p.a.col + e));
    if (static_cast<uint64_t>(c) < static_cast<uint64_t>(p.a.columns)) return band + c * p.k;
    wrong = true;
    return band;
  };
  const auto add = [&](T value, const Vec<T, kVec>& x) {
    const Compute<T> v = to_compute(value);
#pragma unroll
    for (int i = 0; i < kVec; ++i) sums[i] += v * to_compute(x.v[i]);
  };
  int64_t e = wrong ? end : first;
  for (; e + (kUnroll - 1) * step < end; e += kUnroll * step) {
    const T* from[kUnroll];
    T values[kUnroll];
    Vec<T, kVec> x[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) from[u] = row_at(e + u * step);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) values[u] = __ldcs(p.values + e + u * step);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) x[u] = load_vec<kVec>(from[u]);
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) add(values[u], x[u]);
  }
  for (; e < end; e += step) add(__ldcs(p.values + e), load_vec<kVec>(row_at(e)));
  if (wrong)
    for (e = first; e < end; e += step) (void)p.a.column(e);
}

/// kLanes lanes have the columns of a band, kVec each; kTeam / kLanes entries of a row are added up
/// beside each other.
template <class T, class I, int kVec, int kLanes, int kTeam>
__global__ void __launch_bounds__(kMatmulThreads)
    multiply_rows(const __grid_constant__ Matmul<T, I> p) {
  using C = Compute<T>;
  constexpr int kTeams = kMatmulThreads / kTeam;
  constexpr int kWarps = kMatmulThreads / 32;
  constexpr int kUnroll = kLanes == 32 ? 8 : 4;  // loads of a lane that are under way together
  __shared__ C of_warps[kWarps][kLanes * kVec];
  const auto thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kLanes;
  if (blockIdx.x == 0 && thread == 0) p.a.check_ends();
  for (int64_t block = blockIdx.x; block < p.grid.blocks; block += gridDim.x) {
    const int64_t band_blocks = p.grid.row_blocks + p.grid.long_blocks;
    const int64_t band = block / band_blocks;
    const int64_t number = block - band * band_blocks;
    const int64_t column = (band * kLanes + lane) * kVec;
    const bool inside = column < p.k;
    const auto store = [&](int64_t row, const C(&sums)[kVec]) {
      if (inside) store_vec<kVec>(p.y + row * p.k + column, pack<T, kVec>(sums));
    };
    const auto add_lanes = [&](C(&sums)[kVec], int from) {
      for (int distance = from / 2; distance >= kLanes; distance /= 2)
#pragma unroll
        for (int i = 0; i < kVec; ++i) sums[i] += __shfl_xor_sync(0xffffffffU, sums[i], distance);
    };
    if (number < p.grid.row_blocks) {
      const int64_t row = number * kTeams + thread / kTeam;
      C sums[kVec] = {};
      bool mine = row < p.a.rows;
      if (mine) {
        const EntryRange range = p.a.row(row);
        mine = range.size() <= p.grid.most;
        if (mine && inside)
          add_entries<kUnroll>(p, range.begin + thread % kTeam / kLanes, range.end, kTeam / kLanes,
                               column, sums);
      }
      add_lanes(sums, kTeam);
      if (mine && thread % kTeam < kLanes) store(row, sums);
      continue;
    }
    // Neighbouring rows, which may all be long, go to different blocks.
    const int64_t first = number - p.grid.row_blocks;
    for (int64_t base = 0; base < p.a.rows; base += kMatmulThreads * p.grid.long_blocks) {
      const int64_t own = base + thread * p.grid.long_blocks + first;
      const bool is_long = own < p.a.rows && p.a.row(own).size() > p.grid.most;
      if (!__syncthreads_or(is_long)) continue;
      __shared__ bool found[kMatmulThreads];
      found[thread] = is_long;
      __syncthreads();
      for (int n = 0; n < kMatmulThreads; ++n) {
        if (!found[n]) continue;
        const int64_t row = base + n * p.grid.long_blocks + first;
        const EntryRange range = p.a.row(row);
        C sums[kVec] = {};
        if (inside)
          add_entries<kUnroll>(p, range.begin + thread / kLanes, range.end, kMatmulThreads / kLanes,
                               column, sums);
        add_lanes(sums, 32);
        if (thread % 32 < kLanes)
#pragma unroll
          for (int i = 0; i < kVec; ++i) of_warps[thread / 32][lane * kVec + i] = sums[i];
        __syncthreads();
        if (thread < kLanes) {
#pragma unroll
          for (int i = 0; i < kVec; ++i) {
            sums[i] = of_warps[0][lane * kVec + i];
            for (int w = 1; w < kWarps; ++w) sums[i] += of_warps[w][lane * kVec + i];
          }
          store(row, sums);
        }
        __syncthreads();
      }
    }
  }
}

}  // namespace mica::cuda
