#include "mica/runtime/cpu/cpu_runtime.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
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
    // The kernel may promise memory the machine has not got; refuse what cannot fit.
    const size_t limit = limit_.load(std::memory_order_relaxed);
    const size_t most = limit ? std::min(limit, memory_) : memory_;
    if (bytes > most) out_of_memory(bytes);
    if (used_.fetch_add(bytes, std::memory_order_relaxed) > most - bytes) {
      used_ -= bytes;
      out_of_memory(bytes);
    }
    const size_t block = block_bytes(bytes);
    allocated_.add(block);
    if (void* p = kept_block(class_of(block))) return p;
    reserved_.add(block);
    void* p = fresh_block(block);
    if (!p) {
      empty_cache(0);
      p = fresh_block(block);
    }
    if (!p) {
      used_ -= bytes;
      allocated_.now -= block;
      reserved_.now -= block;
      out_of_memory(bytes);
    }
    return p;
  }

  void deallocate(void* data, size_t bytes, int) noexcept override {
    if (!data) return;
    const size_t block = block_bytes(bytes);
    used_.fetch_sub(bytes, std::memory_order_relaxed);
    allocated_.now.fetch_sub(block, std::memory_order_relaxed);
    if (cached() <= kCacheLimit) {
      Shelf& shelf = own_shelf();
      const std::lock_guard lock(shelf.mutex);
      shelf.free[class_of(block)].push_back(data);
      return;
    }
    reserved_.now -= block;
    std::free(data);  // NOLINT(cppcoreguidelines-no-malloc)
  }

  MemoryStats memory_stats(int) override {
    MemoryStats s{.allocated = allocated_.now,
                  .reserved = reserved_.now,
                  .peak = allocated_.peak,
                  .peak_reserved = reserved_.peak,
                  .cached = cached(),
                  .limit = limit_};
    for (Shelf& shelf : shelves_) {
      const std::lock_guard lock(shelf.mutex);
      s.allocations += shelf.allocations;
      for (size_t c = 0; c < shelf.free.size(); ++c)
        if (!shelf.free[c].empty()) s.largest_free = std::max(s.largest_free, bytes_of_class(c));
    }
    return s;
  }
  void reset_peak(int) override {
    allocated_.peak = allocated_.now.load();
    reserved_.peak = reserved_.now.load();
  }
  void set_memory_limit(int, size_t bytes) override { limit_ = bytes; }
  void empty_cache(int) override {
    for (Shelf& shelf : shelves_) {
      const std::lock_guard lock(shelf.mutex);
      for (size_t c = 0; c < shelf.free.size(); ++c) {
        for (void* p : shelf.free[c]) std::free(p);  // NOLINT(cppcoreguidelines-no-malloc)
        reserved_.now -= shelf.free[c].size() * bytes_of_class(c);
        shelf.free[c].clear();
      }
    }
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
  /// Freed blocks by size. Threads that come one after the other have different ones: under one
  /// lock two threads of small calls take a third longer than one.
  struct alignas(64) Shelf {
    Mutex mutex;
    std::array<std::vector<void*>, 128> free;
    size_t allocations = 0;  // that looked here first
  };

  /// Bytes, and the most there were at a time.
  struct Level {
    std::atomic<size_t> now = 0, peak = 0;

    void add(size_t bytes) {
      const size_t sum = now.fetch_add(bytes, std::memory_order_relaxed) + bytes;
      size_t before = peak.load(std::memory_order_relaxed);
      while (sum > before && !peak.compare_exchange_weak(before, sum, std::memory_order_relaxed)) {
      }
    }
  };

  Shelf& own_shelf() {
    static std::atomic<size_t> threads = 0;
    thread_local const size_t own = threads++ % kShelves;
    return shelves_[own];
  }

  /// A freed block of that size, of this thread's or else of any: one may allocate what another
  /// frees.
  void* kept_block(size_t c) {
    Shelf& own = own_shelf();
    {
      const std::lock_guard lock(own.mutex);
      ++own.allocations;
      if (void* p = taken(own, c)) return p;
    }
    for (Shelf& shelf : shelves_) {
      const std::lock_guard lock(shelf.mutex);
      if (void* p = taken(shelf, c)) return p;
    }
    return nullptr;
  }
  static void* taken(Shelf& shelf, size_t c) {
    if (shelf.free[c].empty()) return nullptr;
    void* p = shelf.free[c].back();
    shelf.free[c].pop_back();
    return p;
  }

  /// Others may allocate and free in between.
  size_t cached() const {
    const size_t allocated = allocated_.now.load(std::memory_order_relaxed);
    return std::max(reserved_.now.load(std::memory_order_relaxed), allocated) - allocated;
  }

  [[noreturn]] void out_of_memory(size_t bytes) {
    fail<OutOfMemory>(
        "out of memory on cpu: {} bytes requested, {} in use by tensors, {} in the machine{}",
        bytes, allocated_.now.load(), memory_,
        limit_ ? fmt::format(", {} allowed to this process", limit_.load()) : "");
  }

  static constexpr size_t kShelves = 8;
  const size_t memory_ = properties(0).memory;
  std::array<Shelf, kShelves> shelves_;
  alignas(64) std::atomic<size_t> used_ = 0;  // of the allocated blocks
  Level allocated_, reserved_;
  std::atomic<size_t> limit_ = 0;
};

}  // namespace

/// Apart, so that whoever asks for the runtime needs no protected stack.
[[gnu::noinline]] static CpuRuntime* make_cpu_runtime() { return new CpuRuntime; }

DeviceRuntime& cpu_runtime() {
  static auto* const instance = make_cpu_runtime();  // outlives every static tensor
  return *instance;
}

}  // namespace mica
