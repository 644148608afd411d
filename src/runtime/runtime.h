#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mica/core/device.h"
#include "mica/runtime/devices.h"

namespace mica {

class Encoder;  // runtime/cuda/encoder.h: how CUDA kernels are launched
class EventState;

/// One order of work on a device; runtime/stream.h has its handle.
class StreamState : public std::enable_shared_from_this<StreamState> {
 public:
  explicit StreamState(Device where) : device(where) {}
  virtual ~StreamState() = default;
  virtual void synchronize() = 0;
  virtual bool query() = 0;
  /// What is sent afterwards runs after the event.
  virtual void wait(EventState& event) = 0;

  const Device device;
};

/// A point in a stream; runtime/stream.h has its handle.
class EventState {
 public:
  explicit EventState(Device where) : device(where) {}
  virtual ~EventState() = default;
  virtual void record(StreamState& stream) = 0;
  virtual void synchronize() = 0;
  virtual bool query() = 0;
  /// Of an event on the same device; waits for both.
  virtual double elapsed_ms(EventState& since) = 0;

  const Device device;
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
  /// Starts both peaks again from what is in use now.
  virtual void reset_peak(int index) = 0;
  /// Gives cached blocks back to the system.
  virtual void empty_cache(int index) = 0;
  /// The most bytes this process may reserve; 0 lifts the limit.
  virtual void set_memory_limit(int index, size_t bytes) = 0;
  /// Work on `stream` uses the block at `data`: when it is freed, it is not used again before what
  /// was sent to the stream until then is done. The stream it was allocated on needs no telling.
  virtual void record_stream(void* data, int index, StreamState& stream);

  /// Host memory that copies may read and write while the program goes on. Raises Unsupported where
  /// the device has none.
  virtual void* allocate_pinned(size_t bytes);
  virtual void deallocate_pinned(void* data) noexcept;
  /// In stream order, without waiting; `source` lies in pinned memory and may be freed at once, but
  /// not written to before the copy is done.
  virtual void copy_from_pinned(void* destination, const void* source, size_t bytes, int index);
  /// The same to pinned memory; the bytes are there when the stream has been waited for.
  virtual void copy_to_pinned(void* destination, const void* source, size_t bytes, int index);

  /// Returns when `source` may be reused.
  virtual void copy_from_host(void* destination, const void* source, size_t bytes, int index) = 0;
  /// Returns when the bytes have arrived.
  virtual void copy_to_host(void* destination, const void* source, size_t bytes, int index) = 0;
  /// Within the device, in stream order.
  virtual void copy(void* destination, const void* source, size_t bytes, int index) = 0;
  /// From one device of this kind to another, in the order of both current streams.
  virtual void copy_between(void* destination, int destination_index, const void* source,
                            int source_index, size_t bytes);
  /// Waits for all streams of the device.
  virtual void synchronize(int index) = 0;

  // Streams. A device without them does its work in the order of the calling thread: its one stream
  // stands for that order. The current stream is the calling thread's.
  virtual std::shared_ptr<StreamState> create_stream(int index);
  virtual std::shared_ptr<StreamState> default_stream(int index);
  virtual std::shared_ptr<StreamState> current_stream(int index);
  /// The caller keeps `stream` alive as long as it is the current one.
  virtual void set_current_stream(int index, StreamState& stream);
  virtual std::unique_ptr<EventState> create_event(int index);

  /// The current stream's encoder; null on devices without streams.
  virtual Encoder* encoder(int index) = 0;
  /// The kernel of an op has made its launches on the current stream: remembered, so that an error
  /// found later can name the op, and waited for when launches block.
  virtual void op_launched(const char* op, int index);
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

}  // namespace mica
