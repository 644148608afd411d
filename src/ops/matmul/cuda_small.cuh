#pragma once

// What the kernels of small products share.
#include "mica/ops/matmul/cuda_activation.cuh"
#include "mica/ops/matmul/cuda_small.h"
#include "mica/runtime/cuda/cluster.cuh"
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
/// three steps, so that what the end takes is read, and computed, while the operands come.
template <int V>
class Elements {
 public:
  Elements() = default;
  __device__ Elements(const SmallProduct& p, int row, int col)
      : at_(int64_t{row} * p.n + col),
        count_(row < p.m ? min(p.n - col, V) : 0),
        whole_(V > 1 && count_ == V && p.out_vectors) {
    const float* other = p.saved ? p.saved : p.added;
    if (!other) return;
    if (whole_) {
      other_ = cuda::load_vec<V>(other + at_);
      return;
    }
#pragma unroll
    for (int e = 0; e < V; ++e)
      if (e < count_) other_.v[e] = other[at_ + e];
  }

  /// Computes what does not depend on the sums: the slope of an activation.
  __device__ void prepare(const SmallProduct& p) {
    if (!p.saved || p.activation == Activation::relu) return;
#pragma unroll
    for (int e = 0; e < V; ++e) other_.v[e] = slope(p.activation, other_.v[e]);
  }

  /// `sums` are of the products and the bias.
  __device__ void finish(const SmallProduct& p, const float (&sums)[V]) const {
    cuda::Vec<float, V> x;
    cuda::Vec<float, V> y;
#pragma unroll
    for (int e = 0; e < V; ++e) {
      x.v[e] = sums[e];
      const float sum = p.added ? sums[e] + other_.v[e] : sums[e];
      y.v[e] = p.saved ? gradient(p.activation, sum, other_.v[e]) : activated(p.activation, sum);
    }
    if (p.product) write(p.product, x);
    write(p.out, y);
  }

 private:
  static __device__ float gradient(Activation activation, float dy, float other) {
    return activation == Activation::relu ? functor::ReluGrad{}(dy, other) : dy * other;
  }
  __device__ void write(float* to, const cuda::Vec<float, V>& v) const {
    if (whole_) return cuda::store_vec<V>(to + at_, v);
#pragma unroll
    for (int e = 0; e < V; ++e)
      if (e < count_) to[at_ + e] = v.v[e];
  }

  int64_t at_ = 0;
  int count_ = 0;
  bool whole_ = false;
  cuda::Vec<float, V>
      other_{};  ///< what is added, or saved: then what the sums are multiplied with
};

/// All three steps.
template <int V>
__device__ void finish(const SmallProduct& p, int row, int col, const float (&sums)[V]) {
  Elements<V> elements(p, row, col);
  elements.prepare(p);
  elements.finish(p, sums);
}

}  // namespace mica::small_product
