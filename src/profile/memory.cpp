#include "mica/profile/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "mica/core/check.h"
#include "mica/graph/plan.h"
#include "mica/profile/memory_watch.h"
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
  std::string module = {};  ///< the first that uses it
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
      if (Use* use = use_of(id)) {
        (update ? use->by_update : use->by_others) = true;
        if (use->module.empty() && node.scope) use->module = node.scope->module;
      }
    for (const ValueId id : node.out)
      if (Use* use = use_of(id); use && !node.is_view()) {
        use->changes = true;
        (update ? use->by_update : use->by_others) = true;
      }
  }
  return uses;
}

Phase phase_of(const Plan::Held& h) { return h.scope ? h.scope->phase : Phase::forward; }

using Level = StepMemory::Level;

size_t Level::* part_of(const Plan::Held& h) {
  if (h.is_workspace) return &Level::workspace;
  if (!h.op) return &Level::arguments;
  return phase_of(h) == Phase::forward    ? &Level::activations
         : phase_of(h) == Phase::backward ? &Level::gradients
                                          : &Level::updates;
}

std::string size_text(size_t bytes) {
  const auto b = static_cast<double>(bytes);
  if (bytes >= size_t{1} << 30) return fmt::format("{:.2f} GiB", b / (1 << 30));
  if (bytes >= size_t{1} << 20) return fmt::format("{:.1f} MiB", b / (1 << 20));
  return fmt::format("{:.1f} KiB", b / 1024);
}

}  // namespace

std::vector<Holder> holders_of(const Held& held) {
  std::vector<Holder> holders;
  for (const auto& [who, bytes] : held)
    holders.push_back({std::get<0>(who), std::get<1>(who), std::get<2>(who), bytes});
  std::ranges::stable_sort(holders, std::greater(), &Holder::bytes);
  return holders;
}

StepMemory memory_of(const Plan& plan) {
  StepMemory m;
  Held outside;
  for (const auto& [storage, use] : uses_outside(plan.graph())) {
    const bool of_update = use.by_update && !use.by_others;
    const bool is_weight = use.is_parameter || (use.changes && !of_update);
    (is_weight ? m.weights : of_update ? m.optimizer : m.others) += use.bytes;
    outside[is_weight   ? std::tuple("weights", use.module, Phase::forward)
            : of_update ? std::tuple("state of the optimizer", kUpdatePath, Phase::update)
                        : std::tuple("data and constants", kDataPath, Phase::forward)] += use.bytes;
  }
  m.outside = holders_of(outside);
  m.kept = plan.kept_bytes();
  m.arena = plan.planned_bytes();
  m.eager = plan.captured().eager_bytes;

  // Bytes that begin and end to be needed at each call, and their sums; the fullest is looked at.
  const size_t steps = plan.steps();
  const auto call_of = [&](int step) {  // what the prologue makes is kept elsewhere
    return static_cast<size_t>(std::max(step - static_cast<int>(plan.prologue_steps()), 0));
  };
  m.levels.resize(steps + 2);
  for (const Plan::Held& h : plan.held()) {
    m.levels[call_of(h.first)].*part_of(h) += h.bytes;
    m.levels[call_of(h.last) + 1].*part_of(h) -= h.bytes;
  }
  m.levels.resize(steps);
  for (size_t s = 0; s < steps; ++s) {
    const Plan::StepInfo step = plan.step(s);
    m.levels[s].call = step.scope.empty() ? step.op : fmt::format("{}, {}", step.op, step.scope);
    if (s == 0) continue;
    for (const auto part : {&Level::arguments, &Level::activations, &Level::gradients,
                            &Level::updates, &Level::workspace})
      m.levels[s].*part += m.levels[s - 1].*part;
  }
  const auto most = std::ranges::max_element(m.levels, {}, &Level::total);
  if (most == m.levels.end() || most->total() == 0) return m;
  const auto fullest = static_cast<size_t>(most - m.levels.begin());
  m.at = most->call;
  m.arguments = most->arguments;
  m.activations = most->activations;
  m.gradients = most->gradients;
  m.updates = most->updates;
  m.workspace = most->workspace;
  Held holders;
  for (const Plan::Held& h : plan.held()) {
    if (call_of(h.first) > fullest || call_of(h.last) < fullest) continue;
    holders[{h.is_workspace ? fmt::format("workspace of {}", h.op)
             : h.op         ? h.op
                            : "argument",
             h.scope ? h.scope->module : "", phase_of(h)}] += h.bytes;
  }
  m.holders = holders_of(holders);
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
