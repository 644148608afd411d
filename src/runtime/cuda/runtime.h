#pragma once

#include <memory>
#include <mutex>

#include "mica/runtime/cuda/allocator.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/runtime.h"

namespace mica {

/// Small pinned buffers through which host values reach the device without waiting for it.
class HostStaging {
 public:
  static constexpr size_t kSlotBytes = 64 * 1024;

  HostStaging();
  ~HostStaging();
  HostStaging(const HostStaging&) = delete;
  HostStaging& operator=(const HostStaging&) = delete;

  /// Sends at most kSlotBytes in stream order; `source` may be reused at once.
  void send(void* destination, const void* source, size_t bytes, cudaStream_t stream);

 private:
  static constexpr int kSlots = 16;
  std::mutex mutex_;
  std::byte* pinned_ = nullptr;
  cudaEvent_t sent_[kSlots] = {};
  int next_ = 0;
};

/// CUDA devices: one stream, one caching allocator each, made when the device is first used.
class CudaRuntime : public DeviceRuntime {
 public:
  explicit CudaRuntime(int device_count);

  int device_count() override { return device_count_; }
  DeviceProperties properties(int index) override;
  void* allocate(size_t bytes, int index) override;
  void deallocate(void* data, size_t bytes, int index) noexcept override;
  MemoryStats memory_stats(int index) override;
  void reset_peak(int index) override;
  void empty_cache(int index) override;
  void copy_from_host(void* destination, const void* source, size_t bytes, int index) override;
  void copy_to_host(void* destination, const void* source, size_t bytes, int index) override;
  void copy(void* destination, const void* source, size_t bytes, int index) override;
  void synchronize(int index) override;
  Encoder* encoder(int index) override;
  using DeviceRuntime::record;
  std::unique_ptr<Replay> record(int index, const std::vector<std::vector<int>>& after,
                                 const std::function<void(int step)>& launch) override;

 private:
  struct PerDevice {
    explicit PerDevice(int index) : encoder(index), allocator(index) {}
    Encoder encoder;
    CachingAllocator allocator;
    HostStaging staging;
  };
  struct Slot {
    std::once_flag once;
    std::unique_ptr<PerDevice> device;
  };

  /// Makes a device the calling thread's current one.
  PerDevice& use(int index);

  int device_count_;
  std::unique_ptr<Slot[]> slots_;
};

}  // namespace mica
