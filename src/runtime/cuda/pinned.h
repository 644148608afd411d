#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

#include "mica/runtime/cuda/pending.h"

namespace mica {

/// Caches pinned host memory, which takes the driver long to make. A block that is given back while
/// copies still read or write it is used again when they are done.
class PinnedAllocator {
 public:
  PinnedAllocator() = default;
  PinnedAllocator(const PinnedAllocator&) = delete;
  PinnedAllocator& operator=(const PinnedAllocator&) = delete;

  /// Null for 0 bytes. Raises OutOfMemory.
  void* allocate(size_t bytes);
  void deallocate(void* data) noexcept;
  /// A copy from or to somewhere in a block was sent to a stream.
  void note_copy(const void* data, StreamUse use);
  void empty_cache();

 private:
  struct Block {
    std::byte* data;
    size_t bytes;
    bool free = false;
    int pending = 0;  ///< copies under way
  };

  void make_free(Block* block) noexcept;
  void collect(bool wait) noexcept;
  void release_free_blocks() noexcept;

  std::mutex mutex_;
  std::map<const void*, std::unique_ptr<Block>> blocks_;  ///< by address
  std::multimap<size_t, Block*> free_;                    ///< by size
  PendingBlocks<Block> pending_;
};

}  // namespace mica
