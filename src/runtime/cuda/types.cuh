#pragma once

// What kernels of nvcc share beside basics.cuh: element types, reductions, sizes of grids.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "mica/core/dtype.h"
#include "mica/core/error.h"
#include "mica/core/float8.h"
#include "mica/runtime/cuda/basics.cuh"

namespace mica::cuda {

/// The type values of T are computed in.
template <class T>
struct ComputeType {
  using type = T;
};
template <>
struct ComputeType<__half> {
  using type = float;
};
template <>
struct ComputeType<__nv_bfloat16> {
  using type = float;
};
template <>
struct ComputeType<Float8E4M3> {
  using type = float;
};
template <>
struct ComputeType<Float8E5M2> {
  using type = float;
};
template <class T>
using Compute = typename ComputeType<T>::type;

template <class T>
inline constexpr bool is_half = !std::is_same_v<T, Compute<T>>;

__device__ inline float to_compute(__half x) { return __half2float(x); }
__device__ inline float to_compute(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline float to_compute(Float8E4M3 x) { return x; }
__device__ inline float to_compute(Float8E5M2 x) { return x; }
template <class T>
__device__ inline T to_compute(T x) {
  return x;
}

/// Converts as the CPU side does: half types by way of float, anything to bool by "is not zero".
template <class To, class From>
__device__ inline To convert(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (is_half<From>) {
    return convert<To>(to_compute(x));
  } else if constexpr (std::is_same_v<To, __half>) {
    return __float2half_rn(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, __nv_bfloat16>) {
    return __float2bfloat16_rn(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (!std::is_same_v<To, Compute<To>>) {  // eight bits
    return To(static_cast<float>(x));
  } else if constexpr (std::is_same_v<To, uint64_t> && std::is_floating_point_v<From>) {
    return x >= From(0x1p63) ? static_cast<uint64_t>(x)
                             : static_cast<uint64_t>(static_cast<int64_t>(x));
  } else if constexpr (std::is_integral_v<To> && !std::is_same_v<To, int32_t> &&
                       std::is_floating_point_v<From>) {
    return static_cast<To>(static_cast<int64_t>(x));  // wraps, where the GPU would saturate
  } else {
    return static_cast<To>(x);
  }
}

/// Calls `f.template operator()<T>()` with the device type of a floating dtype.
template <class F>
decltype(auto) cuda_switch_float(DType t, const char* op, F&& f) {
  switch (t) {
    case DType::f64:
      return f.template operator()<double>();
    case DType::f32:
      return f.template operator()<float>();
    case DType::f16:
      return f.template operator()<__half>();
    case DType::bf16:
      return f.template operator()<__nv_bfloat16>();
    default:
      throw DTypeError(std::string(op) + ": expected a floating dtype, got " +
                       std::string(name_of(t)));
  }
}

/// The same for every dtype.
template <class F>
decltype(auto) cuda_switch_all(DType t, F&& f) {
  switch (t) {
    case DType::f64:
      return f.template operator()<double>();
    case DType::f32:
      return f.template operator()<float>();
    case DType::f16:
      return f.template operator()<__half>();
    case DType::bf16:
      return f.template operator()<__nv_bfloat16>();
    case DType::f8_e4m3:
      return f.template operator()<Float8E4M3>();
    case DType::f8_e5m2:
      return f.template operator()<Float8E5M2>();
    case DType::i64:
      return f.template operator()<int64_t>();
    case DType::i32:
      return f.template operator()<int32_t>();
    case DType::i16:
      return f.template operator()<int16_t>();
    case DType::i8:
      return f.template operator()<int8_t>();
    case DType::u64:
      return f.template operator()<uint64_t>();
    case DType::u32:
      return f.template operator()<uint32_t>();
    case DType::u16:
      return f.template operator()<uint16_t>();
    case DType::u8:
      return f.template operator()<uint8_t>();
    case DType::c64:
    case DType::c128:
      throw DTypeError("expected a real dtype, got " + std::string(name_of(t)));
    case DType::boolean:
      break;
  }
  return f.template operator()<bool>();
}

/// N computed values as T: halves are rounded two at a time, a third of the instructions.
template <class T, int N>
__device__ inline Vec<T, N> pack(const Compute<T> (&x)[N]) {
  Vec<T, N> v;
  if constexpr (is_half<T> && N % 2 == 0) {
#pragma unroll
    for (int i = 0; i < N; i += 2) {
      if constexpr (std::is_same_v<T, __half>) {
        const __half2 two = __floats2half2_rn(x[i], x[i + 1]);
        v.v[i] = two.x, v.v[i + 1] = two.y;
      } else {
        const __nv_bfloat162 two = __floats2bfloat162_rn(x[i], x[i + 1]);
        v.v[i] = two.x, v.v[i + 1] = two.y;
      }
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) v.v[i] = convert<T>(x[i]);
  }
  return v;
}

__host__ __device__ inline bool is_aligned(const void* p, size_t bytes) {
  return reinterpret_cast<uintptr_t>(p) % bytes == 0;
}

struct MaxOf {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};

template <class T>
__device__ inline T warp_max(T x) {
  return warp_reduce(x, MaxOf{});
}

/// Combines the values of a block of `kThreads` (a multiple of 32) in a fixed order; every thread
/// gets the result. `zero` is the neutral value. Synchronises the block.
template <int kThreads, class T, class F>
__device__ inline T block_reduce(T x, T zero, F combine) {
  static_assert(kThreads % 32 == 0 && kThreads <= 1024);
  __shared__ T partial[32];
  x = warp_reduce(x, combine);
  __syncthreads();  // an earlier call may still be reading
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = x;
  __syncthreads();
  x = threadIdx.x % 32 < kThreads / 32 ? partial[threadIdx.x % 32] : zero;
  return warp_reduce(x, combine);
}
template <int kThreads, class T>
__device__ inline T block_sum(T x) {
  return block_reduce<kThreads>(x, T(0), SumOf{});
}

/// Blocks of `per_block` elements for a loop that passes over memory once: as many as there are,
/// since a GPU that takes them in order reads and writes 8 % faster than one whose blocks stride.
inline unsigned grid_over(int64_t n, int64_t per_block) {
  const int64_t wanted = ceil_div<int64_t>(n, per_block);
  return static_cast<unsigned>(wanted < INT32_MAX ? wanted : INT32_MAX);
}

/// The same for kernels whose blocks have something to prepare: a few per multiprocessor, that
/// stride.
inline unsigned grid_for(int64_t n, int64_t per_block, int multiprocessors) {
  const int64_t wanted = ceil_div<int64_t>(n, per_block);
  const int64_t most = int64_t{multiprocessors} * 16;
  return static_cast<unsigned>(wanted < most ? wanted : most);
}

}  // namespace mica::cuda
