#pragma once

#include "mica/runtime/cuda/types.cuh"

// Sums of a warp by columns, in shared memory.
namespace mica::cuda {

inline constexpr unsigned kAllLanes = 0xffffffffU;
inline constexpr int kFreeSlot = -1;

__device__ inline int lane_number() { return static_cast<int>(threadIdx.x) % 32; }
__device__ inline unsigned lanes_before() { return (1U << lane_number()) - 1U; }

/// Where a column is looked for first, of a power of two of slots.
__device__ inline int first_slot(int slots, int column) {
  return static_cast<int>((static_cast<uint32_t>(column) * 2654435761U) >> 8) & (slots - 1);
}
/// The slot of a column, some of which are free; `found` is what was there.
__device__ inline int take_slot(int* keys, int slots, int column, int& found) {
  int slot = first_slot(slots, column);
  for (;; slot = (slot + 1) & (slots - 1)) {
    found = atomicCAS(keys + slot, kFreeSlot, column);
    if (found == kFreeSlot || found == column) return slot;
  }
}

/// Adds each lane's x to sums[at], all lanes of the warp together. Where several may have one
/// place they take turns, in order.
template <class C>
__device__ void add_in_turn(C* sums, int at, C x, bool there, bool distinct) {
  if (distinct) {
    if (there) sums[at] += x;
  } else {
    const unsigned mask = __ballot_sync(kAllLanes, there);
    const int turn = there ? __popc(__match_any_sync(mask, at) & lanes_before()) : -1;
    for (int t = 0; __any_sync(kAllLanes, turn >= t); ++t) {
      if (turn == t) sums[at] += x;
      __syncwarp();
    }
  }
  __syncwarp();
}

}  // namespace mica::cuda
