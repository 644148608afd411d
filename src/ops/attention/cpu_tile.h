#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "mica/core/dtype_switch.h"
#include "mica/ops/attention/problem.h"
#include "mica/ops/matmul/cpu_gemm.h"
#include "mica/runtime/cpu/convert.h"
#include "mica/runtime/cpu/exp.h"
#include "mica/runtime/cpu/parallel.h"
#include "mica/runtime/cpu/philox.h"

// What the tiled CPU kernels share: tiles of scores, some queries by some keys, that stay in the
// cache and are made by small products of one thread.
namespace mica::attention {

inline constexpr int64_t kTileQueries = 128;
inline constexpr int64_t kTileKeys = 256;  ///< also from row to row of a tile

/// Elements as a whole number of cache lines, so that threads share none.
inline int64_t padded(int64_t elements) { return (elements + 15) / 16 * 16; }

/// Rows [first, first + count) of an operand as C: where they lie, or converted into `space`.
template <class C, class T>
MatrixView<const C> rows_as(const T* data, const AttentionRows& rows, int64_t b, int64_t h,
                            int64_t first, int64_t count, int64_t width, C* space) {
  const T* from = data + rows.at(b, h, first);
  if constexpr (std::is_same_v<C, T>) {
    return {from, rows.row, rows.col};
  } else {
    for (int64_t i = 0; i < count; ++i)
      load_run(from + i * rows.row, rows.col, width, space + i * width);
    return {space, width, 1};
  }
}
template <class C>
MatrixView<const C> transposed(MatrixView<const C> m) {
  return {m.data, m.col, m.row};
}

/// What is added to the scores of one query and some keys, and what dropout multiplies weights by.
template <class T>
class ScoreTerms {
 public:
  using C = Compute<T>;

  ScoreTerms(const AttentionProblem& p, const Call& call, const AttentionInputs& at)
      : p_(p),
        mask_(call.in[at.mask]),
        counter_(call.in[at.counter].template as<const int64_t>()),
        kept_(static_cast<C>(1 / (1 - p.dropout))),
        limit_(static_cast<int32_t>(std::ceil(static_cast<float>(p.dropout) * 16777216.0F))) {}

  /// Null where there is no mask.
  const C* added(int64_t b, int64_t h, int64_t i, int64_t first, int64_t count) {
    if (p_.mask == AttentionMask::none) return nullptr;
    const int64_t at = p_.masks.at(b, h, i) + first * p_.masks.col;
    if (p_.mask == AttentionMask::added) {
      load_run(mask_.template as<const T>() + at, p_.masks.col, count, added_);
    } else {
      const bool* seen = mask_.template as<const bool>() + at;
      for (int64_t j = 0; j < count; ++j)
        added_[j] = seen[j * p_.masks.col] ? C(0) : -std::numeric_limits<C>::infinity();
    }
    return added_;
  }

  /// Null without dropout; else 0 or 1 / (1 - p) for each key.
  const C* dropped(int64_t b, int64_t h, int64_t i, int64_t first, int64_t count) {
    if (p_.dropout == 0) return nullptr;
    const int64_t n = p_.weight(b, h, i, first);
    const int64_t skip = n % 4;
    for (int64_t k = 0; k < skip + count; k += 32)
      philox_8_blocks(static_cast<uint64_t>(counter_[0]),
                      static_cast<uint64_t>(counter_[1] + n / 4 + k / 4), words_ + k);
    for (int64_t j = 0; j < count; ++j)
      dropped_[j] = static_cast<int32_t>(words_[skip + j] >> 8) >= limit_ ? kept_ : C(0);
    return dropped_;
  }

 private:
  const AttentionProblem& p_;
  const Arg& mask_;
  const int64_t* counter_;
  C kept_;
  int32_t limit_;
  C added_[kTileKeys];
  C dropped_[kTileKeys];
  alignas(32) uint32_t words_[kTileKeys + 64];
};

/// Calls f(task, thread) for all tasks, in turn by the threads 0 … threads - 1.
template <class F>
void for_tasks(int64_t tasks, int64_t threads, F&& f) {
  parallel_for(threads, 1, [&](int64_t first, int64_t last) {
    for (int64_t thread = first; thread < last; ++thread)
      for (int64_t task = thread; task < tasks; task += threads) f(task, thread);
  });
}

inline int64_t tiles(int64_t n, int64_t size) { return (n + size - 1) / size; }

}  // namespace mica::attention
