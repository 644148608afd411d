#pragma once

namespace mica {

/// While it lives, launches of this thread may begin before the launch they follow has ended, so
/// that their blocks are in place when its results are. Only for kernels in which every thread
/// calls `wait_for_inputs()` (ahead.cuh) before it touches memory that another kernel writes or
/// reads. GPUs before Hopper run them as any other.
class LaunchAhead {
 public:
  LaunchAhead();
  ~LaunchAhead();
  LaunchAhead(const LaunchAhead&) = delete;
  LaunchAhead& operator=(const LaunchAhead&) = delete;

  static bool active();
};

}  // namespace mica
