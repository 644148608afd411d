#pragma once

#include "mica/op/kernel.h"

// What convolutions as matrix products over strips of output rows share.
namespace mica::strips {

inline constexpr int64_t kStripElements = 1 << 17;
inline constexpr int64_t kFlopsPerThread = 1 << 18;

template <class F>
decltype(auto) switch_dtype(DType dtype, F&& f) {
  if (dtype == DType::f64) return f.template operator()<double>();
  return f.template operator()<float>();
}

/// Workspace: the weight as the products want it, then for each thread its windows, the scratch
/// memory of gemm and (wgrad) its sum of the weight's gradient. All counts are in elements.
struct Workspace : KernelState {
  int64_t threads = 1;
  int64_t group_weight = 0;  ///< of the weight's part for one group
  int64_t weight = 0, windows = 0, scratch = 0, sum = 0;

  int64_t per_thread() const { return windows + scratch + sum; }
  size_t elements() const { return static_cast<size_t>(weight + threads * per_thread()); }
};

inline int64_t padded(size_t elements) { return static_cast<int64_t>((elements + 15) / 16 * 16); }

/// One thread's part of the workspace.
template <class T>
struct Scratch {
  T *windows, *gemm, *sum;
  Scratch(const Workspace& w, void* workspace, int64_t thread)
      : windows(static_cast<T*>(workspace) + w.weight + thread * w.per_thread()),
        gemm(windows + w.windows),
        sum(gemm + w.scratch) {}
};

}  // namespace mica::strips
