#pragma once

#include <memory>

#include "mica/core/device.h"

namespace mica {

class Event;
class StreamState;  // runtime/runtime.h
class EventState;   // runtime/runtime.h

/// A handle to an order of work on a device. Work on one stream runs in the order it was sent,
/// work on different ones may overlap. Threads may share a stream: each one's work keeps its order.
/// On the CPU and the null device a stream stands for the order of the calling thread.
///
/// A tensor belongs to the stream that was current when it was made. Before another stream reads
/// it, that stream waits for an event of the first; `record_stream` (core/memory.h) keeps its
/// memory from being used again too soon.
class Stream {
 public:
  Stream() = default;
  explicit Stream(std::shared_ptr<StreamState> state) : state_(std::move(state)) {}

  /// A stream of its own, kept and given out again when its last handle is gone.
  static Stream create(Device device);

  bool defined() const { return state_ != nullptr; }
  Device device() const;
  /// Waits until everything sent to the stream is done.
  void synchronize() const;
  /// Whether everything sent to the stream is done.
  bool query() const;
  /// What is sent to the stream afterwards runs after the event, which may be of another device.
  void wait(const Event& event) const;
  bool operator==(const Stream&) const = default;

  StreamState& state() const;

 private:
  std::shared_ptr<StreamState> state_;
};

/// The stream work goes to when nothing else is said; one per device, for all threads.
Stream default_stream(Device device);
/// The stream to which the calling thread sends its work.
Stream current_stream(Device device);

/// Makes a stream its device's current one in this thread while it lives.
class StreamGuard {
 public:
  explicit StreamGuard(const Stream& stream);
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  Stream stream_;
  Stream before_;
};

/// A point in a stream's order. Copies of the handle share it.
class Event {
 public:
  /// The point behind everything sent to the stream so far; what was recorded before is forgotten.
  void record(const Stream& stream);
  /// Waits until the point is reached; at once when nothing was recorded.
  void synchronize() const;
  /// Whether the point is reached.
  bool query() const;
  /// Milliseconds the device took from `since` to this; waits for both.
  double elapsed_ms(const Event& since) const;

 private:
  friend class Stream;
  std::shared_ptr<EventState> state_;
};

}  // namespace mica
