#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "mica/io/file.h"

namespace mica::io {

/// A file of measurements, one JSON object a line, `{"step":100,"loss":0.5}`, each in the file when
/// `write` returns.
class MetricsLog {
 public:
  /// Starts the file anew; with `resume_step`, goes on after that step: lines of later steps, and a
  /// last one that a killed process did not finish, are cut off.
  explicit MetricsLog(const std::string& path, int64_t resume_step = 0);

  /// Values that are no number (NaN, infinity) are written as null.
  void write(int64_t step, const std::vector<std::pair<std::string, double>>& values);

 private:
  File file_;
};

}  // namespace mica::io
