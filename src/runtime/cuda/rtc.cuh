#pragma once

// What kernels that NVRTC compiles get in the place of headers that it cannot take: it is embedded
// under the names of <cstdint>, <cuda_runtime.h>, runtime/cuda/types.cuh and
// runtime/cuda/programmatic_launch.cuh, and has what those kernels use of them.
#define INFINITY __int_as_float(0x7f800000)

using int8_t = signed char;
using uint8_t = unsigned char;
using int32_t = int;
using uint32_t = unsigned;
using int64_t = long;
using uint64_t = unsigned long;

namespace mica {

__device__ inline void wait_for_inputs() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace mica

namespace mica::cuda {

template <class T>
__host__ __device__ constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}

/// N elements that are loaded and stored as one access, or as several of 16 bytes.
template <class T, int N>
struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Vec {
  T v[N];
};

/// Elements of T in a 16-byte access.
template <class T>
inline constexpr int kVec16 = 16 / static_cast<int>(sizeof(T));

template <int N, class T>
__device__ inline Vec<T, N> load_vec(const T* p) {
  return *reinterpret_cast<const Vec<T, N>*>(p);
}
template <int N, class T>
__device__ inline void store_vec(T* p, const Vec<T, N>& v) {
  *reinterpret_cast<Vec<T, N>*>(p) = v;
}

struct SumOf {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
/// Combines the values of a warp in a fixed order; every lane gets the result.
template <class T, class F>
__device__ inline T warp_reduce(T x, F combine) {
  for (int offset = 16; offset > 0; offset /= 2)
    x = combine(x, __shfl_xor_sync(0xffffffffU, x, offset));
  return x;
}
template <class T>
__device__ inline T warp_sum(T x) {
  return warp_reduce(x, SumOf{});
}
/// Division of 32-bit numbers below 2^31 by a constant: one multiplication and a shift.
struct Divider {
  uint32_t divisor = 1;
  uint32_t magic = 1;
  uint32_t shift = 0;

  Divider() = default;
  explicit Divider(uint32_t d) : divisor(d) {
    while (shift < 32 && (uint64_t{1} << shift) < d) ++shift;
    magic = static_cast<uint32_t>(((uint64_t{1} << 32) * ((uint64_t{1} << shift) - d)) / d + 1);
  }
  __device__ uint32_t quotient(uint32_t n) const { return (__umulhi(n, magic) + n) >> shift; }
};

}  // namespace mica::cuda
