#pragma once

// What the kernels of linear_cross_entropy and linear_cross_entropy_dgrad share.
#include "mica/op/kernel.h"
#include "mica/ops/activation/functors.h"
#include "mica/ops/cross_entropy/cross_entropy.h"
#include "mica/ops/cross_entropy/cuda_targets.cuh"
#include "mica/ops/elementwise/functors.h"
#include "mica/runtime/cuda/cluster.cuh"

namespace mica {

/// A layer of few classes and its loss, as kernels take them.
struct LinearLoss {
  const float* x;       ///< (rows, inner)
  const float* weight;  ///< (classes, inner)
  const float* bias;    ///< (classes), or null
  cuda::CudaTargets targets;
  int rows, inner, classes;
  float smoothing;
  float* loss;
  float* grad;         ///< (rows, classes)
  float* dx;           ///< (rows, inner), or null
  const float* saved;  ///< (rows, inner), for the gradient of the activation; null without one
  Activation activation;
};

LinearLoss linear_loss_of(const CrossEntropyParams& params, const Call& call);
LinearLoss linear_loss_of(const LinearCrossEntropyParams& params, const Call& call);

/// Whether one cluster could compute it; the reason where not.
Support cluster_supports(const Specs& specs);

constexpr int kLossBlocks = 8;  ///< of the cluster
constexpr int kMostClasses = 16;

/// At most 64 rows of 512, in one pass: what the products read serves their gradient too.
template <class P>
Kernel linear_loss_few_rows_kernel();

namespace cuda {

/// Adds up n values of each lane over the lanes that differ in `half` and the bits below it. Every
/// lane writes some of the sums.
template <int n, int half, int most>
__device__ void add_lanes(float (&v)[most], float* to) {
  if constexpr (half == 0) {
#pragma unroll
    for (int i = 0; i < n; ++i) to[i] = v[i];
  } else if constexpr (n % 2 == 0) {
    const bool upper = (threadIdx.x & half) != 0;
#pragma unroll
    for (int i = 0; i < n / 2; ++i) {
      const float low = v[i];
      const float high = v[i + n / 2];
      v[i] = (upper ? high : low) + __shfl_xor_sync(0xffffffffU, upper ? low : high, half);
    }
    add_lanes<n / 2, half / 2>(v, upper ? to + n / 2 : to);
  } else {
#pragma unroll
    for (int i = 0; i < n; ++i) v[i] += __shfl_xor_sync(0xffffffffU, v[i], half);
    add_lanes<n, half / 2>(v, to);
  }
}

}  // namespace cuda
}  // namespace mica
