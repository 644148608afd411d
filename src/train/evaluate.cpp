#include "mica/train/evaluate.h"

#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "mica/autograd/autograd.h"
#include "mica/core/values_check.h"
#include "mica/graph/compile.h"
#include "mica/ops/collective/collective.h"
#include "mica/ops/ops.h"

namespace mica::train {
namespace {

/// Classes up to which they are counted by truth and guess.
constexpr int64_t kMostConfused = 1000;
constexpr auto kMistakes = static_cast<int64_t>(Evaluation::kMostMistakes);
constexpr int64_t kStepsPerLaunch = 10;

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

/// The name of a part of a loss: of {"kl": …} "kl", of [a, b] "0" and "1".
std::string part_name(const std::string& path) {
  std::string name;
  for (const char c : path.substr(std::string_view("loss").size()))
    if (c == ']') {
      name += '.';
    } else if (c != '[' && c != '"') {
      name += c;
    }
  if (!name.empty()) name.pop_back();
  return name;
}

/// A metric may count in numbers, which are on the CPU.
Tensor on(Device device, const Tensor& part) {
  const bool is_number = part.device().is_cpu() && part.numel() == 1 && !part.is_traced();
  if (part.device() == device || !is_number) return part;
  return full(part.shape(), part.item_number(), {.dtype = part.dtype(), .device = device});
}

/// The n most confident mistakes of those known, rows (confidence, example, truth, guess), and of a
/// batch; a confidence of -1 is no mistake.
Tensor worse(const Tensor& known, const Tensor& output, const Tensor& target, const Tensor& first) {
  const Tensor scores = cast(output, DType::f32);
  const int64_t n = target.size(0);
  const Tensor guess = argmax(scores, 1);
  const Tensor sure = cast(max(softmax(scores, 1), {1}), DType::f64);
  const Tensor confidence = where(isfinite(sure), sure, 0.0);
  const Tensor index = add(arange(n, {.dtype = DType::i64, .device = output.device()}), first);
  const Tensor rows = stack({where(ne(guess, target), confidence, -1.0), cast(index, DType::f64),
                             cast(target, DType::f64), cast(guess, DType::f64)},
                            1);
  const Tensor all = concat({known, rows}, 0);
  const Tensor order = argsort(select(all, 1, 0), 0, true);
  return index_select(all, 0, slice(order, 0, 0, known.size(0)));
}

}  // namespace

Task task_of(const Values& output, const Values& target) {
  if (!output.is_tensor() || !target.is_tensor()) return Task::other;
  const Tensor& out = output.tensor();
  const Tensor& y = target.tensor();
  if (is_floating(y.dtype())) return out.shape() == y.shape() ? Task::numbers : Task::other;
  const bool of_classes = y.dtype() == DType::i64 && y.rank() >= 1 && out.rank() == y.rank() + 1 &&
                          out.size(0) == y.size(0);
  if (!of_classes) return Task::other;
  return y.rank() == 1 ? Task::classes : y.rank() == 2 ? Task::text : Task::pixels;
}

std::vector<Metric> metrics_for(Task task) {
  switch (task) {
    case Task::classes:
      return {accuracy_metric(), top_k_metric(5)};
    case Task::pixels:
      return {mean_iou_metric(), accuracy_metric()};
    case Task::text:
      return {perplexity_metric(), accuracy_metric()};
    case Task::numbers:
      return {mean_absolute_error_metric(), root_mean_squared_error_metric()};
    case Task::other:
      break;
  }
  return {};
}

class Evaluator::Impl {
 public:
  Impl(nn::Module model, const data::Loader& loader, EvaluateOptions options)
      : model_(std::move(model)),
        loader_(loader),
        options_(std::move(options)),
        given_(!options_.metrics.empty()) {
    if (!options_.loss)
      options_.loss = [](const Tensor& output, const Tensor& y) {
        return cross_entropy(output, y);
      };
    if (!options_.split) options_.split = split_batch;
  }

  Evaluation run() {
    const NoGrad guard;
    const EvalMode mode(model_);
    examples_ = 0;
    if (loader_.size() != 0)
      options_.compile&& data::Feed::is_possible(loader_) ? replay() : walk();
    if (divided()) {
      const auto& [rank, ranks, every] = loader_.options().shard;
      check(examples_ > 0,
            "evaluate: the data have no example for rank {} of {}: give them in larger batches, or "
            "train in fewer processes",
            rank, ranks);
      // What batches add, ranks add.
      const Tensor count = full({}, examples_, {.dtype = DType::i64, .device = sums_.device()});
      examples_ = distributed::all_reduce(count).item<int64_t>();
      copy_(sums_, distributed::all_reduce(sums_));
    }
    if (examples_ == 0) return {.loss = std::numeric_limits<double>::quiet_NaN()};
    return read();
  }

  const std::vector<Metric>& metrics() const { return options_.metrics; }

 private:
  using Step = Compiled<std::function<void()>>;

  /// Everything that a batch adds, in one row of f64: losses, then metrics, then confusion.
  Tensor contribution(const Values& output, const Values& target, int64_t n) const {
    Tensors parts;
    const Values loss = options_.loss(output, target);
    total_of(loss);  // which raises where it is none
    for (const Tensor& part : flatten(loss))
      parts.push_back(mul(cast(part, DType::f64), static_cast<double>(n)));
    for (const Metric& metric : options_.metrics)
      for (const Tensor& part : flatten(metric.update(output, target))) parts.push_back(part);
    if (classes_ > 0) parts.push_back(confusion_counts(output.tensor(), target.tensor()));
    for (Tensor& part : parts)
      part = reshape(cast(on(loader_.options().device, part), DType::f64), {part.numel()});
    return concat(parts, 0);
  }

  void add_batch(const Values& batch) {
    const auto [inputs, target] = options_.split(batch);
    const int64_t n = examples_in(batch);
    const Values output = model_(inputs);
    const Tensor added = contribution(output, target, n);
    check<ShapeError>(
        added.shape() == sums_.shape(),
        "evaluate: what a batch adds to the metrics must have one size, got {} and {} "
        "numbers",
        sums_.numel(), added.numel());
    add_(sums_, added);
    if (mistakes_.size(0) > 0)
      copy_(mistakes_, worse(mistakes_, output.tensor(), target.tensor(), seen_));
    add_(seen_, full({}, n, {.dtype = DType::i64, .device = seen_.device()}));
  }

  /// Begins a run: the first one's first batch says how all is laid out.
  void start(const Values& batch) {
    if (!sums_.defined()) prepare(batch);
    fill_(sums_, 0);
    fill_(mistakes_, -1);
    fill_(seen_, 0);
  }

  void prepare(const Values& batch) {
    const auto [inputs, target] = options_.split(batch);
    const Values output = model_(inputs);
    task_ = task_of(output, target);
    if (!given_) options_.metrics = metrics_for(task_);
    const bool counted = task_ != Task::numbers && task_ != Task::other;
    classes_ = counted && output.tensor().size(1) <= kMostConfused ? output.tensor().size(1) : 0;
    for_each_leaf(options_.loss(output, target), ValuesPath("loss"),
                  [&](const Tensor&, const ValuesPath& path) {
                    loss_names_.push_back(part_name(path.text()));
                  });
    for (const Metric& metric : options_.metrics)
      states_.push_back(map_leaves(metric.update(output, target), [](const Tensor& t) {
        return empty(t.shape(), {.dtype = DType::f64});
      }));
    const Device device = loader_.options().device;
    const bool finds = options_.mistakes && task_ == Task::classes;
    mistakes_ = full({finds ? kMistakes : 0, 4}, -1, {.dtype = DType::f64, .device = device});
    seen_ = zeros({}, {.dtype = DType::i64, .device = device});
    sums_ = zeros_like(contribution(output, target, examples_in(batch)));
  }

  /// Batches come from the loader.
  void walk() {
    data::Epoch epoch = loader_.epoch(0);
    std::optional<Values> batch = epoch.next();
    if (batch) start(*batch);
    for (; batch; batch = epoch.next()) {
      options_.compile ? compiled_(*batch) : add_batch(*batch);
      examples_ += examples_in(*batch);
    }
  }

  /// Steps take their batches themselves.
  void replay() {
    if (!feed_) feed_.emplace(loader_);
    feed_->start(0);
    if (feed_->batches() == 0) return;
    start(sums_.defined() ? Values() : *loader_.epoch(0).begin());
    for (int64_t at = 0; at < feed_->batches();) {
      const int64_t n = feed_->size_of(at);
      int64_t steps = 1;
      while (steps < kStepsPerLaunch && at + steps < feed_->batches() &&
             feed_->size_of(at + steps) == n)
        ++steps;
      // A third number of repetitions would be another recording.
      if (steps < kStepsPerLaunch) steps = 1;
      auto step = fed_.find(n);
      if (step == fed_.end())
        step = fed_.emplace(n, Step([this, n] { add_batch(feed_->next(n)); })).first;
      step->second.repeat(static_cast<int>(steps));
      at += steps;
      examples_ += steps * n;
    }
  }

  bool divided() const {
    const int64_t ranks = loader_.options().shard.ranks;
    return ranks > 1 && ranks == distributed::communicator(0)->size();
  }

  /// All that was summed, in one copy from the device.
  Evaluation read() const {
    const Tensor all = concat({sums_, reshape(mistakes_, {mistakes_.numel()})}, 0);
    const std::vector<double> numbers = all.to_vector<double>();
    const auto* at = numbers.data();
    Evaluation e{.examples = examples_, .task = task_, .classes = classes_};
    for (const std::string& name : loss_names_) {
      const double mean = *at++ / static_cast<double>(e.examples);
      e.loss += mean;
      if (!name.empty()) e.losses.emplace_back(name, mean);
    }
    for (size_t i = 0; i < states_.size(); ++i) {
      const Values state = map_leaves(states_[i], [&](const Tensor& t) {
        const auto n = static_cast<size_t>(t.numel());
        const Tensor part = tensor(std::span<const double>(at, n), t.shape());
        at += n;
        return part;
      });
      const Metric& metric = options_.metrics[i];
      e.metrics.emplace_back(metric.name, metric.compute(state));
    }
    for (int64_t i = 0; i < classes_ * classes_; ++i)
      e.confusion.push_back(static_cast<int64_t>(*at++));
    // Of a shard, those that this rank found.
    for (; at < numbers.data() + numbers.size() && at[0] >= 0; at += 4)
      e.mistakes.push_back({.index = static_cast<int64_t>(at[1]),
                            .truth = static_cast<int64_t>(at[2]),
                            .guess = static_cast<int64_t>(at[3]),
                            .confidence = at[0]});
    return e;
  }

  nn::Module model_;
  data::Loader loader_;
  EvaluateOptions options_;
  bool given_;  ///< the metrics are the caller's
  Task task_ = Task::other;
  int64_t examples_ = 0;  ///< of this run
  int64_t classes_ = 0;
  std::vector<std::string> loss_names_;
  std::vector<Values> states_;  ///< shapes of the metrics' states
  Tensor sums_;                 ///< f64: what batches add
  Tensor mistakes_;             ///< f64 (n, 4): see worse()
  Tensor seen_;                 ///< i64 []: examples of this run
  Compiled<std::function<void(const Values&)>> compiled_{
      [this](const Values& batch) { add_batch(batch); }};
  std::optional<data::Feed> feed_;  ///< where batches are taken on the device
  std::map<int64_t, Step> fed_;     ///< by the size of their batch
};

Evaluator::Evaluator(nn::Module model, const data::Loader& loader, EvaluateOptions options)
    : impl_(std::make_shared<Impl>(std::move(model), loader, std::move(options))) {}
Evaluator::~Evaluator() = default;
Evaluator::Evaluator(Evaluator&&) noexcept = default;
Evaluation Evaluator::run() { return impl_->run(); }
const std::vector<Metric>& Evaluator::metrics() const { return impl_->metrics(); }

Evaluation evaluate(const nn::Module& model, const data::Loader& loader, EvaluateOptions options) {
  return Evaluator(model, loader, std::move(options)).run();
}

double accuracy(const nn::Module& model, const data::Dataset& dataset) {
  const Tensors parameters = model.parameters();
  const Device device = parameters.empty() ? Device::cpu() : parameters[0].device();
  const data::Loader loader(dataset, {.batch = 1000, .device = device});
  return evaluate(model, loader,
                  {.metrics = {accuracy_metric()}, .compile = false, .mistakes = false})
      .metric("accuracy");
}

}  // namespace mica::train
