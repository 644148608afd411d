#pragma once

#if defined(__CUDACC_RTC__)
#include "mica/runtime/cuda/types.cuh"
#else
#include <cstdint>
#endif

namespace mica::few_rows {

inline constexpr int kWarps = 8;  ///< of a block
inline constexpr int kMostRows = 8;

enum class Kind : int { f32, f16, bf16 };
/// Elements of 16 bytes.
constexpr int vector_of(Kind kind) { return kind == Kind::f32 ? 4 : 8; }

/// x (m, n) = a (m, k) b (n, k) + bias (n); K lies together in both, in whole 16-byte vectors.
struct Problem {
  const void* a;
  const void* b;
  const void* bias;  ///< or null
  int64_t a_pitch;   ///< vectors from row to row
  int64_t b_pitch;
  int m;
  int n;
  int vectors;  ///< of K
  int parts;    ///< warps that share a column, a power of two up to kWarps
};

/// The kernel that stores what it computes, for up to `m` rows.
using Known = void (*)(Problem, void*);
Known known_kernel(Kind kind, int m);
/// What a kernel's template takes for `m` rows.
constexpr int most_of(int m) { return m <= 1 ? 1 : m <= 4 ? 4 : kMostRows; }

}  // namespace mica::few_rows
