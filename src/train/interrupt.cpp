#include "mica/train/interrupt.h"

#include <array>
#include <csignal>
#include <mutex>

namespace mica::train {
namespace {

volatile std::sig_atomic_t g_interrupted = 0;

std::mutex g_mutex;
int g_guards = 0;
constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};
std::array<struct sigaction, kSignals.size()> g_before;

}  // namespace

InterruptGuard::InterruptGuard() {
  const std::lock_guard lock(g_mutex);
  if (g_guards++ > 0) return;
  g_interrupted = 0;
  struct sigaction action{};
  action.sa_handler = [](int) { g_interrupted = 1; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], nullptr, &g_before[i]);
    // nohup has it ignored, and so it stays.
    if (kSignals[i] == SIGHUP && g_before[i].sa_handler == SIG_IGN) continue;
    sigaction(kSignals[i], &action, nullptr);
  }
}

InterruptGuard::~InterruptGuard() {
  const std::lock_guard lock(g_mutex);
  if (--g_guards > 0) return;
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &g_before[i], nullptr);
}

bool InterruptGuard::interrupted() { return g_interrupted != 0; }

}  // namespace mica::train
