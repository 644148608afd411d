#include "mica/graph/compile.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <string_view>
#include <utility>

#include "mica/core/check.h"
#include "mica/core/values_check.h"
#include "mica/graph/backward_plan.h"
#include "mica/op/settings.h"

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
  for (size_t i = 0; i < now.constants.size(); ++i)
    if (!same(before.constants[i], now.constants[i]))
      differences.push_back(
          fmt::format("{} → {}", to_text(before.constants[i]), to_text(now.constants[i])));
}

}  // namespace

bool CallForm::operator==(const CallForm& other) const {
  return constants.size() == other.constants.size() && same_structure(arguments, other.arguments) &&
         std::ranges::equal(constants, other.constants, same);
}

/// Why the plan that comes nearest does not serve this call.
std::string CompiledFunction::reason(const Key& key, std::span<const Tensor> arguments) const {
  std::vector<std::string> best;
  for (const Entry& e : entries_) {
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

void CompiledFunction::keep(Entry entry) {
  // A stamp never comes again, so neither do the plans made under another.
  std::erase_if(entries_, [&](const Entry& e) { return e.key.stamp != entry.key.stamp; });
  if (entries_.size() >= kMostPlans) {
    if (!std::exchange(told_of_limit_, true))
      std::fprintf(stderr,
                   "mica: compile: a function was captured for more than %zu kinds of arguments; "
                   "from now on the oldest plan is dropped for each new one. MICA_VERBOSE=compile "
                   "says what differs; arguments of few different shapes avoid it\n",
                   kMostPlans);
    entries_.erase(entries_.begin());
  }
  entries_.push_back(std::move(entry));
  last_ = entries_.back().plan.get();
}

CallOutcome CompiledFunction::call(std::span<const Tensor> arguments, int times,
                                   const CallForm& form) {
  // Inside another capture the body simply becomes part of that graph.
  if (current_recorder()) {
    for (int i = 1; i < times; ++i) body_(arguments, form);
    return body_(arguments, form);
  }
  const uint64_t leaves = leaves_among(arguments);
  const std::lock_guard lock(mutex_);
  // A plan made in anomaly mode has a step for every op, so that the culprit has a name.
  Key key{{},     form,           settings_stamp() * 2 + (detect_anomaly() ? 1 : 0), grad_enabled(),
          leaves, autocast_mode()};
  key.specs.reserve(arguments.size());
  for (const Tensor& t : arguments) key.specs.push_back(slot_spec(t));
  for (Entry& e : entries_) {
    if (e.key != key || !e.plan->accepts(arguments)) continue;
    last_ = e.plan.get();
    return run(e, arguments, times);
  }
  if (verbose_compile() && captures_ > 0)
    std::fprintf(stderr, "mica: compile: captured again: %s\n",
                 entries_.empty() ? "no plan is kept" : reason(key, arguments).c_str());
  std::shared_ptr<const Companion> companion;
  Captured captured = capture(
      [&](std::span<const Tensor> in) {
        CallOutcome outcome = body_(in, form);
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
    std::fprintf(stderr,
                 "mica: compile: planned: %zu steps in %zu bytes, %zu alive at once; eager holds "
                 "%zu\n",
                 plan->steps(), plan->planned_bytes(), plan->live_bytes(),
                 plan->captured().eager_bytes);
  const auto gradient = plan->captured().backward;
  keep({std::move(key), std::move(plan),
        gradient ? std::make_shared<BackwardPlan>(gradient) : nullptr});
  return run(entries_.back(), arguments, times);
}

CallOutcome CompiledFunction::run(const Entry& entry, std::span<const Tensor> arguments,
                                  int times) {
  CallOutcome outcome{entry.plan->run(arguments, times), entry.plan->captured().companion};
  if (entry.backward) entry.backward->attach(outcome.results, arguments);
  for (const size_t i : entry.plan->captured().detached)
    if (outcome.results[i].requires_grad()) outcome.results[i] = outcome.results[i].detach();
  for (const Captured::Returned& r : entry.plan->captured().returned)
    outcome.results[r.result] =
        r.argument < 0 ? r.tensor : arguments[static_cast<size_t>(r.argument)];
  return outcome;
}

}  // namespace mica
