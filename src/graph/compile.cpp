#include "mica/graph/compile.h"

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <utility>

#include "mica/core/check.h"
#include "mica/op/settings.h"

namespace mica {
namespace {

/// The slot an argument is copied into: dense, in the argument's memory format.
TensorSpec slot_spec(const Tensor& t) {
  check(t.defined(), "compile: an argument is undefined");
  check<Unsupported>(
      !(grad_enabled() && t.requires_grad()),
      "compile: an argument requires a gradient; gradients do not flow into a compiled function");
  TensorSpec s = TensorSpec::contiguous(t.shape(), t.dtype(), t.device());
  if (t.spec().is_channels_last()) s.strides = channels_last_strides(s.shape);
  return s;
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

}  // namespace

/// Why the plan that comes nearest does not serve this call.
std::string CompiledFunction::reason(const std::vector<TensorSpec>& specs, uint64_t stamp) const {
  std::vector<std::string> best;
  for (const Entry& e : entries_) {
    std::vector<std::string> why = e.plan->captured().guards.broken();
    if (e.stamp != stamp) why.insert(why.begin(), "settings changed");
    for (size_t i = 0; i < std::min(specs.size(), e.specs.size()); ++i)
      compare(i, e.specs[i], specs[i], why);
    if (e.specs.size() != specs.size())
      why.push_back(fmt::format("{} arguments → {}", e.specs.size(), specs.size()));
    if (best.empty() || why.size() <= best.size()) best = std::move(why);
  }
  std::string text;
  for (const std::string& why : best) text += (text.empty() ? "" : "; ") + why;
  return text;
}

Tensors CompiledFunction::operator()(std::span<const Tensor> arguments, int times) {
  // Inside another capture the body simply becomes part of that graph.
  if (current_recorder()) {
    for (int i = 1; i < times; ++i) function_(arguments);
    return function_(arguments);
  }
  const std::lock_guard lock(mutex_);
  // A plan made in anomaly mode has a step for every op, so that the culprit has a name.
  const uint64_t stamp = settings_stamp() * 2 + (detect_anomaly() ? 1 : 0);
  std::vector<TensorSpec> specs;
  for (const Tensor& t : arguments) specs.push_back(slot_spec(t));
  for (Entry& e : entries_) {
    if (e.stamp != stamp || e.specs != specs || !e.plan->captured().guards.hold()) continue;
    last_ = e.plan.get();
    return last_->run(arguments, times);
  }
  if (verbose_compile() && captures_ > 0)
    std::fprintf(stderr, "mica: compile: captured again: %s\n",
                 entries_.empty() ? "no plan is kept" : reason(specs, stamp).c_str());
  Captured captured = capture(function_, specs);
  GradsBefore grads = std::move(captured.grads_before);  // put back if planning or running fails
  auto plan = std::make_unique<Plan>(std::move(captured));
  ++captures_;
  if (verbose_compile())
    std::fprintf(stderr,
                 "mica: compile: planned: %zu steps in %zu bytes, %zu alive at once; eager holds "
                 "%zu\n",
                 plan->steps(), plan->planned_bytes(), plan->live_bytes(),
                 plan->captured().eager_bytes);
  // A stamp never comes again, so neither do the plans made under another.
  std::erase_if(entries_, [&](const Entry& e) { return e.stamp != stamp; });
  if (entries_.size() >= kMostPlans) {
    if (!std::exchange(told_of_limit_, true))
      std::fprintf(stderr,
                   "mica: compile: a function was captured for more than %zu kinds of arguments; "
                   "from now on the oldest plan is dropped for each new one. MICA_VERBOSE=compile "
                   "says what differs; arguments of few different shapes avoid it\n",
                   kMostPlans);
    entries_.erase(entries_.begin());
  }
  entries_.push_back({std::move(specs), stamp, std::move(plan)});
  last_ = entries_.back().plan.get();
  Tensors results = last_->run(arguments, times);
  grads.let_go();
  return results;
}

}  // namespace mica
