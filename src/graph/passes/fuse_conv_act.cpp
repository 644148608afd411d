#include "mica/graph/passes/passes.h"
#include "mica/graph/passes/rewrite.h"
#include "mica/ops/conv2d_act/conv2d_act.h"

namespace mica {
namespace {

Activation activation_of(const Node& node) {
  if (is(node, "relu")) return Activation::relu;
  return is(node, "gelu") ? Activation::gelu : Activation::none;
}

}  // namespace

void fuse_conv_act(Graph& graph) {
  const Writes writes(graph);
  std::vector<bool> keep(graph.nodes.size(), true);
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) {
    const Node& node = graph.nodes[static_cast<size_t>(i)];
    const Activation activation = activation_of(node);
    if (activation == Activation::none) continue;
    const ValueId convolved = node.in[0];
    const Node* conv = sole_maker(graph, writes, convolved);
    if (!conv || !is(*conv, "conv2d")) continue;
    const Conv2dActParams params{conv->params.as<Conv2dParams>(), activation};
    const Node joined{
        &find_op("conv2d_act"), AnyParams(ParamsRef::of(params)), conv->in, node.out, {}};
    if (!fits_at(graph, writes, joined, i) || !has_joined_kernel(graph, joined)) continue;
    put(graph, writes, joined, i);
    keep[static_cast<size_t>(graph[convolved].node)] = false;
  }
  remove_nodes(graph, keep);
}

}  // namespace mica
