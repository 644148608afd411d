#include <optional>

#include "mica/graph/passes/passes.h"
#include "mica/graph/passes/rewrite.h"
#include "mica/ops/conv2d_act/conv2d_act.h"
#include "mica/ops/matmul/matmul.h"

namespace mica {
namespace {

/// The activation that a node is the gradient of.
Activation gradient_of(const Node& node) {
  if (is(node, "relu_grad")) return Activation::relu;
  return is(node, "gelu_grad") ? Activation::gelu : Activation::none;
}

Node linear_node(const char* op, Activation activation, std::vector<ValueId> in,
                 std::vector<ValueId> out) {
  const LinearParams params{activation};
  return {&find_op(op), AnyParams(ParamsRef::of(params)), std::move(in), std::move(out), {}};
}

/// The convolution or linear layer with the activation in it.
std::optional<Node> with_activation(const Node& node, Activation activation,
                                    const std::vector<ValueId>& out) {
  if (is(node, "conv2d")) {
    const Conv2dActParams params{node.params.as<Conv2dParams>(), activation};
    return Node{&find_op("conv2d_act"),
                AnyParams(ParamsRef::of(params)),
                {node.in[0], node.in[1], node.in[2], kNoValue},
                out,
                {}};
  }
  if (is(node, "linear")) return linear_node("linear_act", activation, node.in, out);
  return std::nullopt;
}

/// Joins node `i`, an activation, with the layer before it. Returns the node that is to be removed,
/// or -1.
int join_activation(Graph& graph, Index& index, int i) {
  const Node node = graph.nodes[static_cast<size_t>(i)];
  const ValueId before = node.in[0];
  const Node* layer = maker(graph, before);
  if (!layer || index.ever(before)) return -1;
  const int first = graph[before].node;
  if (index.uses(before) == 1) {
    const std::optional<Node> joined = with_activation(*layer, activation_of(node), node.out);
    if (!joined || !fits_at(graph, index, *joined, i) || !has_joined_kernel(graph, *joined))
      return -1;
    put(graph, index, *joined, i);
    return first;
  }
  if (!is(*layer, "linear")) return -1;
  // Others, such as the gradient of GELU, read the product: it stays, where it is.
  const Node joined =
      linear_node("linear_and_act", activation_of(node), layer->in, {node.out[0], before});
  if (!has_joined_kernel(graph, joined)) return -1;
  put(graph, index, joined, first);
  return i;
}

/// The same for node `i`, the gradient of an activation, and the product before it.
int join_gradient(Graph& graph, Index& index, int i) {
  const Node node = graph.nodes[static_cast<size_t>(i)];
  const ValueId before = node.in[0];
  const Node* product = sole_maker(graph, index, before);
  if (!product || !is(*product, "matmul") ||
      !lie_alike(graph[before].spec, graph[node.out[0]].spec))
    return -1;
  const Node joined = linear_node("matmul_act_grad", gradient_of(node),
                                  {product->in[0], product->in[1], node.in[1]}, node.out);
  if (!fits_at(graph, index, joined, i) || !has_joined_kernel(graph, joined)) return -1;
  const int first = graph[before].node;
  put(graph, index, joined, i);
  return first;
}

}  // namespace

void fuse_activations(Graph& graph) {
  Index index(graph);
  std::vector<bool> keep(graph.nodes.size(), true);
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) {
    const Node& node = graph.nodes[static_cast<size_t>(i)];
    int gone = -1;
    if (activation_of(node) != Activation::none) gone = join_activation(graph, index, i);
    if (gradient_of(node) != Activation::none) gone = join_gradient(graph, index, i);
    if (gone >= 0) keep[static_cast<size_t>(gone)] = false;
  }
  remove_nodes(graph, keep);
}

}  // namespace mica
