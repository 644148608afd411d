#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "mica/runtime/cuda/allocator.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/pinned.h"
#include "mica/runtime/cuda/stream.h"
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

/// CUDA devices: a caching allocator and a default stream each, made when the device is first used;
/// more streams when they are asked for.
class CudaRuntime : public DeviceRuntime {
 public:
  static constexpr int kMostDevices = 64;

  explicit CudaRuntime(int device_count);

  int device_count() override { return device_count_; }
  DeviceProperties properties(int index) override;
  void* allocate(size_t bytes, int index) override;
  void deallocate(void* data, size_t bytes, int index) noexcept override;
  MemoryStats memory_stats(int index) override;
  void reset_peak(int index) override;
  void empty_cache(int index) override;
  void set_memory_limit(int index, size_t bytes) override;
  void record_stream(void* data, int index, StreamState& stream) override;
  void* allocate_pinned(size_t bytes) override;
  void deallocate_pinned(void* data) noexcept override;
  void copy_from_pinned(void* destination, const void* source, size_t bytes, int index) override;
  void copy_to_pinned(void* destination, const void* source, size_t bytes, int index) override;
  void copy_from_host(void* destination, const void* source, size_t bytes, int index) override;
  void copy_to_host(void* destination, const void* source, size_t bytes, int index) override;
  void copy(void* destination, const void* source, size_t bytes, int index) override;
  void copy_between(void* destination, int destination_index, const void* source, int source_index,
                    size_t bytes) override;
  void synchronize(int index) override;
  std::shared_ptr<StreamState> create_stream(int index) override;
  std::shared_ptr<StreamState> default_stream(int index) override;
  std::shared_ptr<StreamState> current_stream(int index) override;
  void set_current_stream(int index, StreamState& stream) override;
  std::unique_ptr<EventState> create_event(int index) override;
  Encoder* encoder(int index) override;
  void op_launched(const char* op, int index) override;
  using DeviceRuntime::record;
  std::unique_ptr<Replay> record(int index, const std::vector<std::vector<int>>& after,
                                 const std::function<void(int step)>& launch) override;

  // Streams of other libraries; see runtime/cuda_library.h.
  void order_streams(int index, cudaStream_t earlier, cudaStream_t later);
  void record_use(int index, void* data, cudaStream_t stream);

  std::vector<MemoryBlock> memory_blocks(int index) { return use(index).allocator.blocks(); }

 private:
  struct PerDevice {
    explicit PerDevice(int index);
    CachingAllocator allocator;
    HostStaging staging;
    std::shared_ptr<CudaStream> default_stream;
    std::mutex recording;                  ///< of `recorder`
    std::shared_ptr<CudaStream> recorder;  ///< of graphs; nothing ever runs there
    std::vector<CudaStream*> streams;      ///< all that were made; they live as long as the process
    std::vector<CudaStream*> unused;       ///< those nobody has a handle to
  };
  struct Slot {
    std::once_flag once;
    std::unique_ptr<PerDevice> device;
  };

  /// Makes a device the calling thread's current one. Raises when the CUDA context was lost.
  PerDevice& use(int index);
  /// The calling thread's stream.
  static CudaStream& current(PerDevice& device, int index);
  void copy_pinned(void* destination, const void* source, size_t bytes, int index,
                   cudaMemcpyKind kind, const void* host);
  void enable_peer_access(int from, int to);

  int device_count_;
  std::unique_ptr<Slot[]> slots_;
  PinnedAllocator pinned_;
  std::mutex mutex_;                     ///< of what follows, and of the devices' lists of streams
  std::set<std::pair<int, int>> peers_;  ///< pairs of devices whose access was tried
};

}  // namespace mica
