#pragma once

// Products with few rows on the left and K together in both operands, as generation has them: they
// take as long as the right operand is under way. A warp has a column of the result, or a part of
// its K. Run-time compilation takes this file as it is.
#include "mica/ops/matmul/cuda_few_rows.h"
#include "mica/runtime/cuda/programmatic_launch.cuh"
#include "mica/runtime/cuda/types.cuh"

namespace mica::few_rows {

inline constexpr int kTogether = 4;  ///< vectors that a lane loads before it multiplies

/// The elements of 16 bytes.
template <Kind kind>
__device__ void widen(const uint4& word, float (&to)[vector_of(kind)]) {
  const unsigned words[4] = {word.x, word.y, word.z, word.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (kind == Kind::f32) {
      to[i] = __uint_as_float(words[i]);
    } else if constexpr (kind == Kind::bf16) {
      to[2 * i] = __uint_as_float(words[i] << 16);
      to[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000U);
    } else {
      asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %2;\ncvt.f32.f16 %0, low;\n"
          "cvt.f32.f16 %1, high;\n}"
          : "=f"(to[2 * i]), "=f"(to[2 * i + 1])
          : "r"(words[i]));
    }
  }
}

template <Kind kind>
__device__ float bias_of(const void* bias, int column) {
  if constexpr (kind == Kind::f32) return static_cast<const float*>(bias)[column];
  const unsigned bits = static_cast<const unsigned short*>(bias)[column];
  if constexpr (kind == Kind::bf16) return __uint_as_float(bits << 16);
  float x = 0;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(static_cast<unsigned short>(bits)));
  return x;
}

/// Calls `end(at, x)` for every element of the result; `most` is at least the number of rows.
template <Kind kind, int most, class End>
__device__ void product(const Problem& p, const End& end) {
  constexpr int V = vector_of(kind);
  __shared__ float received[kWarps][most];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int part = warp % p.parts;
  const int column = static_cast<int>(blockIdx.x) * (kWarps / p.parts) + warp / p.parts;
  const bool inside = column < p.n;
  const auto* const b = static_cast<const uint4*>(p.b) + int64_t{inside ? column : 0} * p.b_pitch;
  const auto* const a = static_cast<const uint4*>(p.a);
  const int first = part * 32 + lane;
  const int step = p.parts * 32;
  // The right operand is on its way to the cache while the left one is still computed.
  if (inside)
    for (int k = first; k < p.vectors; k += step)
      if (lane % 8 == 0) asm volatile("prefetch.global.L2 [%0];" ::"l"(b + k));
  wait_for_inputs();
  float sums[most] = {};
  for (int k0 = first; inside && k0 < p.vectors; k0 += kTogether * step) {
    uint4 right[kTogether];
#pragma unroll
    for (int t = 0; t < kTogether; ++t) {
      const int k = k0 + t * step;
      right[t] = k < p.vectors ? b[k] : uint4{0, 0, 0, 0};
    }
#pragma unroll
    for (int t = 0; t < kTogether; ++t) {
      const int k = k0 + t * step;
      if (k >= p.vectors) break;
      float y[V];
      widen<kind>(right[t], y);
#pragma unroll
      for (int m = 0; m < most; ++m) {
        if (m >= p.m) break;
        float x[V];
        widen<kind>(a[int64_t{m} * p.a_pitch + k], x);
#pragma unroll
        for (int e = 0; e < V; ++e) sums[m] += x[e] * y[e];
      }
    }
  }
#pragma unroll
  for (int m = 0; m < most; ++m) {
    const float sum = cuda::warp_sum(sums[m]);
    if (lane == 0) received[warp][m] = sum;
  }
  if (p.parts > 1)
    __syncthreads();
  else
    __syncwarp();
  if (!inside || part != 0 || lane >= p.m) return;
  float sum = p.bias ? bias_of<kind>(p.bias, column) : 0;
  for (int w = 0; w < p.parts; ++w) sum += received[warp + w][lane];
  end(int64_t{lane} * p.n + column, sum);
}

}  // namespace mica::few_rows
