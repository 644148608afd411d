#pragma once

// What a generated kernel is given, and what it is written with. Run-time compilation takes this
// file as it is.
#if defined(__CUDACC_RTC__)
#include "mica/runtime/cuda/programmatic_launch.cuh"
#endif

namespace mica::fused {

inline constexpr int kThreads = 128;
inline constexpr int kMostInputs = 8;
inline constexpr int kMostOutputs = 4;
inline constexpr int kMostAxes = 8;

/// The outputs lie in one piece, element i at i. Inputs lie like them, or anyhow.
struct KernelArgs {
  const void* in[kMostInputs];
  void* out[kMostOutputs];
  long long steps;  ///< of whole vectors
  long long tail;   ///< elements after them
  // Axes of the inputs that do not lie like the outputs; axis 0 is the innermost.
  long long size[kMostAxes];
  unsigned magic[kMostAxes];  ///< division by the size: a product and a shift
  unsigned shift[kMostAxes];
  long long stride[kMostInputs][kMostAxes];
  // Of a reduction; a part of a row belongs to a block.
  long long rows;
  long long columns;
  long long parts;
  alignas(8) unsigned char params[512];  ///< functors with a state
};

#if defined(__CUDACC_RTC__)

using mica::wait_for_inputs;

struct f16 {
  unsigned short bits;
};
struct bf16 {
  unsigned short bits;
};

/// A value in the type it is computed in; integers of less than 64 bits in that many, but int.
template <class T>
__device__ T widen(T x) {
  return x;
}
__device__ inline long long widen(bool x) { return x; }
__device__ inline long long widen(unsigned char x) { return x; }
__device__ inline long long widen(signed char x) { return x; }
__device__ inline long long widen(unsigned short x) { return x; }
__device__ inline long long widen(short x) { return x; }
__device__ inline long long widen(unsigned x) { return x; }
__device__ inline float widen(f16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}
__device__ inline float widen(bf16 x) { return __uint_as_float(unsigned(x.bits) << 16); }

/// What was computed, as the type it is kept in.
template <class T>
struct Into {
  template <class X>
  static __device__ T from(X x) {
    return static_cast<T>(x);
  }
};
template <>
struct Into<bool> {
  template <class X>
  static __device__ bool from(X x) {
    return x != X(0);
  }
};
/// Wraps, where the GPU would saturate a float.
template <class T>
struct IntoNarrow {
  template <class X>
  static __device__ T from(X x) {
    return static_cast<T>(static_cast<long long>(x));
  }
};
template <>
struct Into<unsigned char> : IntoNarrow<unsigned char> {};
template <>
struct Into<signed char> : IntoNarrow<signed char> {};
template <>
struct Into<unsigned short> : IntoNarrow<unsigned short> {};
template <>
struct Into<short> : IntoNarrow<short> {};
template <>
struct Into<unsigned> : IntoNarrow<unsigned> {};
template <>
struct Into<unsigned long long> {
  template <class X>
  static __device__ unsigned long long from(X x) {
    if constexpr (X(0.5) != X(0)) {  // a float
      if (x >= X(9223372036854775808.0)) return static_cast<unsigned long long>(x);
    }
    return static_cast<unsigned long long>(static_cast<long long>(x));
  }
};
template <>
struct Into<f16> {
  static __device__ f16 from(f16 x) { return x; }
  template <class X>
  static __device__ f16 from(X x) {
    f16 y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(static_cast<float>(x)));
    return y;
  }
};
template <>
struct Into<bf16> {
  static __device__ bf16 from(bf16 x) { return x; }
  template <class X>
  static __device__ bf16 from(X x) {
    bf16 y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(static_cast<float>(x)));
    return y;
  }
};

template <class T, int V>
struct alignas(sizeof(T) * V < 16 ? sizeof(T) * V : 16) Vec {
  T v[V];
};
template <class T, int V>
__device__ Vec<T, V> load(const void* p, long long at) {
  return *reinterpret_cast<const Vec<T, V>*>(static_cast<const T*>(p) + at);
}
/// One value in the place of V.
template <class T, int V>
__device__ Vec<T, V> repeat(const void* p, long long at) {
  const T value = static_cast<const T*>(p)[at];
  Vec<T, V> x;
#pragma unroll
  for (int e = 0; e < V; ++e) x.v[e] = value;
  return x;
}
template <class T, int V>
__device__ void store(void* p, long long at, const Vec<T, V>& x) {
  *reinterpret_cast<Vec<T, V>*>(static_cast<T*>(p) + at) = x;
}

/// How elements become one; NaN wins.
template <class T>
struct Sum {
  static __device__ T none() { return T(0); }
  static __device__ T join(T a, T b) { return a + b; }
};
template <class T>
struct Max {
  static __device__ T none() { return -T(__int_as_float(0x7f800000)); }
  static __device__ T join(T a, T b) { return b > a || b != b ? b : a; }
};
template <class T>
struct Min {
  static __device__ T none() { return T(__int_as_float(0x7f800000)); }
  static __device__ T join(T a, T b) { return b < a || b != b ? b : a; }
};
/// What kLanes threads beside each other hold, a warp or a block; the first of them gets it.
template <class Fold, int kLanes, class T>
__device__ T join_lanes(T mine) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2)
    mine = Fold::join(mine, __shfl_xor_sync(0xffffffffu, mine, lanes));
  if constexpr (kLanes > 32) {
    __shared__ T warps[kLanes / 32];
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = mine;
    __syncthreads();
    mine = warps[0];
#pragma unroll
    for (int w = 1; w < kLanes / 32; ++w) mine = Fold::join(mine, warps[w]);
  }
  return mine;
}

/// The axes' indices of an element; Index is `unsigned` where they fit in 31 bits.
template <class Index, int kAxes>
struct Place {
  __device__ Place(const KernelArgs& a, Index rest) {
#pragma unroll
    for (int d = 0; d < kAxes - 1; ++d) {
      Index up;
      if constexpr (sizeof(Index) == 4) {
        up = (__umulhi(rest, a.magic[d]) + rest) >> a.shift[d];
      } else {
        up = rest / a.size[d];
      }
      index[d] = rest - up * static_cast<Index>(a.size[d]);
      rest = up;
    }
    index[kAxes - 1] = rest;
  }
  __device__ long long of(const KernelArgs& a, int input) const {
    long long at = 0;
#pragma unroll
    for (int d = 0; d < kAxes; ++d) at += static_cast<long long>(index[d]) * a.stride[input][d];
    return at;
  }
  Index index[kAxes];
};

#endif

}  // namespace mica::fused
