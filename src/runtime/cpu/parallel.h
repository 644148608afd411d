#pragma once

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <exception>

namespace mica {

/// Splits [0, n) into one range per thread and calls `f(begin, end)` for each; runs in the caller
/// when n is at most `grain` or already inside a parallel region.
template <class F>
void parallel_for(int64_t n, int64_t grain, F&& f) {
  const int64_t most = (n + grain - 1) / std::max<int64_t>(grain, 1);
  const int threads = static_cast<int>(std::min<int64_t>(omp_get_max_threads(), most));
  if (threads <= 1 || omp_in_parallel()) {
    if (n > 0) f(int64_t{0}, n);
    return;
  }
  std::exception_ptr error;
#pragma omp parallel num_threads(threads)
  {
    const int64_t t = omp_get_thread_num();
    const int64_t count = omp_get_num_threads();
    const int64_t begin = n * t / count;
    const int64_t end = n * (t + 1) / count;
    try {
      if (begin < end) f(begin, end);
    } catch (...) {
#pragma omp critical(mica_parallel_for)
      error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace mica
