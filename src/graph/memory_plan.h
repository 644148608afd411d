#pragma once

#include <cstddef>
#include <vector>

#include "mica/core/device.h"

namespace mica {

/// What blocks of an arena start on multiples of. The allocators of the devices round to no less.
inline size_t alignment(Device device) { return device.is_cpu() ? 64 : 256; }

inline size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

/// A block of memory that is needed from step `first` to step `last`, both included.
struct Block {
  size_t bytes = 0;
  int first = 0;
  int last = 0;
};

struct MemoryPlan {
  std::vector<size_t> offset;  ///< one per block
  size_t bytes = 0;            ///< of the whole arena
  size_t live = 0;             ///< the most bytes needed at once
};

/// Gives each block an address such that blocks needed at the same time do not overlap. Largest
/// first, each at the lowest address that is free during its life.
MemoryPlan plan_memory(const std::vector<Block>& blocks, size_t alignment);

}  // namespace mica
