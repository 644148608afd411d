#include "mica/graph/passes/passes.h"
#include "mica/graph/passes/rewrite.h"
#include "mica/ops/cross_entropy/cross_entropy.h"

namespace mica {
namespace {

/// The only node that uses a value; null where it is a result too, or has another use.
Node* only_user(Graph& graph, const Index& index, ValueId id) {
  if (index.uses(id) != 1 || index.is_result(id)) return nullptr;
  return &graph.nodes[static_cast<size_t>(index.readers(id)[0])];
}

/// Joins a cross_entropy with the gradient that reads its logsumexp. Returns whether the gradient's
/// node is to be removed.
bool join(Graph& graph, Index& index, int number) {
  static const OpDef& both = find_op("cross_entropy_with_grad");
  static const OpDef& mul = find_op("mul");
  Node& loss = graph.nodes[static_cast<size_t>(number)];
  Node* grad = only_user(graph, index, loss.out[1]);
  if (!grad || !is(*grad, "cross_entropy_grad") || grad->in[1] != loss.in[0] ||
      grad->in[2] != loss.in[1] || grad->in[3] != loss.out[1])
    return false;
  const ParamsRef params = loss.params.ref();
  if (!params.info->equal(params.data, grad->params.ref().data)) return false;
  const int last = static_cast<int>(grad - graph.nodes.data());
  // The gradient is computed where the loss is, from what the logits are there.
  if (index.between(loss.in[0], number, last) || index.between(loss.in[1], number, last))
    return false;
  const ValueId dlogits = grad->out[0];
  const TensorSpec spec = graph[dlogits].spec;
  const bool one = known_number(graph, index, grad->in[0]) == 1;
  if (!one && graph[grad->in[0]].spec.dtype != spec.dtype) return false;  // it scales as f32
  if (!has_joined_kernel(graph, {&both, loss.params, loss.in, {loss.out[0], dlogits}, {}}))
    return false;
  loss.op = &both;
  graph[loss.out[1]].node = -1;
  if (one) {
    loss.out[1] = dlogits;
    graph[dlogits].node = number;
    return true;
  }
  Value unscaled;
  unscaled.spec = spec;
  unscaled.node = number;
  loss.out[1] = static_cast<ValueId>(graph.values.size());
  graph.values.push_back(std::move(unscaled));
  grad->op = &mul;
  grad->params = AnyParams(ParamsRef::of(NoParams{}));
  index.forget(last);
  grad->in = {loss.out[1], grad->in[0]};
  index.note(last);
  return false;
}

}  // namespace

void fuse_cross_entropy(Graph& graph) {
  Index index(graph);
  std::vector<bool> keep(graph.nodes.size(), true);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!is(graph.nodes[i], "cross_entropy")) continue;
    const Node* grad = only_user(graph, index, graph.nodes[i].out[1]);
    if (join(graph, index, static_cast<int>(i)))
      keep[static_cast<size_t>(grad - graph.nodes.data())] = false;
  }
  remove_nodes(graph, keep);
}

}  // namespace mica
