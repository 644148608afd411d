#pragma once

#include "mica/ops/attention/cuda_terms.h"

// How attention by wgmma is compiled and launched. Run-time compilation takes this file as it is.
namespace mica::attention {

/// How a kernel is compiled.
struct WgmmaShape {
  int width;   ///< of heads, with what is left free: 64 or 128
  int groups;  ///< of four warps in a block
  int others;  ///< rows of a tile that passes
  int blocks;  ///< of a multiprocessor, at least
};

inline constexpr int kGroupRows = 64;
inline constexpr int kGroupThreads = 128;
inline constexpr int kGradStages = 3;  ///< tiles that pass, in the gradient

MICA_PORTABLE constexpr int own_bytes(const WgmmaShape& s) {
  return s.groups * kGroupRows * s.width * 2;
}
MICA_PORTABLE constexpr int tile_bytes(const WgmmaShape& s) { return s.others * s.width * 2; }
/// Shared memory: tiles begin at a multiple of 1024 bytes.
MICA_PORTABLE constexpr int forward_bytes(const WgmmaShape& s) {
  return 1024 + own_bytes(s) + 4 * tile_bytes(s);
}
MICA_PORTABLE constexpr int grad_key_bytes(const WgmmaShape& s) {
  return 1024 + 2 * own_bytes(s) +
         kGradStages * (2 * tile_bytes(s) + s.others * static_cast<int>(sizeof(QueryTerms)));
}
MICA_PORTABLE constexpr int grad_query_bytes(const WgmmaShape& s) {
  return 1024 + 2 * own_bytes(s) + 2 * kGradStages * tile_bytes(s);
}

/// Operands and results of the gradient; T is f16 or bf16.
struct WgmmaGradPointers {
  const void *dy, *q, *k, *v;
  const QueryTerms* rows;
  void *dq, *dk, *dv;
};

}  // namespace mica::attention
