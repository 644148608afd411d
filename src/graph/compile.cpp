#include "mica/graph/compile.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <iterator>
#include <mutex>
#include <shared_mutex>
#include <string_view>
#include <utility>

#include "mica/core/check.h"
#include "mica/core/fork.h"
#include "mica/core/log.h"
#include "mica/core/values_check.h"
#include "mica/graph/backward_plan.h"
#include "mica/op/autocast.h"
#include "mica/op/settings.h"
#include "mica/ops/concat/concat.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/view/view.h"

namespace mica {
namespace {

/// Bit i: argument i requires a gradient, whether that is recorded now or not.
uint64_t leaves_among(std::span<const Tensor> arguments) {
  uint64_t leaves = 0;
  for (size_t i = 0; i < arguments.size(); ++i) {
    check(arguments[i].defined(), "compile: an argument is undefined");
    if (!arguments[i].requires_grad()) continue;
    check<Unsupported>(i < 64, "compile: gradients flow to the first 64 arguments, not to {}", i);
    leaves |= uint64_t{1} << i;
  }
  return leaves;
}

const char* memory_format(const TensorSpec& s) {
  return s.is_channels_last() ? "channels_last" : "row-major";
}

/// Says what an argument is now that it was not before.
void compare(size_t i, const TensorSpec& before, const TensorSpec& now,
             std::vector<std::string>& differences) {
  const auto differ = [&](const char* what, const auto& a, const auto& b) {
    if (!(a == b)) differences.push_back(fmt::format("argument {}: {} {} → {}", i, what, a, b));
  };
  differ("shape", before.shape, now.shape);
  differ("dtype", before.dtype, now.dtype);
  differ("device", before.device, now.device);
  differ("layout", std::string_view(memory_format(before)), std::string_view(memory_format(now)));
}

std::string to_text(const Constant& constant) {
  return std::visit(
      []<class T>(const T& value) -> std::string {
        if constexpr (std::is_same_v<T, std::monostate>) {
          return "None";
        } else if constexpr (std::is_same_v<T, PlacedNumber>) {
          return "a number";
        } else {
          return fmt::format("{}", value);
        }
      },
      constant);
}

bool same(const Constant& a, const Constant& b) {
  const auto* x = std::get_if<double>(&a);
  const auto* y = std::get_if<double>(&b);
  // By their bits: a NaN is one, and the zeros are two.
  return x && y ? std::bit_cast<uint64_t>(*x) == std::bit_cast<uint64_t>(*y) : a == b;
}

void compare(const CallForm& before, const CallForm& now, std::vector<std::string>& differences) {
  if (!same_structure(before.arguments, now.arguments) ||
      before.constants.size() != now.constants.size()) {
    differences.push_back(
        fmt::format("arguments are {}, were {}", now.arguments, before.arguments));
    return;
  }
  if (before.capture != now.capture) differences.emplace_back("arguments of other types of C++");
  for (size_t i = 0; i < now.constants.size(); ++i)
    if (!same(before.constants[i], now.constants[i]))
      differences.push_back(
          fmt::format("{} → {}", to_text(before.constants[i]), to_text(now.constants[i])));
}

}  // namespace

CallForm::CallForm() = default;
CallForm::CallForm(Capture* c) : capture(c) {}
CallForm::CallForm(const CallForm& other) = default;
CallForm::CallForm(CallForm&& other) noexcept = default;
CallForm& CallForm::operator=(const CallForm& other) = default;
CallForm& CallForm::operator=(CallForm&& other) noexcept = default;
CallForm::~CallForm() = default;

bool CallForm::operator==(const CallForm& other) const {
  return capture == other.capture && constants.size() == other.constants.size() &&
         same_structure(arguments, other.arguments) &&
         std::ranges::equal(constants, other.constants, same);
}

class CompiledFunction::Impl {
 public:
  Impl(Body body, CompileOptions options);

  CallOutcome call(std::span<const Tensor> arguments, int times, const CallForm& form);
  void prepare(std::span<const Tensor> arguments);
  int captures() const { return captures_; }
  const Plan* plan() const;

 private:
  /// What has to be as it was for a plan to serve a call, beside what the plan itself asks for.
  struct Key {
    std::vector<TensorSpec> specs;
    CallForm form;
    uint64_t stamp;
    bool records;     ///< grad mode
    uint64_t leaves;  ///< bit i: a gradient is wanted of argument i
    AutocastMode autocast;
    bool operator==(const Key&) const = default;
  };
  struct Entry {
    Key key;
    std::unique_ptr<Plan> plan;
    std::shared_ptr<BackwardPlan> backward;  ///< null where no result has a history
    std::atomic<uint64_t> used = 0;          ///< when it was, by uses_
    Entry(Key k, std::unique_ptr<Plan> p);
  };

  CallOutcome call_in_bucket(std::span<const Tensor> arguments, int times, const CallForm& form);
  CallOutcome call_as_is(std::span<const Tensor> arguments, int times, const CallForm& form);
  static Key key_of(std::span<const Tensor> arguments, const CallForm& form);
  /// A plan for a call, or null; where it may run beside others, a pure one.
  std::shared_ptr<Entry> find(const Key& key, std::span<const Tensor> arguments, bool pure);
  std::shared_ptr<Entry> capture_for(Key key, std::span<const Tensor> arguments);
  std::string reason(const Key& key, std::span<const Tensor> arguments) const;
  void keep(const std::shared_ptr<Entry>& entry);
  static CallOutcome run(const Entry& entry, std::span<const Tensor> arguments, int times);

  Body body_;
  CompileOptions options_;
  LongMutex one_by_one_;               ///< held by captures, and by calls that are not pure
  mutable SharedMutex entries_mutex_;  ///< of what follows
  std::vector<std::shared_ptr<Entry>> entries_;
  std::atomic<uint64_t> uses_ = 0;
  std::atomic<int> captures_ = 0;
  bool told_of_limit_ = false;
};

CompiledFunction::CompiledFunction(Body body, CompileOptions options)
    : impl_(std::make_shared<Impl>(std::move(body), std::move(options))) {}
CompiledFunction::CompiledFunction(TensorFunction function, CompileOptions options)
    : CompiledFunction(
          Body([f = std::move(function)](std::span<const Tensor> in,
                                         const CallForm&) -> CallOutcome { return {f(in)}; }),
          std::move(options)) {}
CompiledFunction::~CompiledFunction() = default;

Tensors CompiledFunction::operator()(std::span<const Tensor> arguments, int times) {
  return call(arguments, times).results;
}
CallOutcome CompiledFunction::call(std::span<const Tensor> arguments, int times) {
  static const CallForm plain;
  return impl_->call(arguments, times, plain);
}
CallOutcome CompiledFunction::call(std::span<const Tensor> arguments, int times,
                                   const CallForm& form) {
  return impl_->call(arguments, times, form);
}
void CompiledFunction::prepare(std::span<const Tensor> arguments) { impl_->prepare(arguments); }
int CompiledFunction::captures() const { return impl_->captures(); }
const Plan* CompiledFunction::plan() const { return impl_->plan(); }

CompiledFunction::Impl::Impl(Body body, CompileOptions options)
    : body_(std::move(body)), options_(std::move(options)) {
  check(options_.max_plans >= 1, "compile: max_plans must be at least 1, got {}",
        options_.max_plans);
  std::vector<int64_t>& rows = options_.buckets;
  std::sort(rows.begin(), rows.end());
  check(rows.empty() || rows.front() >= 1, "compile: a bucket must have rows, got {}",
        rows.empty() ? 0 : rows.front());
}

CompiledFunction::Impl::Entry::Entry(Key k, std::unique_ptr<Plan> p)
    : key(std::move(k)), plan(std::move(p)) {
  if (const auto& gradient = plan->captured().backward)
    backward = std::make_shared<BackwardPlan>(gradient);
}

const Plan* CompiledFunction::Impl::plan() const {
  const std::shared_lock lock(entries_mutex_);
  const auto last =
      std::ranges::max_element(entries_, {}, [](const auto& e) { return e->used.load(); });
  return last == entries_.end() ? nullptr : (*last)->plan.get();
}

/// Why the plan that comes nearest does not serve this call.
std::string CompiledFunction::Impl::reason(const Key& key,
                                           std::span<const Tensor> arguments) const {
  std::vector<std::string> best;
  const std::shared_lock lock(entries_mutex_);
  for (const auto& entry : entries_) {
    const Entry& e = *entry;
    std::vector<std::string> why;
    if (e.key.stamp != key.stamp) why.emplace_back("settings changed");
    if (e.key.leaves != key.leaves) why.emplace_back("gradients of other arguments are wanted");
    if (e.key.records != key.records)
      why.push_back(fmt::format("grad mode is {} now", key.records ? "on" : "off"));
    if (e.key.autocast != key.autocast) why.emplace_back("autocast is another");
    compare(e.key.form, key.form, why);
    for (size_t i = 0; i < std::min(key.specs.size(), e.key.specs.size()); ++i)
      compare(i, e.key.specs[i], key.specs[i], why);
    if (e.key.specs.size() != key.specs.size())
      why.push_back(fmt::format("{} arguments → {}", e.key.specs.size(), key.specs.size()));
    const std::vector<std::string> more = e.plan->refuses(arguments);
    why.insert(why.end(), more.begin(), more.end());
    if (why.empty()) why.emplace_back("arguments share memory with what the function writes to");
    if (best.empty() || why.size() <= best.size()) best = std::move(why);
  }
  std::string text;
  for (const std::string& why : best) text += (text.empty() ? "" : "; ") + why;
  return text;
}

void CompiledFunction::Impl::keep(const std::shared_ptr<Entry>& entry) {
  std::vector<std::shared_ptr<Entry>> dropped;  // let go of when nobody waits for the list
  {
    const std::lock_guard lock(entries_mutex_);
    const auto drop = [&](auto first, auto last) {
      dropped.insert(dropped.end(), std::make_move_iterator(first), std::make_move_iterator(last));
      entries_.erase(first, last);
    };
    // A stamp never comes again, so neither do the plans made under another.
    drop(std::stable_partition(entries_.begin(), entries_.end(),
                               [&](const auto& e) { return e->key.stamp == entry->key.stamp; }),
         entries_.end());
    if (entries_.size() < static_cast<size_t>(options_.max_plans)) {
      entries_.push_back(entry);
      return;
    }
    const auto oldest = std::ranges::min_element(
        entries_, {}, [](const auto& e) { return e->used.load(std::memory_order_relaxed); });
    drop(oldest, oldest + 1);
    entries_.push_back(entry);
  }
  if (!std::exchange(told_of_limit_, true))
    log_message(LogLevel::warning,
                fmt::format("compile: a function was captured for more than {} kinds of arguments; "
                            "from now on the plan that was used longest ago is dropped for each "
                            "new one. MICA_VERBOSE=compile says what differs; arguments of few "
                            "different shapes avoid it, and so may buckets",
                            options_.max_plans));
}

std::shared_ptr<CompiledFunction::Impl::Entry> CompiledFunction::Impl::find(
    const Key& key, std::span<const Tensor> arguments, bool pure) {
  for (size_t i = 0;;) {
    std::shared_ptr<Entry> e;
    {
      const std::shared_lock lock(entries_mutex_);
      while (i < entries_.size() &&
             ((pure && !entries_[i]->plan->is_pure()) || entries_[i]->key != key))
        ++i;
      if (i == entries_.size()) return nullptr;
      e = entries_[i++];
    }
    if (!e->plan->accepts(arguments)) continue;  // which may wait for Python
    e->used.store(uses_.fetch_add(1, std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return e;
  }
}

CallOutcome CompiledFunction::Impl::call(std::span<const Tensor> arguments, int times,
                                         const CallForm& form) {
  // Inside another capture the body simply becomes part of that graph.
  if (current_recorder()) {
    for (int i = 1; i < times; ++i) body_(arguments, form);
    return body_(arguments, form);
  }
  return options_.buckets.empty() ? call_as_is(arguments, times, form)
                                  : call_in_bucket(arguments, times, form);
}

CallOutcome CompiledFunction::Impl::call_in_bucket(std::span<const Tensor> arguments, int times,
                                                   const CallForm& form) {
  int64_t rows = -1;
  for (size_t i = 0; i < arguments.size(); ++i) {
    check(arguments[i].defined(), "compile: an argument is undefined");
    const Shape& shape = arguments[i].shape();
    check<ShapeError>(!shape.empty() && (rows < 0 || rows == shape[0]),
                      "compile: with buckets all arguments are batches of as many rows; argument "
                      "{} has shape {}, the first {} rows",
                      i, shape, rows);
    rows = shape[0];
  }
  const auto bucket = std::ranges::lower_bound(options_.buckets, rows);
  if (rows < 0 || bucket == options_.buckets.end() || *bucket == rows)
    return call_as_is(arguments, times, form);
  Tensors padded;
  for (const Tensor& t : arguments) {
    Shape rest = t.shape();
    rest[0] = *bucket - rows;
    padded.push_back(concat({t, zeros(rest, {t.dtype(), t.device()})}, 0));
  }
  CallOutcome outcome = call_as_is(padded, times, form);
  for (Tensor& t : outcome.results) {
    check<ShapeError>(!t.shape().empty() && t.shape()[0] == *bucket,
                      "compile: with buckets all results are batches of as many rows as the "
                      "arguments, {} with those that fill up; got a result of shape {}",
                      *bucket, t.shape());
    t = narrow(t, 0, 0, rows);
  }
  return outcome;
}

CompiledFunction::Impl::Key CompiledFunction::Impl::key_of(std::span<const Tensor> arguments,
                                                           const CallForm& form) {
  const uint64_t leaves = leaves_among(arguments);
  // A plan made in anomaly mode has a step for every op, so that the culprit has a name.
  Key key{{},     form,           settings_stamp() * 2 + (detect_anomaly() ? 1 : 0), grad_enabled(),
          leaves, autocast_mode()};
  key.specs.reserve(arguments.size());
  for (const Tensor& t : arguments) key.specs.push_back(slot_spec(t));
  return key;
}

void CompiledFunction::Impl::prepare(std::span<const Tensor> arguments) {
  static const CallForm plain;
  Key key = key_of(arguments, plain);
  if (find(key, arguments, true)) return;
  const std::lock_guard lock(one_by_one_);
  auto entry = find(key, arguments, false);
  if (!entry) entry = capture_for(std::move(key), arguments);
  entry->plan->get_ready();
}

CallOutcome CompiledFunction::Impl::call_as_is(std::span<const Tensor> arguments, int times,
                                               const CallForm& form) {
  Key key = key_of(arguments, form);
  if (const auto entry = find(key, arguments, true)) return run(*entry, arguments, times);
  // What such a plan asks for, that a leaf has no .grad, say, is not to change before it runs.
  std::unique_lock lock(one_by_one_);
  auto entry = find(key, arguments, false);
  if (!entry) entry = capture_for(std::move(key), arguments);
  if (entry->plan->is_pure()) lock.unlock();
  return run(*entry, arguments, times);
}

std::shared_ptr<CompiledFunction::Impl::Entry> CompiledFunction::Impl::capture_for(
    Key key, std::span<const Tensor> arguments) {
  if (verbose_compile() && captures_ > 0) {
    const std::string why = reason(key, arguments);
    log_message(LogLevel::info,
                "compile: captured again: " + (why.empty() ? "no plan is kept" : why));
  }
  std::shared_ptr<const Companion> companion;
  Captured captured = capture(
      [&](std::span<const Tensor> in) {
        CallOutcome outcome = body_(in, key.form);
        companion = std::move(outcome.companion);
        return std::move(outcome.results);
      },
      arguments);
  captured.companion = companion;
  const std::exception_ptr error = captured.error;
  auto plan = std::make_unique<Plan>(std::move(captured));
  if (error) {
    // What the function did before it threw is done, as it would have been.
    plan->run(arguments);
    std::rethrow_exception(error);
  }
  ++captures_;
  if (verbose_compile())
    log_message(LogLevel::info,
                fmt::format("compile: planned: {} steps in {} bytes, {} alive at once; eager holds "
                            "{}",
                            plan->steps(), plan->planned_bytes(), plan->live_bytes(),
                            plan->captured().eager_bytes));
  auto entry = std::make_shared<Entry>(std::move(key), std::move(plan));
  entry->used = ++uses_;
  keep(entry);
  return entry;
}

CallOutcome CompiledFunction::Impl::run(const Entry& entry, std::span<const Tensor> arguments,
                                        int times) {
  Tensors kept;
  CallOutcome outcome{entry.plan->run(arguments, times, &kept), entry.plan->captured().companion};
  if (entry.backward) entry.backward->attach(outcome.results, kept, arguments);
  for (const size_t i : entry.plan->captured().detached)
    if (outcome.results[i].requires_grad()) outcome.results[i] = outcome.results[i].detach();
  for (const Captured::Returned& r : entry.plan->captured().returned)
    outcome.results[r.result] =
        r.argument < 0 ? r.tensor : arguments[static_cast<size_t>(r.argument)];
  return outcome;
}

ResultForm::ResultForm() = default;
ResultForm::~ResultForm() = default;

FirstCompiled::~FirstCompiled() { delete first_.load(); }

CompiledFunction* FirstCompiled::set_first(CompiledFunction::Body body,
                                           const CompileOptions& options) {
  auto made = std::make_unique<CompiledFunction>(std::move(body), options);
  CompiledFunction* first = nullptr;
  return first_.compare_exchange_strong(first, made.get(), std::memory_order_acq_rel)
             ? made.release()
             : first;
}

}  // namespace mica
