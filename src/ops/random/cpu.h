#pragma once

#include "mica/core/philox.h"
#include "mica/ops/elementwise/cpu_loop.h"

namespace mica {

/// Calls `f(i, block)` for i = 0, 4, 8, … < n with the random words of elements i … i+3.
template <class F>
void for_blocks(const int64_t* counter, int64_t n, F&& f) {
  const auto seed = static_cast<uint64_t>(counter[0]);
  const auto first = static_cast<uint64_t>(counter[1]);
  parallel_for((n + 3) / 4, kElementGrain / 16, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) f(b * 4, philox(seed, first + static_cast<uint64_t>(b)));
  });
}

}  // namespace mica
