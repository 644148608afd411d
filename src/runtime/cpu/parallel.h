#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>

#include "mica/runtime/cpu/callers.h"
#include "mica/runtime/cpu/thread_pool.h"

namespace mica {

/// Splits [0, n) into one range per thread and calls `f(begin, end)` for each; runs in the caller
/// when n is at most `grain` or already inside a parallel region, this one's or OpenMP's. `grain`
/// is the least that pays: about 10 µs of work.
///
/// The ranges depend on n, grain and the number of threads that is set, not on who runs them: where
/// other threads of the program compute too, the cores are shared out, and each has several ranges.
template <class F>
void parallel_for(int64_t n, int64_t grain, F&& f) {
  const int64_t most = (n + grain - 1) / std::max<int64_t>(grain, 1);
  const int ranges = static_cast<int>(std::min<int64_t>(omp_get_max_threads(), most));
  if (ranges <= 1 || in_pool() || omp_in_parallel()) {
    if (n > 0) f(int64_t{0}, n);
    return;
  }
  const auto run = [&](int64_t range) {
    const int64_t begin = n * range / ranges;
    const int64_t end = n * (range + 1) / ranges;
    if (begin < end) f(begin, end);
  };
  const ParallelCaller caller;
  const int threads = caller.threads(ranges);
  if (threads <= 1) {
    for (int range = 0; range < ranges; ++range) run(range);
    return;
  }
  run_in_pool(
      threads, ranges,
      [](const void* f_of, int64_t range) { (*static_cast<decltype(&run)>(f_of))(range); }, &run);
}

}  // namespace mica
