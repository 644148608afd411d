#include "mica/runtime/cpu/cpu_runtime.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

#include "mica/core/check.h"
#include "mica/core/fork.h"
#include "mica/runtime/cpu/parallel.h"
#include "mica/runtime/host_waits.h"

namespace mica {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kSmallest = 64;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kCacheLimit = size_t{1} << 30;  // cached bytes kept at most

/// Block sizes are powers of two and three quarters of them: at most a third is wasted.
size_t block_bytes(size_t bytes) {
  const size_t p = std::bit_ceil(std::max(bytes, kSmallest));
  const size_t three_quarters = p / 4 * 3;
  return bytes <= three_quarters && three_quarters % kAlignment == 0 ? three_quarters : p;
}

/// Twice the logarithm, and one more for the sizes in between.
size_t class_of(size_t block) {
  const auto log = static_cast<size_t>(std::bit_width(block) - 1);
  return 2 * log + (std::has_single_bit(block) ? 0 : 1);
}

size_t bytes_of_class(size_t c) {
  const size_t power = size_t{1} << c / 2;
  return c % 2 == 0 ? power : power / 2 * 3;
}

/// Empty tensors have no memory, and memcpy wants some even for nothing.
void copy_bytes(void* destination, const void* source, size_t bytes) {
  if (bytes > 0) std::memcpy(destination, source, bytes);
}

/// Blocks of whole huge pages ask for them: copies run up to half as fast again there.
void* fresh_block(size_t block) {
  if (block % kHugePage != 0) return std::aligned_alloc(kAlignment, block);
  void* p = std::aligned_alloc(kHugePage, block);
#if defined(MADV_HUGEPAGE)
  if (p) madvise(p, block, MADV_HUGEPAGE);  // a wish: it does not matter if it fails
#endif
  return p;
}

/// Keeps freed blocks by size: fresh pages cost several times a copy.
class CpuRuntime final : public DeviceRuntime {
 public:
  CpuRuntime() { check_cpu(); }

  int device_count() override { return 1; }
  DeviceProperties properties(int) override {
    const auto memory =
        static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGE_SIZE));
    return {.name = "CPU", .memory = memory, .multiprocessors = omp_get_num_procs()};
  }

  void* allocate(size_t bytes, int) override {
    if (bytes == 0) return nullptr;
    size_t block = 0;
    {
      const std::lock_guard lock(mutex_);
      // The kernel may promise memory the machine has not got; refuse what cannot fit.
      const size_t most = stats_.limit ? std::min(stats_.limit, memory_) : memory_;
      if (bytes > most || used_ > most - bytes) out_of_memory(bytes);
      block = block_bytes(bytes);
      const size_t c = class_of(block);
      used_ += bytes;
      stats_.allocated += block;
      stats_.peak = std::max(stats_.peak, stats_.allocated);
      ++stats_.allocations;
      if (!free_[c].empty()) {
        void* p = free_[c].back();
        free_[c].pop_back();
        cached_ -= block;
        return p;
      }
      stats_.reserved += block;
      stats_.peak_reserved = std::max(stats_.peak_reserved, stats_.reserved);
    }
    void* p = fresh_block(block);
    if (!p) {
      empty_cache(0);
      p = fresh_block(block);
    }
    if (!p) {
      const std::lock_guard lock(mutex_);
      used_ -= bytes;
      stats_.allocated -= block;
      stats_.reserved -= block;
      out_of_memory(bytes);
    }
    return p;
  }

  void deallocate(void* data, size_t bytes, int) noexcept override {
    if (!data) return;
    const size_t block = block_bytes(bytes);
    {
      const std::lock_guard lock(mutex_);
      used_ -= bytes;
      stats_.allocated -= block;
      if (cached_ + block <= kCacheLimit) {
        free_[class_of(block)].push_back(data);
        cached_ += block;
        return;
      }
      stats_.reserved -= block;
    }
    std::free(data);  // NOLINT(cppcoreguidelines-no-malloc)
  }

  MemoryStats memory_stats(int) override {
    const std::lock_guard lock(mutex_);
    MemoryStats s = stats_;
    s.cached = cached_;
    for (size_t c = 0; c < free_.size(); ++c)
      if (!free_[c].empty()) s.largest_free = bytes_of_class(c);
    return s;
  }
  void reset_peak(int) override {
    const std::lock_guard lock(mutex_);
    stats_.peak = stats_.allocated;
    stats_.peak_reserved = stats_.reserved;
  }
  void set_memory_limit(int, size_t bytes) override {
    const std::lock_guard lock(mutex_);
    stats_.limit = bytes;
  }
  void empty_cache(int) override {
    const std::lock_guard lock(mutex_);
    for (auto& list : free_) {
      for (void* p : list) std::free(p);  // NOLINT(cppcoreguidelines-no-malloc)
      list.clear();
    }
    stats_.reserved -= cached_;
    cached_ = 0;
  }

  void copy_from_host(void* d, const void* s, size_t bytes, int) override {
    copy_bytes(d, s, bytes);
  }
  void copy_to_host(void* d, const void* s, size_t bytes, int) override {
    count_host_wait(DeviceKind::cpu);
    copy_bytes(d, s, bytes);
  }
  void copy(void* d, const void* s, size_t bytes, int) override { copy_bytes(d, s, bytes); }
  void synchronize(int) override {}
  Encoder* encoder(int) override { return nullptr; }
  std::unique_ptr<Replay> record(int, const std::vector<std::vector<int>>&,
                                 const std::function<void(int)>&) override {
    return nullptr;
  }

 private:
  [[noreturn]] void out_of_memory(size_t bytes) {
    fail<OutOfMemory>(
        "out of memory on cpu: {} bytes requested, {} in use by tensors, {} in the machine{}",
        bytes, stats_.allocated, memory_,
        stats_.limit ? fmt::format(", {} allowed to this process", stats_.limit) : "");
  }

  const size_t memory_ = properties(0).memory;
  Mutex mutex_;
  std::array<std::vector<void*>, 128> free_;
  size_t cached_ = 0;
  size_t used_ = 0;  // of the allocated blocks
  MemoryStats stats_;
};

}  // namespace

/// Apart, so that whoever asks for the runtime needs no protected stack.
[[gnu::noinline]] static CpuRuntime* make_cpu_runtime() { return new CpuRuntime; }

DeviceRuntime& cpu_runtime() {
  static auto* const instance = make_cpu_runtime();  // outlives every static tensor
  return *instance;
}

}  // namespace mica
