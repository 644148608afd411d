#include "mica/autograd/tape.h"

#include <algorithm>
#include <atomic>

#include "mica/autograd/anomaly.h"
#include "mica/core/check.h"

namespace mica {
namespace {

thread_local bool t_grad_enabled = true;
thread_local GradWatcher* t_watcher = nullptr;
thread_local uint64_t t_history_start = 0;
std::atomic<uint64_t> g_sequence{0};

AutogradMeta& meta_of(const Tensor& t) {
  auto& meta = t.impl()->autograd;
  if (!meta) meta = std::make_unique<AutogradMeta>();
  return *meta;
}

/// Lets a reference go. A node that dies with it lets go of others in turn: they wait in a list, so
/// that a long chain is not freed by a long chain of calls.
void let_go(Ref<GradNode> node) {
  thread_local std::vector<Ref<GradNode>>* t_waiting = nullptr;
  if (t_waiting) {
    t_waiting->push_back(std::move(node));
    return;
  }
  std::vector<Ref<GradNode>> waiting;
  t_waiting = &waiting;
  waiting.push_back(std::move(node));
  while (!waiting.empty()) {
    const Ref<GradNode> next = std::move(waiting.back());
    waiting.pop_back();
  }
  t_waiting = nullptr;
}

/// A recorded call of an op.
class OpNode final : public GradNode {
 public:
  OpNode(const OpDef& op, ParamsRef params, std::span<const Tensor> inputs, const Outputs& outputs)
      : op_(&op), params_(params) {
    const size_t n = inputs.size();
    edges_.reserve(n);
    in_specs_.reserve(n);
    for (size_t i = 0; i < n; ++i) {
      edges_.push_back(edge_of(inputs[i]));
      in_specs_.push_back(inputs[i].defined() ? inputs[i].spec() : TensorSpec{});
      if (!edges_[i].empty()) needed_.insert(static_cast<int>(i));
    }
    if (!op.saved_inputs.empty()) in_.resize(n);
    for (const Saved& s : op.saved_inputs)
      if (const auto i = static_cast<size_t>(s.index()); i < n && s.serves(needed_))
        in_[i] = SavedTensor(inputs[i]);
    if (!op.saved_outputs.empty()) out_.resize(static_cast<size_t>(outputs.size()));
    for (const Saved& s : op.saved_outputs)
      // Without history: a node must not own itself through its outputs.
      if (s.index() < outputs.size() && s.serves(needed_))
        out_[static_cast<size_t>(s.index())] = SavedTensor(without_history(outputs[s.index()]));
  }

  const char* name() const override { return op_->name; }

 private:
  Tensors vjp(const Tensors& cotangents) override {
    // The gradient itself is looked at, not what it is made of.
    const AnomalyMode off(false);
    Tensors in(in_specs_.size());
    Tensors out(outputs());
    for (size_t i = 0; i < in_.size(); ++i) in[i] = in_[i].unpack(name());
    for (size_t i = 0; i < out_.size(); ++i) {
      out[i] = out_[i].unpack(name());
      if (out[i].defined()) out[i] = as_output(out[i], static_cast<int>(i));
    }
    return op_->vjp(*op_, params_.ref().data,
                    {in, out, cotangents, in_specs_, out_specs_.span(), needed_});
  }

  bool drop_saved() override {
    // Saved inputs hold their producers, whose destruction may come back here: empty the members
    // first.
    const auto in = std::exchange(in_, {});
    const auto out = std::exchange(out_, {});
    const auto held = [](const SavedTensor& s) { return s.defined(); };
    return std::any_of(in.begin(), in.end(), held) || std::any_of(out.begin(), out.end(), held);
  }

  const OpDef* op_;
  AnyParams params_;
  IndexSet needed_;               // inputs whose gradient is wanted
  std::vector<SavedTensor> in_;   // as many as inputs, or none where the op saves none
  std::vector<SavedTensor> out_;  // the same of outputs
  std::vector<TensorSpec> in_specs_;
};

}  // namespace

bool grad_enabled() { return t_grad_enabled; }
void set_grad_enabled(bool on) { t_grad_enabled = on; }

GradWatcher* current_grad_watcher() { return t_watcher; }
GradWatcher* exchange_grad_watcher(GradWatcher* watcher) {
  return std::exchange(t_watcher, watcher);
}

namespace {

bool is_stale(const Tensor& t) {
  const AutogradMeta* meta = t.impl()->autograd.get();
  return meta && meta->view && meta->view->seen != t.impl()->storage->histories();
}

/// Gives a view whose memory has another history since that history: as if it were made now.
[[gnu::noinline]] void catch_up(const Tensor& t) {
  std::vector<Tensor> stale;
  for (Tensor at = t; is_stale(at); at = at.impl()->autograd->view->of) stale.push_back(at);
  const uint32_t now = t.impl()->storage->histories();
  for (auto it = stale.rbegin(); it != stale.rend(); ++it) {
    AutogradMeta& meta = *it->impl()->autograd;
    meta.view->seen = now;
    if (meta.requires_grad) continue;  // a leaf of its own
    if (meta.node) let_go(std::move(meta.node));
    if (!meta.view->of.requires_grad()) continue;
    Outputs made;
    made.add(*it);
    record_on_tape(*meta.view->op, meta.view->params.ref(), {&meta.view->of, 1}, made);
  }
}

/// The gradient state of a tensor, or null.
AutogradMeta* up_to_date(const Tensor& t) {
  if (is_stale(t)) catch_up(t);
  return t.impl()->autograd.get();
}

}  // namespace

Tensor without_history(const Tensor& t) {
  auto impl = make_ref<TensorImpl>();
  impl->spec = t.spec();
  impl->offset = t.impl()->offset;
  impl->storage = t.impl()->storage;
  impl->trace = t.impl()->trace;
  impl->shares = true;
  return Tensor(std::move(impl));
}

AutogradMeta::AutogradMeta() = default;
AutogradMeta::~AutogradMeta() {
  if (node) let_go(std::move(node));
  // Views of views are let go of one after the other too.
  while (view) {
    const Tensor of = std::move(view->of);
    AutogradMeta* next = of.impl()->use_count() == 1 ? of.impl()->autograd.get() : nullptr;
    view = next ? std::move(next->view) : nullptr;
  }
}

bool Tensor::requires_grad() const {
  const auto* meta = defined() ? up_to_date(*this) : nullptr;
  return meta && (meta->requires_grad || meta->node);
}

const Tensor& Tensor::set_requires_grad(bool value) const {
  check(is_leaf(), "set_requires_grad: only a leaf can be told to; detach() first");
  check<DTypeError>(!value || is_differentiable(dtype()),
                    "set_requires_grad: expected a floating or complex dtype, got {}", dtype());
  if (value || impl_->autograd) meta_of(*this).requires_grad = value;
  return *this;
}

Tensor Tensor::grad() const {
  check(!grad_is_used_up(*this),
        "the .grad of a tensor {} is not kept: a compiled function made it and used it up in its "
        "update. Return it from the function, or call zero_grad() at its end instead of its start",
        spec());
  if (t_watcher && defined()) t_watcher->before_change(*this, true);
  return peek_grad(*this);
}

Tensor peek_grad(const Tensor& t) {
  return t.defined() && t.impl()->autograd ? t.impl()->autograd->grad : Tensor();
}

void poke_grad(const Tensor& t, const Tensor& grad) {
  if (grad.defined() || t.impl()->autograd) meta_of(t).grad = grad;
}

namespace {

/// Stands for a gradient that is used up.
const Tensor& used_up() {
  static const Tensor marker(make_ref<TensorImpl>());
  return marker;
}

}  // namespace

void use_up_grad(const Tensor& leaf) { poke_grad(leaf, used_up()); }

bool grad_is_used_up(const Tensor& t) {
  const Tensor grad = peek_grad(t);
  return grad.defined() && grad.impl() == used_up().impl();
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

bool Tensor::is_leaf() const {
  const auto* meta = defined() ? up_to_date(*this) : nullptr;
  return !meta || !meta->node;
}

Tensor Tensor::detach() const { return without_history(*this); }

void Tensor::backward() const { mica::backward({*this}, {}); }
void Tensor::backward(const Tensor& cotangent) const { mica::backward({*this}, {cotangent}); }

GradEdge edge_of(const Tensor& t) {
  if (!t.requires_grad()) return {};
  const AutogradMeta& meta = *t.impl()->autograd;
  if (meta.node) return {meta.node, meta.output, {}};
  return {nullptr, 0, t};
}

void set_history(const Tensor& t, const GradEdge& edge) {
  if (!edge.node && !t.impl()->autograd) return;
  AutogradMeta& meta = meta_of(t);
  meta.requires_grad = false;
  if (meta.node) let_go(std::move(meta.node));
  meta.node = edge.node;
  meta.output = edge.output;
}

std::string history_of(const GradNode& node) {
  constexpr int kMost = 5;
  std::string text = node.name();
  const GradNode* at = &node;
  for (int i = 1; at; ++i) {
    const auto e = std::find_if(at->edges().begin(), at->edges().end(),
                                [](const GradEdge& edge) { return !edge.empty(); });
    if (e == at->edges().end()) break;
    if (i == kMost) return text + " ← …";
    at = e->node.get();
    text += at ? fmt::format(" ← {}", at->name()) : fmt::format(" ← leaf {}", e->leaf.spec());
  }
  return text;
}

uint64_t exchange_history_start(uint64_t sequence) {
  return std::exchange(t_history_start, sequence);
}

uint64_t last_sequence() { return g_sequence.load(std::memory_order_relaxed); }

const Tensor& SavedTensor::unpack(const char* who) const {
  if (tensor_.defined())
    check(tensor_.impl()->storage->version() == version_,
          "{}: a tensor it saved for backward ({}) was modified afterwards; use it before, or "
          "clone() it",
          who, tensor_.spec());
  return tensor_;
}

GradNode::GradNode() : sequence_(g_sequence.fetch_add(1, std::memory_order_relaxed) + 1) {}

GradNode::~GradNode() {
  for (GradEdge& e : edges_)
    if (e.node) let_go(std::move(e.node));
}

void GradNode::release_saved() { released_ = drop_saved() || released_; }

Tensors GradNode::apply(const Tensors& cotangents) {
  check(!released_,
        "{}: backward runs a second time through a graph whose saved tensors are freed; pass "
        "retain_graph",
        name());
  check<Unsupported>(
      sequence_ > t_history_start,
      "{}: backward inside a compiled function reaches a call that was recorded outside of it, and "
      "that each run would need anew; compute it inside, or detach() its result",
      name());
  used_ = true;
  return vjp(cotangents);
}

const std::shared_ptr<GradHooks>& GradNode::make_hooks(size_t output) {
  if (hooks_.size() <= output) hooks_.resize(output + 1);
  if (!hooks_[output]) hooks_[output] = std::make_shared<GradHooks>();
  return hooks_[output];
}

void GradNode::produce(std::span<const Tensor> outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& t = outputs[i];
    out_specs_.add(t.spec());
    if (!is_differentiable(t.dtype())) continue;
    AutogradMeta& meta = meta_of(t);
    meta.node = Ref<GradNode>(this);
    meta.output = static_cast<int>(i);
  }
}

Tensor GradNode::as_output(const Tensor& saved, int i) {
  if (!grad_enabled() || !is_differentiable(saved.dtype())) return saved;
  Tensor t = without_history(saved);
  meta_of(t).node = Ref<GradNode>(this);
  meta_of(t).output = i;
  return t;
}

bool grad_wanted(std::span<const Tensor> inputs) {
  if (!t_grad_enabled) return false;
  for (const Tensor& t : inputs)
    if (t.requires_grad()) return true;
  return false;
}

void note_view(const OpDef& op, ParamsRef params, const Tensor& of, const Tensor& view) {
  if (!t_grad_enabled || !is_differentiable(view.dtype())) return;
  meta_of(view).view = std::make_unique<GradView>(
      GradView{of, &op, AnyParams(params), of.impl()->storage->histories()});
}

void record_on_tape(const OpDef& op, ParamsRef params, std::span<const Tensor> inputs,
                    const Outputs& outputs) {
  make_ref<OpNode>(op, params, inputs, outputs)->produce(outputs.span());
}

}  // namespace mica
