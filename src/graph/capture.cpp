#include "mica/graph/capture.h"

#include <algorithm>
#include <atomic>
#include <unordered_map>
#include <unordered_set>

#include "mica/autograd/tape.h"
#include "mica/core/check.h"
#include "mica/graph/backward_plan.h"
#include "mica/graph/captured_grads.h"
#include "mica/graph/captured_memory.h"
#include "mica/graph/captured_scopes.h"
#include "mica/graph/value_bytes.h"
#include "mica/op/autocast.h"

namespace mica {
namespace {

/// The leaves that the histories of some tensors lead to, through nodes recorded after `since`.
std::vector<GradEdge> leaves_of(const Tensors& roots, uint64_t since) {
  std::vector<GradEdge> leaves;
  std::unordered_set<const GradNode*> seen;
  std::vector<Ref<GradNode>> open;
  const auto visit = [&](const GradEdge& e) {
    if (e.node && seen.insert(e.node.get()).second) {
      check<Unsupported>(e.node->sequence() > since,
                         "compile: a result depends on {}, which was recorded outside the compiled "
                         "function; compute it inside, or detach() it",
                         e.node->name());
      open.push_back(e.node);
    }
    if (e.leaf.defined() && std::find(leaves.begin(), leaves.end(), e) == leaves.end())
      leaves.push_back(e);
  };
  for (const Tensor& t : roots) visit(edge_of(t));
  while (!open.empty()) {
    const Ref<GradNode> node = std::move(open.back());
    open.pop_back();
    for (const GradEdge& e : node->edges()) visit(e);
  }
  return leaves;
}

std::atomic<int64_t> g_serial{0};

/// Traced tensors carry the capture's number beside their value, so that a stray one is recognised.
constexpr int kValueBits = 32;

class Capture final : public Recorder, public GradWatcher {
 public:
  explicit Capture(std::span<const Tensor> arguments)
      : before_recorder_(exchange_recorder(this)),
        before_watcher_(exchange_grad_watcher(this)),
        before_history_(exchange_history_start(last_sequence())),
        start_(last_sequence()),
        arguments_(arguments.begin(), arguments.end()) {
    if (before_recorder_) {
      leave();
      fail<Unsupported>(
          "compile: a compiled function was called for the first time while another is captured");
    }
  }
  /// A second graph, of the gradient of what the first one computes. It reads the first one's
  /// values as arguments after those that are added.
  explicit Capture(Capture* forward) : Capture(std::span<const Tensor>()) {
    forward_ = forward;
    start_ = forward->start_;
    exchange_history_start(start_);
  }
  ~Capture() override {
    if (!finished_) leave();
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  Tensor add_argument(const TensorSpec& spec, bool requires_grad = false) {
    const Tensor t = add_slot(spec, {.argument = static_cast<int>(slots_.size())});
    if (requires_grad) t.set_requires_grad();
    if (const size_t i = slots_.size() - 1; i < arguments_.size()) {
      slots_[i].real = arguments_[i].detach();
      memory_.meet(arguments_[i].storage());
    }
    return t;
  }

  Tensor add_input(const Tensor& now, std::function<Tensor()> read, const std::string& name) {
    const Tensor t =
        add_slot(slot_spec(now), {.argument = -1, .read = std::move(read), .name = name});
    slots_.back().real = now.detach();
    // A tensor from outside may lie there too, and have been written to.
    memory_.meet(now.storage());
    settle(now.storage().get());
    return t;
  }

  void add_effect(const Tensor& value, std::function<void(const Tensor&)> apply) {
    asked_effects_.emplace_back(value, std::move(apply));
  }

  Outputs record(const OpDef& op, ParamsRef params, std::span<const Tensor> inputs,
                 std::span<const TensorSpec> out) override {
    const int index = static_cast<int>(graph_.nodes.size());
    Node node{&op,   AnyParams(params),
              {},    {},
              index, scopes_.now(last_sequence(), forward_ ? &forward_->scopes_ : nullptr)};
    for (const Tensor& t : inputs) node.in.push_back(t.defined() ? value_of(t) : kNoValue);
    Outputs outputs;
    for (const TensorSpec& spec : out) {
      Value v{spec, Value::Kind::computed, {}, index, kNoValue, 0, false};
      if (op.view) {
        v.base = node.in[0];
        v.offset = op.view(op, params.data, graph_[node.in[0]].spec).offset;
      }
      node.out.push_back(add_value(v));
      outputs.add(traced(node.out.back(),
                         op.view ? inputs[0].impl()->storage : counted_storage(held_, spec)));
      if (!op.view) memory_.forget(outputs[outputs.size() - 1].impl()->storage.get());
      note_device(op.name, spec.device);
    }
    const int n = static_cast<int>(inputs.size());
    for (int i = 0; i < n; ++i) {
      const Tensor& t = inputs[static_cast<size_t>(i)];
      if (!t.defined()) continue;
      note_device(op.name, t.device());
      if (op.writes(params.data, i, n)) write(node, index, t, node.in[static_cast<size_t>(i)]);
    }
    graph_.nodes.push_back(std::move(node));
    return outputs;
  }

  void before_change(const Tensor& leaf, bool reads) override {
    if (leaf.is_traced()) {
      check<Unsupported>(
          std::none_of(slots_.begin(), slots_.end(),
                       [&](const Slot& s) { return s.tensor.impl() == leaf.impl(); }),
          "compile: the .grad of an argument ({}) is used inside the function; "
          "differentiate its results outside, or use grad()",
          leaf.spec());
      return;
    }
    const auto [grad, fresh] = grads_.touch(leaf, reads);
    if (!fresh || !reads || !grad->before.defined()) return;
    grad->input = add_input(
        grad->before, [leaf] { return grad_is_used_up(leaf) ? Tensor() : peek_grad(leaf); },
        fmt::format("the .grad of a leaf {}", leaf.spec()));
    poke_grad(leaf, grad->input);
  }

  void depends_on(const std::shared_ptr<const bool>& flag) override {
    guards_.flags.push_back({flag, *flag});
  }

  /// ", the result of sum (op 1 of the function: sum ← neg ← argument 0)".
  std::string origin(const Tensor& t) const {
    if (t.impl()->trace >> kValueBits != serial_) return "";
    constexpr int kMost = 5;
    std::string history;
    const ValueId asked = value_id(t);
    ValueId id = asked;
    for (int n = 0; n < kMost && id != kNoValue; ++n) {
      history += fmt::format("{}{}", history.empty() ? "" : " ← ", name_of(id));
      const int node = graph_[id].node;
      const std::vector<ValueId> in =
          node < 0 ? std::vector<ValueId>() : graph_.nodes[static_cast<size_t>(node)].in;
      // What is computed tells more than a parameter.
      const auto traced = std::find_if(in.begin(), in.end(), [&](ValueId v) {
        return v != kNoValue && graph_[v].kind != Value::Kind::external;
      });
      id = traced != in.end() ? *traced : in.empty() ? kNoValue : in[0];
    }
    const int node = graph_[asked].node;
    if (node < 0) return fmt::format(", {},", history);
    return fmt::format(", the result of {} (op {} of the function: {}),", name_of(asked), node,
                       history);
  }

  Captured finish(const Tensors& results) {
    for (const Slot& slot : slots_)
      check<Unsupported>(slot.input.argument < 0 || slot.tensor.is_leaf(),
                         "compile: something with a history is written to argument {} ({}), which "
                         "would not have that history outside; detach() it, or write to a clone()",
                         slot.input.argument, slot.tensor.spec());
    Captured c;
    std::vector<size_t> differentiable;
    for (size_t i = 0; i < results.size(); ++i) {
      check(results[i].defined(), "compile: the function returned an undefined tensor");
      const GradEdge edge = edge_of(results[i]);
      if (edge.node && !edge.node->used()) differentiable.push_back(i);
      if (!results[i].requires_grad()) c.detached.push_back(i);
      const auto slot = std::find_if(slots_.begin(), slots_.end(), [&](const Slot& s) {
        return s.input.argument >= 0 && s.tensor.impl() == results[i].impl();
      });
      if (slot != slots_.end() && results[i].is_leaf())
        c.returned.push_back({i, slot->input.argument});
      if (!results[i].is_traced() && results[i].is_leaf())
        c.returned.push_back({i, -1, results[i]});
      graph_.outputs.push_back(value_of(results[i]));
    }
    c.results = results.size();
    finish_grads(c);
    for (const auto& [value, apply] : asked_effects_)
      c.effects.push_back({value.defined() ? add_output(value) : -1, {}, apply});
    finished_ = true;
    leave();
    if (!differentiable.empty()) c.backward = differentiate(results, differentiable, c.effects);
    for (const Slot& slot : slots_) {
      if (slot.in_place) {
        c.in_place.push_back({slot.input.argument, slot.real});
        continue;
      }
      const auto index = static_cast<int>(graph_.inputs.size());
      graph_.inputs.push_back(slot.value);
      c.inputs.push_back(slot.input);
      note_device("compile", graph_[slot.value].spec.device);
      if (memory_.last_writer(slot.tensor.impl()->storage.get()) >= 0)
        c.write_backs.emplace_back(index, add_output(slot.tensor));
    }
    c.guards = std::move(guards_);
    for (const auto& [storage, tensor] : writers_) c.written.push_back(tensor);
    c.device = device_;
    c.eager_bytes = held_->most;
    c.graph = std::move(graph_);
    return c;
  }

 private:
  /// An input of the graph, and what it stands for in this call.
  struct Slot {
    Input input;
    ValueId value;
    Tensor tensor;  // the traced one
    Tensor real;    // undefined where only a spec is known
    bool in_place = false;
  };

  std::string name_of(ValueId id) const {
    if (graph_[id].node >= 0) return graph_.nodes[static_cast<size_t>(graph_[id].node)].op->name;
    const auto at = std::find_if(slots_.begin(), slots_.end(),
                                 [&](const Slot& slot) { return slot.value == id; });
    if (at == slots_.end()) return "a tensor from outside";
    return at->input.argument < 0 ? at->input.name : fmt::format("argument {}", at->input.argument);
  }

  void leave() {
    exchange_recorder(before_recorder_);
    exchange_grad_watcher(before_watcher_);
    exchange_history_start(before_history_);
    grads_.put_back();
  }

  /// The graph of the results' gradient; what it reads of this one becomes an effect of each run.
  std::shared_ptr<CapturedBackward> differentiate(const Tensors& results,
                                                  const std::vector<size_t>& of,
                                                  std::vector<Effect>& effects) {
    auto backward = std::make_shared<CapturedBackward>();
    backward->of = of;
    Capture second(this);
    Tensors roots;
    Tensors cotangents;
    for (const size_t i : of) {
      roots.push_back(results[i]);
      cotangents.push_back(second.add_argument(slot_spec(results[i])));
    }
    const std::vector<GradEdge> leaves = leaves_of(roots, start_);
    std::vector<std::vector<GradEdge>> by_root;
    for (const Tensor& root : roots) by_root.push_back(leaves_of({root}, start_));
    Tensors gradients(leaves.size());
    const auto gradients_of = [&](const Tensors& from, const Tensors& given) {
      return grad_until(from, leaves, given, {.retain_graph = true}, start_);
    };
    backward->errors.resize(roots.size());
    try {
      gradients = gradients_of(roots, cotangents);
    } catch (const Error&) {  // of some; others may have gradients
      Tensors able;
      Tensors given;
      for (size_t i = 0; i < roots.size(); ++i) try {
          gradients_of({roots[i]}, {cotangents[i]});
          able.push_back(roots[i]);
          given.push_back(cotangents[i]);
        } catch (const Error&) {
          backward->errors[i] = std::current_exception();
        }
      if (!able.empty()) gradients = gradients_of(able, given);
    }
    Tensors made;
    for (size_t i = 0; i < leaves.size(); ++i) {
      CapturedBackward::End end;
      for (const std::vector<GradEdge>& reached : by_root)
        end.from.push_back(std::find(reached.begin(), reached.end(), leaves[i]) != reached.end());
      if (gradients[i].defined()) {
        end.result = static_cast<int>(made.size());
        made.push_back(gradients[i]);
      }
      const auto slot = std::find_if(slots_.begin(), slots_.end(), [&](const Slot& s) {
        return s.tensor.impl() == leaves[i].leaf.impl();
      });
      if (slot != slots_.end()) {
        check<Unsupported>(hooks_stamp(slot->tensor) == 0,
                           "compile: the function puts a hook on its argument {}, whose gradient "
                           "goes on outside; add the hook there, or to something computed of it",
                           slot->input.argument);
        end.argument = slot->input.argument;
      } else if (leaves[i].leaf.is_traced()) {
        continue;  // made inside: nobody can ask for its gradient
      } else {
        end.leaf = leaves[i].leaf;
      }
      backward->ends.push_back(std::move(end));
    }
    backward->captured = second.finish(made);
    for (const Tensor& t : second.imports_)
      effects.push_back({.output = add_output(t), .keeps = true});
    return backward;
  }

  /// A value of the first graph as one of this: the memory it lies in is an argument.
  ValueId import_value(const Tensor& t) {
    const ValueId there = forward_->value_of(t);
    const Graph& g = forward_->graph_;
    const ValueId root = g.root(there);
    const int64_t offset = offset_in_root(g, there);
    if (g[root].kind == Value::Kind::external)
      return external_value(
          view_of(g[root].tensor, g[there].spec, g[root].tensor.offset() + offset));
    const TensorSpec spec = g[there].spec;
    TensorSpec held = g[root].spec;
    const bool as_it_lies = held.is_contiguous() || held.is_channels_last();
    if (!as_it_lies) {  // axes in another order: the slot holds its memory, and the value is a view
      check<Unsupported>(extent_bytes(held) == bytes_of(held),
                         "compile: what backward needs ({}) has gaps", held);
      held = TensorSpec::contiguous({held.numel()}, held.dtype, held.device);
    }
    const auto [at, fresh] = imported_.try_emplace(root, kNoValue);
    if (fresh) {
      const ValueId kept =
          as_it_lies ? root
                     : forward_->add_value({held, Value::Kind::computed, {}, -1, root, 0, false});
      at->second = value_id(add_slot(held, {.argument = static_cast<int>(slots_.size())}));
      imports_.push_back(forward_->traced(kept, t.impl()->storage));
    }
    if (there == root && as_it_lies) return at->second;
    return add_value({spec, Value::Kind::computed, {}, -1, at->second, offset, false});
  }

  void note_device(const char* who, Device device) {
    check<Unsupported>(!device_known_ || device == device_,
                       "{}: a tensor on {} in a graph captured on {}; a graph has one device", who,
                       device, device_);
    device_ = device;
    device_known_ = true;
  }

  ValueId add_value(Value v) {
    v.spec.defined = true;
    graph_.values.push_back(std::move(v));
    return static_cast<ValueId>(graph_.values.size() - 1);
  }

  int add_output(const Tensor& t) {
    graph_.outputs.push_back(value_of(t));
    return static_cast<int>(graph_.outputs.size() - 1);
  }

  Tensor add_slot(const TensorSpec& spec, Input input) {
    const ValueId id = add_value({spec, Value::Kind::input, {}, -1, kNoValue, 0, false});
    const Tensor t = traced(id, counted_storage(held_, spec));
    memory_.forget(t.impl()->storage.get());
    slots_.push_back({std::move(input), id, t, {}});
    return t;
  }

  int64_t tag(ValueId id) const { return serial_ << kValueBits | id; }

  Tensor traced(ValueId id, Ref<Storage> storage) const {
    auto impl = make_ref<TensorImpl>();
    impl->spec = graph_[id].spec;
    impl->storage = std::move(storage);
    impl->trace = tag(id);
    return Tensor(std::move(impl));
  }

  static ValueId value_id(const Tensor& traced) {
    return static_cast<ValueId>(traced.impl()->trace & ((int64_t{1} << kValueBits) - 1));
  }

  /// The value that a tensor is now: after a write to its memory, by whatever way, it is another
  /// version, which the node that wrote last makes.
  ValueId value_of(const Tensor& t) {
    if (forward_ && t.is_traced() && t.impl()->trace >> kValueBits == forward_->serial_)
      return import_value(t);
    check<Unsupported>(
        !t.is_traced() || t.impl()->trace >> kValueBits == serial_,
        "a tensor made while another graph was captured ({}) was used; it never had a value",
        t.spec());
    ValueId id = t.is_traced() ? value_id(t) : external_value(t);
    while (newer_.contains(id)) id = newer_.at(id);
    const int writer = memory_.last_writer(t.impl()->storage.get());
    if (writer > graph_[id].node) {
      const ValueId fresh = new_version(id, writer);
      graph_.nodes[static_cast<size_t>(writer)].out.push_back(fresh);
      id = fresh;
    }
    if (t.is_traced()) t.impl()->trace = tag(id);
    return id;
  }

  ValueId new_version(ValueId id, int writer) {
    Value version = graph_[id];
    if (version.kind == Value::Kind::input) version.kind = Value::Kind::computed;
    version.base = id;
    version.offset = 0;
    version.node = writer;
    graph_[id].superseded = true;
    return newer_[id] = add_value(version);
  }

  /// Tensors that exist outside become values once per view of their storage.
  ValueId external_value(const Tensor& t) {
    std::vector<ValueId>& known = externals_[t.storage().get()];
    for (const ValueId id : known) {
      const Value& v = graph_[id];
      if (v.tensor.offset() == t.offset() && v.spec == t.spec()) return id;
    }
    const ValueId id =
        add_value({t.spec(), Value::Kind::external, t.detach(), -1, kNoValue, 0, false});
    known.push_back(id);
    guards_.leaves.push_back(
        {t, t.storage(), t.requires_grad(), hooks_stamp(t), t.storage()->replacements()});
    memory_.meet(t.storage());
    settle(t.storage().get());
    return id;
  }

  bool is_external(const Storage* storage) const {
    const auto at = externals_.find(storage);
    return at != externals_.end() && !at->second.empty();
  }

  /// Slots filled from memory that is written to are only right while nothing else lies there:
  /// otherwise they become that memory.
  void settle(const Storage* real, bool is_written_now = false) {
    std::vector<Slot*> there;
    bool written = is_written_now || memory_.last_writer(real) >= 0;
    for (Slot& slot : slots_) {
      if (!slot.real.defined() || slot.in_place || slot.real.storage().get() != real) continue;
      there.push_back(&slot);
      written = written || memory_.last_writer(slot.tensor.impl()->storage.get()) >= 0;
    }
    if (!written || there.size() + (is_external(real) ? 1 : 0) < 2) return;
    for (Slot* slot : there) use_in_place(*slot);
  }

  void use_in_place(Slot& slot) {
    Value& value = graph_[slot.value];
    check<Unsupported>(
        slot.input.argument >= 0 && lies_in_order(slot.real.spec(), value.spec),
        "compile: {} ({}) shares memory with another tensor that the function writes to, and {}",
        slot.input.argument < 0 ? slot.input.name : fmt::format("argument {}", slot.input.argument),
        slot.real.spec(),
        slot.input.argument < 0 ? "is read anew at each call" : "its elements lie with gaps");
    value.kind = Value::Kind::external;
    value.tensor = slot.real.detach();
    slot.in_place = true;
    const Storage* const traced = slot.tensor.impl()->storage.get();
    if (memory_.last_writer(traced) >= 0)
      writers_.try_emplace(slot.real.storage().get(), value.tensor);
    memory_.join(slot.real.storage(), slot.tensor.impl()->storage);
  }

  static bool lies_in_order(const TensorSpec& a, const TensorSpec& b) {
    return a.shape == b.shape && a.strides == b.strides;
  }

  /// Makes the written input a new version: a value of its own in the same memory.
  void write(Node& node, int index, const Tensor& t, ValueId id) {
    const ValueId root = graph_.root(id);
    const auto slot =
        std::find_if(slots_.begin(), slots_.end(), [&](const Slot& s) { return s.value == root; });
    if (slot != slots_.end() && slot->real.defined()) {
      memory_.check_alone(node.op->name, slot->real.storage().get());
      settle(slot->real.storage().get(), true);
    }
    if (graph_[root].kind == Value::Kind::external) {
      const Ref<Storage>& real = graph_[root].tensor.storage();
      memory_.check_alone(node.op->name, real.get());
      settle(real.get(), true);
      writers_.try_emplace(real.get(), graph_[root].tensor);
    }
    memory_.write_by(t.impl()->storage.get(), index);
    node.out.push_back(new_version(id, index));
    if (t.is_traced()) t.impl()->trace = tag(node.out.back());
  }

  void finish_grads(Captured& c) {
    for (const CapturedGrads::Touched& g : grads_.all()) {
      const Tensor leaf = g.leaf;
      const bool was_there = g.before.defined();
      if (g.read && !was_there) guards_.no_gradients.push_back({leaf});
      const Tensor now = peek_grad(leaf);
      if (!now.defined()) {
        if (!g.read || was_there)
          c.effects.push_back({-1, {}, [leaf](const Tensor&) { leaf.set_grad({}); }});
      } else if (g.input.defined() && now.impl() == g.input.impl()) {
        continue;  // what was there; if it was written to, it is written back
      } else if (!now.is_traced()) {
        c.effects.push_back({-1, now, [leaf](const Tensor& grad) { leaf.set_grad(grad); }});
      } else if (!g.read && is_used_up(leaf, now)) {
        c.effects.push_back({-1, {}, [leaf](const Tensor&) { use_up_grad(leaf); }});
      } else {
        c.effects.push_back(
            {add_output(now), {}, [leaf](const Tensor& grad) { leaf.set_grad(grad); }});
      }
    }
  }

  /// Whether a node updates a leaf by this gradient: reads its memory and writes the leaf's.
  bool is_used_up(const Tensor& leaf, const Tensor& grad) {
    const std::vector<int>& writers = memory_.writers(leaf.storage().get());
    const ValueId root = graph_.root(value_of(grad));
    return std::any_of(writers.begin(), writers.end(), [&](int writer) {
      auto [reads, fresh] = reads_.try_emplace(writer);
      if (fresh) {
        const Node& node = graph_.nodes[static_cast<size_t>(writer)];
        const int n = static_cast<int>(node.in.size());
        for (int i = 0; i < n; ++i)
          if (const ValueId id = node.in[static_cast<size_t>(i)];
              id != kNoValue && !node.op->writes(node.params.ref().data, i, n))
            reads->second.insert(graph_.root(id));
      }
      return reads->second.contains(root);
    });
  }

  const int64_t serial_ = ++g_serial;
  Recorder* before_recorder_;
  GradWatcher* before_watcher_;
  uint64_t before_history_;
  uint64_t start_;  // the last node of the tape from before
  Capture* forward_ = nullptr;
  Tensors imports_;                                // of the first graph, in the order of slots
  std::unordered_map<ValueId, ValueId> imported_;  // roots of the first graph
  bool finished_ = false;
  Tensors arguments_;
  Graph graph_;
  std::shared_ptr<Held> held_ = std::make_shared<Held>();
  Device device_;
  bool device_known_ = false;
  std::vector<Slot> slots_;
  CapturedMemory memory_;
  std::unordered_map<const Storage*, std::vector<ValueId>> externals_;
  std::unordered_map<const Storage*, Tensor> writers_;
  std::unordered_map<ValueId, ValueId> newer_;                  // the next version of a value
  std::unordered_map<int, std::unordered_set<ValueId>> reads_;  // by nodes that update a leaf
  CapturedGrads grads_;
  CapturedScopes scopes_;
  std::vector<std::pair<Tensor, std::function<void(const Tensor&)>>> asked_effects_;
  Guards guards_;
};

Capture& current_capture() {
  auto* capture = dynamic_cast<Capture*>(current_recorder());
  check(capture != nullptr, "compile: no graph is captured");
  return *capture;
}

}  // namespace

std::string traced_origin(const Tensor& tensor) {
  const auto* capture = dynamic_cast<const Capture*>(current_recorder());
  return capture && tensor.is_traced() ? capture->origin(tensor) : "";
}

TensorSpec slot_spec(const Tensor& t) {
  TensorSpec s = TensorSpec::contiguous(t.shape(), t.dtype(), t.device());
  if (t.spec().is_channels_last()) s.strides = channels_last_strides(s.shape);
  return s;
}

Captured capture(const TensorFunction& function, std::span<const TensorSpec> inputs) {
  Capture session(std::span<const Tensor>{});
  Tensors arguments;
  for (const TensorSpec& spec : inputs) arguments.push_back(session.add_argument(spec));
  return session.finish(function(arguments));
}

Captured capture(const TensorFunction& function, std::span<const Tensor> arguments) {
  Capture session(arguments);
  Tensors slots;
  for (const Tensor& t : arguments)
    slots.push_back(session.add_argument(slot_spec(t), t.requires_grad()));
  std::exception_ptr error;
  Tensors results;
  try {
    const OwnCasts casts;
    results = function(slots);
  } catch (const Unsupported&) {
    throw;
  } catch (...) {
    error = std::current_exception();
  }
  Captured c = session.finish(results);
  c.error = error;
  return c;
}

Tensor capture_input(const Tensor& now, std::function<Tensor()> read, const std::string& name) {
  return current_capture().add_input(now, std::move(read), name);
}

void capture_effect(const Tensor& value, std::function<void(const Tensor&)> apply) {
  current_capture().add_effect(value, std::move(apply));
}

}  // namespace mica
