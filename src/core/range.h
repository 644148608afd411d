#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

namespace mica {

/// What a stretch of a program's time goes to.
enum class RangeKind : uint8_t {
  user,    ///< what a program named itself
  data,    ///< waiting for a batch
  wait,    ///< waiting for a device
  load,    ///< a worker makes a batch
  launch,  ///< sending what is no op: a recorded graph, arguments, results
  step,    ///< a step of training
};

/// Who wants to know of ranges, such as a profiler. Called in the thread that is in them; must
/// raise nothing, and stay.
class RangeListener {
 public:
  virtual ~RangeListener() = default;
  virtual void began(std::string_view name, RangeKind kind) = 0;
  virtual void ended() = 0;
};

extern std::atomic<RangeListener*> g_range_listener;

/// Null: nobody. Gives the one before.
inline RangeListener* set_range_listener(RangeListener* listener) {
  return g_range_listener.exchange(listener, std::memory_order_acq_rel);
}

/// Names what the thread does while it lives, in a profile.
class Range {
 public:
  explicit Range(std::string_view name, RangeKind kind = RangeKind::user)
      : listener_(g_range_listener.load(std::memory_order_acquire)) {
    if (listener_) [[unlikely]]
      listener_->began(name, kind);
  }
  ~Range() {
    if (listener_) [[unlikely]]
      listener_->ended();
  }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  RangeListener* listener_;
};

}  // namespace mica
