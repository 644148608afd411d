#include "mica/autograd/tape.h"

#include <atomic>

#include "mica/autograd/autograd.h"
#include "mica/core/check.h"

namespace mica {
namespace {

thread_local bool t_grad_enabled = true;
thread_local GradWatcher* t_watcher = nullptr;
std::atomic<uint64_t> g_sequence{0};

/// The same memory without history: a node must not own itself through its outputs.
Tensor without_history(const Tensor& t) {
  auto impl = make_ref<TensorImpl>();
  impl->spec = t.spec();
  impl->offset = t.impl()->offset;
  impl->storage = t.impl()->storage;
  impl->trace = t.impl()->trace;
  return Tensor(std::move(impl));
}

AutogradMeta& meta_of(const Tensor& t) {
  auto& meta = t.impl()->autograd;
  if (!meta) meta = std::make_unique<AutogradMeta>();
  return *meta;
}

}  // namespace

bool grad_enabled() { return t_grad_enabled; }
void set_grad_enabled(bool on) { t_grad_enabled = on; }

GradWatcher* current_grad_watcher() { return t_watcher; }
GradWatcher* exchange_grad_watcher(GradWatcher* watcher) {
  return std::exchange(t_watcher, watcher);
}

AutogradMeta::AutogradMeta() = default;
AutogradMeta::~AutogradMeta() = default;

bool Tensor::requires_grad() const {
  const auto* meta = defined() ? impl_->autograd.get() : nullptr;
  return meta && (meta->requires_grad || meta->node);
}

const Tensor& Tensor::set_requires_grad(bool value) const {
  check(is_leaf(), "set_requires_grad: only a leaf can be told to; detach() first");
  check<DTypeError>(!value || is_floating(dtype()),
                    "set_requires_grad: expected a floating dtype, got {}", dtype());
  if (value || impl_->autograd) meta_of(*this).requires_grad = value;
  return *this;
}

Tensor Tensor::grad() const {
  return defined() && impl_->autograd ? impl_->autograd->grad : Tensor();
}

void Tensor::set_grad(const Tensor& grad) const {
  check(defined(), "set_grad: the tensor is undefined");
  if (t_watcher) t_watcher->before_change(*this, false);
  if (grad.defined()) {
    check<ShapeError>(grad.shape() == shape(),
                      "set_grad: the gradient of a tensor of shape {} must have it too, got {}",
                      shape(), grad.shape());
    meta_of(*this).grad = grad;
  } else if (impl_->autograd) {
    impl_->autograd->grad = {};
  }
}

bool Tensor::is_leaf() const { return !defined() || !impl_->autograd || !impl_->autograd->node; }

Tensor Tensor::detach() const { return without_history(*this); }

void Tensor::backward() const { mica::backward({*this}, {}); }
void Tensor::backward(const Tensor& cotangent) const { mica::backward({*this}, {cotangent}); }

GradEdge edge_of(const Tensor& t) {
  if (!t.requires_grad()) return {};
  const AutogradMeta& meta = *t.impl()->autograd;
  if (meta.node) return {meta.node, meta.output, {}};
  return {nullptr, 0, t};
}

GradNode::~GradNode() {
  // A long chain of nodes must not be freed by a long chain of calls.
  thread_local std::vector<Ref<GradNode>>* t_pending = nullptr;
  std::vector<Ref<GradNode>> own;
  const bool outermost = t_pending == nullptr;
  if (outermost) t_pending = &own;
  release_saved();
  for (GradEdge& e : edges_)
    if (e.node) t_pending->push_back(std::move(e.node));
  if (!outermost) return;
  while (!own.empty()) {
    const Ref<GradNode> next = std::move(own.back());
    own.pop_back();
  }
  t_pending = nullptr;
}

void GradNode::release_saved() {
  released_ = !in_.empty() || !out_.empty() || released_;
  // Saved inputs hold their producers, whose destruction comes back here: empty the members first.
  const auto in = std::exchange(in_, {});
  const auto out = std::exchange(out_, {});
}

Tensor GradNode::unpack(const Saved& saved) const {
  if (!saved.tensor.defined() || saved.tensor.is_traced()) return saved.tensor;
  check(saved.tensor.storage()->version() == saved.version,
        "{}: a tensor it saved for backward ({}) was modified afterwards; use it before, or "
        "clone() it",
        op_->name, saved.tensor.spec());
  return saved.tensor;
}

Tensors GradNode::apply(const Tensors& cotangents) {
  check(!released_,
        "{}: backward runs a second time through a graph whose saved tensors are freed; pass "
        "retain_graph",
        op_->name);
  used_ = true;
  Tensors in(in_specs_.size());
  Tensors out(out_specs_.size());
  for (size_t i = 0; i < in_.size(); ++i) in[i] = unpack(in_[i]);
  for (size_t i = 0; i < out_.size(); ++i) {
    out[i] = unpack(out_[i]);
    if (!out[i].defined() || !grad_enabled() || !is_floating(out[i].dtype())) continue;
    // For second order the output is again this node's output.
    out[i] = without_history(out[i]);
    meta_of(out[i]).node = Ref<GradNode>(this);
    meta_of(out[i]).output = static_cast<int>(i);
  }
  uint64_t needed = 0;
  for (size_t i = 0; i < edges_.size() && i < 64; ++i)
    if (!edges_[i].empty()) needed |= uint64_t{1} << i;
  return op_->vjp(params_.ref().data, {in, out, cotangents, in_specs_, out_specs_, needed});
}

bool grad_wanted(std::span<const Tensor> inputs) {
  if (!t_grad_enabled) return false;
  for (const Tensor& t : inputs)
    if (t.requires_grad()) return true;
  return false;
}

void record_on_tape(const OpDef& op, ParamsRef params, std::span<const Tensor> inputs,
                    const Outputs& outputs) {
  auto node = make_ref<GradNode>(op, params);
  node->sequence_ = ++g_sequence;
  const size_t n = inputs.size();
  node->edges_.reserve(n);
  node->in_specs_.reserve(n);
  node->in_.resize(n);
  for (size_t i = 0; i < n; ++i) {
    node->edges_.push_back(edge_of(inputs[i]));
    node->in_specs_.push_back(inputs[i].defined() ? inputs[i].spec() : TensorSpec{});
    if ((op.saved_inputs >> i & 1) && inputs[i].defined())
      node->in_[i] = {inputs[i], inputs[i].is_traced() ? 0 : inputs[i].storage()->version()};
  }
  const int m = outputs.size();
  node->out_.resize(static_cast<size_t>(m));
  for (int i = 0; i < m; ++i) {
    const Tensor& t = outputs[i];
    node->out_specs_.push_back(t.spec());
    if (op.saved_outputs >> i & 1)
      node->out_[static_cast<size_t>(i)] = {without_history(t),
                                            t.is_traced() ? 0 : t.storage()->version()};
    if (!is_floating(t.dtype())) continue;
    AutogradMeta& meta = meta_of(t);
    meta.node = node;
    meta.output = i;
  }
}

}  // namespace mica
