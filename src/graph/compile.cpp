#include "mica/graph/compile.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

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

bool verbose_compile() {
  const char* v = std::getenv("MICA_VERBOSE");
  return v && std::string(v).find("compile") != std::string::npos;
}

}  // namespace

Tensors CompiledFunction::operator()(std::span<const Tensor> arguments) {
  // Inside another capture the body simply becomes part of that graph.
  if (current_recorder()) return function_(arguments);
  const std::lock_guard lock(mutex_);
  const uint64_t stamp = settings_stamp();
  std::vector<TensorSpec> specs;
  for (const Tensor& t : arguments) specs.push_back(slot_spec(t));
  for (Entry& e : entries_) {
    if (e.stamp != stamp || e.specs != specs || !e.plan->captured().guards.hold()) continue;
    last_ = e.plan.get();
    return last_->run(arguments);
  }
  if (verbose_compile() && captures_ > 0)
    std::fprintf(stderr,
                 "mica: compile: captured again: new input specs, settings, modes or gradients\n");
  auto plan = std::make_unique<Plan>(capture(function_, specs));
  ++captures_;
  if (entries_.size() >= kMostPlans) entries_.erase(entries_.begin());
  entries_.push_back({std::move(specs), stamp, std::move(plan)});
  last_ = entries_.back().plan.get();
  return last_->run(arguments);
}

}  // namespace mica
