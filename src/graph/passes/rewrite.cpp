#include "mica/graph/passes/rewrite.h"

#include <algorithm>

#include "mica/op/settings.h"
#include "mica/ops/elementwise/known_number.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/matmul/matmul.h"

namespace mica {

Writes::Writes(const Graph& graph) : graph_(graph) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const int n = static_cast<int>(node.in.size());
    for (int k = 0; k < n; ++k) {
      const ValueId id = node.in[static_cast<size_t>(k)];
      if (id != kNoValue && node.op->writes(node.params.ref().data, k, n))
        nodes_[memory(id)].push_back(static_cast<int>(i));
    }
  }
}

Writes::Memory Writes::memory(ValueId id) const {
  const ValueId root = graph_.root(id);
  const Value& v = graph_[root];
  if (v.kind == Value::Kind::external) return {v.tensor.storage().get(), kNoValue};
  return {nullptr, root};
}

int Writes::next(ValueId id, int node) const {
  const auto it = nodes_.find(memory(id));
  if (it == nodes_.end()) return -1;
  const auto at = std::upper_bound(it->second.begin(), it->second.end(), node);
  return at == it->second.end() ? -1 : *at;
}

bool Writes::between(ValueId id, int first, int last) const {
  const int at = next(id, first - 1);
  return at >= 0 && at <= last;
}

bool Writes::ever(ValueId id) const { return nodes_.contains(memory(id)); }

bool Writes::lasts_until(ValueId id, int last) const {
  return !between(id, graph_[id].node + 1, last);
}

std::vector<bool> constants(const Graph& graph) {
  const Writes writes(graph);
  std::vector<bool> constant(graph.values.size());
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const auto id = static_cast<ValueId>(v);
    constant[v] = graph[id].kind == Value::Kind::external && !writes.ever(id);
  }
  for (const Node& node : graph.nodes) {
    const bool known =
        !writes_input(node) && std::all_of(node.in.begin(), node.in.end(), [&](ValueId id) {
          return id == kNoValue || constant[static_cast<size_t>(id)];
        });
    for (const ValueId id : node.out) constant[static_cast<size_t>(id)] = known && !writes.ever(id);
  }
  return constant;
}

bool is(const Node& node, std::string_view op) { return node.op->name == op; }

Activation activation_of(const Node& node) {
  if (is(node, "relu")) return Activation::relu;
  return is(node, "gelu") ? Activation::gelu : Activation::none;
}

bool writes_input(const Node& node) {
  const int n = static_cast<int>(node.in.size());
  for (int i = 0; i < n; ++i)
    if (node.op->writes(node.params.ref().data, i, n)) return true;
  return false;
}

const Node* maker(const Graph& graph, ValueId id) {
  if (id == kNoValue || graph[id].kind != Value::Kind::computed || graph[id].node < 0)
    return nullptr;
  const Node& node = graph.nodes[static_cast<size_t>(graph[id].node)];
  return writes_input(node) ? nullptr : &node;
}

std::optional<double> known_number(const Graph& graph, const Writes& writes, ValueId id) {
  if (id == kNoValue || writes.ever(id)) return std::nullopt;
  const ValueId root = graph.root(id);
  if (graph[root].kind == Value::Kind::external)
    return elementwise::known_number(graph[root].tensor);
  const Node* node = maker(graph, root);
  if (!node || !is(*node, "full")) return std::nullopt;
  return node->params.as<FullParams>().value;
}

int uses(const Graph& graph, ValueId id) {
  auto n = std::count(graph.outputs.begin(), graph.outputs.end(), id);
  for (const Node& node : graph.nodes) n += std::count(node.in.begin(), node.in.end(), id);
  return static_cast<int>(n);
}

bool passes_on(const Graph& graph, const Writes& writes, ValueId id) {
  return uses(graph, id) == 1 && !writes.ever(id);
}

int last_use(const Graph& graph, ValueId root) {
  const auto lies_there = [&](ValueId id) { return id != kNoValue && graph.root(id) == root; };
  int last = static_cast<int>(graph.nodes.size());
  if (std::any_of(graph.outputs.begin(), graph.outputs.end(), lies_there)) return last;
  while (--last >= 0) {
    const std::vector<ValueId>& in = graph.nodes[static_cast<size_t>(last)].in;
    if (std::any_of(in.begin(), in.end(), lies_there)) break;
  }
  return last;
}

bool lie_alike(const TensorSpec& a, const TensorSpec& b) {
  return a.shape == b.shape && a.strides == b.strides && a.dtype == b.dtype && a.device == b.device;
}

bool replace(Graph& graph, const Writes& writes, ValueId from, ValueId to) {
  if (!lie_alike(graph[from].spec, graph[to].spec)) return false;
  const bool is_result =
      std::find(graph.outputs.begin(), graph.outputs.end(), from) != graph.outputs.end();
  if (graph.root(from) == graph.root(to)) {
    // A view of an argument is copied out, the argument itself is given back.
    if (is_result && graph[to].kind == Value::Kind::input) return false;
  } else {
    if (graph[from].base != kNoValue || writes.ever(from)) return false;
    const int last = last_use(graph, from);
    const bool escapes = last == static_cast<int>(graph.nodes.size());
    if (escapes && graph[graph.root(to)].kind != Value::Kind::computed) return false;
    if (!writes.lasts_until(to, last)) return false;
    if (const int writer = writes.next(to, last); writer >= 0) {
      std::vector<int>& after = graph.nodes[static_cast<size_t>(writer)].after;
      for (int i = 0; i <= last; ++i)
        for (const ValueId id : graph.nodes[static_cast<size_t>(i)].in)
          if (id != kNoValue && graph.root(id) == from) after.push_back(i);
    }
  }
  for (Node& node : graph.nodes) std::replace(node.in.begin(), node.in.end(), from, to);
  std::replace(graph.outputs.begin(), graph.outputs.end(), from, to);
  for (Value& v : graph.values)
    if (v.base == from) v.base = to;
  return true;
}

void replace_results(Graph& graph, ValueId (*equal)(const Graph&, const Writes&, const Node&)) {
  const Writes writes(graph);
  std::vector<bool> keep(graph.nodes.size(), true);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.out.size() != 1 || writes_input(node)) continue;
    const ValueId same = equal(graph, writes, node);
    keep[i] = same == kNoValue || !replace(graph, writes, node.out[0], same);
  }
  remove_nodes(graph, keep);
}

const Node* sole_maker(const Graph& graph, const Writes& writes, ValueId id) {
  const Node* node = maker(graph, id);
  return node && uses(graph, id) == 1 && !writes.ever(id) ? node : nullptr;
}

bool fits_at(const Graph& graph, const Writes& writes, const Node& node, int at) {
  return std::all_of(node.in.begin(), node.in.end(), [&](ValueId id) {
    return id == kNoValue || (graph[id].node < at && writes.lasts_until(id, at));
  });
}

void put(Graph& graph, const Writes& writes, Node node, int at) {
  for (const ValueId id : node.in) {
    const int writer = id == kNoValue ? -1 : writes.next(id, at);
    if (writer < 0) continue;
    std::vector<int>& after = graph.nodes[static_cast<size_t>(writer)].after;
    if (std::find(after.begin(), after.end(), at) == after.end()) after.push_back(at);
  }
  for (const ValueId id : node.out) graph[id].node = at;
  graph.nodes[static_cast<size_t>(at)] = std::move(node);
}

bool has_joined_kernel(const Graph& graph, const Node& node) {
  const Device device = graph[node.out[0]].spec.device;
  if (device.is_null()) return true;
  std::vector<TensorSpec> in;
  std::vector<TensorSpec> out;
  in.reserve(node.in.size());
  out.reserve(node.out.size());
  for (const ValueId id : node.in) in.push_back(id == kNoValue ? TensorSpec{} : graph[id].spec);
  for (const ValueId id : node.out) out.push_back(graph[id].spec);
  const std::string forced = forced_kernel(node.op->name);
  const KernelList& kernels = node.op->kernels[static_cast<size_t>(device.kind)];
  return std::any_of(kernels.begin(), kernels.end(), [&](const Kernel& k) {
    if (forced.empty() ? std::string_view(k.name) == "composed" : forced != k.name) return false;
    const Support::Kind kind = k.supports(*node.op, node.params.ref().data, {in, out}).kind;
    return kind == Support::Kind::preferred || (!forced.empty() && kind == Support::Kind::possible);
  });
}

std::vector<ValueId> insert_before(Graph& graph, int place, const TensorFunction& function,
                                   const std::vector<ValueId>& arguments) {
  std::vector<TensorSpec> specs;
  for (const ValueId id : arguments) specs.push_back(graph[id].spec);
  Graph calls = capture(function, specs).graph;
  const auto count = static_cast<int>(calls.nodes.size());
  const auto shift = [&](int& node) {
    if (node >= place) node += count;
  };
  for (Value& v : graph.values) shift(v.node);
  for (Node& node : graph.nodes)
    for (int& i : node.after) shift(i);
  std::vector<ValueId> id_of(calls.values.size(), kNoValue);
  for (size_t k = 0; k < arguments.size(); ++k)
    id_of[static_cast<size_t>(calls.inputs[k])] = arguments[k];
  const auto rename = [&](ValueId& id) {
    if (id != kNoValue) id = id_of[static_cast<size_t>(id)];
  };
  for (size_t v = 0; v < calls.values.size(); ++v) {
    if (id_of[v] != kNoValue) continue;
    Value value = calls.values[v];
    if (value.node >= 0) value.node += place;
    rename(value.base);
    id_of[v] = static_cast<ValueId>(graph.values.size());
    graph.values.push_back(std::move(value));
  }
  for (Node& node : calls.nodes) {
    for (ValueId& id : node.in) rename(id);
    for (ValueId& id : node.out) rename(id);
    for (int& i : node.after) i += place;
  }
  graph.nodes.insert(graph.nodes.begin() + place, std::make_move_iterator(calls.nodes.begin()),
                     std::make_move_iterator(calls.nodes.end()));
  if (place < graph.prologue) graph.prologue += count;
  for (ValueId& id : calls.outputs) rename(id);
  return calls.outputs;
}

int join_nodes(Graph& graph, Node whole, int place, std::vector<int> gone) {
  std::erase(gone, place);
  const auto is_gone = [&](int i) { return std::find(gone.begin(), gone.end(), i) != gone.end(); };
  for (Node& n : graph.nodes)
    for (int& i : n.after)
      if (is_gone(i)) i = place;
  for (const ValueId id : whole.out) graph[id].node = place;
  graph.nodes[static_cast<size_t>(place)] = std::move(whole);
  std::vector<bool> keep(graph.nodes.size(), true);
  for (const int i : gone) keep[static_cast<size_t>(i)] = false;
  remove_nodes(graph, keep);
  return static_cast<int>(gone.size());
}

void remove_nodes(Graph& graph, const std::vector<bool>& keep) {
  // `after` and `Value::node` count nodes: translate them to the new numbers.
  std::vector<int> number(graph.nodes.size(), -1);
  std::vector<Node> kept;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!keep[i]) continue;
    number[i] = static_cast<int>(kept.size());
    kept.push_back(std::move(graph.nodes[i]));
  }
  graph.prologue = static_cast<int>(std::count(keep.begin(), keep.begin() + graph.prologue, true));
  for (Node& node : kept) {
    std::erase_if(node.after, [&](int i) { return !keep[static_cast<size_t>(i)]; });
    for (int& i : node.after) i = number[static_cast<size_t>(i)];
  }
  for (Value& v : graph.values)
    if (v.node >= 0) v.node = number[static_cast<size_t>(v.node)];
  graph.nodes = std::move(kept);
}

}  // namespace mica
