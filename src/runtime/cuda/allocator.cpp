#include "mica/runtime/cuda/allocator.h"

#include <algorithm>

#include "mica/core/check.h"
#include "mica/runtime/cuda/check.h"

namespace mica {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kGranule = 512;
constexpr size_t kSmallLimit = kMiB;
constexpr size_t kSmallSegment = 2 * kMiB;
constexpr size_t kLargeSegment = 20 * kMiB;
constexpr size_t kOwnSegmentFrom = 10 * kMiB;

constexpr size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

size_t segment_bytes(size_t bytes, bool small) {
  if (small) return kSmallSegment;
  return bytes < kOwnSegmentFrom ? kLargeSegment : round_up(bytes, kSmallSegment);
}

}  // namespace

CachingAllocator::~CachingAllocator() { release_free_segments(); }

void* CachingAllocator::allocate(size_t bytes) {
  if (bytes == 0) return nullptr;
  check_cuda_usable();
  const std::lock_guard lock(mutex_);
  if (bytes > SIZE_MAX / 2) out_of_memory(bytes);
  const size_t rounded = round_up(bytes, kGranule);
  const bool small = rounded <= kSmallLimit;
  Block* block = take_free(rounded, small);
  if (!block) block = take_segment(rounded, small);
  split(block, rounded);
  stats_.allocated += block->bytes;
  stats_.peak = std::max(stats_.peak, stats_.allocated);
  return block->data;
}

CachingAllocator::Block* CachingAllocator::take_free(size_t bytes, bool small) {
  FreeBlocks& pool = small ? free_small_ : free_large_;
  Block wanted{.data = nullptr, .bytes = bytes, .small = small};
  const auto found = pool.lower_bound(&wanted);
  if (found == pool.end()) return nullptr;
  Block* block = *found;
  pool.erase(found);
  block->free = false;
  return block;
}

CachingAllocator::Block* CachingAllocator::take_segment(size_t bytes, bool small) {
  check<DeviceError>(
      !recording_,
      "cuda: {} bytes were asked for while a graph is recorded, and no cached block has them",
      bytes);
  size_t segment = segment_bytes(bytes, small);
  void* data = nullptr;
  cudaError_t code = cudaMalloc(&data, segment);
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    release_free_segments();
    code = cudaMalloc(&data, segment);
  }
  if (code == cudaErrorMemoryAllocation && !small) {  // the last bytes, without room for others
    cudaGetLastError();
    segment = round_up(bytes, kSmallSegment);
    code = cudaMalloc(&data, segment);
  }
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    out_of_memory(bytes);
  }
  check_cuda(code);
  stats_.reserved += segment;
  auto block = std::make_unique<Block>(
      Block{.data = static_cast<std::byte*>(data), .bytes = segment, .small = small});
  Block* raw = block.get();
  blocks_.emplace(data, std::move(block));
  return raw;
}

void CachingAllocator::split(Block* block, size_t bytes) {
  const size_t rest = block->bytes - bytes;
  if (rest < (block->small ? kGranule : kSmallLimit)) return;
  auto owned = std::make_unique<Block>(
      Block{.data = block->data + bytes, .bytes = rest, .small = block->small, .free = true});
  Block* tail = owned.get();
  tail->before = block;
  tail->after = block->after;
  if (tail->after) tail->after->before = tail;
  block->after = tail;
  block->bytes = bytes;
  blocks_.emplace(tail->data, std::move(owned));
  free_blocks(*tail).insert(tail);
}

void CachingAllocator::deallocate(void* data) noexcept {
  if (!data) return;
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(data);
  if (found == blocks_.end()) return;
  Block* block = found->second.get();
  stats_.allocated -= block->bytes;
  block->free = true;
  if (block->after && block->after->free) {
    free_blocks(*block).erase(block->after);
    absorb_after(block);
  }
  if (block->before && block->before->free) {
    block = block->before;
    free_blocks(*block).erase(block);
    absorb_after(block);
  }
  free_blocks(*block).insert(block);
}

/// Joins a block with the one after it, which must be in no set of free blocks.
void CachingAllocator::absorb_after(Block* block) {
  Block* gone = block->after;
  block->bytes += gone->bytes;
  block->after = gone->after;
  if (block->after) block->after->before = block;
  blocks_.erase(gone->data);
}

void CachingAllocator::release_free_segments() noexcept {
  for (FreeBlocks* pool : {&free_small_, &free_large_}) {
    for (auto it = pool->begin(); it != pool->end();) {
      Block* block = *it;
      if (block->before || block->after) {
        ++it;
        continue;
      }
      it = pool->erase(it);
      cudaFree(block->data);  // waits for the work that still uses it
      stats_.reserved -= block->bytes;
      blocks_.erase(block->data);
    }
  }
}

void CachingAllocator::out_of_memory(size_t bytes) {
  size_t free = 0;
  size_t total = 0;
  cudaMemGetInfo(&free, &total);
  const auto mib = [](size_t n) { return static_cast<double>(n) / kMiB; };
  fail<OutOfMemory>(
      "cuda:{}: out of memory: {} bytes ({:.1f} MiB) were asked for; of {:.1f} MiB the driver has "
      "{:.1f} MiB "
      "free, tensors use {:.1f} MiB and {:.1f} MiB are reserved",
      device_, bytes, mib(bytes), mib(total), mib(free), mib(stats_.allocated),
      mib(stats_.reserved));
}

MemoryStats CachingAllocator::stats() {
  const std::lock_guard lock(mutex_);
  return stats_;
}

void CachingAllocator::reset_peak() {
  const std::lock_guard lock(mutex_);
  stats_.peak = stats_.allocated;
}

void CachingAllocator::empty_cache() {
  const std::lock_guard lock(mutex_);
  check<DeviceError>(!recording_, "cuda: empty_cache was called while a graph is recorded");
  release_free_segments();
}

void CachingAllocator::set_recording(bool on) {
  const std::lock_guard lock(mutex_);
  recording_ = on;
}

}  // namespace mica
