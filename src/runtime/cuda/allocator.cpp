#include "mica/runtime/cuda/allocator.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string_view>

#include "mica/core/check.h"
#include "mica/runtime/cuda/check.h"
#include "mica/runtime/op_scope.h"

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

/// "0.5 KiB", "512.0 MiB", "1.5 GiB".
std::string readable(size_t bytes) {
  const double kib = static_cast<double>(bytes) / 1024;
  if (bytes < kMiB) return fmt::format("{:.1f} KiB", kib);
  if (bytes < kMiB << 10) return fmt::format("{:.1f} MiB", kib / 1024);
  return fmt::format("{:.1f} GiB", kib / 1024 / 1024);
}

/// "8000000000", "500M" or "8G"; 0 when the variable is not set.
size_t limit_from_environment() {
  const char* text = std::getenv("MICA_CUDA_MEMORY_LIMIT");
  if (!text || !*text) return 0;
  const std::string_view all = text;
  size_t number = 0;
  const auto [end, error] = std::from_chars(all.data(), all.data() + all.size(), number);
  const std::string_view unit(end, static_cast<size_t>(all.data() + all.size() - end));
  const size_t scale = unit == "G" ? kMiB << 10 : unit == "M" ? kMiB : unit.empty() ? 1 : 0;
  check(error == std::errc() && scale > 0 && number <= SIZE_MAX / scale,
        "MICA_CUDA_MEMORY_LIMIT: expected bytes, such as 8000000000, 500M or 8G, got '{}'", text);
  return number * scale;
}

}  // namespace

CachingAllocator::CachingAllocator(int device) : device_(device) {
  stats_.limit = limit_from_environment();
}

CachingAllocator::~CachingAllocator() { release_free_segments(); }

CachingAllocator::Pool& CachingAllocator::pool_of(cudaStream_t stream) {
  for (Pool& pool : pools_)
    if (pool.stream == stream) return pool;
  return pools_.emplace_back(Pool{.stream = stream});
}

void* CachingAllocator::allocate(size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return nullptr;
  check_cuda_usable();
  const std::lock_guard lock(mutex_);
  if (bytes > SIZE_MAX / 2) out_of_memory(bytes);
  if (!pending_.empty()) collect_pending(false);
  const size_t rounded = round_up(bytes, kGranule);
  const bool small = rounded <= kSmallLimit;
  Pool& pool = pool_of(stream);
  Block* block = take_free(pool, rounded, small);
  if (!block) block = take_segment(pool, rounded, small);
  split(block, rounded);
  block->op = current_op();
  stats_.allocated += block->bytes;
  stats_.peak = std::max(stats_.peak, stats_.allocated);
  block->number = ++stats_.allocations;
  return block->data;
}

CachingAllocator::Block* CachingAllocator::take_free(Pool& pool, size_t bytes, bool small) {
  FreeBlocks& blocks = small ? pool.small : pool.large;
  Block wanted{.data = nullptr, .bytes = bytes, .pool = nullptr, .small = small};
  const auto found = blocks.lower_bound(&wanted);
  if (found == blocks.end()) return nullptr;
  Block* block = *found;
  blocks.erase(found);
  block->free = false;
  return block;
}

/// Asks the driver, within the limit.
cudaError_t CachingAllocator::reserve(void** data, size_t bytes) {
  if (stats_.limit && (bytes > stats_.limit || stats_.reserved > stats_.limit - bytes))
    return cudaErrorMemoryAllocation;
  const cudaError_t code = cudaMalloc(data, bytes);
  if (code == cudaErrorMemoryAllocation) cudaGetLastError();
  return code;
}

CachingAllocator::Block* CachingAllocator::take_segment(Pool& pool, size_t bytes, bool small) {
  size_t segment = segment_bytes(bytes, small);
  void* data = nullptr;
  cudaError_t code = reserve(&data, segment);
  if (code == cudaErrorMemoryAllocation) {
    release_free_segments();
    code = reserve(&data, segment);
  }
  if (code == cudaErrorMemoryAllocation && !pending_.empty()) {
    collect_pending(true);
    if (Block* block = take_free(pool, bytes, small)) return block;
    release_free_segments();
    code = reserve(&data, segment);
  }
  if (code == cudaErrorMemoryAllocation && !small) {  // the last bytes, without room for others
    segment = round_up(bytes, kSmallSegment);
    code = reserve(&data, segment);
  }
  if (code == cudaErrorMemoryAllocation) out_of_memory(bytes);
  check_cuda(code);
  stats_.reserved += segment;
  stats_.peak_reserved = std::max(stats_.peak_reserved, stats_.reserved);
  auto block = std::make_unique<Block>(Block{
      .data = static_cast<std::byte*>(data), .bytes = segment, .pool = &pool, .small = small});
  Block* raw = block.get();
  blocks_.emplace(data, std::move(block));
  return raw;
}

void CachingAllocator::split(Block* block, size_t bytes) {
  const size_t rest = block->bytes - bytes;
  if (rest < (block->small ? kGranule : kSmallLimit)) return;
  auto owned = std::make_unique<Block>(Block{.data = block->data + bytes,
                                             .bytes = rest,
                                             .pool = block->pool,
                                             .small = block->small,
                                             .free = true});
  Block* tail = owned.get();
  tail->before = block;
  tail->after = block->after;
  if (tail->after) tail->after->before = tail;
  block->after = tail;
  block->bytes = bytes;
  blocks_.emplace(tail->data, std::move(owned));
  free_blocks(*tail).insert(tail);
}

void CachingAllocator::record_use(void* data, cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(data);
  if (found == blocks_.end()) return;  // memory of somebody else
  Block& block = *found->second;
  if (stream != block.pool->stream &&
      std::find(block.uses.begin(), block.uses.end(), stream) == block.uses.end())
    block.uses.push_back(stream);
}

void CachingAllocator::deallocate(void* data) noexcept {
  if (!data) return;
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(data);
  if (found == blocks_.end()) return;
  Block* block = found->second.get();
  stats_.allocated -= block->bytes;
  block->op = nullptr;
  for (cudaStream_t stream : block->uses) pending_.add(block, {device_, stream});
  block->uses.clear();
  if (block->pending == 0) make_free(block);
}

void CachingAllocator::make_free(Block* block) noexcept {
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

void CachingAllocator::collect_pending(bool wait) noexcept {
  pending_.collect(wait, [this](Block* block) { make_free(block); });
}

void CachingAllocator::release_free_segments() noexcept {
  for (Pool& pool : pools_) {
    for (FreeBlocks* blocks : {&pool.small, &pool.large}) {
      for (auto it = blocks->begin(); it != blocks->end();) {
        Block* block = *it;
        if (block->before || block->after) {
          ++it;
          continue;
        }
        it = blocks->erase(it);
        cudaFree(block->data);  // waits for the work that still uses it
        stats_.reserved -= block->bytes;
        blocks_.erase(block->data);
      }
    }
  }
}

/// "3 x 1.5 GiB by conv2d, 2 x 16.0 MiB outside of ops": the blocks that take most in all.
std::string CachingAllocator::largest_holders() const {
  std::map<std::pair<size_t, std::string_view>, size_t> counts;
  for (const auto& [data, block] : blocks_)
    if (!block->free && block->pending == 0)
      ++counts[{block->bytes, block->op ? block->op : std::string_view()}];
  std::vector<std::pair<std::pair<size_t, std::string_view>, size_t>> groups(counts.begin(),
                                                                             counts.end());
  std::sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
    return a.first.first * a.second > b.first.first * b.second;
  });
  constexpr size_t kMost = 5;
  if (groups.size() > kMost) groups.resize(kMost);
  std::string text;
  for (const auto& [key, count] : groups) {
    text +=
        fmt::format("{}{} x {} {}{}", text.empty() ? "; largest: " : ", ", count,
                    readable(key.first), key.second.empty() ? "outside of ops" : "by ", key.second);
  }
  return text;
}

void CachingAllocator::out_of_memory(size_t bytes) {
  size_t free = 0;
  size_t total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) cudaGetLastError();
  const std::string limit =
      stats_.limit ? fmt::format(" of {} allowed to this process", readable(stats_.limit)) : "";
  fail<OutOfMemory>(
      "cuda:{}: out of memory: {} bytes ({}) were requested; of {} on the device {} are free, "
      "tensors use {}, {} are reserved{}{}",
      device_, bytes, readable(bytes), readable(total), readable(free), readable(stats_.allocated),
      readable(stats_.reserved), limit, largest_holders());
}

MemoryStats CachingAllocator::stats() {
  const std::lock_guard lock(mutex_);
  if (!pending_.empty()) collect_pending(false);
  MemoryStats s = stats_;
  for (const Pool& pool : pools_) {
    for (const FreeBlocks* blocks : {&pool.small, &pool.large}) {
      for (const Block* block : *blocks) s.cached += block->bytes;
      if (!blocks->empty()) s.largest_free = std::max(s.largest_free, (*blocks->rbegin())->bytes);
    }
  }
  return s;
}

void CachingAllocator::reset_peak() {
  const std::lock_guard lock(mutex_);
  stats_.peak = stats_.allocated;
  stats_.peak_reserved = stats_.reserved;
}

void CachingAllocator::empty_cache() {
  const std::lock_guard lock(mutex_);
  collect_pending(true);
  release_free_segments();
}

void CachingAllocator::set_limit(size_t bytes) {
  const std::lock_guard lock(mutex_);
  stats_.limit = bytes;
}

std::vector<MemoryBlock> CachingAllocator::blocks() {
  const std::lock_guard lock(mutex_);
  std::vector<MemoryBlock> all;
  all.reserve(blocks_.size());
  for (const auto& [data, block] : blocks_)
    all.push_back(
        {data, block->bytes, block->before == nullptr, block->free, block->op, block->number});
  std::ranges::sort(all, std::less(), &MemoryBlock::data);
  return all;
}

}  // namespace mica
