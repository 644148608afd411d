#include "mica/profile/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "mica/core/check.h"
#include "mica/graph/plan.h"
#include "mica/profile/slices.h"

namespace mica::profiler {
namespace {

/// How a step uses the memory of a tensor outside.
struct Use {
  size_t bytes = 0;
  bool by_update = false;
  bool by_others = false;  ///< forward or backward
  bool changes = false;    ///< the step writes to it
  bool is_parameter = false;
};

std::map<const Storage*, Use> uses_outside(const Graph& g) {
  std::map<const Storage*, Use> uses;
  const auto use_of = [&](ValueId id) -> Use* {
    if (id == kNoValue) return nullptr;
    const Value& root = g[g.root(id)];
    if (root.kind != Value::Kind::external) return nullptr;
    Use& use = uses[root.tensor.storage().get()];
    use.bytes = root.tensor.storage()->bytes();
    if (root.tensor.requires_grad()) use.is_parameter = true;
    return &use;
  };
  for (const Node& node : g.nodes) {
    const bool update = node.scope && node.scope->phase == Phase::update;
    for (const ValueId id : node.in)
      if (Use* use = use_of(id)) (update ? use->by_update : use->by_others) = true;
    for (const ValueId id : node.out)
      if (Use* use = use_of(id); use && !node.is_view()) {
        use->changes = true;
        (update ? use->by_update : use->by_others) = true;
      }
  }
  return uses;
}

Phase phase_of(const Plan::Held& h) { return h.scope ? h.scope->phase : Phase::forward; }

std::string size_text(size_t bytes) {
  const auto b = static_cast<double>(bytes);
  if (bytes >= size_t{1} << 30) return fmt::format("{:.2f} GiB", b / (1 << 30));
  if (bytes >= size_t{1} << 20) return fmt::format("{:.1f} MiB", b / (1 << 20));
  return fmt::format("{:.1f} KiB", b / 1024);
}

}  // namespace

StepMemory memory_of(const Plan& plan) {
  StepMemory m;
  for (const auto& [storage, use] : uses_outside(plan.graph()))
    (use.is_parameter                  ? m.weights
     : use.by_update && !use.by_others ? m.optimizer
     : use.changes                     ? m.weights
                                       : m.others) += use.bytes;
  m.kept = plan.kept_bytes();
  m.arena = plan.planned_bytes();
  m.eager = plan.captured().eager_bytes;

  // Bytes that begin and end to be needed at each step; the fullest one is looked at.
  const size_t steps = plan.prologue_steps() + plan.steps();
  std::vector<int64_t> change(steps + 2);
  for (const Plan::Held& h : plan.held()) {
    change[static_cast<size_t>(h.first)] += static_cast<int64_t>(h.bytes);
    change[static_cast<size_t>(h.last) + 1] -= static_cast<int64_t>(h.bytes);
  }
  int64_t live = 0;
  int64_t most = 0;
  size_t fullest = 0;
  for (size_t s = 0; s < steps; ++s) {
    live += change[s];
    if (live > most) {
      most = live;
      fullest = s;
    }
  }
  if (most == 0) return m;
  const Plan::StepInfo step = plan.step(fullest);
  m.at = step.scope.empty() ? step.op : fmt::format("{}, {}", step.op, step.scope);
  std::map<std::tuple<std::string, std::string, Phase>, size_t> holders;
  for (const Plan::Held& h : plan.held()) {
    if (h.first > static_cast<int>(fullest) || h.last < static_cast<int>(fullest)) continue;
    (h.is_workspace                   ? m.workspace
     : !h.op                          ? m.arguments
     : phase_of(h) == Phase::forward  ? m.activations
     : phase_of(h) == Phase::backward ? m.gradients
                                      : m.updates) += h.bytes;
    holders[{h.is_workspace ? fmt::format("workspace of {}", h.op)
             : h.op         ? h.op
                            : "argument",
             h.scope ? h.scope->module : "", phase_of(h)}] += h.bytes;
  }
  for (const auto& [who, bytes] : holders)
    m.holders.push_back({std::get<0>(who), std::get<1>(who), std::get<2>(who), bytes});
  std::ranges::stable_sort(m.holders, std::greater(), &Holder::bytes);
  return m;
}

std::string table(const StepMemory& m, int most) {
  std::string text;
  const auto line = [&](size_t bytes, const std::string& what) {
    if (bytes > 0) text += fmt::format("{:>12}  {}\n", size_text(bytes), what);
  };
  line(m.weights, "weights");
  line(m.optimizer, "state of the optimizer");
  line(m.others, "data and constants");
  line(m.kept, "made of weights that do not change");
  line(m.arena, fmt::format("what a step makes ({} in eager execution)", size_text(m.eager)));
  line(m.total(), "in all");
  if (m.holders.empty()) return text;
  text += fmt::format("\nMost of what a step makes is in use at {}:\n", m.at);
  line(m.arguments, "arguments");
  line(m.activations, "activations");
  line(m.gradients, "gradients");
  line(m.updates, "updates");
  line(m.workspace, "workspace");
  text += "\nof which\n";
  for (size_t i = 0; i < m.holders.size() && i < static_cast<size_t>(most); ++i) {
    const Holder& h = m.holders[i];
    line(h.bytes, fmt::format("{}{}{} ({})", h.op, h.module.empty() ? "" : " of ", h.module,
                              name_of(h.phase)));
  }
  return text;
}

int64_t largest_batch(const std::function<void(int64_t)>& step, size_t bytes) {
  const auto fits = [&](int64_t batch) {
    const Plan plan(capture(
        [&](std::span<const Tensor>) -> Tensors {
          step(batch);
          return {};
        },
        std::span<const TensorSpec>()));
    check(plan.captured().device.is_null(),
          "largest_batch: the step is to compute on the null device, with a model that was moved "
          "there; it computes on {}",
          plan.captured().device);
    return memory_of(plan).total() <= bytes;
  };
  int64_t good = 0;
  int64_t bad = 1;
  while (bad < int64_t{1} << 40 && fits(bad)) {
    good = bad;
    bad *= 2;
  }
  while (good + 1 < bad) {
    const int64_t middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

}  // namespace mica::profiler
