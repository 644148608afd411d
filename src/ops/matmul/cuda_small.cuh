#pragma once

// What the kernels of small products share. Run-time compilation takes this file, and those of the
// kernels, as they are.
#include "mica/ops/matmul/cuda_small_product.h"
#include "mica/runtime/cuda/cluster.cuh"
#include "mica/runtime/cuda/programmatic_launch.cuh"
#include "mica/runtime/cuda/types.cuh"

namespace mica::small_product {

using cuda::cluster_arrive;
using cuda::cluster_wait;
using cuda::of_block;
using cuda::send;

/// The tensor core cuts the last 13 bits off. An exact rounding takes three instructions for each
/// operand, which would take longer than the products; enlarging by a third to two thirds of the
/// last place that stays takes one. It errs by two thirds of that place at most and by none on
/// average, and leaves what TF32 can hold, infinity and NaN alone.
__device__ inline uint32_t to_tf32(float x) { return __float_as_uint(x * (1 + 0x1.555p-12F)); }

/// V elements of a row of the result, as far as they are inside, and what is to be done to them:
/// three steps, so that what the end takes is read, and computed, while the operands come. Here the
/// end is a program, called with the place and the values.
template <int V, class End>
class Elements {
 public:
  Elements() = default;
  __device__ Elements(const SmallProduct& p, const End&, int row, int col)
      : at_(int64_t{row} * p.n + col),
        count_(row < p.m ? min(p.n - col, V) : 0),
        whole_(V > 1 && count_ == V && p.out_vectors) {}

  __device__ void prepare(const End&) {}

  /// `sums` are of the products and the bias.
  __device__ void finish(const End& end, float (&sums)[V]) const {
    if (whole_) return end(at_, sums);
#pragma unroll
    for (int e = 0; e < V; ++e) {
      float one[1] = {sums[e]};
      if (e < count_) end(at_ + e, one);
    }
  }

 private:
  int64_t at_ = 0;
  int count_ = 0;
  bool whole_ = false;
};

/// All three steps.
template <int V, class End>
__device__ void finish(const SmallProduct& p, const End& end, int row, int col, float (&sums)[V]) {
  Elements<V, End> elements(p, end, row, col);
  elements.prepare(end);
  elements.finish(end, sums);
}

}  // namespace mica::small_product
