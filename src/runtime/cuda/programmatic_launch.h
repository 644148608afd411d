#pragma once

namespace mica {

/// Programmatic dependent launch: while it lives, launches of this thread may begin before the
/// launch they follow has ended, so that their blocks are in place when its results are. Only for
/// kernels in which every thread calls `wait_for_inputs()` (programmatic_launch.cuh) before it
/// touches memory that another kernel writes or reads. GPUs before Hopper run them as any other.
class ProgrammaticLaunch {
 public:
  ProgrammaticLaunch();
  ~ProgrammaticLaunch();
  ProgrammaticLaunch(const ProgrammaticLaunch&) = delete;
  ProgrammaticLaunch& operator=(const ProgrammaticLaunch&) = delete;

  static bool active();
};

}  // namespace mica
