#include "mica/core/log.h"

#include <cstdio>
#include <memory>
#include <mutex>

#include "mica/core/fork.h"

namespace mica {
namespace {

struct Log {
  Mutex mutex;
  LogCallback callback;
};

/// Never destroyed: threads may have something to say while the program ends.
Log& the_log() {
  static auto* const log = new Log;
  return *log;
}

}  // namespace

void set_log_callback(LogCallback callback) {
  Log& log = the_log();
  const std::lock_guard lock(log.mutex);
  log.callback = std::move(callback);
}

void log_message(LogLevel level, const std::string& message) {
  Log& log = the_log();
  const std::lock_guard lock(log.mutex);
  if (!log.callback) {
    std::fprintf(stderr, "mica: %s\n", message.c_str());
    return;
  }
  try {
    log.callback(level, message);
  } catch (...) {  // NOLINT(bugprone-empty-catch): a message must not make a computation fail
  }
}

}  // namespace mica
