#include "mica/graph/passes/passes.h"
#include "mica/graph/passes/rewrite.h"
#include "mica/ops/conv2d_act/conv2d_act.h"
#include "mica/ops/matmul/matmul.h"

namespace mica {
namespace {

Activation activation_of(const Node& node) {
  if (is(node, "relu")) return Activation::relu;
  return is(node, "gelu") ? Activation::gelu : Activation::none;
}

/// The convolution or linear layer with the activation in it; its op is null where there is none.
Node with_activation(const Node& node, Activation activation, const std::vector<ValueId>& out) {
  if (is(node, "conv2d")) {
    const Conv2dActParams params{node.params.as<Conv2dParams>(), activation};
    return {&find_op("conv2d_act"),
            AnyParams(ParamsRef::of(params)),
            {node.in[0], node.in[1], node.in[2], kNoValue},
            out,
            {}};
  }
  const OpDef* op = is(node, "linear") ? &find_op("linear_act") : nullptr;
  return {op, AnyParams(ParamsRef::of(LinearParams{activation})), node.in, out, {}};
}

}  // namespace

void fuse_activations(Graph& graph) {
  const Writes writes(graph);
  std::vector<bool> keep(graph.nodes.size(), true);
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) {
    const Node& node = graph.nodes[static_cast<size_t>(i)];
    const Activation activation = activation_of(node);
    if (activation == Activation::none) continue;
    const ValueId before = node.in[0];
    const Node* maker = sole_maker(graph, writes, before);
    if (!maker) continue;
    const Node joined = with_activation(*maker, activation, node.out);
    if (!joined.op || !fits_at(graph, writes, joined, i) || !has_joined_kernel(graph, joined))
      continue;
    put(graph, writes, joined, i);
    keep[static_cast<size_t>(graph[before].node)] = false;
  }
  remove_nodes(graph, keep);
}

}  // namespace mica
