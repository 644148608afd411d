#pragma once

// Kernels of our own over batches of matrices: a warp has each of up to 32 rows and columns, a
// block each larger one, in shared memory where it has room there.
#include <algorithm>

#include "mica/op/kernel.h"
#include "mica/ops/linalg/cuda_matrices.cuh"
#include "mica/runtime/cuda/check.h"
#include "mica/runtime/cuda/encoder.h"

namespace mica::linalg {

inline constexpr int64_t kLargestOfWarp = 32;

/// Shared memory a block may ask for beside what it has without asking.
inline size_t shared_limit() {
  constexpr size_t kStatic = 1024;
  thread_local int known = 0;
  if (known == 0) {
    int device = 0;
    check_cuda(cudaGetDevice(&device));
    check_cuda(cudaDeviceGetAttribute(&known, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  }
  return static_cast<size_t>(known) - kStatic;
}

struct GroupPlan : KernelState {
  bool warps = false;
  bool shared = true;
  size_t bytes = 0;  ///< of a group
  unsigned blocks = 0;

  /// `largest` of the sizes, `wanted` bytes for each of `count` matrices.
  GroupPlan(int64_t largest, size_t wanted, int64_t count) : bytes((wanted + 15) / 16 * 16) {
    using namespace group;
    constexpr int64_t kMostBlocks = 1 << 20;
    constexpr size_t kMostWorkspace = size_t{1} << 30;
    constexpr int64_t kWarps = WarpGroup::kThreads / WarpGroup::kSize;
    const size_t of_warps = bytes * static_cast<size_t>(kWarps);
    warps = largest <= kLargestOfWarp && of_warps <= shared_limit();
    shared = warps || bytes <= shared_limit();
    int64_t most = kMostBlocks;
    if (!shared) {
      constexpr int64_t kResident = 264;  // two on each of an H200's multiprocessors
      most = std::clamp(static_cast<int64_t>(kMostWorkspace / bytes), int64_t{1}, kResident);
    }
    const int64_t groups = warps ? kWarps : 1;
    blocks = static_cast<unsigned>(std::min((count + groups - 1) / groups, most));
    if (!shared) workspace_bytes = bytes * blocks;
  }
};

template <class F>
void run_groups(const GroupPlan& plan, const Call& c, const F& f, int64_t count) {
  using namespace group;
  auto* const workspace = static_cast<std::byte*>(plan.shared ? nullptr : c.workspace);
  if (plan.warps) {
    constexpr size_t kWarps = WarpGroup::kThreads / WarpGroup::kSize;
    c.encoder->launch(each_matrix<WarpGroup, F>, plan.blocks, WarpGroup::kThreads,
                      plan.bytes * kWarps, f, count, workspace, plan.bytes);
  } else {
    c.encoder->launch(each_matrix<BlockGroup, F>, plan.blocks, BlockGroup::kThreads,
                      plan.shared ? plan.bytes : 0, f, count, workspace, plan.bytes);
  }
}

/// Calls f.template operator()<T>() with the device type of a matrix's elements.
template <class F>
decltype(auto) switch_element(DType t, F&& f) {
  if (t == DType::f64) return f.template operator()<double>();
  if (t == DType::c64) return f.template operator()<Complex<float>>();
  if (t == DType::c128) return f.template operator()<Complex<double>>();
  return f.template operator()<float>();
}

inline int64_t rows_of(const Shape& s) { return s[s.rank() - 2]; }
inline int64_t columns_of(const Shape& s) { return s[s.rank() - 1]; }
inline int64_t matrices_in(const Shape& s) {
  int64_t count = 1;
  for (int i = 0; i + 2 < s.rank(); ++i) count *= s[i];
  return count;
}
inline int64_t largest_size(const Specs& s) {
  int64_t largest = 0;
  for (const TensorSpec& in : s.in)
    largest = std::max({largest, rows_of(in.shape), columns_of(in.shape)});
  return largest;
}

/// Every input row-major; preferred where the matrix has room in shared memory and a library takes
/// longer: `alone` is up to which size a single matrix is, `many` those of a batch.
inline Support supports_groups(const Specs& s, size_t bytes, int64_t alone, int64_t many) {
  constexpr int64_t kMost = 20000;  // whose squares 32-bit numbers count
  constexpr int64_t kMany = 8;
  constexpr size_t kRoom = 200 * 1024;
  const int64_t largest = largest_size(s);
  if (largest > kMost) return Support::no("a size is past 20000");
  const int64_t limit = matrices_in(s.in[0].shape) >= kMany ? many : alone;
  Support support = largest <= limit && bytes <= kRoom ? Support::yes() : Support::possible();
  for (size_t i = 0; i < s.in.size(); ++i) support.contiguous |= IndexSet{static_cast<int>(i)};
  return support;
}

}  // namespace mica::linalg
