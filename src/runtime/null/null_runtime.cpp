#include "mica/runtime/null/null_runtime.h"

#include <algorithm>

namespace mica {
namespace {

class NullRuntime final : public DeviceRuntime {
 public:
  int device_count() override { return 1; }
  DeviceProperties properties(int) override { return {.name = "null"}; }
  void* allocate(size_t bytes, int) override {
    stats_.allocated += bytes;
    stats_.peak = std::max(stats_.peak, stats_.allocated);
    ++stats_.allocations;
    return nullptr;
  }
  void deallocate(void*, size_t bytes, int) noexcept override { stats_.allocated -= bytes; }
  MemoryStats memory_stats(int) override { return stats_; }
  void reset_peak(int) override { stats_.peak = stats_.allocated; }
  void empty_cache(int) override {}
  void set_memory_limit(int, size_t) override {}
  void copy_from_host(void*, const void*, size_t, int) override {}
  void copy_to_host(void*, const void*, size_t, int) override {}
  void copy(void*, const void*, size_t, int) override {}
  void synchronize(int) override {}
  Encoder* encoder(int) override { return nullptr; }
  std::unique_ptr<Replay> record(int, const std::vector<std::vector<int>>&,
                                 const std::function<void(int)>&) override {
    return nullptr;
  }

 private:
  MemoryStats stats_;
};

}  // namespace

DeviceRuntime& null_runtime() {
  static auto* const instance = new NullRuntime;
  return *instance;
}

}  // namespace mica
