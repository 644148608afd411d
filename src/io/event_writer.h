#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "mica/io/file.h"

namespace mica::io {

/// Writes scalars to a file that TensorBoard shows. Each one is in the file when `scalar` returns.
class EventWriter {
 public:
  /// Makes the directory where there is none, and a file of its own in it. A run that goes on at
  /// `first_step` makes TensorBoard forget what earlier files there say of that step and later.
  explicit EventWriter(const std::string& directory, int64_t first_step = 0);

  void scalar(std::string_view tag, double value, int64_t step);

  const std::string& path() const { return file_.path(); }

 private:
  void write_event(std::string_view event);

  File file_;
};

}  // namespace mica::io
