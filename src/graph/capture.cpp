#include "mica/graph/capture.h"

#include <algorithm>
#include <atomic>
#include <unordered_set>

#include "mica/autograd/tape.h"
#include "mica/core/check.h"
#include "mica/graph/memory_plan.h"

namespace mica {
namespace {

std::atomic<int64_t> g_serial{0};

/// Traced tensors carry the capture's number beside their value, so that a stray one is recognised.
constexpr int kValueBits = 32;

/// What eager execution would hold in memory: handles and the tape let go of traced tensors when
/// they would let go of real ones.
struct Held {
  size_t bytes = 0;
  size_t most = 0;
};

/// Memory that is only counted, from now until the last tensor that shares it is gone.
Ref<Storage> counted_storage(const std::shared_ptr<Held>& held, const TensorSpec& spec) {
  const size_t bytes =
      round_up(static_cast<size_t>(spec.numel()) * size_of(spec.dtype), alignment(spec.device));
  held->bytes += bytes;
  held->most = std::max(held->most, held->bytes);
  const std::shared_ptr<void> owner(held.get(), [held, bytes](void*) { held->bytes -= bytes; });
  return make_ref<Storage>(nullptr, bytes, spec.device, owner);
}

class Capture final : public Recorder, public GradWatcher {
 public:
  Capture()
      : before_recorder_(exchange_recorder(this)), before_watcher_(exchange_grad_watcher(this)) {
    if (before_recorder_) {
      leave();
      fail<Unsupported>(
          "compile: a compiled function was called for the first time while another is captured");
    }
  }
  ~Capture() override {
    if (!finished_) leave();
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  Tensor add_input(const TensorSpec& spec) {
    const ValueId id = add_value({spec, Value::Kind::input, {}, -1, kNoValue, 0, false});
    graph_.inputs.push_back(id);
    return traced(id, counted_storage(held_, spec));
  }

  Outputs record(const OpDef& op, ParamsRef params, std::span<const Tensor> inputs,
                 std::span<const TensorSpec> out) override {
    Node node{&op, AnyParams(params), {}, {}, {}};
    const int index = static_cast<int>(graph_.nodes.size());
    for (const Tensor& t : inputs) node.in.push_back(t.defined() ? value_of(t) : kNoValue);
    Outputs outputs;
    for (const TensorSpec& spec : out) {
      Value v{spec, Value::Kind::computed, {}, index, kNoValue, 0, false};
      if (op.view) {
        v.base = node.in[0];
        v.offset = op.view(op, params.data, graph_[node.in[0]].spec).offset;
        viewed_.insert(node.in[0]);
      }
      node.out.push_back(add_value(v));
      outputs.add(traced(node.out.back(),
                         op.view ? inputs[0].impl()->storage : counted_storage(held_, spec)));
      note_device(op.name, spec.device);
    }
    const int n = static_cast<int>(inputs.size());
    for (int i = 0; i < n; ++i) {
      const Tensor& t = inputs[static_cast<size_t>(i)];
      if (!t.defined()) continue;
      note_device(op.name, t.device());
      if (op.writes(params.data, i, n)) {
        write(node, index, t, node.in[static_cast<size_t>(i)]);
      } else {
        readers_[graph_.root(node.in[static_cast<size_t>(i)])].push_back(index);
      }
    }
    graph_.nodes.push_back(std::move(node));
    return outputs;
  }

  void before_change(const Tensor& leaf, bool reads) override {
    if (!touched_.insert(leaf.impl()).second) return;
    grads_before_.add(leaf);
    if (!reads) return;
    const Tensor before = leaf.grad();
    guards_.grads.push_back(
        {leaf, before.defined() && !before.is_traced() ? before.storage() : nullptr});
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
    for (const Tensor& t : results) {
      check(t.defined(), "compile: the function returned an undefined tensor");
      const GradEdge edge = edge_of(t);
      check<Unsupported>(
          !edge.node || edge.node->used(),
          "compile: a result ({}) requires a gradient, and its history ends with the capture; call "
          "backward inside the compiled function, or detach() the result",
          t.spec());
      graph_.outputs.push_back(value_of(t));
    }
    for (const ValueId id : graph_.inputs) note_device("compile", graph_[id].spec.device);
    Captured c;
    c.results = results.size();
    finished_ = true;
    leave();
    for (const auto& [leaf, before] : grads_before_.grads()) {
      const Tensor grad = leaf.grad();
      if (!grad.is_traced()) continue;
      // A step that updates the leaf itself has used the gradient up; otherwise it is a result.
      if (!writers_.contains(leaf.storage().get())) {
        graph_.outputs.push_back(value_of(grad));
        c.grad_of.push_back(leaf);
      }
      leaf.set_grad({});
    }
    c.grads_before = std::move(grads_before_);
    c.guards = std::move(guards_);
    for (const auto& [storage, tensor] : writers_) c.written.push_back(tensor);
    c.device = device_;
    c.eager_bytes = held_->most;
    c.graph = std::move(graph_);
    return c;
  }

 private:
  std::string name_of(ValueId id) const {
    if (graph_[id].node >= 0) return graph_.nodes[static_cast<size_t>(graph_[id].node)].op->name;
    const auto at = std::find(graph_.inputs.begin(), graph_.inputs.end(), id);
    return at == graph_.inputs.end() ? "a tensor from outside"
                                     : fmt::format("argument {}", at - graph_.inputs.begin());
  }

  void leave() {
    exchange_recorder(before_recorder_);
    exchange_grad_watcher(before_watcher_);
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

  ValueId value_of(const Tensor& t) {
    if (!t.is_traced()) return external_value(t);
    const int64_t trace = t.impl()->trace;
    check<Unsupported>(
        trace >> kValueBits == serial_,
        "a tensor made while another graph was captured ({}) was used; it never had a value",
        t.spec());
    const ValueId id = value_id(t);
    check(!graph_[id].superseded, "a tensor ({}) was modified after it was saved for backward",
          t.spec());
    return id;
  }

  /// Tensors that exist outside become values once per view of their storage and version.
  ValueId external_value(const Tensor& t) {
    std::vector<ValueId>& known = externals_[t.storage().get()];
    for (const ValueId id : known) {
      const Value& v = graph_[id];
      if (!v.superseded && v.tensor.offset() == t.offset() && v.spec == t.spec()) return id;
    }
    Value v{t.spec(), Value::Kind::external, t.detach(), -1, kNoValue, 0, false};
    const ValueId id = add_value(v);
    known.push_back(id);
    guards_.leaves.push_back({t, t.storage(), t.requires_grad()});
    return id;
  }

  /// Makes the written input a new version: a value of its own in the same memory.
  void write(Node& node, int index, const Tensor& t, ValueId id) {
    const char* op = node.op->name;
    const Value::Kind root_kind = graph_[graph_.root(id)].kind;
    check<Unsupported>(
        root_kind != Value::Kind::input,
        "{}: a compiled function cannot write to its arguments; return the new value instead", op);
    Value version = graph_[id];
    version.base = id;
    version.offset = 0;
    version.node = index;
    if (t.is_traced()) {
      const bool is_view =
          graph_[id].node >= 0 && graph_.nodes[static_cast<size_t>(graph_[id].node)].is_view();
      const bool has_views = viewed_.contains(id);
      check<Unsupported>(!is_view && !has_views, "{}: a write through a view cannot be captured",
                         op);
      node.after = readers_[graph_.root(id)];
      readers_.erase(graph_.root(id));
    } else {
      const auto bytes = static_cast<size_t>(t.numel()) * size_of(t.dtype());
      check<Unsupported>(bytes == t.storage()->bytes(),
                         "{}: a write through a view cannot be captured; write to the whole tensor",
                         op);
      for (const ValueId other : externals_[t.storage().get()]) {
        const std::vector<int>& read = readers_[graph_.root(other)];
        node.after.insert(node.after.end(), read.begin(), read.end());
        readers_.erase(graph_.root(other));
        graph_[other].superseded = true;
      }
      writers_.try_emplace(t.storage().get(), t.detach());
    }
    graph_[id].superseded = true;
    const ValueId fresh = add_value(version);
    graph_[fresh].superseded = false;
    node.out.push_back(fresh);
    if (t.is_traced()) {
      t.impl()->trace = tag(fresh);
    } else {
      externals_[t.storage().get()] = {fresh};
    }
  }

  const int64_t serial_ = ++g_serial;
  Recorder* before_recorder_;
  GradWatcher* before_watcher_;
  bool finished_ = false;
  Graph graph_;
  std::shared_ptr<Held> held_ = std::make_shared<Held>();
  Device device_;
  bool device_known_ = false;
  std::unordered_map<Storage*, std::vector<ValueId>> externals_;
  std::unordered_map<Storage*, Tensor> writers_;
  std::unordered_map<ValueId, std::vector<int>> readers_;  // by root, since it was last written
  std::unordered_set<ValueId> viewed_;
  std::unordered_set<TensorImpl*> touched_;
  GradsBefore grads_before_;
  Guards guards_;
};

}  // namespace

bool Guards::Grad::holds() const {
  const Tensor now = leaf.grad();
  return now.defined() ? now.storage() == grad : !grad;
}

bool Guards::Leaf::holds() const {
  return tensor.storage() == storage && tensor.requires_grad() == requires_grad;
}

bool Guards::hold() const {
  const auto holds = [](const auto& guard) { return guard.holds(); };
  return std::all_of(grads.begin(), grads.end(), holds) &&
         std::all_of(leaves.begin(), leaves.end(), holds) &&
         std::all_of(flags.begin(), flags.end(), holds);
}

std::vector<std::string> Guards::broken() const {
  std::vector<std::string> all;
  for (const Grad& g : grads) {
    if (g.holds()) continue;
    const char* what = !g.grad                    ? "is there now"
                       : !g.leaf.grad().defined() ? "is gone"
                                                  : "is another tensor";
    all.push_back(fmt::format("the .grad of a leaf {} {}", g.leaf.spec(), what));
  }
  for (const Leaf& l : leaves) {
    if (l.tensor.storage() != l.storage)
      all.push_back(fmt::format("a tensor {} from outside lies elsewhere", l.tensor.spec()));
    if (l.tensor.requires_grad() != l.requires_grad)
      all.push_back(fmt::format("a tensor {} from outside {} a gradient now", l.tensor.spec(),
                                l.requires_grad ? "does not require" : "requires"));
  }
  for (const Flag& f : flags) {
    if (f.holds()) continue;
    all.push_back(*f.flag ? "a module went to training mode" : "a module went to evaluation mode");
    break;  // one call switches them all
  }
  return all;
}

std::string traced_origin(const Tensor& tensor) {
  const auto* capture = dynamic_cast<const Capture*>(current_recorder());
  return capture && tensor.is_traced() ? capture->origin(tensor) : "";
}

Captured capture(const TensorFunction& function, std::span<const TensorSpec> inputs) {
  Capture session;
  Tensors arguments;
  for (const TensorSpec& spec : inputs) arguments.push_back(session.add_input(spec));
  return session.finish(function(arguments));
}

}  // namespace mica
