#pragma once

// A small f32 product by TF32 tensor cores. Its tiles are too few to fill the GPU, so K is split
// twice: over the warps of a block and over the blocks of a cluster, which send each other their
// sums through shared memory. One launch, and one order of every sum.
#include "mica/ops/matmul/cuda_small.cuh"
#include "mica/runtime/cuda/async_copy.cuh"
#include "mica/runtime/cuda/tf32.cuh"

namespace mica::small_product {

using cuda::commit_copies;
using cuda::copy_async;
using cuda::wait_copies;

inline constexpr int kStep = kSplitKStep;  ///< a warp takes two steps of its instruction at a time
inline constexpr int kWarpTile = 32;       ///< a warp computes 32 × 32 elements

/// How a block works: a group of warps covers its tile of the result; `groups` of them share K,
/// each with a pipeline of its own of `stages` that hold `chunk` of K.
template <int tile_m, int tile_n, int groups, int chunk, int stages>
struct Blocks {
  static constexpr int kM = tile_m;
  static constexpr int kN = tile_n;
  static constexpr int kGroups = groups;
  static constexpr int kChunk = chunk;
  static constexpr int kStages = stages;
  static constexpr int kWarpsN = kN / kWarpTile;
  static constexpr int kWarps = kM / kWarpTile * kWarpsN;  ///< of a group
  static constexpr int kGroupThreads = kWarps * 32;
  static constexpr int kThreads = groups * kGroupThreads;
  static constexpr int kQuads = kM * kN / 4;  ///< of four elements in a block's tile
  static constexpr int kStageFloats = (kM + kN) * chunk;
  static constexpr int kPipeFloats = groups * stages * kStageFloats;
  static_assert(groups * (kQuads * 4 + kM) + kN <= kPipeFloats);
  /// Past the pipelines lies what the others of the cluster send.
  static constexpr int shared_bytes(int splits, bool sums) {
    const int sent = splits == 1 ? 0 : (cuda::ceil_div(kQuads, splits) * 4 + (sums ? kM : 0));
    return static_cast<int>(sizeof(float)) * (kPipeFloats + splits * sent);
  }
};

/// `rows` of an operand and a chunk of K in shared memory. Where K lies together (along_k): steps
/// of K, rows, 16 values, so that 8 lanes read two rows whole. Otherwise: K, rows, with 16-byte
/// quads of rows exchanged so that lanes with different K read different banks.
template <int rows, bool along_k, class S>
struct Operand {
  static constexpr int kAcross = (along_k ? S::kChunk : rows) / 4;  ///< quads that lie together
  static constexpr int kEach = S::kGroupThreads / kAcross;          ///< rows (or K) of one turn
  static constexpr int kTurns = rows * S::kChunk / 4 / S::kGroupThreads;
  static_assert(kTurns * S::kGroupThreads * 4 == rows * S::kChunk);

  const float* from;  ///< of this thread's first quad
  int pitch;
  bool vectors;
  int row;         ///< of the quad in the tile
  int k;           ///< of the quad in the chunk
  int rows_left;   ///< of the matrix, from `row`
  uint32_t whole;  ///< bit i: all of the quad of turn i is inside, as far as rows go

  __device__ Operand(const float* matrix, int matrix_pitch, bool has_vectors, int row0, int row_end,
                     int k0) {
    const int tid = static_cast<int>(threadIdx.x) % S::kGroupThreads;
    const int inner = tid % kAcross * 4;
    const int outer = tid / kAcross;
    row = along_k ? outer : inner;
    k = along_k ? inner : outer;
    pitch = matrix_pitch;
    vectors = has_vectors;
    rows_left = row_end - row0 - row;
    whole = 0;
#pragma unroll
    for (int i = 0; i < kTurns; ++i)
      if (along_k ? rows_left > i * kEach : rows_left >= 4) whole |= 1U << i;
    from = matrix +
           (along_k ? int64_t{row0 + row} * pitch + k0 + k : int64_t{k0 + k} * pitch + row0 + row);
  }

  static __device__ int place(int row, int k) {
    if constexpr (along_k) {
      const int step = k / kStep;
      return step * rows * kStep + (row ^ (step & 1)) * kStep + k % kStep;
    } else {
      return k * rows + ((row / 4) ^ (k / 4 % 4)) * 4;
    }
  }

  /// Starts to copy the chunk `ahead` of K from the first, of which `k_left` are inside; what lies
  /// outside the matrix becomes zero.
  __device__ void load(float* to, int ahead, int k_left) const {
    const float* source = from + (along_k ? int64_t{ahead} : int64_t{ahead} * pitch);
    const int64_t turn = int64_t{kEach} * pitch;
    const bool simple = vectors && k_left >= S::kChunk;
#pragma unroll
    for (int i = 0; i < kTurns; ++i) {
      float* target = to + (along_k ? place(row + i * kEach, k) : place(row, k + i * kEach));
      if (simple && (along_k || rows_left >= 4 || rows_left <= 0)) {
        copy_async<16>(target, source + i * turn, (whole >> i & 1U) != 0 ? 16 : 0);
      } else {
        copy_edge(target, source + i * turn, i, k_left);
      }
    }
  }

  __device__ void copy_edge(float* target, const float* source, int turn, int k_left) const {
    const int along = along_k ? k_left - k : rows_left;
    const int across = along_k ? rows_left - turn * kEach : k_left - k - turn * kEach;
    const int count = across > 0 ? min(max(along, 0), 4) : 0;
    if (vectors) {
      copy_async<16>(target, source, count * 4);
    } else {
#pragma unroll
      for (int e = 0; e < 4; ++e) copy_async<4>(target + e, source + e, e < count ? 4 : 0);
    }
  }

  /// The row of the warp's 32 that a lane holds in `slot` (0 to 3) as its g-th.
  static __device__ int row_of(int g, int slot) {
    return along_k ? g + 8 * slot : (g / 2 + g % 2 * 4) * 4 + slot;
  }

  /// The values of a lane, by slot and K (4 * (lane % 4) + second index).
  static __device__ void read(float (&v)[4][4], const float* stage, int row0, int step) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int g = lane / 4;
    const int t = lane % 4;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = row0 + row_of(g, along_k ? i : 0);
      const int k = step * kStep + 4 * t + (along_k ? 0 : i);
      const float4 x = *reinterpret_cast<const float4*>(stage + place(row, k));
      const float four[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
      for (int e = 0; e < 4; ++e) (along_k ? v[i][e] : v[e][i]) = four[e];
    }
  }
};

/// Writes four elements of the result: quad `e` of a block's tile.
template <bool a_along_k, bool b_along_k, class S, class End>
__device__ void write_quad(const SmallProduct& p, const End& end, int row0, int col0,
                           const float* bias, int e, float4 v) {
  const int lane = e % 32;
  const int g = lane / 4;
  const int t = lane % 4;
  const int part = e / 32 % 8;
  const int tile = e / 256;
  row0 += tile / S::kWarpsN * kWarpTile;
  const int tile_col = tile % S::kWarpsN * kWarpTile;
  using A = Operand<S::kM, a_along_k, S>;
  float x[4] = {v.x, v.y, v.z, v.w};
  if constexpr (b_along_k) {  // two rows of two columns
    const int at = tile_col + part % 4 * 8 + t * 2;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float two[2] = {x[2 * h] + bias[at], x[2 * h + 1] + bias[at + 1]};
      finish<2>(p, end, row0 + A::row_of(g, part / 4 * 2 + h), col0 + at, two);
    }
  } else {  // four columns of one row
    const int at = tile_col + (t + part % 2 * 4) * 4;
#pragma unroll
    for (int i = 0; i < 4; ++i) x[i] += bias[at + i];
    finish<4>(p, end, row0 + A::row_of(g, part / 2), col0 + at, x);
  }
}

__device__ inline float4 operator+(float4 a, float4 b) {
  return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

/// Waits for the threads of a group. compute-sanitizer's racecheck loses count where groups wait
/// apart: it then reports hazards between what __syncthreads separates, and none where the groups
/// wait together, which takes up to a tenth longer.
template <class S>
__device__ void group_barrier(int group) {
  if constexpr (S::kWarps == 1) {
    __syncwarp();
  } else {
    asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(S::kGroupThreads) : "memory");
  }
}

/// Grid: splits of K (a cluster), tiles along n, tiles along m.
template <class S, bool a_along_k, bool b_along_k, class End>
__device__ void product(const SmallProduct& p, const End& end) {
  wait_for_inputs();
  extern __shared__ float4 memory[];
  using A = Operand<S::kM, a_along_k, S>;
  using B = Operand<S::kN, b_along_k, S>;
  const int splits = static_cast<int>(gridDim.x);
  const int rank = static_cast<int>(blockIdx.x);
  if (splits > 1) cluster_arrive();
  const int tid = static_cast<int>(threadIdx.x);
  const int group = tid / S::kGroupThreads;
  const int col0 = static_cast<int>(blockIdx.y) * S::kN;
  const int row0 = static_cast<int>(blockIdx.z) * S::kM;
  const int k_begin = rank * p.slice + group * S::kChunk;
  const int k_count = min(p.k, (rank + 1) * p.slice) - k_begin;
  constexpr int kStride = S::kGroups * S::kChunk;  // from chunk to chunk of a group
  const int chunks = k_count > 0 ? cuda::ceil_div(k_count, kStride) : 0;
  float* const pipe = reinterpret_cast<float*>(memory) + group * S::kStages * S::kStageFloats;
  const A a_operand(p.a, p.a_pitch, p.a_vectors, row0, p.m, k_begin);
  const B b_operand(p.b, p.b_pitch, p.b_vectors, col0, p.n, k_begin);
  int ahead = 0;
  int load_slot = 0;
  const auto load = [&] {
    if (ahead < k_count) {
      float* to = pipe + load_slot * S::kStageFloats;
      a_operand.load(to, ahead, k_count - ahead);
      b_operand.load(to + S::kM * S::kChunk, ahead, k_count - ahead);
    }
    commit_copies();
    ahead += kStride;
    load_slot = load_slot + 1 == S::kStages ? 0 : load_slot + 1;
  };
#pragma unroll
  for (int i = 0; i < S::kStages - 1; ++i) load();

  const float my_bias = p.bias && tid < S::kN && col0 + tid < p.n ? p.bias[col0 + tid] : 0;
  const int lane = tid % 32;
  const int tile = tid / 32 % S::kWarps;
  const int warp_row = tile / S::kWarpsN * kWarpTile;
  const int warp_col = tile % S::kWarpsN * kWarpTile;
  const bool sums = !a_along_k && p.sums && col0 == 0;
  float acc[2][4][4] = {};
  float sum[4] = {};
  int slot = 0;
  for (int i = 0; i < chunks; ++i) {
    wait_copies<S::kStages - 2>();
    group_barrier<S>(group);
    load();
    const float* const stage = pipe + slot * S::kStageFloats;
    slot = slot + 1 == S::kStages ? 0 : slot + 1;
#pragma unroll
    for (int step = 0; step < S::kChunk / kStep; ++step) {
      float a[4][4];
      float b[4][4];
      A::read(a, stage, warp_row, step);
      B::read(b, stage + S::kM * S::kChunk, warp_col, step);
      if (sums)
#pragma unroll
        for (int s = 0; s < 4; ++s) sum[s] += (a[s][0] + a[s][1]) + (a[s][2] + a[s][3]);
#pragma unroll
      for (int h = 0; h < 4; h += 2) {
        uint32_t left[4][2];
        uint32_t right[4][2];
#pragma unroll
        for (int s = 0; s < 4; ++s)
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            left[s][e] = to_tf32(a[s][h + e]);
            right[s][e] = to_tf32(b[s][h + e]);
          }
#pragma unroll
        for (int r = 0; r < 2; ++r)
#pragma unroll
          for (int c = 0; c < 4; ++c)
            tf32::mma(acc[r][c],
                      {left[2 * r][0], left[2 * r + 1][0], left[2 * r][1], left[2 * r + 1][1]},
                      right[c][0], right[c][1]);
      }
    }
  }
  wait_copies<0>();
  __syncthreads();  // the pipelines' memory is free

  // What the warps hold: groups, tiles of warps, parts of them, lanes.
#pragma unroll
  for (int part = 0; part < 8; ++part) {
    const float(&q)[4] = acc[part / 4][part % 4];
    memory[group * S::kQuads + tile * 256 + part * 32 + lane] =
        b_along_k ? make_float4(q[0], q[1], q[2], q[3])
                  : make_float4(acc[part / 4][0][part % 4], acc[part / 4][1][part % 4],
                                acc[part / 4][2][part % 4], acc[part / 4][3][part % 4]);
  }
  float* const row_sums =
      reinterpret_cast<float*>(memory + S::kGroups * S::kQuads);  // groups, rows
  float* const bias = row_sums + S::kGroups * S::kM;
  if (sums && warp_col == 0) {
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      sum[s] += __shfl_xor_sync(0xffffffffU, sum[s], 1);
      sum[s] += __shfl_xor_sync(0xffffffffU, sum[s], 2);
      if (lane % 4 == 0) row_sums[group * S::kM + warp_row + A::row_of(lane / 4, s)] = sum[s];
    }
  }
  if (tid < S::kN) bias[tid] = my_bias;
  __syncthreads();

  float4* const received = memory + S::kPipeFloats / 4;  // blocks, a share of the quads
  const int share = cuda::ceil_div(S::kQuads, splits);
  auto* const received_sums = reinterpret_cast<float*>(received + share * splits);
  if (splits > 1) cluster_wait();  // the others have started
#pragma unroll
  for (int e = tid; e < S::kQuads; e += S::kThreads) {
    float4 v = memory[e];
#pragma unroll
    for (int w = 1; w < S::kGroups; ++w) v = v + memory[w * S::kQuads + e];
    if (splits == 1) {
      write_quad<a_along_k, b_along_k, S>(p, end, row0, col0, bias, e, v);
    } else {
      send(of_block(received + rank * share + e % share, e / share), v);
    }
  }
  if (sums && tid < S::kM) {
    float v = row_sums[tid];
#pragma unroll
    for (int w = 1; w < S::kGroups; ++w) v += row_sums[w * S::kM + tid];
    if (splits > 1) {
      send(of_block(received_sums + rank * S::kM + tid, 0), v);
    } else if (row0 + tid < p.m) {
      p.sums[row0 + tid] = v;
    }
  }
  if (splits == 1) return;
  cluster_arrive();
  cluster_wait();
  for (int i = tid; i < share && rank * share + i < S::kQuads; i += S::kThreads) {
    float4 v = received[i];
    for (int r = 1; r < splits; ++r) v = v + received[r * share + i];
    write_quad<a_along_k, b_along_k, S>(p, end, row0, col0, bias, rank * share + i, v);
  }
  if (sums && rank == 0 && tid < S::kM && row0 + tid < p.m) {
    float v = received_sums[tid];
    for (int r = 1; r < splits; ++r) v += received_sums[r * S::kM + tid];
    p.sums[row0 + tid] = v;
  }
}

}  // namespace mica::small_product
