#pragma once

#include <cstdint>

namespace mica::tf32 {

/// Rounds to the 10 bits behind the point that tensor cores read, ties away from zero, as
/// cvt.rna.tf32 does; it leaves the bits after them, which they ignore, as they come.
__device__ inline uint32_t round(float x) {
  const uint32_t bits = __float_as_uint(x);
  return fabsf(x) < INFINITY ? bits + 0x1000U : bits;
}

/// c (16, 8) += a (16, 8) b (8, 8). With g = lane / 4 and t = lane % 4, a lane holds of a (g, t),
/// (g + 8, t), (g, t + 4), (g + 8, t + 4); of b (t, g), (t + 4, g); of c (g, 2t), (g, 2t + 1), (g +
/// 8, 2t), (g + 8, 2t + 1).
__device__ inline void mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace mica::tf32
