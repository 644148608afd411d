#include <array>
#include <mutex>
#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "mica/autograd/after_backward.h"
#include "mica/autograd/anomaly.h"
#include "mica/autograd/tape.h"
#include "mica/core/check.h"
#include "mica/core/fork.h"
#include "mica/core/interrupt.h"
#include "mica/core/scope.h"
#include "mica/op/autocast.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"

namespace mica {
namespace {

void accumulate(Tensor& sum, const Tensor& more) { sum = sum.defined() ? add(sum, more) : more; }

const GradHooks* hooks_of(const Tensor& leaf) { return leaf.impl()->autograd->hooks.get(); }

/// Guards the `.grad` of a leaf while passes of several threads add to it.
Mutex& grad_mutex(const Tensor& leaf) {
  static auto& mutexes = *new std::array<Mutex, 64>;
  return mutexes[std::hash<const void*>()(leaf.impl()) / alignof(TensorImpl) % mutexes.size()];
}

/// Adds to a leaf's `.grad`, also where another thread does so meanwhile: a sum counts only if what
/// it was made of is still there.
void add_to_grad(const Tensor& leaf, const Tensor& gradient) {
  std::unique_lock lock(grad_mutex(leaf));
  for (;;) {
    const Tensor before = leaf.grad();
    if (!before.defined()) return leaf.set_grad(gradient);
    lock.unlock();
    const Tensor sum = add(before, gradient);
    lock.lock();
    if (peek_grad(leaf).impl() == before.impl()) return leaf.set_grad(sum);
  }
}

/// One backward pass. Consumers have higher sequence numbers than producers, so taking the highest
/// waiting node first meets every node after all of its cotangents have arrived: no recursion, no
/// counting.
class Pass {
 public:
  explicit Pass(BackwardOptions options) : options_(options), watched_(detect_anomaly()) {}

  /// Nodes up to this number are not differentiated, and what is kept is the part of a larger pass:
  /// its hooks run there.
  void stop_at(uint64_t sequence) {
    since_ = sequence;
    is_part_ = true;
  }

  /// Gradients that reach `end` are kept in slot `slot` instead of going to leaves.
  void keep(const GradEdge& end, size_t slot) {
    if (end.node) {
      kept_nodes_[end.node.get()].emplace_back(end.output, slot);
      oldest_kept_ = std::min(oldest_kept_, end.node->sequence());
    } else {
      oldest_kept_ = 0;
      kept_leaves_[end.leaf.impl()].push_back(slot);
    }
    only_kept_ = true;
  }

  void send(const GradEdge& edge, const Tensor& cotangent) {
    if (edge.leaf.defined()) {
      reach_leaf(edge.leaf, cotangent);
    } else if (edge.node && enters(*edge.node)) {
      auto [it, fresh] = waiting_.try_emplace(edge.node.get());
      if (fresh) {
        it->second.resize(edge.node->outputs());
        queue_.push({edge.node->sequence(), edge.node});
      }
      accumulate(it->second[static_cast<size_t>(edge.output)], cotangent);
    }
  }

  void run(const Tensors& outputs) {
    count_hooked_leaves(outputs);
    while (!queue_.empty()) {
      poll_interrupt();
      const Ref<GradNode> node = queue_.top().node;
      const PhaseScope scope(Phase::backward, node->sequence());
      queue_.pop();
      Tensors cotangents = std::move(waiting_.extract(node.get()).mapped());
      if (node->sequence() > since_) run_hooks(*node, cotangents);
      if (const auto it = kept_nodes_.find(node.get()); it != kept_nodes_.end())
        for (const auto& [output, slot] : it->second)
          slots[slot] = cotangents[static_cast<size_t>(output)];
      if (!is_applied(*node)) continue;
      const Tensors grads = node->apply(cotangents);
      check(grads.size() == node->edges().size(), "{}: its vjp gave {} gradients for {} inputs",
            node->name(), grads.size(), node->edges().size());
      if (watched_) check_gradients(*node, cotangents, grads);
      for (size_t i = 0; i < grads.size(); ++i) {
        if (grads[i].defined()) send(node->edges()[i], grads[i]);
        if (!hooked_.empty()) note_done(node->edges()[i]);
      }
      if (!options_.retain_graph && !options_.create_graph) node->release_saved();
    }
    // Those that a node on the way sent nothing to, though it might have.
    for (auto& [impl, leaf] : hooked_)
      if (leaf.sum.defined()) deliver(leaf);
  }

  std::unordered_map<size_t, Tensor> slots;

 private:
  /// A leaf with hooks gets its gradient when it is complete.
  struct HookedLeaf {
    Tensor leaf;
    Tensor sum;
    int64_t missing = 0;  // edges that gradients may still come over
  };

  // Nothing older than the oldest input that is kept leads to one.
  bool is_applied(const GradNode& node) const {
    return node.sequence() > since_ && (!only_kept_ || node.sequence() > oldest_kept_);
  }
  bool enters(const GradNode& node) const {
    return is_applied(node) || kept_nodes_.contains(&node);
  }

  void reach_leaf(const Tensor& leaf, const Tensor& cotangent) {
    if (only_kept_ && !kept_leaves_.contains(leaf.impl())) return;
    if (hooks_of(leaf) && !is_part_) {
      HookedLeaf& h = hooked_[leaf.impl()];
      h.leaf = leaf;
      accumulate(h.sum, cotangent);
    } else {
      add_to_leaf(leaf, cotangent);
    }
  }

  void add_to_leaf(const Tensor& leaf, const Tensor& gradient) {
    if (!only_kept_) return add_to_grad(leaf, gradient);
    for (const size_t slot : kept_leaves_.at(leaf.impl())) accumulate(slots[slot], gradient);
  }

  /// How many edges of the nodes that will be met lead to each leaf with hooks.
  void count_hooked_leaves(const Tensors& outputs) {
    if (is_part_ || !any_leaf_hooks()) return;
    std::unordered_set<const GradNode*> seen;
    std::vector<const GradNode*> open;
    const auto visit = [&](const GradNode* node) {
      if (node && is_applied(*node) && seen.insert(node).second) open.push_back(node);
    };
    for (const Tensor& t : outputs) visit(edge_of(t).node.get());
    while (!open.empty()) {
      const GradNode* node = open.back();
      open.pop_back();
      for (const GradEdge& e : node->edges()) {
        visit(e.node.get());
        if (e.leaf.defined() && hooks_of(e.leaf)) ++hooked_[e.leaf.impl()].missing;
      }
    }
  }

  void note_done(const GradEdge& edge) {
    const auto it = edge.leaf.defined() ? hooked_.find(edge.leaf.impl()) : hooked_.end();
    if (it == hooked_.end() || --it->second.missing > 0 || !it->second.sum.defined()) return;
    deliver(it->second);
  }

  void deliver(HookedLeaf& h) {
    // A hook may remove itself, or add others.
    const GradHooks hooks = *hooks_of(h.leaf);
    add_to_leaf(h.leaf, hooks.apply(std::exchange(h.sum, {})));
    if (only_kept_) return;
    for (const GradHooks::After& hook : hooks.after) hook.call(h.leaf);
  }

  static void run_hooks(const GradNode& node, Tensors& cotangents) {
    for (size_t i = 0; i < cotangents.size(); ++i)
      if (const GradHooks* hooks = node.hooks(i); hooks && cotangents[i].defined())
        cotangents[i] = GradHooks(*hooks).apply(cotangents[i]);
  }

  struct Waiting {
    uint64_t sequence;
    Ref<GradNode> node;
    bool operator<(const Waiting& o) const { return sequence < o.sequence; }
  };
  BackwardOptions options_;
  bool watched_;
  uint64_t since_ = 0;
  bool is_part_ = false;
  std::priority_queue<Waiting> queue_;
  std::unordered_map<const GradNode*, Tensors> waiting_;
  std::unordered_map<const GradNode*, std::vector<std::pair<int, size_t>>> kept_nodes_;
  std::unordered_map<TensorImpl*, std::vector<size_t>> kept_leaves_;
  std::unordered_map<TensorImpl*, HookedLeaf> hooked_;
  bool only_kept_ = false;
  uint64_t oldest_kept_ = ~uint64_t{0};
};

/// What runs at the end of this thread's pass; null outside of one.
thread_local std::vector<std::function<void()>>* t_after = nullptr;

void start(Pass& pass, const Tensors& outputs, const Tensors& cotangents) {
  check(cotangents.empty() || cotangents.size() == outputs.size(),
        "backward: {} outputs but {} cotangents", outputs.size(), cotangents.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& out = outputs[i];
    check(out.defined(), "backward: output {} is undefined", i);
    check(out.requires_grad(),
          "backward: output {} ({}) does not depend on a tensor that requires a gradient", i,
          out.spec());
    Tensor cotangent = cotangents.empty() ? Tensor() : cotangents[i];
    if (!cotangent.defined()) {
      check<ShapeError>(
          out.numel() == 1,
          "backward: output {} has shape {}; only a one-element output may go without a "
          "cotangent",
          i, out.shape());
      check<DTypeError>(
          !is_complex(out.dtype()),
          "backward: output {} is {}, which has no direction of growth of its own; give a "
          "cotangent, or differentiate its real(), imag() or abs()",
          i, out.dtype());
      cotangent = ones_like(out);
    }
    check<ShapeError>(cotangent.shape() == out.shape(),
                      "backward: the cotangent of output {} must have its shape {}, got {}", i,
                      out.shape(), cotangent.shape());
    pass.send(edge_of(out), cotangent);
  }
}

Tensors kept_by(Pass& pass, size_t count) {
  Tensors result(count);
  for (auto& [slot, tensor] : pass.slots) result[slot] = tensor;
  return result;
}

}  // namespace

void after_backward(std::function<void()> f) {
  check(t_after != nullptr, "after_backward: no backward pass is on");
  t_after->push_back(std::move(f));
}

void backward(const Tensors& outputs, const Tensors& cotangents, BackwardOptions options) {
  const GradMode mode(options.create_graph);
  const Autocast off{AutocastMode{}};
  Pass pass(options);
  start(pass, outputs, cotangents);
  // A hook may run a pass of its own.
  std::vector<std::function<void()>> after;
  const struct Registered {
    explicit Registered(std::vector<std::function<void()>>* list)
        : outer(std::exchange(t_after, list)) {}
    ~Registered() { t_after = outer; }
    std::vector<std::function<void()>>* outer;
  } registered(&after);
  pass.run(outputs);
  for (size_t i = 0; i < after.size(); ++i) {
    const std::function<void()> f = after[i];  // which may add others
    f();
  }
}

Tensors grad(const Tensors& outputs, const Tensors& inputs, const Tensors& cotangents,
             BackwardOptions options) {
  const GradMode mode(options.create_graph);
  const Autocast off{AutocastMode{}};
  Pass pass(options);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const GradEdge end = edge_of(inputs[i]);
    check(!end.empty(), "grad: input {} does not require a gradient", i);
    pass.keep(end, i);
  }
  start(pass, outputs, cotangents);
  pass.run(outputs);
  return kept_by(pass, inputs.size());
}

Tensors grad_until(const Tensors& outputs, const std::vector<GradEdge>& ends,
                   const Tensors& cotangents, BackwardOptions options, uint64_t since) {
  const GradMode mode(options.create_graph);
  const Autocast off{AutocastMode{}};
  Pass pass(options);
  pass.stop_at(since);
  for (size_t i = 0; i < ends.size(); ++i)
    if (!ends[i].empty()) pass.keep(ends[i], i);
  start(pass, outputs, cotangents);
  pass.run(outputs);
  return kept_by(pass, ends.size());
}

}  // namespace mica
