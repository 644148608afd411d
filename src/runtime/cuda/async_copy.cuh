#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace mica::cuda {

/// Copies 4, 8 or 16 bytes to shared memory in the background; those past `inside` become zeros and
/// are not read.
template <int bytes>
__device__ inline void copy_async(float* to, const void* from, int inside = bytes) {
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(to));
  if constexpr (bytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(inside));
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(at), "l"(from), "n"(bytes),
                 "r"(inside));
  }
}

/// Makes a group of the thread's copies since the last.
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;"); }
/// Waits until no more than `groups` of the thread's groups are under way.
template <int groups>
__device__ inline void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory");
}
/// Waits for all copies of the thread.
__device__ inline void wait_all_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

}  // namespace mica::cuda
