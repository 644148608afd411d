#include "mica/train/interrupt.h"

#include <csignal>
#include <mutex>

namespace mica::train {
namespace {

volatile std::sig_atomic_t g_interrupted = 0;

std::mutex g_mutex;
int g_guards = 0;
struct sigaction g_before_int;
struct sigaction g_before_term;

}  // namespace

InterruptGuard::InterruptGuard() {
  const std::lock_guard lock(g_mutex);
  if (g_guards++ > 0) return;
  g_interrupted = 0;
  struct sigaction action{};
  action.sa_handler = [](int) { g_interrupted = 1; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, &g_before_int);
  sigaction(SIGTERM, &action, &g_before_term);
}

InterruptGuard::~InterruptGuard() {
  const std::lock_guard lock(g_mutex);
  if (--g_guards > 0) return;
  sigaction(SIGINT, &g_before_int, nullptr);
  sigaction(SIGTERM, &g_before_term, nullptr);
}

bool InterruptGuard::interrupted() { return g_interrupted != 0; }

}  // namespace mica::train
