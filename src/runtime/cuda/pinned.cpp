#include "mica/runtime/cuda/pinned.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <mutex>

#include "mica/core/check.h"
#include "mica/runtime/cuda/check.h"

namespace mica {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kSmallest = 4096;

/// Powers of two up to 1 MiB, then whole MiB.
size_t block_bytes(size_t bytes) {
  return bytes <= kMiB ? std::bit_ceil(std::max(bytes, kSmallest))
                       : (bytes + kMiB - 1) / kMiB * kMiB;
}

}  // namespace

void* PinnedAllocator::allocate(size_t bytes) {
  if (bytes == 0) return nullptr;
  const std::lock_guard lock(mutex_);
  collect(false);
  check<OutOfMemory>(bytes < SIZE_MAX / 2, "out of pinned memory: {} bytes requested", bytes);
  const size_t wanted = block_bytes(bytes);
  const auto found = free_.lower_bound(wanted);
  if (found != free_.end() && found->first <= 2 * wanted) {  // a much larger one is for others
    Block* block = found->second;
    free_.erase(found);
    block->free = false;
    return block->data;
  }
  void* data = nullptr;
  cudaError_t code = cudaHostAlloc(&data, wanted, cudaHostAllocPortable);
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    collect(true);
    release_free_blocks();
    code = cudaHostAlloc(&data, wanted, cudaHostAllocPortable);
  }
  if (code == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    fail<OutOfMemory>("out of pinned memory: {} bytes requested", bytes);
  }
  check_cuda(code);
  blocks_.emplace(
      data, std::make_unique<Block>(Block{.data = static_cast<std::byte*>(data), .bytes = wanted}));
  return data;
}

void PinnedAllocator::deallocate(void* data) noexcept {
  if (!data) return;
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(data);
  if (found == blocks_.end()) return;
  Block* block = found->second.get();
  block->free = true;
  if (block->pending == 0) make_free(block);
}

void PinnedAllocator::note_copy(const void* data, StreamUse use) {
  const std::lock_guard lock(mutex_);
  collect(false);
  auto found = blocks_.upper_bound(data);
  check(found != blocks_.begin(), "cuda: a copy without waiting needs pinned memory");
  Block* block = std::prev(found)->second.get();
  check(static_cast<const std::byte*>(data) < block->data + block->bytes,
        "cuda: a copy without waiting needs pinned memory");
  pending_.add(block, use);
}

void PinnedAllocator::empty_cache() {
  const std::lock_guard lock(mutex_);
  collect(true);
  release_free_blocks();
}

/// The block freed last is used first: it may be in the caches.
void PinnedAllocator::make_free(Block* block) noexcept {
  free_.emplace_hint(free_.lower_bound(block->bytes), block->bytes, block);
}

void PinnedAllocator::collect(bool wait) noexcept {
  pending_.collect(wait, [this](Block* block) {
    if (block->free) make_free(block);
  });
}

void PinnedAllocator::release_free_blocks() noexcept {
  for (const auto& [bytes, block] : free_) {
    cudaFreeHost(block->data);
    blocks_.erase(block->data);
  }
  free_.clear();
}

}  // namespace mica
