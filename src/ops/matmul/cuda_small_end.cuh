#pragma once

// The ends of small products that are compiled in: ReLU and GELU, which most networks have, and
// their gradients. Others are generated.
#include "mica/ops/activation/functors.h"
#include "mica/ops/elementwise/functors.h"
#include "mica/ops/matmul/cuda_small.cuh"
#include "mica/ops/matmul/cuda_small.h"

namespace mica::small_product {

template <int V>
class Elements<V, SmallEnd> {
 public:
  Elements() = default;
  __device__ Elements(const SmallProduct& p, const SmallEnd& end, int row, int col)
      : at_(int64_t{row} * p.n + col),
        count_(row < p.m ? min(p.n - col, V) : 0),
        whole_(V > 1 && count_ == V && p.out_vectors) {
    if (!end.saved) return;
    if (whole_) {
      saved_ = cuda::load_vec<V>(end.saved + at_);
      return;
    }
#pragma unroll
    for (int e = 0; e < V; ++e)
      if (e < count_) saved_.v[e] = end.saved[at_ + e];
  }

  /// Computes what does not depend on the sums: GELU's slope.
  __device__ void prepare(const SmallEnd& end) {
    if (!end.saved || end.activation != Activation::gelu) return;
#pragma unroll
    for (int e = 0; e < V; ++e) saved_.v[e] = functor::GeluGrad{}(1.0F, saved_.v[e]);
  }

  __device__ void finish(const SmallEnd& end, const float (&sums)[V]) const {
    cuda::Vec<float, V> x;
    cuda::Vec<float, V> y;
#pragma unroll
    for (int e = 0; e < V; ++e) {
      x.v[e] = sums[e];
      y.v[e] = end.saved ? gradient(end.activation, sums[e], saved_.v[e])
                         : activated(end.activation, sums[e]);
    }
    if (end.product) write(end.product, x);
    write(end.out, y);
  }

 private:
  static __device__ float activated(Activation activation, float x) {
    if (activation == Activation::relu) return functor::Relu{}(x);
    return activation == Activation::gelu ? functor::Gelu{}(x) : x;
  }
  static __device__ float gradient(Activation activation, float dy, float saved) {
    return activation == Activation::relu ? functor::ReluGrad{}(dy, saved) : dy * saved;
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
  cuda::Vec<float, V> saved_{};  ///< then what the sums are multiplied with
};

}  // namespace mica::small_product
