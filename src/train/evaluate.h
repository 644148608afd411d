#pragma once

#include <memory>
#include <vector>

#include "mica/data/loader.h"
#include "mica/io/epoch_result.h"
#include "mica/nn/module.h"
#include "mica/train/metric.h"

namespace mica::train {

/// An example the model got wrong.
struct Mistake {
  int64_t index = 0;  ///< in the order the loader gave them
  int64_t truth = 0;
  int64_t guess = 0;
  double confidence = 0;  ///< the probability of the guess, by softmax
};

/// What outputs and targets are, which says what there is to measure and to show.
enum class Task : uint8_t {
  classes,  ///< outputs (N, C), classes (N) i64
  pixels,   ///< outputs (N, C, H, W), classes (N, H, W) i64
  text,     ///< outputs (N, C, T), classes (N, T) i64
  numbers,  ///< outputs and floating targets of one shape
  other,
};
Task task_of(const Values& output, const Values& target);
/// accuracy and top5; accuracy and mean_iou; perplexity and accuracy; mae and rmse; none.
std::vector<Metric> metrics_for(Task task);

struct Evaluation {
  static constexpr size_t kMostMistakes = 24;

  int64_t examples = 0;
  double loss = 0;                ///< mean over the examples; NaN without any
  io::Measurements losses = {};   ///< its parts by name, where it has several
  io::Measurements metrics = {};  ///< in their order
  Task task = Task::other;
  int64_t classes = 0;                  ///< of a task with classes, 0 otherwise
  std::vector<int64_t> confusion = {};  ///< (truth, guess): how many
  /// Of Task::classes, the most confident first, at most kMostMistakes.
  std::vector<Mistake> mistakes = {};

  /// One of `metrics`; NaN where there is no such one.
  double metric(std::string_view name) const { return io::measured(metrics, name); }
};

struct EvaluateOptions {
  Loss loss = {};                    ///< cross entropy, unless given
  std::vector<Metric> metrics = {};  ///< those of the task, unless given
  Split split = {};                  ///< split_batch, unless given
  bool compile = true;               ///< captures the work on a batch once and replays it
  bool mistakes = true;              ///< whether they are looked for
};

/// Runs a model over the batches of a loader's first epoch, in evaluation mode and without
/// gradients, on the loader's device, and leaves it in the mode it was in. Everything measured is
/// summed on the device and read at the end: one wait. Where the data are resident, a compiled
/// evaluation takes its batches itself.
class Evaluator {
 public:
  Evaluator(nn::Module model, const data::Loader& loader, EvaluateOptions options = {});
  ~Evaluator();
  Evaluator(Evaluator&&) noexcept;

  Evaluation run();
  /// Of the options, or of the task once it has run.
  const std::vector<Metric>& metrics() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

/// The same once.
Evaluation evaluate(const nn::Module& model, const data::Loader& loader,
                    EvaluateOptions options = {});

/// The accuracy of a classifier on a data set, on the device of its parameters.
double accuracy(const nn::Module& model, const data::Dataset& dataset);

}  // namespace mica::train
