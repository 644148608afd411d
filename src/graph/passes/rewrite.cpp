#include "mica/graph/passes/rewrite.h"

#include <algorithm>
#include <cmath>

#include "mica/core/error.h"
#include "mica/op/select.h"
#include "mica/op/settings.h"
#include "mica/ops/elementwise/known_number.h"
#include "mica/ops/fused/program.h"

namespace mica {

std::vector<bool> constants(const Graph& graph) {
  const Index index(graph);
  std::vector<bool> constant(graph.values.size());
  for (size_t v = 0; v < graph.values.size(); ++v) {
    const auto id = static_cast<ValueId>(v);
    constant[v] = graph[id].kind == Value::Kind::external && !graph[id].changes && !index.ever(id);
  }
  for (const Node& node : graph.nodes) {
    const bool known =
        !writes_input(node) && std::all_of(node.in.begin(), node.in.end(), [&](ValueId id) {
          return id == kNoValue || constant[static_cast<size_t>(id)];
        });
    for (const ValueId id : node.out) constant[static_cast<size_t>(id)] = known && !index.ever(id);
  }
  return constant;
}

bool is_permute(const Node& node) { return node.op->axis_order; }
Dims axis_order(const Node& node) { return node.op->axis_order(*node.op, node.params.ref().data); }
bool is_full(const Node& node) { return node.op->fills_with; }

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

bool any_node(const Graph& graph, bool (*is)(const Node& node)) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), is);
}

std::optional<double> known_number(const Graph& graph, const Index& index, ValueId id) {
  if (id == kNoValue || index.ever(id)) return std::nullopt;
  return unwritten_number(graph, id);
}

std::optional<double> unwritten_number(const Graph& graph, ValueId id) {
  if (id == kNoValue) return std::nullopt;
  const ValueId root = graph.root(id);
  const auto as_double = [](std::optional<Number> value) -> std::optional<double> {
    constexpr double kExact = 0x1p53;  // integers past it are not all doubles
    if (!value || value->is_complex()) return std::nullopt;
    const double number = value->to_double();
    if (!value->is_floating() && std::abs(number) >= kExact) return std::nullopt;
    return number;
  };
  if (graph[root].kind == Value::Kind::external)
    return as_double(elementwise::known_number(graph[root].tensor));
  const Node* node = maker(graph, root);
  if (!node || !is_full(*node)) return std::nullopt;
  return as_double(node->op->fills_with(*node->op, node->params.ref().data));
}

bool passes_on(const Index& index, ValueId id) { return index.uses(id) == 1 && !index.ever(id); }

bool lie_alike(const TensorSpec& a, const TensorSpec& b) {
  return a.shape == b.shape && a.strides == b.strides && a.dtype == b.dtype && a.device == b.device;
}

bool replace(Graph& graph, Index& index, ValueId from, ValueId to) {
  if (!lie_alike(graph[from].spec, graph[to].spec)) return false;
  if (graph.root(from) == graph.root(to)) {
    // A view of an argument is copied out, the argument itself is given back.
    if (index.is_result(from) && graph[to].kind == Value::Kind::input) return false;
  } else {
    if (graph[from].base != kNoValue || index.ever(from)) return false;
    const int last = index.last_use(from);
    const bool escapes = last == static_cast<int>(graph.nodes.size());
    if (escapes && graph[graph.root(to)].kind != Value::Kind::computed) return false;
    if (!index.lasts_until(to, last)) return false;
  }
  for (const int reader : index.readers(from)) {
    std::vector<ValueId>& in = graph.nodes[static_cast<size_t>(reader)].in;
    std::replace(in.begin(), in.end(), from, to);
  }
  if (index.is_result(from)) std::replace(graph.outputs.begin(), graph.outputs.end(), from, to);
  for (const ValueId view : index.views(from)) graph[view].base = to;
  index.rename(from, to);
  return true;
}

void replace_results(Graph& graph, ValueId (*equal)(const Graph&, const Node&)) {
  std::optional<Index> index;  // where there is something to replace
  std::vector<bool> keep(graph.nodes.size(), true);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.out.size() != 1 || writes_input(node)) continue;
    const ValueId same = equal(graph, node);
    if (same == kNoValue) continue;
    if (!index) index.emplace(graph);
    const bool computes = std::all_of(node.in.begin(), node.in.end(), [&](ValueId id) {
      return id == kNoValue || id == same || node.in.size() == 1 || !index->ever(id);
    });
    keep[i] = !computes || !replace(graph, *index, node.out[0], same);
  }
  remove_nodes(graph, keep);
}

const Node* sole_maker(const Graph& graph, const Index& index, ValueId id) {
  const Node* node = maker(graph, id);
  return node && passes_on(index, id) ? node : nullptr;
}

bool fits_at(const Graph& graph, const Index& index, const Node& node, int at) {
  return std::all_of(node.in.begin(), node.in.end(), [&](ValueId id) {
    return id == kNoValue || (graph[id].node < at && index.lasts_until(id, at));
  });
}

namespace {

/// A node that takes the place of another is known by its number and its scope, unless it has its
/// own.
void inherit(Node& node, const Node& from) {
  if (node.scope) return;
  node.id = from.id;
  node.scope = from.scope;
}

}  // namespace

void put(Graph& graph, Index& index, Node node, int at) {
  inherit(node, graph.nodes[static_cast<size_t>(at)]);
  for (const ValueId id : node.out) graph[id].node = at;
  index.forget(at);
  graph.nodes[static_cast<size_t>(at)] = std::move(node);
  index.note(at);
}

bool has_joined_kernel(const Graph& graph, const Node& node) {
  const Device device = graph[node.out[0]].spec.device;
  if (device.is_null()) return true;
  std::vector<TensorSpec> in;
  std::vector<TensorSpec> out;
  in.reserve(node.in.size());
  out.reserve(node.out.size());
  for (const ValueId id : node.in) in.push_back(id == kNoValue ? TensorSpec{} : graph[id].spec);
  for (const ValueId id : graph.results_of(node)) out.push_back(graph[id].spec);
  try {
    const auto prepared = select(*node.op, node.params.ref(), {in, out}, device);
    return !forced_kernel(node.op->name).empty() ||
           std::string_view(prepared->kernel->name) != "composed";
  } catch (const Unsupported&) {
    return false;
  }
}

namespace {

/// Along the innermost axis of `out` the operand is dense or repeats one value: it can be read in
/// runs.
bool in_runs(const TensorSpec& operand, const TensorSpec& out) {
  int inner = -1;
  for (int d = 0; d < out.rank(); ++d)
    if (out.shape[d] != 1 && (inner < 0 || out.strides[d] <= out.strides[inner])) inner = d;
  const int d = inner - (out.rank() - operand.rank());
  if (inner < 0 || d < 0 || operand.shape[d] == 1) return true;
  return operand.strides[d] == 0 || operand.strides[d] == 1;
}

}  // namespace

bool fits_program(const Graph& graph, const Node& node) {
  if (node.op->elementwise == 0 || node.op->elementwise > Program::kMostOperands ||
      node.op->mutates || node.is_view() || node.out.size() != 1)
    return false;
  const TensorSpec& out = graph[node.out[0]].spec;
  if (out.numel() == 0 || !(out.is_contiguous() || out.is_channels_last_dense())) return false;
  return std::all_of(node.in.begin(), node.in.end(),
                     [&](ValueId id) { return id != kNoValue && in_runs(graph[id].spec, out); });
}

std::vector<ValueId> Insertions::add(int place, const TensorFunction& function,
                                     const std::vector<ValueId>& arguments) {
  std::vector<TensorSpec> specs;
  for (const ValueId id : arguments) specs.push_back(graph_[id].spec);
  Graph calls = capture(function, specs).graph;
  std::vector<ValueId> id_of(calls.values.size(), kNoValue);
  for (size_t k = 0; k < arguments.size(); ++k)
    id_of[static_cast<size_t>(calls.inputs[k])] = arguments[k];
  const auto rename = [&](ValueId& id) {
    if (id != kNoValue) id = id_of[static_cast<size_t>(id)];
  };
  for (size_t v = 0; v < calls.values.size(); ++v) {
    if (id_of[v] != kNoValue) continue;
    Value value = std::move(calls.values[v]);
    value.node = -1;
    rename(value.base);
    id_of[v] = static_cast<ValueId>(graph_.values.size());
    graph_.values.push_back(std::move(value));
  }
  for (Node& node : calls.nodes) {
    if (place < static_cast<int>(graph_.nodes.size())) {
      node.scope = nullptr;
      inherit(node, graph_.nodes[static_cast<size_t>(place)]);
    }
    std::ranges::for_each(node.in, rename);
    std::ranges::for_each(node.out, rename);
  }
  calls_.push_back({place, std::move(calls.nodes)});
  std::ranges::for_each(calls.outputs, rename);
  return calls.outputs;
}

void Insertions::apply(const std::vector<bool>& keep) {
  std::ranges::stable_sort(calls_, {}, &Calls::place);
  const size_t count = graph_.nodes.size();
  std::vector<int> number(count);  // of what is there
  auto next = calls_.begin();
  for (int i = 0, more = 0; i < static_cast<int>(count); ++i) {
    for (; next != calls_.end() && next->place == i; ++next)
      more += static_cast<int>(next->nodes.size());
    number[static_cast<size_t>(i)] = i + more;
  }
  const auto renumber = [&](int& n) {
    if (n >= 0) n = number[static_cast<size_t>(n)];
  };
  for (Value& v : graph_.values) renumber(v.node);
  if (int& prologue = graph_.prologue; prologue > 0)
    prologue = number[static_cast<size_t>(prologue - 1)] + 1;

  std::vector<Node> nodes;
  nodes.reserve(count + calls_.size());
  std::vector<bool> kept;
  next = calls_.begin();
  for (size_t i = 0; i <= count; ++i) {
    for (; next != calls_.end() && next->place == static_cast<int>(i); ++next) {
      for (Node& node : next->nodes) {
        for (const ValueId id : node.out) graph_[id].node = static_cast<int>(nodes.size());
        nodes.push_back(std::move(node));
        kept.push_back(true);
      }
    }
    if (i == count) break;
    nodes.push_back(std::move(graph_.nodes[i]));
    kept.push_back(keep[i]);
  }
  graph_.nodes = std::move(nodes);
  calls_.clear();
  remove_nodes(graph_, kept);
}

std::vector<ValueId> insert_before(Graph& graph, int place, const TensorFunction& function,
                                   const std::vector<ValueId>& arguments) {
  Insertions insertions(graph);
  std::vector<ValueId> results = insertions.add(place, function, arguments);
  insertions.apply(std::vector<bool>(graph.nodes.size(), true));
  return results;
}

void join(Graph& graph, Index& index, Node whole, int place, const std::vector<int>& nodes,
          std::vector<bool>& keep) {
  inherit(whole, graph.nodes[static_cast<size_t>(place)]);
  for (const int i : nodes) {
    index.forget(i);
    graph.nodes[static_cast<size_t>(i)].in.clear();
    if (i != place) keep[static_cast<size_t>(i)] = false;
  }
  for (const ValueId id : whole.out) graph[id].node = place;
  graph.nodes[static_cast<size_t>(place)] = std::move(whole);
  index.note(place);
}

namespace {

/// Whether a node that stands for others, given in order, and makes these values, in order too,
/// could stand in the place of one of them.
bool can_stand_at(const Graph& graph, const Index& index, const std::vector<int>& nodes,
                  const std::vector<ValueId>& made, int place) {
  const auto is_one = [&](int i) { return std::binary_search(nodes.begin(), nodes.end(), i); };
  const auto makes = [&](ValueId id) { return std::binary_search(made.begin(), made.end(), id); };
  for (const int i : nodes) {
    const Node& node = graph.nodes[static_cast<size_t>(i)];
    if ((i < graph.prologue) != (place < graph.prologue)) return false;
    if (place < i && writes_input(node)) return false;
    for (const ValueId id : node.in) {
      if (id == kNoValue || (graph[id].node >= 0 && is_one(graph[id].node))) continue;
      if (graph[id].node >= place) return false;
      if (place < i ? index.between(id, place, i - 1) : index.between(id, i + 1, place))
        return false;
    }
    for (const ValueId id : node.out) {
      if (!makes(id) && (index.is_result(id) || index.ever(id))) return false;
      for (const int reader : index.readers(id))
        if (!is_one(reader) && (!makes(id) || reader <= place)) return false;
    }
  }
  return true;
}

}  // namespace

bool join_calls(Graph& graph, Index& index, const std::vector<int>& nodes, Node whole,
                std::vector<bool>& keep) {
  std::vector<ValueId> read;
  for (const int i : nodes) {
    const std::vector<ValueId>& in = graph.nodes[static_cast<size_t>(i)].in;
    read.insert(read.end(), in.begin(), in.end());
  }
  std::vector<ValueId> made = whole.out;
  std::sort(read.begin(), read.end());
  std::sort(made.begin(), made.end());
  const auto place = std::find_if(nodes.rbegin(), nodes.rend(), [&](int at) {
    return can_stand_at(graph, index, nodes, made, at) &&
           std::all_of(whole.in.begin(), whole.in.end(), [&](ValueId id) {
             return id == kNoValue || std::binary_search(read.begin(), read.end(), id) ||
                    (graph[id].node < at && index.lasts_until(id, at));
           });
  });
  if (place == nodes.rend() || !has_joined_kernel(graph, whole)) return false;
  join(graph, index, std::move(whole), *place, nodes, keep);
  return true;
}

void remove_nodes(Graph& graph, const std::vector<bool>& keep) {
  if (std::find(keep.begin(), keep.end(), false) == keep.end()) return;
  // `Value::node` counts nodes: it is translated to the new numbers.
  std::vector<int> number(graph.nodes.size(), -1);
  std::vector<Node> kept;
  kept.reserve(graph.nodes.size());
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!keep[i]) continue;
    number[i] = static_cast<int>(kept.size());
    kept.push_back(std::move(graph.nodes[i]));
  }
  graph.prologue = static_cast<int>(std::count(keep.begin(), keep.begin() + graph.prologue, true));
  for (Value& v : graph.values)
    if (v.node >= 0) v.node = number[static_cast<size_t>(v.node)];
  graph.nodes = std::move(kept);
}

}  // namespace mica
