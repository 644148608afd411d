#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace mica {

enum class LogLevel : uint8_t {
  info,     ///< what a verbose mode was asked to tell
  warning,  ///< what a program should know without asking
};

/// A message is one line, without its end and without the library's name.
using LogCallback = std::function<void(LogLevel level, const std::string& message)>;

/// Where the library's messages go from now on; an empty one stands for stderr, which has them
/// unless something else is said. Any thread may call it, one at a time; what it throws is dropped.
void set_log_callback(LogCallback callback);

void log_message(LogLevel level, const std::string& message);

}  // namespace mica
