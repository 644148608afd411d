#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mica/core/device.h"

namespace mica {

class Encoder;  // runtime/cuda/encoder.h: how CUDA kernels are launched

struct MemoryStats {
  size_t allocated = 0;  ///< bytes in use by tensors
  size_t reserved = 0;   ///< bytes taken from the device, cached blocks included
  size_t peak = 0;       ///< highest `allocated` since the last reset
};

struct DeviceProperties {
  std::string name;
  size_t memory = 0;  ///< bytes
  int multiprocessors = 0;
  int compute_capability = 0;  ///< 90 for 9.0; 0 on the CPU
};

/// A recorded sequence of launches that runs again as one.
class Replay {
 public:
  virtual ~Replay() = default;
  virtual void launch() = 0;
};

/// What a device can do that is not an operator. One object per kind of device.
class DeviceRuntime {
 public:
  virtual ~DeviceRuntime() = default;

  virtual int device_count() = 0;
  virtual DeviceProperties properties(int index) = 0;

  /// Memory aligned to at least 64 bytes, null for 0 bytes. Raises OutOfMemory.
  virtual void* allocate(size_t bytes, int index) = 0;
  virtual void deallocate(void* data, size_t bytes, int index) noexcept = 0;
  virtual MemoryStats memory_stats(int index) = 0;
  virtual void reset_peak(int index) = 0;
  /// Gives cached blocks back to the system.
  virtual void empty_cache(int index) = 0;

  /// Returns when `source` may be reused.
  virtual void copy_from_host(void* destination, const void* source, size_t bytes, int index) = 0;
  /// Returns when the bytes have arrived.
  virtual void copy_to_host(void* destination, const void* source, size_t bytes, int index) = 0;
  /// Within the device, in stream order.
  virtual void copy(void* destination, const void* source, size_t bytes, int index) = 0;
  virtual void synchronize(int index) = 0;

  /// The current stream's encoder; null on devices without streams.
  virtual Encoder* encoder(int index) = 0;
  /// Records what `launch(i)` sends to the encoder for each step i, without running it. Step i runs
  /// after the steps `after[i]`; others may run beside it. Null where that is not possible and the
  /// launches have to be made one by one.
  virtual std::unique_ptr<Replay> record(int index, const std::vector<std::vector<int>>& after,
                                         const std::function<void(int step)>& launch) = 0;
  /// The same for a single step.
  std::unique_ptr<Replay> record(int index, const std::function<void()>& launches) {
    return record(index, {{}}, [&](int) { launches(); });
  }
};

/// The runtime of a kind of device. Raises DeviceError with the reason when there is none.
DeviceRuntime& runtime(DeviceKind kind);
inline DeviceRuntime& runtime(Device device) { return runtime(device.kind); }

/// Why CUDA cannot be used, in one sentence; empty when it can.
std::string cuda_unavailable_reason();
bool cuda_available();

/// Waits until everything sent to the device is done.
void synchronize(Device device);
MemoryStats memory_stats(Device device);

}  // namespace mica
