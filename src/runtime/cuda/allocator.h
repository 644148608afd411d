#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "mica/runtime/cuda/pending.h"
#include "mica/runtime/cuda_library.h"
#include "mica/runtime/runtime.h"

namespace mica {

/// Caches device memory of one device. A block belongs to the stream it was allocated on and may be
/// handed out there again as soon as it is given back: what used it before is ahead in the stream.
/// Where other streams were said to use it, it first waits for events on them.
///
/// Requests are rounded to 512 bytes. Those up to 1 MiB are cut from segments of 2 MiB, larger ones
/// from segments of at least 20 MiB (or their own size from 10 MiB on); the smallest free block
/// that is large enough is taken, split where the rest is worth keeping, and joined with its free
/// neighbours when it comes back.
class CachingAllocator {
 public:
  /// Limited to MICA_CUDA_MEMORY_LIMIT bytes where that is set.
  explicit CachingAllocator(int device);
  ~CachingAllocator();
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  /// Memory aligned to 512 bytes. Raises OutOfMemory, after cached segments were given back and
  /// blocks that others still use were waited for in vain.
  void* allocate(size_t bytes, cudaStream_t stream);
  void deallocate(void* data) noexcept;
  /// Work on another stream uses a block.
  void record_use(void* data, cudaStream_t stream);
  MemoryStats stats();
  void reset_peak();
  /// Gives segments that are free as a whole back to the driver.
  void empty_cache();
  void set_limit(size_t bytes);
  /// All there are, by address.
  std::vector<MemoryBlock> blocks();

 private:
  struct Pool;
  struct Block {
    std::byte* data;
    size_t bytes;
    Pool* pool;
    bool small;
    bool free = false;
    Block* before = nullptr;  ///< neighbours in the segment
    Block* after = nullptr;
    const char* op = nullptr;             ///< for which it was allocated
    uint64_t number = 0;                  ///< of the allocation
    std::vector<cudaStream_t> uses = {};  ///< streams other than the pool's
    int pending = 0;                      ///< events it waits for
  };
  struct BySize {
    bool operator()(const Block* a, const Block* b) const {
      return a->bytes != b->bytes ? a->bytes < b->bytes : a->data < b->data;
    }
  };
  using FreeBlocks = std::set<Block*, BySize>;
  /// Free blocks of one stream.
  struct Pool {
    cudaStream_t stream;
    FreeBlocks small = {};
    FreeBlocks large = {};
  };

  static FreeBlocks& free_blocks(const Block& block) {
    return block.small ? block.pool->small : block.pool->large;
  }
  Pool& pool_of(cudaStream_t stream);
  Block* take_free(Pool& pool, size_t bytes, bool small);
  Block* take_segment(Pool& pool, size_t bytes, bool small);
  cudaError_t reserve(void** data, size_t bytes);
  void split(Block* block, size_t bytes);
  void absorb_after(Block* block);
  void make_free(Block* block) noexcept;
  void collect_pending(bool wait) noexcept;
  void release_free_segments() noexcept;
  std::string largest_holders() const;
  [[noreturn]] void out_of_memory(size_t bytes);

  const int device_;
  std::mutex mutex_;
  std::deque<Pool> pools_;                                    ///< few; their addresses stay
  std::unordered_map<void*, std::unique_ptr<Block>> blocks_;  ///< all blocks, by address
  PendingBlocks<Block> pending_;
  MemoryStats stats_;
};

}  // namespace mica
