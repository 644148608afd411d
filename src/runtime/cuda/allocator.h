#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>

#include "mica/runtime/runtime.h"

namespace mica {

/// Caches device memory of one device. All work runs on one stream, so a block may be handed out
/// again as soon as it is given back: what used it before is ahead in the stream.
///
/// Requests are rounded to 512 bytes. Those up to 1 MiB are cut from segments of 2 MiB, larger ones
/// from segments of at least 20 MiB (or their own size from 10 MiB on); the smallest free block
/// that is large enough is taken, split where the rest is worth keeping, and joined with its free
/// neighbours when it comes back.
class CachingAllocator {
 public:
  explicit CachingAllocator(int device) : device_(device) {}
  ~CachingAllocator();
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  /// Memory aligned to 512 bytes. Raises OutOfMemory, after cached segments were given back in
  /// vain.
  void* allocate(size_t bytes);
  void deallocate(void* data) noexcept;
  MemoryStats stats();
  void reset_peak();
  /// Gives segments that are free as a whole back to the driver.
  void empty_cache();
  /// While a graph is recorded the driver must not be asked for memory: a request that the cache
  /// cannot serve raises instead.
  void set_recording(bool on);

 private:
  struct Block {
    std::byte* data;
    size_t bytes;
    bool small;
    bool free = false;
    Block* before = nullptr;  ///< neighbours in the segment
    Block* after = nullptr;
  };
  struct BySize {
    bool operator()(const Block* a, const Block* b) const {
      return a->bytes != b->bytes ? a->bytes < b->bytes : a->data < b->data;
    }
  };
  using FreeBlocks = std::set<Block*, BySize>;

  FreeBlocks& free_blocks(const Block& block) { return block.small ? free_small_ : free_large_; }
  Block* take_free(size_t bytes, bool small);
  Block* take_segment(size_t bytes, bool small);
  void split(Block* block, size_t bytes);
  void absorb_after(Block* block);
  void release_free_segments() noexcept;
  [[noreturn]] void out_of_memory(size_t bytes);

  const int device_;
  std::mutex mutex_;
  FreeBlocks free_small_;
  FreeBlocks free_large_;
  std::unordered_map<void*, std::unique_ptr<Block>> blocks_;  ///< all blocks, by address
  MemoryStats stats_;
  bool recording_ = false;
};

}  // namespace mica
