#pragma once

#include <atomic>
#include <span>

#include "mica/core/scope.h"
#include "mica/op/select.h"

namespace mica {

/// One run of a kernel.
struct KernelRun {
  const Prepared& prepared;
  const void* params;
  std::span<const Arg> in;
  std::span<const Arg> out;
  Device device;
  const Scope* scope = nullptr;  ///< where the call was made; null: where the thread is now
};

/// Who wants to know of every kernel that the host runs or launches, such as a profiler. Called in
/// the thread that runs it; must raise nothing.
class RunWatcher {
 public:
  virtual ~RunWatcher() = default;
  virtual void began(const KernelRun& run) = 0;
  virtual void ended(const KernelRun& run) = 0;
};

extern std::atomic<RunWatcher*> g_run_watcher;

/// Null: nobody. One that was set must stay, since other threads may be in it. Gives the one
/// before.
inline RunWatcher* set_run_watcher(RunWatcher* watcher) {
  return g_run_watcher.exchange(watcher, std::memory_order_acq_rel);
}

/// Tells the watcher, if there is one, of a run while it lives.
class WatchedRun {
 public:
  explicit WatchedRun(const KernelRun& run)
      : run_(run), watcher_(g_run_watcher.load(std::memory_order_acquire)) {
    if (watcher_) [[unlikely]]
      watcher_->began(run_);
  }
  ~WatchedRun() {
    if (watcher_) [[unlikely]]
      watcher_->ended(run_);
  }
  WatchedRun(const WatchedRun&) = delete;
  WatchedRun& operator=(const WatchedRun&) = delete;

 private:
  const KernelRun run_;
  RunWatcher* watcher_;
};

}  // namespace mica
