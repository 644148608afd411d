#pragma once

// What the kernels of the loss share.
#include <limits>

#include "mica/runtime/cuda/types.cuh"

namespace mica::cuda {

/// Target of a row; i64, i32 or u8.
struct CudaTargets {
  const void* data;
  DType dtype;
  int64_t ignored;

  __device__ int64_t operator[](int64_t i) const {
    if (dtype == DType::i64) return static_cast<const int64_t*>(data)[i];
    if (dtype == DType::i32) return static_cast<const int32_t*>(data)[i];
    return static_cast<const uint8_t*>(data)[i];
  }
};

/// Good to two units in the last place where x is small; the error of large negative x is lost in
/// the sum, or in the result, that they are a small part of.
__device__ inline float exp_of(float x) { return __expf(x); }
__device__ inline double exp_of(double x) { return exp(x); }

/// A row of few classes: `lanes` threads that lie together hold it, `each` classes of a thread.
template <class C, int lanes, int each>
struct LossRow {
  C x[each];  ///< class e * lanes + lane: logits, then the softmax

  static __device__ int lane() { return static_cast<int>(threadIdx.x) % lanes; }
  static __device__ int class_of(int e) { return e * lanes + lane(); }

  /// Makes the softmax of the logits and gives the loss, NaN for a target that is no class. All
  /// threads of the warp call it.
  __device__ C softmax(int64_t target, int classes, C smoothing) {
    constexpr C kMost = std::numeric_limits<C>::max();
    C largest = -kMost;
    C total = 0;   // of the logits
    C wanted = 0;  // the target's logit
#pragma unroll
    for (int e = 0; e < each; ++e) {
      if (class_of(e) >= classes) continue;
      largest = max(largest, x[e]);  // a NaN is in the sum
      total += x[e];
      if (class_of(e) == target) wanted = x[e];
    }
    // It stays finite, so that infinite logits give the infinite logarithm they should.
    largest = min(over_lanes(largest, MaxOf{}), kMost);
    wanted = over_lanes(wanted, SumOf{});
    if (smoothing != C(0)) total = over_lanes(total, SumOf{});
    C sum = 0;
#pragma unroll
    for (int e = 0; e < each; ++e) {
      x[e] = class_of(e) < classes ? exp_of(x[e] - largest) : C(0);
      sum += x[e];
    }
    sum = over_lanes(sum, SumOf{});
    const C scale = C(1) / sum;
#pragma unroll
    for (int e = 0; e < each; ++e) x[e] *= scale;
    const C lse = largest + log(sum);
    const C value = target >= 0 && target < classes ? lse - wanted : static_cast<C>(NAN);
    if (smoothing == C(0)) return value;
    return (C(1) - smoothing) * value + smoothing * (lse - total / static_cast<C>(classes));
  }

  /// Writes the gradient of the logits; `share` is that of the row's loss.
  template <class T>
  __device__ void write_grad(T* to, int64_t target, int64_t ignored, int classes, C smoothing,
                             C share) const {
    const C factor = target >= 0 && target < classes ? share : static_cast<C>(NAN);
    const C off = smoothing / static_cast<C>(classes);
#pragma unroll
    for (int e = 0; e < each; ++e) {
      const int c = class_of(e);
      if (c >= classes) break;
      const C value = factor * (x[e] - (c == target ? off + (C(1) - smoothing) : off));
      to[c] = convert<T>(target == ignored ? C(0) : value);
    }
  }

 private:
  template <class F>
  static __device__ C over_lanes(C v, F combine) {
    for (int offset = lanes / 2; offset > 0; offset /= 2)
      v = combine(v, __shfl_xor_sync(0xffffffffU, v, offset));
    return v;
  }
};

}  // namespace mica::cuda
