#include "mica/graph/plan.h"

#include <algorithm>
#include <map>

#include "mica/core/check.h"
#include "mica/graph/memory_plan.h"
#include "mica/graph/passes/passes.h"
#include "mica/graph/passes/rewrite.h"
#include "mica/graph/select_kernels.h"
#include "mica/graph/value_bytes.h"

namespace mica {
namespace {

/// Memory that is reused at once orders the steps that use it. Where eager execution takes as much,
/// blocks live some steps longer than they are needed, so that steps beside each other can run side
/// by side.
MemoryPlan plan_for_branches(const std::vector<Block>& blocks, size_t most, size_t alignment) {
  MemoryPlan tight = plan_memory(blocks, alignment);
  for (int slack = 8; slack > 0; slack /= 2) {
    std::vector<Block> longer = blocks;
    for (Block& b : longer) b.last += slack;
    MemoryPlan plan = plan_memory(longer, alignment);
    if (plan.bytes > most) continue;
    plan.live = tight.live;
    return plan;
  }
  return tight;
}

}  // namespace

Plan::Plan(Captured captured) : captured_(std::move(captured)), graph_(captured_.graph) {
  run_passes(graph_);
  select_kernels(graph_, captured_.device);
  // Before results lie in tensors outside, which then change without a call that says so.
  const std::vector<bool> constant = constants(graph_);
  compute_in_place(graph_);
  add_steps();
  find_keeping(constant);
  place();
  lanes_.resize(ArenaSlot::kMost);
  lane(0);
  if (!captured_.device.is_null() && steps() > 0) replay_ = record(1);
  find_outside_memory();
  const auto reads = [](const Input& i) { return i.argument < 0; };
  const auto keeps = [](const Effect& e) { return e.keeps; };
  pure_ = captured_.written.empty() && captured_.write_backs.empty() &&
          captured_.in_place.empty() &&
          std::none_of(captured_.inputs.begin(), captured_.inputs.end(), reads) &&
          std::all_of(captured_.effects.begin(), captured_.effects.end(), keeps);
}

std::unique_ptr<Replay> Plan::record(int times) const {
  const std::vector<std::vector<Access>> once = accesses();
  std::vector<std::vector<Access>> all;
  for (int t = 0; t < times; ++t) all.insert(all.end(), once.begin(), once.end());
  const int n = static_cast<int>(steps());
  return runtime(captured_.device).record(captured_.device.index, schedule(all), [&](int i) {
    run_step(*lanes_[0], prologue_ + i % n);
  });
}

bool Plan::is_kept(ValueId id) const {
  const Value& root = graph_[graph_.root(id)];
  return root.kind == Value::Kind::computed && root.node >= 0 && root.node < graph_.prologue;
}

void Plan::depend_on(ValueId id) {
  if (id == kNoValue || graph_[graph_.root(id)].kind != Value::Kind::external) return;
  const Ref<Storage>& storage = graph_[graph_.root(id)].tensor.storage();
  const auto same = [&](const Dependence& d) { return d.storage.get() == storage.get(); };
  if (std::none_of(depends_on_.begin(), depends_on_.end(), same))
    depends_on_.push_back({storage, 0});
}

void Plan::add_steps() {
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    const Node& node = graph_.nodes[i];
    if (node.is_view()) continue;
    const auto results = graph_.results_of(node);
    steps_.push_back({node.op,
                      node.params,
                      node.kernel,
                      node.in,
                      {results.begin(), results.end()},
                      0,
                      node.scope});
    if (static_cast<int>(i) >= graph_.prologue) continue;
    ++prologue_;
    for (const ValueId id : node.in) depend_on(id);
  }
}

void Plan::find_keeping(const std::vector<bool>& constant) {
  for (size_t s = static_cast<size_t>(prologue_); s < steps_.size(); ++s) {
    Step& step = steps_[s];
    const bool can =
        step.prepared && step.prepared->kernel->keep && step.prepared->state->kept_bytes > 0;
    if (!can) continue;
    const auto stays = [&](ValueId id) {
      const bool outside = graph_[graph_.root(id)].kind == Value::Kind::external;
      return constant[static_cast<size_t>(id)] && (outside || is_kept(id));
    };
    step.keeps = true;
    for (size_t k = 0; k < step.in.size(); ++k)
      if (step.in[k] != kNoValue && step.prepared->state->kept_of.contains(static_cast<int>(k)))
        step.keeps = step.keeps && stays(step.in[k]);
    for (size_t k = 0; k < step.in.size() && step.keeps; ++k)
      if (step.prepared->state->kept_of.contains(static_cast<int>(k))) depend_on(step.in[k]);
  }
}

/// Gives every computed value and workspace its place in the arena, or among what is kept.
void Plan::place() {
  const Graph& g = graph_;
  const int end = static_cast<int>(steps_.size());
  constexpr size_t kNone = static_cast<size_t>(-1);
  std::vector<Block> blocks;
  std::vector<Held> held;  // of every block, for whom it is
  std::vector<size_t> block_of(g.values.size(), kNone);
  const auto open = [&](ValueId root, int step) {
    block_of[static_cast<size_t>(root)] = blocks.size();
    blocks.push_back({bytes_of(g[root].spec), step, step});
    const int node = g[root].node;
    held.push_back(node < 0 ? Held{}
                            : Held{.op = g.nodes[static_cast<size_t>(node)].op->name,
                                   .scope = g.nodes[static_cast<size_t>(node)].scope});
  };
  std::vector<int> last_use(g.values.size(), -1);
  for (int s = 0; s < end; ++s)
    for (const ValueId id : steps_[static_cast<size_t>(s)].in)
      if (id != kNoValue) last_use[static_cast<size_t>(g.root(id))] = s;
  for (const ValueId id : g.outputs) last_use[static_cast<size_t>(g.root(id))] = end;

  for (const ValueId id : g.inputs) open(id, prologue_);
  std::vector<size_t> workspace(steps_.size(), kNone);
  for (int s = 0; s < end; ++s) {
    Step& step = steps_[static_cast<size_t>(s)];
    for (int result = 0; result < static_cast<int>(step.out.size()); ++result) {
      const ValueId id = step.out[static_cast<size_t>(result)];
      if (g[id].base != kNoValue) continue;  // it lies in a tensor outside
      // A result may be written over an operand that nobody needs afterwards.
      for (size_t k = 0; k < step.in.size(); ++k) {
        const ValueId operand = step.in[k];
        if (operand == kNoValue || block_of[static_cast<size_t>(id)] != kNone ||
            !step.op->may_overwrite(step.params.ref().data, static_cast<int>(k), result))
          continue;
        const ValueId root = g.root(operand);
        const size_t block = block_of[static_cast<size_t>(root)];
        const bool alike = g[operand].spec.shape == g[id].spec.shape &&
                           g[operand].spec.strides == g[id].spec.strides &&
                           g[operand].spec.dtype == g[id].spec.dtype;
        // Another operand may be a view of the same memory, transposed, say, or the same one that
        // is read in another order; another result may have been written over it already.
        bool seen_otherwise = false;
        for (size_t n = 0; n < step.in.size(); ++n) {
          const ValueId other = step.in[n];
          if (n == k || other == kNoValue || g.root(other) != root) continue;
          seen_otherwise =
              seen_otherwise || other != operand ||
              !step.op->may_overwrite(step.params.ref().data, static_cast<int>(n), result);
        }
        const bool taken = std::any_of(step.out.begin(), step.out.begin() + result, [&](ValueId o) {
          return block_of[static_cast<size_t>(o)] == block;
        });
        const bool kept = s >= prologue_ && block != kNone && blocks[block].first < prologue_;
        if (block != kNone && operand == root && alike && !seen_otherwise && !taken && !kept &&
            last_use[static_cast<size_t>(root)] == s)
          block_of[static_cast<size_t>(id)] = block;
      }
      if (block_of[static_cast<size_t>(id)] == kNone) open(id, s);
      Block& block = blocks[block_of[static_cast<size_t>(id)]];
      block.last = std::max(block.last, s);
    }
    for (const ValueId id : step.in) {
      if (id == kNoValue) continue;
      const size_t block = block_of[static_cast<size_t>(g.root(id))];
      if (block != kNone) blocks[block].last = std::max(blocks[block].last, s);
    }
    if (step.prepared && step.prepared->state->workspace_bytes > 0) {
      workspace[static_cast<size_t>(s)] = blocks.size();
      blocks.push_back({step.prepared->state->workspace_bytes, s, s});
      held.push_back({.op = step.op->name, .scope = step.scope, .is_workspace = true});
    }
  }
  for (const ValueId id : g.outputs) {
    const size_t block = block_of[static_cast<size_t>(g.root(id))];
    if (block != kNone) blocks[block].last = end;
  }
  std::vector<size_t> keeping(steps_.size(), kNone);
  const size_t first_keeping = blocks.size();
  for (size_t s = 0; s < steps_.size(); ++s) {
    if (!steps_[s].keeps) continue;
    keeping[s] = blocks.size();
    blocks.push_back({steps_[s].prepared->state->kept_bytes, 0, end});
    held.emplace_back();
  }

  std::vector<Block> kept;
  std::vector<Block> passing;
  std::vector<size_t> place(blocks.size());  // among its kind
  const auto stays = [&](size_t b) { return blocks[b].first < prologue_ || b >= first_keeping; };
  for (size_t b = 0; b < blocks.size(); ++b) {
    std::vector<Block>& kind = stays(b) ? kept : passing;
    place[b] = kind.size();
    kind.push_back(blocks[b]);
    if (stays(b)) continue;
    held[b].bytes = blocks[b].bytes;
    held[b].first = blocks[b].first;
    held[b].last = blocks[b].last;
    held_.push_back(std::move(held[b]));
  }
  const size_t unit = alignment(captured_.device);
  const MemoryPlan kept_plan = plan_memory(kept, unit);
  const size_t most = captured_.eager_bytes - std::min(captured_.eager_bytes, kept_plan.bytes);
  const MemoryPlan plan = captured_.device.is_cuda() ? plan_for_branches(passing, most, unit)
                                                     : plan_memory(passing, unit);
  planned_bytes_ = plan.bytes;
  live_bytes_ = plan.live;
  const auto offset = [&](size_t b) { return (stays(b) ? kept_plan : plan).offset[place[b]]; };
  offset_.resize(g.values.size());
  for (size_t v = 0; v < g.values.size(); ++v)
    if (block_of[v] != kNone) offset_[v] = offset(block_of[v]);
  for (size_t s = 0; s < steps_.size(); ++s)
    if (workspace[s] != kNone) steps_[s].workspace_offset = offset(workspace[s]);
  for (size_t s = 0; s < steps_.size(); ++s)
    if (keeping[s] != kNone) steps_[s].kept_offset = offset(keeping[s]);
  if (!kept.empty() || prologue_ > 0) kept_ = new_arena(captured_.device, kept_plan.bytes);
}

void* Plan::address(const Lane& lane, ValueId id) const {
  const Graph& g = graph_;
  const ValueId v = g.root(id);
  const auto bytes = offset_in_root(g, id) * static_cast<int64_t>(size_of(g[id].spec.dtype));
  if (g[v].kind == Value::Kind::external) {
    auto* data = static_cast<std::byte*>(g[v].tensor.data());
    return data ? data + bytes : nullptr;
  }
  std::byte* base = (is_kept(v) ? kept_ : lane.arena)->storage->data();
  return base ? base + offset_[static_cast<size_t>(v)] + bytes : nullptr;
}

Plan::Lane& Plan::lane(int slot) const {
  static const TensorSpec none;
  std::unique_ptr<Lane>& at = lanes_[static_cast<size_t>(slot)];
  if (at) return *at;
  auto made = std::make_unique<Lane>();
  made->arena = ArenaSlot::arena(captured_.device, slot, planned_bytes_);
  made->steps.resize(steps_.size());
  const Graph& g = graph_;
  for (size_t s = 0; s < steps_.size(); ++s) {
    const Step& step = steps_[s];
    Lane::Bound& bound = made->steps[s];
    for (const ValueId id : step.in)
      bound.in.push_back(id == kNoValue ? Arg{nullptr, &none}
                                        : Arg{address(*made, id), &g[id].spec});
    for (const ValueId id : step.out) bound.out.push_back({address(*made, id), &g[id].spec});
    const Arena& arena = static_cast<int>(s) < prologue_ ? *kept_ : *made->arena;
    bound.workspace = arena.storage->data() + step.workspace_offset;
    if (step.keeps) bound.kept = kept_->storage->data() + step.kept_offset;
  }
  at = std::move(made);
  return *at;
}

std::vector<std::vector<Access>> Plan::accesses() const {
  const auto access = [](const Arg& arg, bool writes) {
    const auto* begin = static_cast<const std::byte*>(arg.data);
    return Access{begin, begin + extent_bytes(*arg.spec), writes};
  };
  std::vector<std::vector<Access>> all;
  for (size_t s = static_cast<size_t>(prologue_); s < steps_.size(); ++s) {
    const Step& step = steps_[s];
    const Lane::Bound& bound = lanes_[0]->steps[s];
    std::vector<Access>& of_step = all.emplace_back();
    const int n = static_cast<int>(bound.in.size());
    for (int i = 0; i < n; ++i) {
      const Arg& arg = bound.in[static_cast<size_t>(i)];
      if (arg.data) of_step.push_back(access(arg, step.op->writes(step.params.ref().data, i, n)));
    }
    for (const Arg& arg : bound.out)
      if (arg.data) of_step.push_back(access(arg, true));
    of_step.push_back(
        {bound.workspace, bound.workspace + step.prepared->state->workspace_bytes, true});
  }
  return all;
}

std::vector<std::string> Plan::kernels() const {
  std::vector<std::string> all;
  all.reserve(steps_.size());
  for (const Step& step : steps_)
    all.push_back(fmt::format("{}: {}", step.op->name, step.prepared->kernel->name));
  return all;
}

Plan::StepInfo Plan::step(size_t i) const {
  const Step& step = steps_.at(static_cast<size_t>(prologue_) + i);
  StepInfo info{.op = step.op->name,
                .kernel = step.prepared ? step.prepared->kernel->name : nullptr,
                .params = step.params.ref().info->print(step.params.ref().data),
                .scope = step.scope ? to_string(*step.scope) : "",
                .in = {},
                .out = {}};
  // An expanded tensor is read once, however often it is seen.
  const auto bytes = [](const TensorSpec& s) {
    return static_cast<double>(std::min(extent_bytes(s), bytes_of(s)));
  };
  const int n = static_cast<int>(step.in.size());
  for (int k = 0; k < n; ++k) {
    const ValueId id = step.in[static_cast<size_t>(k)];
    if (id == kNoValue) continue;
    info.in.push_back(graph_[id].spec);
    const bool updated = step.op->writes(step.params.ref().data, k, n);
    info.bytes += (updated ? 2 : 1) * bytes(info.in.back());
  }
  for (const ValueId id : step.out) {
    info.out.push_back(graph_[id].spec);
    info.bytes += bytes(info.out.back());
  }
  if (step.op->flops) {
    std::vector<TensorSpec> in;
    for (const ValueId id : step.in) in.push_back(id == kNoValue ? TensorSpec{} : graph_[id].spec);
    info.flops = step.op->flops(*step.op, step.params.ref().data, {in, info.out});
  }
  return info;
}

}  // namespace mica
