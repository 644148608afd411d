#include "mica/graph/select_kernels.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "mica/core/error.h"
#include "mica/graph/passes/passes.h"
#include "mica/graph/value_bytes.h"
#include "mica/op/dispatch.h"
#include "mica/op/select.h"
#include "mica/ops/fused/fused.h"
#include "mica/ops/fused/fused_reduce.h"

namespace mica {
namespace {

/// What a node's kernel is chosen from.
struct NodeSpecs {
  std::vector<TensorSpec> in;
  std::vector<TensorSpec> out;

  NodeSpecs(const Graph& g, const Node& node) {
    in.reserve(node.in.size());
    for (const ValueId id : node.in) {
      in.push_back(id == kNoValue ? TensorSpec{} : g[id].spec);
      if (id == kNoValue) continue;
      // Blocks of the arena are aligned; a view need not start on a boundary.
      const Value& root = g[g.root(id)];
      const bool outside = root.kind == Value::Kind::external;
      const auto start = outside ? reinterpret_cast<uintptr_t>(root.tensor.data()) : 0;
      const auto bytes = static_cast<size_t>(offset_in_root(g, id)) * size_of(g[id].spec.dtype);
      in.back().aligned = (start + bytes) % 16 == 0;
    }
    for (const ValueId id : g.results_of(node)) out.push_back(g[id].spec);
  }
};

std::shared_ptr<const Prepared> kernel_of(const Graph& g, const Node& node, Device device) {
  const NodeSpecs specs(g, node);
  return select(*node.op, node.params.ref(), {specs.in, specs.out}, device);
}

/// Generated kernels take a tenth of a second each to compile: several at a time, before the nodes
/// ask for theirs one by one. What fails here fails there again and is told there.
void compile_ahead(const Graph& g, Device device) {
  std::vector<const Node*> generated;
  for (const Node& node : g.nodes)
    if (node.op == &fused_op() || node.op == &fused_reduce_op()) generated.push_back(&node);
  if (!device.is_cuda() || generated.size() < 2) return;
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < generated.size(); i = next++) {
      try {
        kernel_of(g, *generated[i], device);
      } catch (const Error&) {
        continue;
      }
    }
  };
  const size_t threads =
      std::min<size_t>(generated.size(), std::max(1U, std::thread::hardware_concurrency()));
  std::vector<std::jthread> pool;
  for (size_t t = 1; t < threads; ++t) pool.emplace_back(work);
  work();
}

/// Chooses kernels and puts the copies that they want before their nodes. Returns whether there are
/// any, which then have no kernel yet.
bool choose(Graph& g, Device device) {
  struct Wish {
    size_t node;
    size_t operand;
    TensorSpec spec;
  };
  std::vector<Wish> wishes;
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    Node& node = g.nodes[i];
    if (node.is_view()) continue;
    node.kernel = kernel_of(g, node, device);
    for (size_t k = 0; k < node.in.size() && node.kernel->needs_copies(); ++k) {
      if (node.in[k] == kNoValue) continue;
      const TensorSpec& spec = g[node.in[k]].spec;
      const TensorSpec wanted = wanted_spec(*node.kernel, static_cast<int>(k), spec);
      if (wanted.strides != spec.strides) wishes.push_back({i, k, wanted});
    }
  }
  if (wishes.empty()) return false;
  std::vector<Node> nodes;
  nodes.reserve(g.nodes.size() + wishes.size());
  std::vector<int> number(g.nodes.size());
  const int old_prologue = g.prologue;
  auto wish = wishes.begin();
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    Node& node = g.nodes[i];
    for (; wish != wishes.end() && wish->node == i; ++wish) {
      const auto to = static_cast<ValueId>(g.values.size());
      Value copy;
      copy.spec = wish->spec;
      g.values.push_back(std::move(copy));
      Node made{&layout_copy_op(), layout_copy_params(wish->spec), {node.in[wish->operand]}, {to}};
      made.id = node.id;
      made.scope = node.scope;
      nodes.push_back(std::move(made));
      node.in[wish->operand] = to;
      if (static_cast<int>(i) < old_prologue) ++g.prologue;
    }
    number[i] = static_cast<int>(nodes.size());
    nodes.push_back(std::move(node));
  }
  for (Value& v : g.values)
    if (v.node >= 0) v.node = number[static_cast<size_t>(v.node)];
  for (size_t n = 0; n < nodes.size(); ++n)
    if (!nodes[n].kernel && !nodes[n].is_view()) g[nodes[n].out[0]].node = static_cast<int>(n);
  g.nodes = std::move(nodes);
  return true;
}

}  // namespace

void select_kernels(Graph& graph, Device device) {
  if (device.is_null()) return;
  compile_ahead(graph, device);
  if (!choose(graph, device)) return;
  run_passes(graph, {"casts", "identities", "common_subexpressions", "dead_nodes", "hoist",
                     "join_copies"});
  while (choose(graph, device)) {
  }
}

}  // namespace mica
