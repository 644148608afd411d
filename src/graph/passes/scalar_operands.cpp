#include <algorithm>

#include "mica/core/error.h"
#include "mica/graph/passes/passes.h"
#include "mica/graph/passes/rewrite.h"

namespace mica {
namespace {

/// Whether an elementwise call gives the same with a 0-d operand in the place of `id`.
bool takes_scalar(const Graph& g, const Node& node, ValueId id, const TensorSpec& scalar) {
  if (node.op->elementwise == 0 || node.op->mutates) return false;
  const TensorSpec& out = g[node.out[0]].spec;
  std::vector<TensorSpec> specs;
  bool has_shape = false;
  for (const ValueId in : node.in) {
    specs.push_back(in == kNoValue ? TensorSpec{} : in == id ? scalar : g[in].spec);
    has_shape = has_shape || (in != id && in != kNoValue && g[in].spec.shape == out.shape);
  }
  if (!has_shape) return false;
  try {
    OutSpecs inferred(node.op->name);
    node.op->infer(*node.op, node.params.ref().data, specs, inferred);
    return inferred.size() == 1 && inferred[0].shape == out.shape;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

void shrink_constants(Graph& graph) {
  if (!any_node(graph, is_full)) return;
  Index index(graph);
  for (Node& full : graph.nodes) {
    if (!is_full(full)) continue;
    const ValueId id = full.out[0];
    if (index.is_result(id) || index.ever(id) || graph[id].spec.rank() == 0) continue;
    const TensorSpec scalar =
        TensorSpec::contiguous({}, graph[id].spec.dtype, graph[id].spec.device);
    const bool everywhere =
        std::all_of(index.readers(id).begin(), index.readers(id).end(), [&](int reader) {
          return takes_scalar(graph, graph.nodes[static_cast<size_t>(reader)], id, scalar);
        });
    if (!everywhere) continue;
    full.params.set("shape", Dims());
    full.params.set("channels_last", false);
    graph[id].spec = scalar;
    graph[id].spec.defined = true;
  }
}

}  // namespace mica
