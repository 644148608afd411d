#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace mica::io {

/// What was measured, by name.
using Measurements = std::vector<std::pair<std::string, double>>;

/// NaN where there is no such one.
double measured(const Measurements& all, std::string_view name);

/// What one epoch of a training run gave. Checkpoints, logs, reports and other languages know its
/// members from `members` alone.
struct EpochResult {
  int64_t epoch = 0;
  int64_t steps = 0;
  double train_loss = 0;
  double test_loss = 0;
  Measurements metrics = {};
  double lr = 0;
  double examples_per_s = 0;
  double seconds = 0;
  double test_seconds = 0;
  bool best = false;

  /// One of `metrics`; NaN where there is no such one.
  double metric(std::string_view name) const { return measured(metrics, name); }

  /// Calls f(name, member, documentation) for each.
  template <class F>
  static void members(F&& f) {
    f("epoch", &EpochResult::epoch, "The first is 1.");
    f("steps", &EpochResult::steps, "Since the beginning.");
    f("train_loss", &EpochResult::train_loss, "The mean while it was learning.");
    f("test_loss", &EpochResult::test_loss, "The mean on the test data afterwards.");
    f("metrics", &EpochResult::metrics, "On the test data, by name: accuracy, top5, ….");
    f("lr", &EpochResult::lr, "Of the last step.");
    f("examples_per_s", &EpochResult::examples_per_s, "In training.");
    f("seconds", &EpochResult::seconds, "Of training alone.");
    f("test_seconds", &EpochResult::test_seconds, "Of the evaluation.");
    f("best", &EpochResult::best, "Whether it is so far, by what best_by names.");
  }
};

/// Every number of it by the name that logs have: "train_loss", and "test_accuracy" for the metric
/// accuracy.
Measurements numbers_of(const EpochResult& result);

}  // namespace mica::io
