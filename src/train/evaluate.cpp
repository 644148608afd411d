#include "mica/train/evaluate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "mica/autograd/autograd.h"
#include "mica/core/check.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/cross_entropy/cross_entropy.h"

namespace mica::train {
namespace {

/// Evaluation mode while it lives.
class EvalMode {
 public:
  explicit EvalMode(const nn::Module& model) : model_(model), before_(model.training()) {
    model_.eval();
  }
  ~EvalMode() { model_.train(before_); }
  EvalMode(const EvalMode&) = delete;
  EvalMode& operator=(const EvalMode&) = delete;

 private:
  nn::Module model_;
  bool before_;
};

/// Counts of one run over the examples.
class Counts {
 public:
  explicit Counts(Evaluation& result) : result_(result) {}

  /// Logits (n, classes) and class numbers (n).
  void add(const Tensor& logits, const Tensor& targets) {
    if (result_.classes == 0) {
      result_.classes = logits.size(1);
      result_.confusion.resize(static_cast<size_t>(result_.classes * result_.classes));
    }
    const auto values = cast(logits, DType::f32).to_vector<float>();
    const auto truths = targets.to_vector<int64_t>();
    const int64_t classes = result_.classes;
    for (size_t i = 0; i < truths.size(); ++i) {
      check<IndexError>(truths[i] >= 0 && truths[i] < classes,
                        "evaluate: expected class numbers in [0, {}), got {}", classes, truths[i]);
      add_one(values.data() + static_cast<int64_t>(i) * classes, truths[i]);
    }
  }

  void finish() {
    const auto n = static_cast<double>(result_.examples);
    result_.accuracy = static_cast<double>(correct_) / n;
    result_.top5 = static_cast<double>(among_five_) / n;
    keep_most_confident(Evaluation::kMostMistakes);
  }

 private:
  void add_one(const float* logits, int64_t truth) {
    const int64_t classes = result_.classes;
    const int64_t guess = std::max_element(logits, logits + classes) - logits;
    // Equal outputs count against it, as NaN does.
    const auto larger =
        std::count_if(logits, logits + classes, [&](float v) { return !(v < logits[truth]); });
    among_five_ += larger <= 5 ? 1 : 0;
    correct_ += guess == truth ? 1 : 0;
    ++result_.confusion[static_cast<size_t>(truth * classes + guess)];
    if (guess != truth) {
      double sum = 0;
      for (int64_t c = 0; c < classes; ++c) sum += std::exp(double{logits[c]} - logits[guess]);
      result_.mistakes.push_back({index_, truth, guess, std::isfinite(sum) ? 1 / sum : 0});
      if (result_.mistakes.size() >= 1024) keep_most_confident(Evaluation::kMostMistakes);
    }
    ++index_;
  }

  void keep_most_confident(size_t n) {
    auto& all = result_.mistakes;
    std::stable_sort(all.begin(), all.end(), [](const Mistake& a, const Mistake& b) {
      return a.confidence > b.confidence;
    });
    if (all.size() > n) all.resize(n);
  }

  Evaluation& result_;
  int64_t index_ = 0;
  int64_t correct_ = 0;
  int64_t among_five_ = 0;
};

}  // namespace

Evaluation evaluate(const nn::Module& model, const data::Loader& loader, const Loss& loss) {
  const NoGrad guard;
  const EvalMode mode(model);
  Evaluation result;
  Counts counts(result);
  double sum = 0;
  for (const auto& [x, y] : loader.epoch(0)) {
    const Tensor output = model(x);
    const int64_t n = x.size(0);
    sum += loss(output, y).item() * static_cast<double>(n);
    result.examples += n;
    if (y.dtype() == DType::i64 && y.rank() == 1 && output.rank() == 2) counts.add(output, y);
  }
  result.loss = sum / static_cast<double>(result.examples);
  counts.finish();
  return result;
}

double accuracy(const nn::Module& model, const data::Dataset& dataset) {
  const Tensors parameters = model.parameters();
  const Device device = parameters.empty() ? Device::cpu() : parameters[0].device();
  const data::Loader loader(dataset, {.batch = 1000, .device = device});
  return evaluate(model, loader,
                  [](const Tensor& output, const Tensor& y) { return cross_entropy(output, y); })
      .accuracy;
}

}  // namespace mica::train
