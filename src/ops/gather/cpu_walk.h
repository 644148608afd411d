#pragma once

#include <algorithm>

#include "mica/ops/elementwise/cpu_loop.h"

namespace mica {

/// Calls `f(offsets, n)` for the runs of elements [begin, end) of a loop.
template <int N, class F>
void walk(const StridedLoop<N>& loop, int64_t begin, int64_t end, F&& f) {
  std::array<int64_t, Dims::kMaxRank> index{};
  std::array<int64_t, N> offsets{};
  const auto last = static_cast<size_t>(loop.rank - 1);
  int64_t rest = begin;
  for (size_t axis = last + 1; axis-- > 0;) {
    index[axis] = rest % loop.size[axis];
    rest /= loop.size[axis];
    for (size_t k = 0; k < N; ++k) offsets[k] += index[axis] * loop.stride[k][axis];
  }
  while (begin < end) {
    const int64_t n = std::min(loop.size[last] - index[last], end - begin);
    f(offsets, n);
    begin += n;
    index[last] += n;
    for (size_t k = 0; k < N; ++k) offsets[k] += n * loop.stride[k][last];
    for (size_t axis = last; axis > 0 && index[axis] == loop.size[axis]; --axis) {
      index[axis] = 0;
      ++index[axis - 1];
      for (size_t k = 0; k < N; ++k)
        offsets[k] += loop.stride[k][axis - 1] - loop.size[axis] * loop.stride[k][axis];
    }
  }
}

/// The same for the whole loop in parallel. A thread's part may begin and end inside a run, but
/// only at multiples of `block`.
template <int N, class F>
void walk_parallel(const StridedLoop<N>& loop, int64_t grain, int64_t block, F&& f) {
  const int64_t blocks = (loop.numel + block - 1) / block;
  parallel_for(blocks, std::max<int64_t>(1, grain / block), [&](int64_t begin, int64_t end) {
    walk(loop, begin * block, std::min(end * block, loop.numel), f);
  });
}

/// Elements of a cache line: threads that write to one wait for each other.
template <class T>
inline constexpr int64_t kLine = 64 / sizeof(T);

/// A negative index counts from the end.
inline int64_t wrapped(int64_t index, int64_t size) { return index + (index < 0 ? size : 0); }

}  // namespace mica
