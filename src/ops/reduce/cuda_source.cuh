#pragma once

#include <cstring>
#include <limits>

#include "mica/runtime/cuda/types.cuh"

// How a reduction reads its elements: 16 bytes at a time or one by one, and how it writes results
// of their dtype. Few types, since each takes a set of kernels of its own.
namespace mica::cuda {

/// Elements of type T.
template <class T>
struct Typed {
  using Value = T;
  static constexpr int kVector = kVec16<T>;  ///< elements of 16 bytes, where that is a constant

  __host__ __device__ static constexpr int bytes() { return sizeof(T); }
  __device__ T one(const void* p) const { return *static_cast<const T*>(p); }
  /// Calls f with an array of the elements in 16 bytes.
  template <class F>
  __device__ void unpack(const uint4& raw, F f) const {
    T x[kVector];
    memcpy(x, &raw, sizeof raw);
    f(x);
  }
  __device__ void store(void* out, int64_t at, T x) const { static_cast<T*>(out)[at] = x; }
};

/// f16 or bf16, computed in float.
struct Halves {
  using Value = float;
  static constexpr int kVector = 8;
  bool bfloat;

  __host__ __device__ static constexpr int bytes() { return 2; }
  __device__ float one(const void* p) const {
    return bfloat ? to_compute(*static_cast<const __nv_bfloat16*>(p))
                  : to_compute(*static_cast<const __half*>(p));
  }
  template <class F>
  __device__ void unpack(const uint4& raw, F f) const {
    const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
    float x[kVector];
    if (bfloat) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        x[2 * i] = __uint_as_float(words[i] << 16);
        x[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000U);
      }
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        __half2 pair;
        memcpy(&pair, &words[i], sizeof pair);
        const float2 two = __half22float2(pair);
        x[2 * i] = two.x;
        x[2 * i + 1] = two.y;
      }
    }
    f(x);
  }
  __device__ void store(void* out, int64_t at, float x) const {
    if (bfloat) {
      static_cast<__nv_bfloat16*>(out)[at] = __float2bfloat16_rn(x);
    } else {
      static_cast<__half*>(out)[at] = __float2half_rn(x);
    }
  }
};

/// Integers of any dtype and bool as int64_t. Sums and products are right for u64 too; where the
/// order counts, `ordered` gives numbers that have it.
struct Integers {
  using Value = int64_t;
  static constexpr int kVector = 1;
  int size;
  uint64_t sign;  ///< the bit that is extended to the left; 0 of unsigned ones
  uint64_t flip;  ///< bits that are turned over in reading and in writing

  static Integers of(DType t) {
    const bool has_sign = info_of(t).kind == DTypeKind::signed_integer;
    const auto bytes = static_cast<int>(size_of(t));
    return {.size = bytes, .sign = has_sign ? uint64_t{1} << (8 * bytes - 1) : 0, .flip = 0};
  }
  static Integers ordered(DType t) {
    Integers all = of(t);
    if (t == DType::u64) all.flip = uint64_t{1} << 63;
    return all;
  }

  __host__ __device__ int bytes() const { return size; }
  /// From the bits of an element.
  __device__ int64_t extend(uint64_t bits) const {
    return static_cast<int64_t>(((bits ^ sign) - sign) ^ flip);
  }
  __device__ int64_t one(const void* p) const {
    switch (size) {
      case 8:
        return extend(*static_cast<const uint64_t*>(p));
      case 4:
        return extend(*static_cast<const uint32_t*>(p));
      case 2:
        return extend(*static_cast<const uint16_t*>(p));
      default:
        return extend(*static_cast<const uint8_t*>(p));
    }
  }
  template <class F>
  __device__ void unpack(const uint4& raw, F f) const {
    switch (size) {
      case 8:
        return unpack_as<uint64_t>(raw, f);
      case 4:
        return unpack_as<uint32_t>(raw, f);
      case 2:
        return unpack_as<uint16_t>(raw, f);
      default:
        return unpack_as<uint8_t>(raw, f);
    }
  }
  __device__ void store(void* out, int64_t at, int64_t value) const {
    const uint64_t x = static_cast<uint64_t>(value) ^ flip;
    switch (size) {
      case 8:
        static_cast<uint64_t*>(out)[at] = x;
        break;
      case 4:
        static_cast<uint32_t*>(out)[at] = static_cast<uint32_t>(x);
        break;
      case 2:
        static_cast<uint16_t*>(out)[at] = static_cast<uint16_t>(x);
        break;
      default:
        static_cast<uint8_t*>(out)[at] = static_cast<uint8_t>(x);
    }
  }

 private:
  template <class T, class F>
  __device__ void unpack_as(const uint4& raw, F f) const {
    T from[kVec16<T>];
    int64_t x[kVec16<T>];
    memcpy(from, &raw, sizeof raw);
#pragma unroll
    for (int e = 0; e < kVec16<T>; ++e) x[e] = extend(from[e]);
    f(x);
  }
};

/// 1 for each element of any dtype that is not zero: whose bits of `mask` are not all zero.
struct Presence {
  using Value = int;
  static constexpr int kVector = 1;
  int size;
  uint64_t mask;

  __host__ __device__ int bytes() const { return size; }
  __device__ int one(const void* p) const {
    switch (size) {
      case 8:
        return (*static_cast<const uint64_t*>(p) & mask) != 0;
      case 4:
        return (*static_cast<const uint32_t*>(p) & mask) != 0;
      case 2:
        return (*static_cast<const uint16_t*>(p) & mask) != 0;
      default:
        return *static_cast<const uint8_t*>(p) != 0;
    }
  }
  template <class F>
  __device__ void unpack(const uint4& raw, F f) const {
    switch (size) {
      case 8:
        return unpack_as<uint64_t>(raw, f);
      case 4:
        return unpack_as<uint32_t>(raw, f);
      case 2:
        return unpack_as<uint16_t>(raw, f);
      default:
        return unpack_as<uint8_t>(raw, f);
    }
  }

 private:
  template <class T, class F>
  __device__ void unpack_as(const uint4& raw, F f) const {
    T from[kVec16<T>];
    int x[kVec16<T>];
    memcpy(from, &raw, sizeof raw);
#pragma unroll
    for (int e = 0; e < kVec16<T>; ++e) x[e] = (from[e] & static_cast<T>(mask)) != 0;
    f(x);
  }
};

/// Calls f with the source for a floating dtype, for any, or for any by its order.
template <class F>
void with_float_source(DType t, F&& f) {
  switch (t) {
    case DType::f64:
      return f(Typed<double>{});
    case DType::f32:
      return f(Typed<float>{});
    default:
      return f(Halves{.bfloat = t == DType::bf16});
  }
}
template <class F>
void with_source(DType t, F&& f) {
  if (is_floating(t)) return with_float_source(t, f);
  f(Integers::of(t));
}
template <class F>
void with_ordered_source(DType t, F&& f) {
  if (is_floating(t)) return with_float_source(t, f);
  f(Integers::ordered(t));
}

}  // namespace mica::cuda
