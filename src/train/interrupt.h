#pragma once

#include <csignal>

namespace mica::train {

/// While it lives, Ctrl-C (SIGINT) and SIGTERM are only noted, so that a loop can finish its batch
/// and save; a second one ends the program at once.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  static bool interrupted();

 private:
  struct sigaction before_int_{};
  struct sigaction before_term_{};
};

}  // namespace mica::train
