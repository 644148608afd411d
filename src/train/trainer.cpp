#include "mica/train/trainer.h"

#include "mica/autograd/autograd.h"
#include "mica/core/check.h"
#include "mica/core/range.h"
#include "mica/graph/plan.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/cross_entropy/cross_entropy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/optim/clip_grad.h"
#include "mica/train/trainer_loop.h"

namespace mica::train {

double Outcome::seconds() const {
  double sum = 0;
  for (const EpochResult& r : epochs) sum += r.seconds;
  return sum;
}

TrainerLoop::TrainerLoop(nn::Module model, optim::Optimizer& optimizer, TrainerOptions options)
    : model_(std::move(model)), optimizer_(optimizer), options_(std::move(options)) {
  check(options_.epochs >= 1, "Trainer: epochs must be at least 1, got {}", options_.epochs);
  check(options_.steps_per_epoch >= 0, "Trainer: steps_per_epoch must not be negative, got {}",
        options_.steps_per_epoch);
  check(options_.steps_per_launch >= 0, "Trainer: steps_per_launch must not be negative, got {}",
        options_.steps_per_launch);
  const Tensors parameters = model_.parameters();
  check(!parameters.empty(), "Trainer: the model has no parameters");
  device_ = parameters[0].device();
  ranks_ = distributed::world_size();
  if (ranks_ > 1) {
    parallel_.emplace(model_);
    weight_ = ones({}, {.dtype = DType::f32, .device = device_});
    // One process speaks and writes.
    if (distributed::rank() > 0) {
      options_.progress = false;
      options_.out.clear();
    }
  }
  if (low_dtype(options_.precision) == DType::f16) scaler_.emplace(device_);
  loss_sum_ = zeros({}, {.dtype = DType::f64, .device = device_});
  if (!options_.loss)
    options_.loss = [](const Tensor& output, const Tensor& y) { return cross_entropy(output, y); };
  if (!options_.split) options_.split = split_batch;
  if (options_.out.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(options_.out, error);
  check<IoError>(!error, "{}: cannot be made: {}", options_.out, error.message());
}

void TrainerLoop::take_step(const Values& batch) {
  optimizer_.zero_grad();
  if (parallel_) parallel_->broadcast_buffers();
  const auto [inputs, target] = options_.split(batch);
  Tensor loss;
  {
    const ForwardRegion region(options_.precision, device_);
    loss = total_of(options_.loss(model_(inputs), target));
  }
  const Tensor own = parallel_ ? mul(loss, cast(weight_, loss.dtype())) : loss;
  (scaler_ ? scaler_->scale(own) : own).backward();
  if (scaler_) scaler_->unscale(optimizer_);
  if (options_.clip_norm > 0) optim::clip_grad_norm_(model_.parameters(), options_.clip_norm);
  if (scaler_) {
    scaler_->step(optimizer_);
    scaler_->update();
  } else {
    optimizer_.step();
  }
  const NoGrad guard;
  const Tensor sum = mul(cast(loss.detach(), DType::f64), static_cast<double>(examples_in(batch)));
  add_(loss_sum_, parallel_ ? distributed::all_reduce(sum) : sum);
}

TrainerLoop::Step TrainerLoop::step_of(int64_t n) {
  return Step([this, n] { take_step(feed_->next(n)); });
}

int64_t TrainerLoop::replay() {
  const int64_t n = feed_->size_of(at_.batch);
  auto found = fed_.find(n);
  if (found == fed_.end()) found = fed_.emplace(n, step_of(n)).first;
  Step& step = found->second;
  // A launch has a price of its own, which a few steps share; those of a large network need not.
  constexpr int64_t kSteps = 10;
  constexpr int64_t kMostKernels = 400;
  int64_t steps = options_.steps_per_launch;
  if (steps == 0) {
    const CompiledFunction* known = device_.is_cuda() ? step.function() : nullptr;
    const int64_t kernels = known ? static_cast<int64_t>(known->plan()->steps()) : kMostKernels;
    steps = std::clamp<int64_t>(kMostKernels / std::max<int64_t>(1, kernels), 1, kSteps);
  }
  // What happens after a certain step does so: up to there they are made one by one.
  int64_t room = kLogSteps - at_.steps % kLogSteps;
  for (const int64_t every : {options_.save_every, options_.evaluate_every})
    if (every > 0) room = std::min(room, every - at_.steps % every);
  if (options_.steps_per_epoch > 0)
    room = std::min(room, options_.steps_per_epoch - at_.epoch_steps);
  int64_t alike = 1;
  while (alike < steps && at_.batch + alike < feed_->batches() &&
         feed_->size_of(at_.batch + alike) == n &&
         feed_->whole_batch(at_.batch + alike) == feed_->whole_batch(at_.batch))
    ++alike;
  if (steps > std::min(room, alike) || wants_steps_) steps = 1;
  step.repeat(static_cast<int>(steps));
  return steps;
}

bool TrainerLoop::is_to_end() {
  const int own = stop_ ? kStopped : InterruptGuard::interrupted() ? kInterrupted : kGoesOn;
  constexpr int64_t kAskEvery = 10;  // steps: each question is a message
  if (!parallel_) {
    end_ = own;
  } else if (at_.epoch_steps % kAskEvery == 0) {
    const NoGrad guard;
    const Tensor asked = full({}, own, {.dtype = DType::f32, .device = device_});
    end_ =
        static_cast<int>(distributed::all_reduce(asked, {.op = distributed::ReduceOp::max}).item());
  }
  return end_ != kGoesOn;
}

data::Loader TrainerLoop::part_of(const data::Loader& loader, bool every) const {
  data::LoaderOptions part = loader.options();
  if (ranks_ == 1) return loader;
  if (part.shard.ranks > 1) {
    check(part.shard.ranks == ranks_ && part.shard.rank == distributed::rank(),
          "Trainer: this is rank {} of {}, but its data are the part of rank {} of {}",
          distributed::rank(), ranks_, part.shard.rank, part.shard.ranks);
    return loader;
  }
  // What is smaller than the ranks is evaluated by each of them.
  const int64_t examples = loader.examples();
  const bool small = (examples >= 0 && examples < ranks_) || part.batch < ranks_;
  if (every && small && !part.batch_sampler) return loader;
  part.shard = {distributed::rank(), ranks_, every};
  return loader.is_stream() ? data::Loader(loader.stream(), part)
                            : data::Loader(loader.dataset(), part);
}

bool TrainerLoop::advance(int64_t steps, int64_t images) {
  at_.batch += steps;
  at_.steps += steps;
  at_.epoch_steps += steps;
  at_.images += images;
  const bool passed = at_.batch == batches_;
  if (passed) end_pass();
  return passed || at_.epoch_steps == options_.steps_per_epoch;
}

void TrainerLoop::end_pass() {
  at_.pass += 1;
  at_.batch = 0;
  walk_.reset();
}

std::optional<Values> TrainerLoop::next_batch(const data::Loader& train) {
  for (;;) {
    if (!walk_) walk_.emplace(train.epoch(at_.pass, at_.batch));
    if (std::optional<Values> batch = walk_->next()) return batch;
    check(
        at_.batch > 0,
        "Trainer: the training data gave no batch in epoch {}: what can be walked over once, as a "
        "generator, ends with the first",
        at_.epoch + 1);
    end_pass();
    if (at_.epoch_steps > 0) return {};
    // The epoch before took the last batch without knowing.
  }
}

bool TrainerLoop::train_epoch(const data::Loader& train) {
  model_.train();
  if (at_.epoch_steps == 0) {
    fill_(loss_sum_, 0);
    at_.logged_sum = 0;
    at_.logged_images = 0;
  }
  const int64_t asked = options_.steps_per_epoch * train.options().batch;
  const int64_t examples =
      train.examples() == data::kUnknownSize ? data::kUnknownSize : train.examples() * ranks_;
  const int64_t total = asked == 0 || examples == data::kUnknownSize ? std::max(asked, examples)
                                                                     : std::min(asked, examples);
  ProgressBar bar(fmt::format("epoch {}/{}", at_.epoch + 1, options_.epochs), total,
                  options_.progress, at_.images);
  const double seconds_before = at_.seconds;
  const Stopwatch clock;
  double elsewhere = 0;  // seconds of evaluation
  const auto measure = [&] { at_.seconds = seconds_before + clock.seconds() - elsewhere; };
  // After a step, or several of one replay: whether there are more to come.
  const auto go_on = [&](bool ended) {
    if (at_.steps % kLogSteps == 0) log_steps();
    if (wants_steps_) tell(&Callback::on_step_end, at_.steps);
    if (bar.due()) bar.draw(at_.images, loss_sum() / static_cast<double>(at_.images));
    measure();
    if (ended || is_to_end()) return false;
    if (due(options_.evaluate_every)) {
      const Stopwatch evaluating;
      if (evaluate_now(true) && metrics_) save(kBest);
      elsewhere += evaluating.seconds();
      if (is_to_end()) return false;
    }
    const bool minutes =
        options_.save_minutes > 0 && since_save_.seconds() >= 60 * options_.save_minutes;
    if (metrics_ && (due(options_.save_every) || minutes)) save(kLast);
    return true;
  };
  // The mean of the ranks' gradients is to be that of the whole batch.
  const auto weigh = [&](int64_t own, int64_t n) {
    if (parallel_) fill_(weight_, static_cast<double>(own * ranks_) / static_cast<double>(n));
  };
  bool ended = false;
  if (feed_) {
    feed_->start(at_.pass, at_.batch);
    batches_ = feed_->batches();
    do {
      const int64_t own = feed_->size_of(at_.batch);
      const int64_t n = parallel_ ? feed_->whole_batch(at_.batch) : own;
      weigh(own, n);
      const Range range("step", RangeKind::step);
      const int64_t steps = replay();
      ended = advance(steps, steps * n);
    } while (go_on(ended));
  } else {
    for (;;) {
      const std::optional<Values> batch = next_batch(train);
      ended = !batch;
      if (ended) break;
      const int64_t own = examples_in(*batch);
      const int64_t n = parallel_ ? walk_->whole_batch() : own;
      weigh(own, n);
      const Range range("step", RangeKind::step);
      options_.compile ? compiled_(*batch) : take_step(*batch);
      ended = advance(1, n);
      if (!go_on(ended)) break;
    }
  }
  if (!ended) return false;
  loss_sum();  // waits for the device
  measure();
  return true;
}

void TrainerLoop::log_steps() {
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

Evaluation TrainerLoop::evaluation() {
  if (parallel_) parallel_->broadcast_buffers();  // one network for all
  const ForwardRegion region(options_.precision, device_);
  return evaluator_->run();
}

double TrainerLoop::score(const Evaluation& e) const {
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

bool TrainerLoop::evaluate_now(bool between_epochs_ends) {
  outcome_.evaluation = evaluation();
  const Evaluation& e = *outcome_.evaluation;
  check(e.examples > 0, "Trainer: the test data gave no batch in epoch {}", at_.epoch + 1);
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
    if (between_epochs_ends) metrics_->write(at_.steps, all);
  }
  tell(&Callback::on_evaluation_end, at_.steps, e);
  return best;
}

EpochResult TrainerLoop::finish_epoch(const data::Loader& test) {
  EpochResult r = {.epoch = at_.epoch + 1,
                   .steps = at_.steps,
                   .train_loss = loss_sum() / static_cast<double>(at_.images),
                   .lr = last_lr(),
                   .examples_per_s = static_cast<double>(at_.images) / at_.seconds,
                   .seconds = at_.seconds};
  const Stopwatch evaluating;
  r.best = evaluate_now(false);
  r.test_seconds = evaluating.seconds();
  r.test_loss = outcome_.evaluation->loss;
  r.metrics = outcome_.evaluation->metrics;
  at_.since_best += 1;
  at_.epoch += 1;
  at_.epoch_steps = at_.images = at_.logged_images = 0;
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

Outcome TrainerLoop::fit(const data::Loader& all, const data::Loader& all_test) {
  check(all.size() != 0 && all_test.size() != 0,
        "Trainer: expected data, got {} training and {} test batches", all.size(), all_test.size());
  const data::Loader train = part_of(all, false);
  const data::Loader test = part_of(all_test, true);
  // Also where something raises: another run may begin there then.
  const struct Close {
    TrainerLoop& self;
    ~Close() {
      self.evaluator_.reset();  // and with it the test data
      self.walk_.reset();
      self.metrics_.reset();
      self.events_.reset();
      self.lock_.reset();
    }
  } close{*this};
  const ProductsRegion products(options_.precision);
  if (!options_.out.empty()) open_files();
  // What a stream says of its size is no promise.
  batches_ = train.is_stream() ? data::kUnknownSize : train.size();
  fed_.clear();
  feed_.reset();
  evaluator_.emplace(model_, test,
                     EvaluateOptions{.loss = options_.loss,
                                     .metrics = options_.metrics,
                                     .split = options_.split,
                                     .compile = options_.compile,
                                     .mistakes = !options_.out.empty()});
  stop_ = false;
  end_ = kGoesOn;
  wants_steps_ = std::ranges::any_of(options_.callbacks,
                                     [](const auto& callback) { return callback->wants_steps(); });
  if (options_.compile && data::Feed::is_possible(train)) feed_.emplace(train);
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
    if (whole) is_to_end();
    if (end_ == kStopped) {
      outcome_.stopped_early = true;
      if (metrics_ && !whole) save(kLast);
      break;
    }
    outcome_.interrupted = !whole || (end_ == kInterrupted && at_.epoch < options_.epochs);
    if (outcome_.interrupted) {
      if (metrics_ && !whole) save(kLast);
      break;
    }
    outcome_.stopped_early = options_.patience > 0 && at_.since_best >= options_.patience;
    if (outcome_.stopped_early) break;
  }
  outcome_.epochs = history_.epochs();
  outcome_.steps = history_.steps();
  // What the report asks for is asked of all processes.
  if (parallel_ && !outcome_.epochs.empty() && !outcome_.evaluation && !outcome_.interrupted)
    outcome_.evaluation = evaluation();
  if (metrics_ && !outcome_.epochs.empty() && (outcome_.evaluation || !outcome_.interrupted))
    write_report(test);
  tell(&Callback::on_fit_end, outcome_);
  return outcome_;
}

std::vector<std::string> TrainerLoop::kernels() const {
  const CompiledFunction* function =
      fed_.empty() ? compiled_.function() : std::prev(fed_.end())->second.function();
  return function && function->plan() ? function->plan()->kernels() : std::vector<std::string>();
}

class Trainer::Impl : public TrainerLoop {
 public:
  using TrainerLoop::TrainerLoop;
};

Trainer::Trainer(nn::Module model, optim::Optimizer& optimizer, TrainerOptions options)
    : impl_(std::make_shared<Impl>(std::move(model), optimizer, std::move(options))) {}
Trainer::~Trainer() = default;
void Trainer::resume(const std::string& path) { impl_->resume(path); }
void Trainer::stop() { impl_->stop(); }
Outcome Trainer::fit(const data::Loader& train, const data::Loader& test) {
  return impl_->fit(train, test);
}
std::vector<std::string> Trainer::kernels() const { return impl_->kernels(); }

}  // namespace mica::train
