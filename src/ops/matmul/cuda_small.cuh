#pragma once

// What the kernels of small products share.
#include "mica/ops/activation/functors.h"
#include "mica/ops/elementwise/functors.h"
#include "mica/ops/matmul/cuda_small.h"
#include "mica/runtime/cuda/cluster.cuh"
#include "mica/runtime/cuda/types.cuh"

namespace mica::small_product {

using cuda::cluster_arrive;
using cuda::cluster_wait;
using cuda::of_block;
using cuda::send;
using cuda::shared_address;

__device__ inline float finished(float x, float bias, Activation activation) {
  x += bias;
  if (activation == Activation::relu) return functor::Relu{}(x);
  return activation == Activation::gelu ? functor::Gelu{}(x) : x;
}

}  // namespace mica::small_product
