#include "mica/core/interrupt.h"

#include <atomic>
#include <chrono>

namespace mica {
namespace {

std::atomic<InterruptCheck> g_check{nullptr};

}  // namespace

void set_interrupt_check(InterruptCheck check) { g_check = check; }

void poll_interrupt() {
  using Clock = std::chrono::steady_clock;
  constexpr auto kInterval = std::chrono::milliseconds(50);
  const InterruptCheck check = g_check.load(std::memory_order_relaxed);
  if (!check) return;
  thread_local Clock::time_point t_last;
  const Clock::time_point now = Clock::now();
  if (now - t_last < kInterval) return;
  t_last = now;
  check();
}

}  // namespace mica
