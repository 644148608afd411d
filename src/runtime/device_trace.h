#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace mica {

/// A kernel, a copy or a fill that a device did: nanoseconds of std::chrono::steady_clock.
struct DeviceWork {
  enum class What : uint8_t { kernel, copy, fill };
  What what = What::kernel;
  bool is_first = true;  ///< of what its cause sent
  bool in_graph = false;
  int device = 0;
  uint32_t stream = 0;
  uint32_t name = 0;    ///< of DeviceTrace::names
  uint64_t cause = 0;   ///< the innermost one when it was sent, or recorded for a graph; 0: none
  uint64_t launch = 0;  ///< the innermost one when it was sent, of a graph when that was launched
  uint64_t bytes = 0;   ///< of copies and fills
  int64_t begin = 0;
  int64_t end = 0;
};

struct DeviceTrace {
  std::vector<DeviceWork> work;
  std::vector<std::string> names;
  uint64_t dropped = 0;  ///< pieces of work that did not fit in memory
};

/// Who sees what devices of a kind do. One session at a time. Work is told by its cause: a number,
/// not 0, that the thread which sends the work has given.
class DeviceTracer {
 public:
  virtual ~DeviceTracer() = default;
  /// Raises nothing; gives by what it sees, in a sentence that may say why it sees no more.
  virtual std::string start() = 0;
  /// Waits for what was sent, and gives what was done since it was asked last.
  virtual DeviceTrace take() = 0;
  virtual void stop() = 0;

  /// What the calling thread sends until the matching end() has this cause, unless it has one of
  /// its own. `is_op`: a kernel of an op runs.
  virtual void begin(uint64_t cause, bool is_op) = 0;
  virtual void end() = 0;
  /// Whether the calling thread records a graph: nothing runs, and causes stay with the nodes.
  virtual bool is_recording() = 0;
};

/// How the work of graphs is traced now. 0: not at all. More: by its nodes, in the session of that
/// number, for graphs that were recorded in it. Less: not within graphs, so that steps of plans are
/// to be sent one by one.
extern std::atomic<int64_t> g_device_tracing;
inline int64_t device_tracing() { return g_device_tracing.load(std::memory_order_acquire); }

/// CUDA's, where a CUDA device is in use; else null.
DeviceTracer* cuda_tracer();

}  // namespace mica
