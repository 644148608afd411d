#include "mica/train/progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace mica::train {
namespace {

constexpr double kRedrawSeconds = 0.25;
constexpr int64_t kWidth = 30;

}  // namespace

ProgressBar::ProgressBar(std::string title, int64_t total, bool shown, int64_t done)
    : title_(std::move(title)),
      total_(total),
      done_before_(done),
      shown_(shown && isatty(STDERR_FILENO) == 1) {}

bool ProgressBar::due() const { return shown_ && clock_.seconds() - last_ >= kRedrawSeconds; }

void ProgressBar::draw(int64_t done, double loss) {
  last_ = clock_.seconds();
  const double rate = static_cast<double>(done - done_before_) / std::max(last_, 1e-9);
  drawn_ = true;
  if (total_ <= 0) {
    fmt::print(stderr, "\r{} {}  {:.0f} examples/s  loss {:.3f}\x1b[K", title_, done, rate, loss);
    std::fflush(stderr);
    return;
  }
  const double remaining = static_cast<double>(total_ - done) / std::max(rate, 1e-9);
  const auto filled = static_cast<size_t>(std::min(kWidth, kWidth * done / total_));
  const std::string bar = std::string(filled, '=') + std::string(kWidth - filled, ' ');
  fmt::print(stderr, "\r{} [{}] {}/{}  {:.0f} examples/s  loss {:.3f}  ETA {:.0f} s\x1b[K", title_,
             bar, done, total_, rate, loss, remaining);
  std::fflush(stderr);
}

void ProgressBar::clear() {
  if (drawn_) fmt::print(stderr, "\r\x1b[K");
  drawn_ = false;
}

}  // namespace mica::train
