#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace mica::train {

/// Seconds since it was made.
class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// One line on a terminal's stderr that is drawn over itself; nothing where stderr is no terminal.
class ProgressBar {
 public:
  /// `total` examples are to come, or fewer than 1 where that is not known; `done` are behind
  /// already.
  ProgressBar(std::string title, int64_t total, bool shown, int64_t done = 0);
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// True a few times a second where the bar is seen: then draw() is worth reading the loss for.
  bool due() const;
  void draw(int64_t done, double loss);
  void clear();

 private:
  std::string title_;
  int64_t total_;
  int64_t done_before_;
  bool shown_;
  bool drawn_ = false;
  Stopwatch clock_;
  double last_ = 0;
};

}  // namespace mica::train
