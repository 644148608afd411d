#include "mica/graph/passes/passes.h"
#include "mica/graph/passes/rewrite.h"

#include "mica/ops/cross_entropy/cross_entropy.h"

namespace mica {
namespace {

void join_layer(Graph& graph) {
  static const OpDef& both = find_op("linear_cross_entropy");
  Index index(graph);
  std::vector<bool> keep(graph.nodes.size(), true);
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) {
    const Node& loss = graph.nodes[static_cast<size_t>(i)];
    if (!is(loss, "cross_entropy_with_grad")) continue;
    const ValueId logits = loss.in[0];
    const Node* layer = sole_maker(graph, index, logits);
    if (!layer || !is(*layer, "linear") || !both.dtypes.contains(graph[logits].spec.dtype))
      continue;
    const Node joined{
        &both, loss.params, {layer->in[0], layer->in[1], layer->in[2], loss.in[1]}, loss.out, {}};
    if (!fits_at(graph, index, joined, i) || !has_joined_kernel(graph, joined)) continue;
    keep[static_cast<size_t>(graph[logits].node)] = false;
    put(graph, index, joined, i);
  }
  remove_nodes(graph, keep);
}

/// Joins node `i`, the gradient for the layer's input, with the node that makes its logits'
/// gradient. Returns whether it did.
bool join_input_gradient(Graph& graph, Index& index, int i) {
  const Node product = graph.nodes[static_cast<size_t>(i)];
  const ValueId dlogits = product.in[0];
  const Node* loss = maker(graph, dlogits);
  if (!loss || !is(*loss, "linear_cross_entropy") || loss->out[1] != dlogits ||
      loss->in[1] != product.in[1])
    return false;
  LinearCrossEntropyParams params{loss->params.as<CrossEntropyParams>()};
  std::vector<ValueId> in = loss->in;
  in.push_back(kNoValue);
  if (is(product, "matmul_act_grad")) {
    params.activation = product.params.as<LinearParams>().activation;
    in.back() = product.in[2];
  }
  const Node joined{&find_op("linear_cross_entropy_dgrad"),
                    AnyParams(ParamsRef::of(params)),
                    std::move(in),
                    {loss->out[0], dlogits, product.out[0]},
                    {}};
  // The gradient is computed where the loss is, from what is there to read.
  const int place = graph[dlogits].node;
  for (const ValueId id : product.in)
    if (!index.lasts_until(id, i)) return false;
  if (!fits_at(graph, index, joined, place) || !has_joined_kernel(graph, joined)) return false;
  put(graph, index, joined, place);
  return true;
}

}  // namespace

void fuse_linear_cross_entropy(Graph& graph) {
  join_layer(graph);
  Index index(graph);
  std::vector<bool> keep(graph.nodes.size(), true);
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) {
    const Node& node = graph.nodes[static_cast<size_t>(i)];
    if (is(node, "matmul") || is(node, "matmul_act_grad"))
      keep[static_cast<size_t>(i)] = !join_input_gradient(graph, index, i);
  }
  remove_nodes(graph, keep);
}

}  // namespace mica
