#pragma once

#include "mica/runtime/cuda/tf32.cuh"
#include "mica/runtime/cuda/types.cuh"

// Operands of the tensor cores' products of 16 by 8, from shared memory and from sums of other
// products. With g = lane / 4 and t = lane % 4, a lane holds of sums c the rows g and g + 8,
// columns 2t and 2t + 1 (c[0], c[1] and c[2], c[3]).
namespace mica::attention {

__device__ inline int lane_of() { return static_cast<int>(threadIdx.x % 32); }

template <bool transposed>
__device__ inline void load_matrices(uint32_t (&to)[4], const void* from) {
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(from));
  if constexpr (transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at));
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at));
}

/// f16 and bf16.
template <class Element>
struct HalfProduct {
  using T = Element;
  static constexpr int kDepth = 16;
  struct A {
    uint32_t v[4];
  };
  struct B {
    uint32_t v[2];
  };

  /// Rows row0 to row0 + 15 of a matrix in shared memory, columns k0 to k0 + kDepth - 1.
  static __device__ A rows(const T* s, int pitch, int row0, int k0) {
    A a;
    const int l = lane_of();
    load_matrices<false>(a.v, s + (row0 + l % 16) * pitch + k0 + l / 16 * 8);
    return a;
  }
  /// Right operands whose columns are rows n0 to n0 + 15 of a matrix: two of them.
  static __device__ void right_rows(B (&b)[2], const T* s, int pitch, int n0, int k0) {
    uint32_t v[4];
    const int l = lane_of();
    load_matrices<false>(v, s + (n0 + l % 8 + l / 16 * 8) * pitch + k0 + l / 8 % 2 * 8);
    b[0] = {{v[0], v[1]}};
    b[1] = {{v[2], v[3]}};
  }
  /// Right operands that are rows k0 to k0 + kDepth - 1 of a matrix, columns n0 to n0 + 15.
  static __device__ void right_columns(B (&b)[2], const T* s, int pitch, int k0, int n0) {
    uint32_t v[4];
    const int l = lane_of();
    load_matrices<true>(v, s + (k0 + l % 16) * pitch + n0 + l / 16 * 8);
    b[0] = {{v[0], v[1]}};
    b[1] = {{v[2], v[3]}};
  }
  /// A left operand of sums: their columns k * kDepth to (k + 1) * kDepth - 1.
  template <int N>
  static __device__ A left(const float (&c)[N][4], int k) {
    return {{pair(c[2 * k][0], c[2 * k][1]), pair(c[2 * k][2], c[2 * k][3]),
             pair(c[2 * k + 1][0], c[2 * k + 1][1]), pair(c[2 * k + 1][2], c[2 * k + 1][3])}};
  }
  static __device__ void multiply(float (&c)[4], const A& a, const B& b) {
    if constexpr (std::is_same_v<T, __half>)
      asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
          "{%8, %9}, {%0, %1, %2, %3};"
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
          : "r"(a.v[0]), "r"(a.v[1]), "r"(a.v[2]), "r"(a.v[3]), "r"(b.v[0]), "r"(b.v[1]));
    else
      asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, "
          "%7}, {%8, %9}, {%0, %1, %2, %3};"
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
          : "r"(a.v[0]), "r"(a.v[1]), "r"(a.v[2]), "r"(a.v[3]), "r"(b.v[0]), "r"(b.v[1]));
  }

 private:
  static __device__ uint32_t pair(float low, float high) {
    const float both[2] = {low, high};
    const cuda::Vec<T, 2> packed = cuda::pack<T>(both);
    return *reinterpret_cast<const uint32_t*>(&packed);
  }
};

/// f32: rounded to TF32, or, `exact`, as a sum of two such numbers, of whose products the smallest
/// is left out. Columns of K are taken in the order 0, 2, 4, 6, 1, 3, 5, 7 on both sides.
template <bool exact>
struct FloatProduct {
  using T = float;
  static constexpr int kDepth = 8;
  struct Number {
    uint32_t high;
    uint32_t low;
  };
  struct A {
    Number v[4];
  };
  struct B {
    Number v[2];
  };

  static __device__ A rows(const T* s, int pitch, int row0, int k0) {
    const int l = lane_of();
    const T* at = s + (row0 + l / 4) * pitch + k0 + l % 4 * 2;
    return {{split(at[0]), split(at[8 * pitch]), split(at[1]), split(at[8 * pitch + 1])}};
  }
  static __device__ void right_rows(B (&b)[2], const T* s, int pitch, int n0, int k0) {
    const int l = lane_of();
    const T* at = s + (n0 + l / 4) * pitch + k0 + l % 4 * 2;
    b[0] = {{split(at[0]), split(at[1])}};
    b[1] = {{split(at[8 * pitch]), split(at[8 * pitch + 1])}};
  }
  static __device__ void right_columns(B (&b)[2], const T* s, int pitch, int k0, int n0) {
    const int l = lane_of();
    const T* at = s + (k0 + l % 4 * 2) * pitch + n0 + l / 4;
    b[0] = {{split(at[0]), split(at[pitch])}};
    b[1] = {{split(at[8]), split(at[pitch + 8])}};
  }
  template <int N>
  static __device__ A left(const float (&c)[N][4], int k) {
    return {{split(c[k][0]), split(c[k][2]), split(c[k][1]), split(c[k][3])}};
  }
  static __device__ void multiply(float (&c)[4], const A& a, const B& b) {
    const uint32_t high[4] = {a.v[0].high, a.v[1].high, a.v[2].high, a.v[3].high};
    if constexpr (exact) {
      const uint32_t low[4] = {a.v[0].low, a.v[1].low, a.v[2].low, a.v[3].low};
      tf32::mma(c, low, b.v[0].high, b.v[1].high);
      tf32::mma(c, high, b.v[0].low, b.v[1].low);
    }
    tf32::mma(c, high, b.v[0].high, b.v[1].high);
  }

 private:
  static __device__ Number split(float x) {
    if constexpr (!exact) return {tf32::round(x), 0};
    const uint32_t high = tf32::round(x) & 0xffffe000U;
    const float rest = x - __uint_as_float(high);
    return {high, fabsf(x) < INFINITY ? tf32::round(rest) : 0U};
  }
};

}  // namespace mica::attention
