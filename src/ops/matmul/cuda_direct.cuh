#pragma once

// A small f32 product by TF32 tensor cores in tiles of 16 × 16: as many blocks as an H200 has
// multiprocessors where m * n is 32768. The warps of a block share K; each loads what it multiplies
// from memory straight to registers, all at once where K is at most 1024, since such a product
// takes about as long as its loads are under way.
#include "mica/ops/matmul/cuda_small.cuh"
#include "mica/runtime/cuda/tf32.cuh"

namespace mica::small_product {

inline constexpr int kTile = 16;
inline constexpr int kDirectStep = 16;  ///< of K: two steps of the instruction
inline constexpr int kTogether = 4;     ///< steps that a warp loads together
inline constexpr int kElements = kTile * kTile;
inline constexpr int kDirectWarps = 16;

/// A lane's part of `kTogether` steps: of a, rows g and g + 8; of b, columns 2g and 2g + 1; with g
/// = lane / 4, and of K four from 4 * (lane % 4) on.
template <bool b_along_k>
struct Fragments {
  const float* a_rows[2];
  const float* b_from[2];  ///< columns where K lies together, else the first of both
  int pitch;
  float4 a[kTogether][2];
  float b[kTogether][2][4];

  __device__ Fragments(const SmallProduct& p, int row, int col, int k) : pitch(p.b_pitch) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      a_rows[i] = p.a + int64_t{min(row + 8 * i, p.m - 1)} * p.a_pitch + k;
      b_from[i] = b_along_k ? p.b + int64_t{min(col + i, p.n - 1)} * pitch + k
                            : p.b + int64_t{k} * pitch + min(col, p.n - 2);
    }
  }

  /// Loads `ahead` of K from the first; `k_left` are inside from there on, the others become zeros.
  __device__ void load(int ahead, int k_left) {
    const float* const from = b_from[0] + int64_t{ahead} * pitch;
#pragma unroll
    for (int s = 0; s < kTogether; ++s) {
      const bool inside = s * kDirectStep < k_left;
      const auto quad = [&](const float* row) {
        return inside ? *reinterpret_cast<const float4*>(row + ahead + s * kDirectStep)
                      : make_float4(0, 0, 0, 0);
      };
#pragma unroll
      for (int i = 0; i < 2; ++i) a[s][i] = quad(a_rows[i]);
      if constexpr (b_along_k) {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          const float4 v = quad(b_from[c]);
          b[s][c][0] = v.x;
          b[s][c][1] = v.y;
          b[s][c][2] = v.z;
          b[s][c][3] = v.w;
        }
      } else {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float2 v =
              inside ? *reinterpret_cast<const float2*>(from + (s * kDirectStep + e) * pitch)
                     : make_float2(0, 0);
          b[s][0][e] = v.x;
          b[s][1][e] = v.y;
        }
      }
    }
  }

  __device__ void multiply(float (&acc)[2][4]) const {
#pragma unroll
    for (int s = 0; s < kTogether; ++s)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float4 u = a[s][0];
        const float4 v = a[s][1];
        const uint32_t left[4] = {to_tf32(h == 0 ? u.x : u.z), to_tf32(h == 0 ? v.x : v.z),
                                  to_tf32(h == 0 ? u.y : u.w), to_tf32(h == 0 ? v.y : v.w)};
#pragma unroll
        for (int c = 0; c < 2; ++c)
          tf32::mma(acc[c], left, to_tf32(b[s][c][2 * h]), to_tf32(b[s][c][2 * h + 1]));
      }
  }
};

/// More threads than there are, so that the compiler takes 96 registers: with the 128 that it would
/// like, the next launch finds less room.
inline constexpr int kBoundThreads = 640;

/// Grid: tiles along n, tiles along m.
template <bool b_along_k, class End>
__device__ void direct_product(const SmallProduct& p, const End& end) {
  __shared__ float4 parts[kDirectWarps][kElements / 4];  // warps, rows, quads of columns
  wait_for_inputs();
  const int tid = static_cast<int>(threadIdx.x);
  const int lane = tid % 32;
  const int warp = tid / 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  const int row0 = static_cast<int>(blockIdx.y) * kTile;
  const int col0 = static_cast<int>(blockIdx.x) * kTile;
  const int col = col0 + tid % kTile;
  Elements<1, End> element(p, end, tid < kElements ? row0 + tid / kTile : p.m, col);
  const float bias = p.bias && col < p.n ? p.bias[col] : 0;
  float acc[2][4] = {};
  const int k0 = warp * kTogether * kDirectStep + lane % 4 * 4;
  Fragments<b_along_k> f(p, row0 + lane / 4, col0 + lane / 4 * 2, k0);
  f.load(0, p.k - k0);
  element.prepare(end);
  for (int ahead = 0;;) {
    f.multiply(acc);
    ahead += warps * kTogether * kDirectStep;
    if (ahead >= p.k) break;
    f.load(ahead, p.k - k0 - ahead);
  }
#pragma unroll
  for (int h = 0; h < 2; ++h)  // rows lane / 4 and that + 8, four columns
    parts[warp][lane + 32 * h] =
        make_float4(acc[0][2 * h], acc[1][2 * h], acc[0][2 * h + 1], acc[1][2 * h + 1]);
  __syncthreads();
  if (tid >= kElements) return;
  const float* const part = reinterpret_cast<const float*>(parts) + tid;
  float sum[1] = {bias};
  for (int w = 0; w < warps; ++w) sum[0] += part[w * kElements];
  element.finish(end, sum);
}

}  // namespace mica::small_product
