#pragma once

#include <algorithm>

#include "mica/ops/elementwise/cpu_loop.h"
#include "mica/runtime/cpu/philox.h"

namespace mica {

inline constexpr int64_t kWordsAtOnce = 1024;

/// Calls `f(i, words, count)` with the random words of the elements i … i + count - 1, in parallel,
/// for parts of at most kWordsAtOnce that cover 0 … n - 1. i is a multiple of 4, and words
/// go on up to the next multiple of 32.
template <class F>
void for_words(const int64_t* counter, int64_t n, F&& f) {
  constexpr int64_t kBlocks = kWordsAtOnce / 4;
  const auto seed = static_cast<uint64_t>(counter[0]);
  const auto first = static_cast<uint64_t>(counter[1]);
  parallel_for((n + 3) / 4, kElementGrain / 8, [&](int64_t begin, int64_t end) {
    alignas(32) uint32_t words[kWordsAtOnce];
    for (int64_t b = begin; b < end; b += kBlocks) {
      const int64_t blocks = std::min(kBlocks, end - b);
      for (int64_t k = 0; k < blocks; k += 8)
        philox_8_blocks(seed, first + static_cast<uint64_t>(b + k), words + 4 * k);
      f(b * 4, static_cast<const uint32_t*>(words), std::min(4 * blocks, n - b * 4));
    }
  });
}

}  // namespace mica
