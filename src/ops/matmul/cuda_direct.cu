// A small f32 product by TF32 tensor cores in tiles of 16 × 16: as many blocks as an H200 has
// multiprocessors where m * n is 32768. The warps of a block share K; each loads what it multiplies
// from memory straight to registers, all at once where K is at most 1024, since such a product
// takes about as long as its loads are under way.
#include <algorithm>

#include "mica/ops/matmul/cuda_small.cuh"
#include "mica/runtime/cuda/ahead.cuh"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/tf32.cuh"

namespace mica {
namespace {

using namespace small_product;

constexpr int kTile = 16;
constexpr int kStep = 16;     ///< of K: two steps of the instruction
constexpr int kTogether = 4;  ///< steps that a warp loads together
constexpr int kElements = kTile * kTile;
constexpr int kMostWarps = 16;

/// The four of K from `k` on that a lane has of row `row`; zeros from K's end on.
__device__ inline float4 quad(const float* matrix, int pitch, int row, int k, int k_end) {
  if (k >= k_end) return make_float4(0, 0, 0, 0);
  return *reinterpret_cast<const float4*>(matrix + int64_t{row} * pitch + k);
}

/// A lane's part of `kTogether` steps: of a, rows g and g + 8; of b, columns 2g and 2g + 1; with g
/// = lane / 4, and of K four from 4 * (lane % 4) on.
template <bool b_along_k>
struct Fragments {
  float4 a[kTogether][2];
  float b[kTogether][2][4];

  __device__ void load(const SmallProduct& p, int row, int col, int k) {
#pragma unroll
    for (int s = 0; s < kTogether; ++s, k += kStep) {
#pragma unroll
      for (int h = 0; h < 2; ++h) a[s][h] = quad(p.a, p.a_pitch, min(row + 8 * h, p.m - 1), k, p.k);
      if constexpr (b_along_k) {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          const float4 v = quad(p.b, p.b_pitch, min(col + c, p.n - 1), k, p.k);
          b[s][c][0] = v.x;
          b[s][c][1] = v.y;
          b[s][c][2] = v.z;
          b[s][c][3] = v.w;
        }
      } else {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float* from = p.b + int64_t{k + e} * p.b_pitch + min(col, p.n - 2);
          const float2 v = k < p.k ? *reinterpret_cast<const float2*>(from) : make_float2(0, 0);
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

/// Grid: tiles along n, tiles along m.
template <bool b_along_k>
__global__ void __launch_bounds__(kMostWarps * 32) direct_product(SmallProduct p) {
  __shared__ float4 parts[kMostWarps][kElements / 4];  // warps, rows, quads of columns
  wait_for_inputs();
  const int tid = static_cast<int>(threadIdx.x);
  const int lane = tid % 32;
  const int warp = tid / 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  const int row0 = static_cast<int>(blockIdx.y) * kTile;
  const int col0 = static_cast<int>(blockIdx.x) * kTile;
  const int col = col0 + tid % kTile;
  const Elements<1> element(p, tid < kElements ? row0 + tid / kTile : p.m, col);
  const float bias = p.bias && col < p.n ? p.bias[col] : 0;
  float acc[2][4] = {};
  for (int k = warp * kTogether * kStep; k < p.k; k += warps * kTogether * kStep) {
    Fragments<b_along_k> f;
    f.load(p, row0 + lane / 4, col0 + lane / 4 * 2, k + lane % 4 * 4);
    f.multiply(acc);
  }
#pragma unroll
  for (int h = 0; h < 2; ++h)  // rows lane / 4 and that + 8, four columns
    parts[warp][lane + 32 * h] =
        make_float4(acc[0][2 * h], acc[1][2 * h], acc[0][2 * h + 1], acc[1][2 * h + 1]);
  __syncthreads();
  if (tid >= kElements) return;
  const float* const part = reinterpret_cast<const float*>(parts) + tid;
  float sum = bias;
  for (int w = 0; w < warps; ++w) sum += part[w * kElements];
  element.finish(p, {sum});
}

}  // namespace

bool direct_takes(const SmallProduct& p, bool a_along_k, bool b_along_k) {
  return a_along_k && p.a_vectors && p.b_vectors && p.k % 4 == 0 && (b_along_k || p.n % 2 == 0);
}

void launch_direct(Encoder& encoder, const SmallProduct& p, bool b_along_k) {
  const int warps = std::clamp(cuda::ceil_div(p.k, kTogether * kStep), kElements / 32, kMostWarps);
  const dim3 grid(static_cast<unsigned>(cuda::ceil_div(p.n, kTile)),
                  static_cast<unsigned>(cuda::ceil_div(p.m, kTile)));
  const LaunchAhead ahead;
  encoder.launch(b_along_k ? direct_product<true> : direct_product<false>, grid, warps * 32, 0, p);
}

}  // namespace mica
