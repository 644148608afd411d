#pragma once

namespace mica::train {

/// While one lives, Ctrl-C (SIGINT), SIGTERM and a terminal that goes away (SIGHUP) are only noted,
/// so that a loop can finish its batch and save; a second one ends the program at once. Several may
/// live at once, in different threads: all of them see it, and what was before comes back with the
/// last.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  static bool interrupted();
};

}  // namespace mica::train
