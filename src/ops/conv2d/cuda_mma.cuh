#pragma once

#include "mica/runtime/cuda/types.cuh"

namespace mica::few {

/// Two 16-bit values as a register of a tensor core's operand.
__device__ inline uint32_t pack(uint32_t low, uint32_t high) { return low | high << 16; }

/// c (16, 8) += a (16, 16) b (16, 8), T is __half or __nv_bfloat16. With g = lane / 4 and t = lane
/// % 4, a lane holds rows g and g + 8 of a, columns 2t, 2t + 1 and 8 after (rows first); rows 2t,
/// 2t + 1 and 8 after of column g of b; rows g and g + 8 of c, columns 2t and 2t + 1.
template <class T>
__device__ inline void mma(float (&c)[4], const uint4& a, uint32_t b0, uint32_t b1) {
  if constexpr (std::is_same_v<T, __half>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
  }
}

}  // namespace mica::few
