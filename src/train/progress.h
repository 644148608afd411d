#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace mica::tool {

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
  /// `total` images are to come.
  ProgressBar(std::string title, int64_t total);
  ~ProgressBar() { clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// True a few times a second on a terminal: then draw() is worth reading the loss for.
  bool due() const;
  void draw(int64_t done, double loss);
  void clear();

 private:
  std::string title_;
  int64_t total_;
  bool terminal_;
  bool drawn_ = false;
  Stopwatch clock_;
  double last_ = 0;
};

}  // namespace mica::tool
