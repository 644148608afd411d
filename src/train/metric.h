#pragma once

#include <string>
#include <vector>

#include "mica/train/loss.h"

namespace mica::train {

/// A number that says how a model does. `update` gives what one batch adds to the metric's state, a
/// tree of tensors whose shapes are the same for every batch: it runs on the device, inside the
/// compiled evaluation. States add, over batches and over processes, and `compute` makes the number
/// of the sum, which is f64 and on the CPU. One's own:
///
///     const Metric bias = {
///         .name = "bias",
///         .update = [](const Tensor& out, const Tensor& y) {
///           return Tensors{sum(out - y), scalar(out.numel())};
///         },
///         .compute = [](const Values& s) { return s[0].tensor().item() / s[1].tensor().item(); },
///         .higher_is_better = false};
struct Metric {
  std::string name;
  Comparison update;
  std::function<double(const Values& state)> compute;
  bool higher_is_better = true;
  bool is_share = false;  ///< of 1, shown in percent
};

/// Class numbers that are left out, as cross_entropy leaves them out.
inline constexpr int64_t kIgnored = -100;

// Of outputs (N, C, …) and classes (N, …): images, pixels, characters.

/// The part whose largest output is their class's.
Metric accuracy_metric(int64_t ignore_index = kIgnored);
/// The part whose class is among the k largest outputs; equal ones count against it.
Metric top_k_metric(int64_t k, int64_t ignore_index = kIgnored);
/// Of each class that occurs the intersection over union of truth and guess, and the mean of these.
Metric mean_iou_metric(int64_t ignore_index = kIgnored);
/// exp of the mean negative log-likelihood of the classes; the same as bits, log2.
Metric perplexity_metric(int64_t ignore_index = kIgnored);
Metric bits_per_character_metric(int64_t ignore_index = kIgnored);
/// (C, C): of each truth and guess how many.
Tensor confusion_counts(const Tensor& output, const Tensor& target,
                        int64_t ignore_index = kIgnored);

// Of outputs and targets of one shape.

Metric mean_squared_error_metric();
Metric root_mean_squared_error_metric();
Metric mean_absolute_error_metric();
/// 1 - squared errors / squared distances from the mean of the targets.
Metric r2_metric();

/// A metric over batches: `meter.add(model(x), y); …; meter.result()`.
class Meter {
 public:
  explicit Meter(Metric metric) : metric_(std::move(metric)) {}
  void add(const Values& output, const Values& target);
  /// Waits for the device; raises before the first batch.
  double result() const;
  void reset() { state_ = {}; }
  const Metric& metric() const { return metric_; }

 private:
  Metric metric_;
  Values state_;
};

}  // namespace mica::train
