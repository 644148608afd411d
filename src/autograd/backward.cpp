#include <queue>
#include <unordered_map>

#include "mica/autograd/autograd.h"
#include "mica/autograd/tape.h"
#include "mica/core/check.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"

namespace mica {
namespace {

void accumulate(Tensor& sum, const Tensor& more) { sum = sum.defined() ? add(sum, more) : more; }

/// One backward pass. Consumers have higher sequence numbers than producers, so taking the highest
/// waiting node first meets every node after all of its cotangents have arrived: no recursion, no
/// counting.
class Pass {
 public:
  explicit Pass(BackwardOptions options) : options_(options) {}

  /// Gradients that reach `input` are kept in slot `slot` instead of going to leaves.
  void keep(const Tensor& input, size_t slot) {
    const GradEdge e = edge_of(input);
    check(!e.empty(), "grad: input {} does not require a gradient", slot);
    if (e.node) {
      kept_nodes_[e.node.get()].emplace_back(e.output, slot);
      oldest_kept_ = std::min(oldest_kept_, e.node->sequence());
    } else {
      oldest_kept_ = 0;
      kept_leaves_[e.leaf.impl()].push_back(slot);
    }
    only_kept_ = true;
  }

  void send(const GradEdge& edge, const Tensor& cotangent) {
    if (edge.leaf.defined()) {
      reach_leaf(edge.leaf, cotangent);
    } else if (edge.node && (!only_kept_ || edge.node->sequence() >= oldest_kept_)) {
      auto [it, fresh] = waiting_.try_emplace(edge.node.get());
      if (fresh) {
        it->second.resize(edge.node->outputs());
        queue_.push({edge.node->sequence(), edge.node});
      }
      accumulate(it->second[static_cast<size_t>(edge.output)], cotangent);
    }
  }

  void run() {
    while (!queue_.empty()) {
      const Ref<GradNode> node = queue_.top().node;
      queue_.pop();
      const Tensors cotangents = std::move(waiting_.extract(node.get()).mapped());
      if (const auto it = kept_nodes_.find(node.get()); it != kept_nodes_.end())
        for (const auto& [output, slot] : it->second)
          slots[slot] = cotangents[static_cast<size_t>(output)];
      if (only_kept_ && node->sequence() == oldest_kept_) continue;
      const Tensors grads = node->apply(cotangents);
      check(grads.size() == node->edges().size(), "{}: its vjp gave {} gradients for {} inputs",
            node->op().name, grads.size(), node->edges().size());
      for (size_t i = 0; i < grads.size(); ++i)
        if (grads[i].defined()) send(node->edges()[i], grads[i]);
      if (!options_.retain_graph && !options_.create_graph) node->release_saved();
    }
  }

  std::unordered_map<size_t, Tensor> slots;

 private:
  void reach_leaf(const Tensor& leaf, const Tensor& cotangent) {
    if (only_kept_) {
      if (const auto it = kept_leaves_.find(leaf.impl()); it != kept_leaves_.end())
        for (const size_t slot : it->second) accumulate(slots[slot], cotangent);
      return;
    }
    if (GradWatcher* watcher = current_grad_watcher()) watcher->before_change(leaf, true);
    const Tensor before = leaf.grad();
    if (!before.defined()) {
      leaf.set_grad(cotangent);
    } else if (cotangent.is_traced() && !before.is_traced()) {
      // The gradient existed before the capture: every replay adds to it.
      copy_(before, add(before, cotangent));
    } else {
      leaf.set_grad(add(before, cotangent));
    }
  }

  struct Waiting {
    uint64_t sequence;
    Ref<GradNode> node;
    bool operator<(const Waiting& o) const { return sequence < o.sequence; }
  };
  BackwardOptions options_;
  std::priority_queue<Waiting> queue_;
  std::unordered_map<GradNode*, Tensors> waiting_;
  std::unordered_map<GradNode*, std::vector<std::pair<int, size_t>>> kept_nodes_;
  std::unordered_map<TensorImpl*, std::vector<size_t>> kept_leaves_;
  bool only_kept_ = false;
  uint64_t oldest_kept_ = ~uint64_t{0};  // nothing older leads to an input that is kept
};

void start(Pass& pass, const Tensors& outputs, const Tensors& cotangents) {
  check(cotangents.empty() || cotangents.size() == outputs.size(),
        "backward: {} outputs but {} cotangents", outputs.size(), cotangents.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& out = outputs[i];
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
      cotangent = ones_like(out);
    }
    check<ShapeError>(cotangent.shape() == out.shape(),
                      "backward: the cotangent of output {} must have its shape {}, got {}", i,
                      out.shape(), cotangent.shape());
    pass.send(edge_of(out), cotangent);
  }
}

}  // namespace

void backward(const Tensors& outputs, const Tensors& cotangents, BackwardOptions options) {
  const GradMode mode(options.create_graph);
  Pass pass(options);
  start(pass, outputs, cotangents);
  pass.run();
}

Tensors grad(const Tensors& outputs, const Tensors& inputs, const Tensors& cotangents,
             BackwardOptions options) {
  const GradMode mode(options.create_graph);
  Pass pass(options);
  for (size_t i = 0; i < inputs.size(); ++i) pass.keep(inputs[i], i);
  start(pass, outputs, cotangents);
  pass.run();
  Tensors result(inputs.size());
  for (auto& [slot, tensor] : pass.slots) result[slot] = tensor;
  return result;
}

}  // namespace mica
