#include "mica/train/trainer.h"

#include <sys/file.h>

#include <algorithm>
#include <atomic>
#include <filesystem>

#include "mica/autograd/autograd.h"
#include "mica/core/check.h"
#include "mica/core/values_check.h"
#include "mica/graph/compile.h"
#include "mica/io/checkpoint.h"
#include "mica/io/event_writer.h"
#include "mica/io/file.h"
#include "mica/io/metrics_log.h"
#include "mica/io/report.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/cross_entropy/cross_entropy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/optim/clip_grad.h"
#include "mica/train/interrupt.h"
#include "mica/train/progress.h"
#include "mica/train/run_report.h"
#include "mica/train/run_state.h"

namespace mica::train {
namespace {

constexpr const char* kLast = "last.safetensors";
constexpr const char* kBest = "best.safetensors";
constexpr const char* kReport = "report.html";
constexpr double kReportSeconds = 10;  // between two reports, but for the last

/// Keeps other runs out of a directory as long as it lives.
io::File lock_directory(const std::string& directory) {
  const std::string path = (std::filesystem::path(directory) / ".lock").string();
  io::File file = io::File::append(path);
  check<IoError>(flock(file.descriptor(), LOCK_EX | LOCK_NB) == 0,
                 "{}: another run is writing to this directory", directory);
  return file;
}

int64_t examples_in(const Values& batch) {
  const Tensors leaves = flatten(batch);
  check(!leaves.empty() && leaves[0].rank() >= 1, "Trainer: expected a batch of tensors, got {}",
        batch);
  return leaves[0].size(0);
}

}  // namespace

double Outcome::seconds() const {
  double sum = 0;
  for (const EpochResult& r : epochs) sum += r.seconds;
  return sum;
}

class Trainer::Impl {
 public:
  Impl(nn::Module model, optim::Optimizer& optimizer, TrainerOptions options)
      : model_(std::move(model)), optimizer_(optimizer), options_(std::move(options)) {
    check(options_.epochs >= 1, "Trainer: epochs must be at least 1, got {}", options_.epochs);
    check(options_.steps_per_launch >= 0, "Trainer: steps_per_launch must not be negative, got {}",
          options_.steps_per_launch);
    const Tensors parameters = model_.parameters();
    check(!parameters.empty(), "Trainer: the model has no parameters");
    device_ = parameters[0].device();
    loss_sum_ = zeros({}, {.dtype = DType::f64, .device = device_});
    if (!options_.loss)
      options_.loss = [](const Tensor& output, const Tensor& y) {
        return cross_entropy(output, y);
      };
    if (!options_.split) options_.split = split_batch;
    if (options_.out.empty()) return;
    std::error_code error;
    std::filesystem::create_directories(options_.out, error);
    check<IoError>(!error, "{}: cannot be made: {}", options_.out, error.message());
  }

  void resume(const std::string& path);
  Outcome fit(const data::Loader& train, const data::Loader& test);
  void stop() { stop_ = true; }
  std::vector<std::string> kernels() const;

 private:
  using Step = Compiled<std::function<void()>>;

  void take_step(const Values& batch);
  /// A step that takes the next n images of feed_ itself.
  Step step_of(int64_t n);
  /// Makes as many steps of the epoch as one replay does, of feed_; returns their images.
  int64_t replay(const data::Loader& train);
  /// Steps until the epoch ends or Ctrl-C; true at the end.
  bool train_epoch(const data::Loader& train);
  EpochResult finish_epoch(const data::Loader& test);
  /// Runs the evaluation; true where it is the best so far.
  bool evaluate_now();
  /// How good an evaluation is: more is better.
  double score(const Evaluation& e) const;
  bool is_to_end() const { return stop_ || InterruptGuard::interrupted(); }
  bool due(int64_t every) const { return every > 0 && at_.steps % every == 0; }
  template <class... Args, class... Given>
  void tell(void (Callback::*event)(Args...), const Given&... given) const {
    for (const auto& callback : options_.callbacks) ((*callback).*event)(given...);
  }
  void log_steps();
  void save(const char* name);
  /// Opens what the run writes to; a new run first takes the place of what was there.
  void open_files();
  void write_report(const data::Loader& test);

  ReportInfo report_info() const {
    return {.title = options_.title,
            .command = options_.command,
            .compiled = options_.compile,
            .batches = batches_,
            .kernels = kernels()};
  }
  /// Of the step that was made last.
  double last_lr() const {
    return optimizer_.schedule().lr_at(optimizer_.lr(), std::max<int64_t>(0, at_.steps - 1));
  }
  double loss_sum() const { return loss_sum_.item(); }
  std::string file(const char* name) const {
    return (std::filesystem::path(options_.out) / name).string();
  }

  nn::Module model_;
  optim::Optimizer& optimizer_;
  TrainerOptions options_;
  Device device_;
  Tensor loss_sum_;  ///< of the epoch, over images; on the device, so that steps need not wait
  Compiled<std::function<void(const Values&)>> compiled_{
      [this](const Values& batch) { take_step(batch); }};
  std::optional<data::Feed> feed_;  ///< where steps take their batches themselves
  std::optional<Step> whole_;       ///< such a step
  std::optional<Step> rest_;        ///< and that of the last batch, where it is smaller
  std::optional<Evaluator> evaluator_;
  std::atomic<bool> stop_ = false;
  bool wants_steps_ = false;  ///< a callback does
  Stopwatch since_save_;
  Position at_;
  int64_t batches_ = 0;  ///< of an epoch
  Outcome outcome_;
  History history_;
  std::optional<Stopwatch> since_report_;
  std::optional<io::File> lock_;
  std::optional<io::MetricsLog> metrics_;
  std::optional<io::EventWriter> events_;
};

void Trainer::Impl::take_step(const Values& batch) {
  optimizer_.zero_grad();
  const auto [inputs, target] = options_.split(batch);
  const Tensor loss = total_of(options_.loss(model_(inputs), target));
  loss.backward();
  if (options_.clip_norm > 0) optim::clip_grad_norm_(model_.parameters(), options_.clip_norm);
  optimizer_.step();
  const NoGrad guard;
  add_(loss_sum_, mul(cast(loss.detach(), DType::f64), static_cast<double>(examples_in(batch))));
}

Trainer::Impl::Step Trainer::Impl::step_of(int64_t n) {
  return Step([this, n] { take_step(feed_->next(n)); });
}

int64_t Trainer::Impl::replay(const data::Loader& train) {
  const int64_t batch = train.options().batch;
  const int64_t left = train.examples() - at_.batch * batch;
  if (left < batch) {
    (*rest_)();
    at_.batch += 1;
    at_.steps += 1;
    return left;
  }
  // A launch has a price of its own, which a few steps share; those of a large network need not.
  constexpr int64_t kSteps = 10;
  constexpr int64_t kMostKernels = 400;
  int64_t steps = options_.steps_per_launch;
  if (steps == 0) {
    const CompiledFunction* known = device_.is_cuda() ? whole_->function() : nullptr;
    const int64_t kernels = known ? static_cast<int64_t>(known->plan()->steps()) : kMostKernels;
    steps = std::clamp<int64_t>(kMostKernels / std::max<int64_t>(1, kernels), 1, kSteps);
  }
  // What happens after a certain step does so: up to there they are made one by one.
  int64_t room = std::min(left / batch, kLogSteps - at_.steps % kLogSteps);
  for (const int64_t every : {options_.save_every, options_.evaluate_every})
    if (every > 0) room = std::min(room, every - at_.steps % every);
  if (steps > room || wants_steps_) steps = 1;
  whole_->repeat(static_cast<int>(steps));
  at_.batch += steps;
  at_.steps += steps;
  return steps * batch;
}

bool Trainer::Impl::train_epoch(const data::Loader& train) {
  model_.train();
  if (at_.batch == 0) {
    fill_(loss_sum_, 0);
    at_.logged_sum = 0;
    at_.logged_images = 0;
  }
  ProgressBar bar(fmt::format("epoch {}/{}", at_.epoch + 1, options_.epochs), train.examples(),
                  options_.progress, at_.images);
  const double seconds_before = at_.seconds;
  const Stopwatch clock;
  double elsewhere = 0;  // seconds of evaluation
  // After a step, or several of one replay: whether there are more to come.
  const auto go_on = [&] {
    if (at_.steps % kLogSteps == 0) log_steps();
    if (wants_steps_) tell(&Callback::on_step_end, at_.steps);
    if (bar.due()) bar.draw(at_.images, loss_sum() / static_cast<double>(at_.images));
    at_.seconds = seconds_before + clock.seconds() - elsewhere;
    if (at_.batch == train.size() || is_to_end()) return false;
    if (due(options_.evaluate_every)) {
      const Stopwatch evaluating;
      if (evaluate_now() && metrics_) save(kBest);
      elsewhere += evaluating.seconds();
      if (is_to_end()) return false;
    }
    const bool minutes =
        options_.save_minutes > 0 && since_save_.seconds() >= 60 * options_.save_minutes;
    if (metrics_ && (due(options_.save_every) || minutes)) save(kLast);
    return true;
  };
  if (feed_) {
    feed_->start(at_.epoch, at_.batch);
    do at_.images += replay(train);
    while (go_on());
  } else {
    for (const Values& batch : train.epoch(at_.epoch, at_.batch)) {
      options_.compile ? compiled_(batch) : take_step(batch);
      ++at_.batch;
      ++at_.steps;
      at_.images += examples_in(batch);
      if (!go_on()) break;
    }
  }
  if (at_.batch < train.size()) return false;
  loss_sum();  // waits for the device
  at_.seconds = seconds_before + clock.seconds() - elsewhere;
  return true;
}

void Trainer::Impl::log_steps() {
  const double sum = loss_sum();
  const StepRecord record = {
      .step = at_.steps,
      .loss = (sum - at_.logged_sum) / static_cast<double>(at_.images - at_.logged_images),
      .lr = last_lr()};
  at_.logged_sum = sum;
  at_.logged_images = at_.images;
  history_.add(record);
  tell(&Callback::on_log, record);
  if (!metrics_) return;
  metrics_->write(record.step, {{"loss", record.loss}, {"lr", record.lr}});
  events_->scalar("loss/train", record.loss, record.step);
  events_->scalar("lr", record.lr, record.step);
}

double Trainer::Impl::score(const Evaluation& e) const {
  const std::vector<Metric>& metrics = evaluator_->metrics();
  std::string by = options_.best_by;
  if (by.empty()) {
    const bool first =
        !options_.metrics.empty() || e.task == Task::classes || e.task == Task::pixels;
    by = first && !metrics.empty() ? metrics[0].name : "loss";
  }
  if (by == "loss") return -e.loss;
  const auto it = std::ranges::find(metrics, by, &Metric::name);
  if (it == metrics.end()) {
    std::string names = "\"loss\"";
    for (const Metric& m : metrics) names += ", \"" + m.name + "\"";
    fail("Trainer: best_by must be one of {}, got \"{}\"", names, by);
  }
  return it->higher_is_better ? e.metric(by) : -e.metric(by);
}

bool Trainer::Impl::evaluate_now() {
  outcome_.evaluation = evaluator_->run();
  const Evaluation& e = *outcome_.evaluation;
  const double now = score(e);
  const bool best = now > at_.best;
  if (best) {
    at_.best = now;
    at_.since_best = -1;  // the end of the epoch makes it 0
  }
  if (metrics_) {
    io::Measurements all = {{"test_loss", e.loss}};
    for (const auto& [name, value] : e.losses) all.emplace_back("test_loss_" + name, value);
    for (const auto& [name, value] : e.metrics) all.emplace_back("test_" + name, value);
    events_->scalar("loss/test", e.loss, at_.steps);
    for (const auto& [name, value] : e.losses)
      events_->scalar("loss_" + name + "/test", value, at_.steps);
    for (const auto& [name, value] : e.metrics) events_->scalar(name + "/test", value, at_.steps);
    if (at_.batch < batches_) metrics_->write(at_.steps, all);
  }
  tell(&Callback::on_evaluation_end, at_.steps, e);
  return best;
}

EpochResult Trainer::Impl::finish_epoch(const data::Loader& test) {
  EpochResult r = {.epoch = at_.epoch + 1,
                   .steps = at_.steps,
                   .train_loss = loss_sum() / static_cast<double>(at_.images),
                   .lr = last_lr(),
                   .examples_per_s = static_cast<double>(at_.images) / at_.seconds,
                   .seconds = at_.seconds};
  r.best = evaluate_now();
  r.test_loss = outcome_.evaluation->loss;
  r.metrics = outcome_.evaluation->metrics;
  at_.since_best += 1;
  at_.epoch += 1;
  at_.batch = at_.images = at_.logged_images = 0;
  at_.seconds = at_.logged_sum = 0;
  history_.add(r);
  if (metrics_) {
    metrics_->write(r.steps, io::numbers_of(r));
    events_->scalar("examples_per_s", r.examples_per_s, r.steps);
    if (r.best) save(kBest);
    save(kLast);
    if (!since_report_ || since_report_->seconds() > kReportSeconds) write_report(test);
  }
  if (options_.on_epoch) options_.on_epoch(r);
  tell(&Callback::on_epoch_end, r);
  return r;
}

Outcome Trainer::Impl::fit(const data::Loader& train, const data::Loader& test) {
  check(train.size() > 0 && test.size() > 0,
        "Trainer: expected data, got {} training and {} test examples", train.examples(),
        test.examples());
  // Also where something raises: another run may begin there then.
  const struct Close {
    Impl& self;
    ~Close() {
      self.evaluator_.reset();  // and with it the test data
      self.metrics_.reset();
      self.events_.reset();
      self.lock_.reset();
    }
  } close{*this};
  if (!options_.out.empty()) open_files();
  batches_ = train.size();
  feed_.reset();
  evaluator_.emplace(model_, test,
                     EvaluateOptions{.loss = options_.loss,
                                     .metrics = options_.metrics,
                                     .split = options_.split,
                                     .compile = options_.compile,
                                     .mistakes = !options_.out.empty()});
  stop_ = false;
  wants_steps_ = std::ranges::any_of(options_.callbacks,
                                     [](const auto& callback) { return callback->wants_steps(); });
  if (options_.compile && train.options().resident) {
    feed_.emplace(train);
    whole_.emplace(step_of(train.options().batch));
    rest_.emplace(step_of(std::max<int64_t>(1, train.examples() % train.options().batch)));
  }
  const InterruptGuard guard;
  outcome_.interrupted = outcome_.stopped_early = outcome_.reached = false;
  tell(&Callback::on_fit_begin);
  while (at_.epoch < options_.epochs) {
    const bool whole = train_epoch(train);
    if (whole) {
      const EpochResult r = finish_epoch(test);
      outcome_.reached =
          options_.until_accuracy > 0 && r.metric("accuracy") >= options_.until_accuracy;
      if (outcome_.reached) break;
    }
    if (stop_) {
      outcome_.stopped_early = true;
      if (metrics_ && !whole) save(kLast);
      break;
    }
    outcome_.interrupted = !whole || (InterruptGuard::interrupted() && at_.epoch < options_.epochs);
    if (outcome_.interrupted) {
      if (metrics_ && !whole) save(kLast);
      break;
    }
    outcome_.stopped_early = options_.patience > 0 && at_.since_best >= options_.patience;
    if (outcome_.stopped_early) break;
  }
  outcome_.epochs = history_.epochs();
  outcome_.steps = history_.steps();
  if (metrics_ && !outcome_.epochs.empty() && (outcome_.evaluation || !outcome_.interrupted))
    write_report(test);
  tell(&Callback::on_fit_end, outcome_);
  return outcome_;
}

void Trainer::Impl::open_files() {
  lock_.emplace(lock_directory(options_.out));
  if (at_.steps == 0) {
    // From here on the directory is this run's, to be gone on with whatever happens.
    save(kLast);
    std::error_code ignored;
    for (const char* old : {kBest, kReport}) std::filesystem::remove(file(old), ignored);
  }
  metrics_.emplace(file("metrics.jsonl"), at_.steps);
  events_.emplace(options_.out, at_.steps);
}

void Trainer::Impl::write_report(const data::Loader& test) {
  // A run that was killed after its last checkpoint has not been evaluated in this process.
  if (!outcome_.evaluation) outcome_.evaluation = evaluator_->run();
  outcome_.epochs = history_.epochs();
  outcome_.steps = history_.steps();
  io::write_report(file(kReport),
                   run_report(outcome_, model_, test, evaluator_->metrics(), report_info()));
  since_report_.emplace();
}

void Trainer::Impl::save(const char* name) {
  if (name == kLast) since_save_ = {};
  at_.loss_sum = loss_sum();
  io::save_checkpoint(file(name), {.model = model_.state_dict(),
                                   .optimizer = optimizer_.state_dict(),
                                   .metadata = {{"config", options_.config},
                                                {"progress", to_json(at_, history_)},
                                                {"random", io::random_state(device_)}}});
}

void Trainer::Impl::resume(const std::string& path) {
  const std::filesystem::path given(path);
  const std::string name = (is_directory(given) ? given / kLast : given).string();
  const io::Checkpoint saved = io::load_checkpoint(name);
  const auto text = [&](const char* key) {
    const auto found = saved.metadata.find(key);
    check<IoError>(found != saved.metadata.end(),
                   "{}: is not a checkpoint of a run: its metadata has no `{}`", name, key);
    return found->second;
  };
  // Read all of it before anything is changed.
  Position at;
  History history;
  from_json(text("progress"), name, at, history);
  try {
    model_.load_state_dict(saved.model);
    optimizer_.load_state_dict(saved.optimizer);
  } catch (const Error& e) {
    fail<IoError>("{}: {}", name, e.what());
  }
  io::set_random_state(text("random"), device_, name);
  fill_(loss_sum_, at.loss_sum);
  at_ = at;
  history_ = std::move(history);
  outcome_ = {};
  outcome_.epochs = history_.epochs();
  outcome_.steps = history_.steps();
}

std::vector<std::string> Trainer::Impl::kernels() const {
  for (const CompiledFunction* function :
       {whole_ ? whole_->function() : nullptr, compiled_.function()})
    if (function && function->plan()) return function->plan()->kernels();
  return {};
}

Trainer::Trainer(nn::Module model, optim::Optimizer& optimizer, TrainerOptions options)
    : impl_(std::make_unique<Impl>(std::move(model), optimizer, std::move(options))) {}
Trainer::~Trainer() = default;
void Trainer::resume(const std::string& path) { impl_->resume(path); }
void Trainer::stop() { impl_->stop(); }
Outcome Trainer::fit(const data::Loader& train, const data::Loader& test) {
  return impl_->fit(train, test);
}
std::vector<std::string> Trainer::kernels() const { return impl_->kernels(); }

}  // namespace mica::train
