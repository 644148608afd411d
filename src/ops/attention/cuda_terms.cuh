#pragma once

#include "mica/core/philox.h"
#include "mica/ops/attention/cuda_terms.h"
#if defined(__CUDACC_RTC__)
#include "mica/ops/fused/device.h"
#else
#include "mica/runtime/cuda/types.cuh"
#endif

// How our kernels of attention read masks and random numbers. Run-time compilation takes this file
// as it is.
namespace mica::attention {

template <class T>
__device__ auto number_of(T x) {
#if defined(__CUDACC_RTC__)
  return fused::widen(x);
#else
  return cuda::to_compute(x);
#endif
}

__device__ inline int64_t keys_of(const AttentionProblem& p, const Terms& terms, int64_t b) {
  if (!p.has_lengths) return p.keys;
  const int64_t length = terms.lengths[b];
  return length < 0 ? 0 : (length < p.keys ? length : p.keys);
}

/// What a mask adds to a score; -inf where it hides the key.
template <class T, class C>
__device__ C added(const AttentionProblem& p, const Terms& terms, int64_t b, int64_t h, int64_t i,
                   int64_t j) {
  const int64_t at = p.masks.at(b, h, i) + j * p.masks.col;
  if (p.mask == AttentionMask::boolean)
    return static_cast<const bool*>(terms.mask)[at] ? C(0) : -C(INFINITY);
  if (p.mask == AttentionMask::added)
    return static_cast<C>(number_of(static_cast<const T*>(terms.mask)[at]));
  return C(0);
}

/// What dropout multiplies a weight by.
template <class C>
__device__ C dropped(const Terms& terms, int64_t weight, const Dropping& dropping) {
  const Philox4 block = philox(static_cast<unsigned long long>(terms.counter[0]),
                               static_cast<unsigned long long>(terms.counter[1] + weight / 4));
  const auto lane = static_cast<int>(weight % 4);
  const unsigned int word = lane == 0   ? block.v[0]
                            : lane == 1 ? block.v[1]
                            : lane == 2 ? block.v[2]
                                        : block.v[3];
  return unit_float(word) >= dropping.threshold ? static_cast<C>(dropping.kept) : C(0);
}

}  // namespace mica::attention
