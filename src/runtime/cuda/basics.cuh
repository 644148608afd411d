#pragma once

// What kernels share, those of nvcc and those of NVRTC: 16-byte access, sums of a warp, division,
// programmatic dependent launch.
#include <cstdint>

namespace mica {

/// Waits until the launches before this one have ended and their results can be read; the launch
/// after this one may begin, to wait likewise. In a kernel that was launched without
/// ProgrammaticLaunch it comes back at once.
__device__ inline void wait_for_inputs() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  // A GPU takes one such word of a block in 1.2 ns: of half a million blocks that copy 2 KB each it
  // is 632 µs, where the memory takes 500. What many blocks compute gains nothing by it either.
  constexpr unsigned kFewBlocks = 4096;
  if (gridDim.x <= kFewBlocks) asm volatile("griddepcontrol.launch_dependents;");
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
