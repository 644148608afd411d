#include <algorithm>

#include "mica/graph/passes/passes.h"
#include "mica/graph/passes/rewrite.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/view/view.h"

namespace mica {
namespace {

/// Whether a node is linear in its weight (C, …) and bias (C), with channels where batch norm has
/// them.
bool has_channels(const Graph& g, const Node& node) {
  if (!node.op->contraction) return false;
  const int axis = node.op->contraction->channel_axis;
  return (axis < 0 ? g[node.out[0]].spec.rank() + axis : axis) == 1;
}

/// The node whose result a batch norm alone reads and could be made to give what it gives; -1:
/// none.
int foldable(const Graph& g, const Index& index, const std::vector<bool>& constant,
             const Node& norm) {
  const Node* before = maker(g, norm.in[0]);
  if (!before || !has_channels(g, *before) || index.uses(norm.in[0]) != 1 ||
      !lie_alike(g[norm.in[0]].spec, g[norm.out[0]].spec) ||
      std::any_of(norm.out.begin() + 1, norm.out.end(),
                  [&](ValueId id) { return index.uses(id) != 0; }))
    return -1;
  const int place = g[norm.in[0]].node;
  const auto known = [&](ValueId id) {  // what is past the end is folded
    return id == kNoValue || static_cast<size_t>(id) >= constant.size() ||
           (constant[static_cast<size_t>(id)] && g[id].node < place);
  };
  const bool all = known(before->in[1]) && known(before->in[2]) &&
                   std::all_of(norm.in.begin() + 1, norm.in.end(), known);
  return all ? place : -1;
}

/// Weight and bias with a batch norm in them. The arguments are the weight, its bias where there is
/// one, and the batch norm's inputs past the first that are there.
struct Folding {
  const OpDef* op;
  AnyParams params;
  bool has_bias;
  std::vector<bool> has;  ///< by input of the batch norm

  Tensors operator()(std::span<const Tensor> in) const {
    const NoGrad guard;
    const Tensor* next = in.data();
    const Tensor weight = *next++;
    const Tensor bias = has_bias ? *next++ : Tensor();
    Tensors norm;
    for (const bool there : has) norm.push_back(there ? *next++ : Tensor());
    const Tensors numbers = op->channel_scale->numbers(*op, params.ref().data, norm);
    const Tensor& centre = numbers[0];
    const Tensor& scale = numbers[1];
    const Tensor& shift = numbers[2];
    Shape by_channel = Dims::filled(weight.rank(), 1);
    by_channel[0] = weight.size(0);
    const Tensor w = mul(cast(weight, scale.dtype()), reshape(scale, by_channel));
    const Tensor from = has_bias ? sub(cast(bias, scale.dtype()), centre) : neg(centre);
    Tensor b = mul(from, scale);
    if (shift.defined()) b = add(b, shift);
    return {cast(w, weight.dtype()), cast(b, weight.dtype())};
  }
};

/// Lets the node at `place` make what the batch norm makes.
void fold(Graph& g, Insertions& insertions, const Node& norm, int place) {
  Node& whole = g.nodes[static_cast<size_t>(place)];
  Folding folding{norm.op, norm.params, whole.in[2] != kNoValue, {false}};
  std::vector<ValueId> arguments = {whole.in[1]};
  if (folding.has_bias) arguments.push_back(whole.in[2]);
  for (auto id = norm.in.begin() + 1; id != norm.in.end(); ++id) {
    folding.has.push_back(*id != kNoValue);
    if (*id != kNoValue) arguments.push_back(*id);
  }
  const std::vector<ValueId> folded = insertions.add(place, folding, arguments);
  whole.in[1] = folded[0];
  whole.in[2] = folded[1];
  whole.out[0] = norm.out[0];
  g[norm.out[0]].node = place;
}

}  // namespace

void fold_batch_norm(Graph& graph) {
  const auto normalises = [](const Node& node) {
    return node.op->channel_scale &&
           node.op->channel_scale->applies(*node.op, node.params.ref().data);
  };
  if (!any_node(graph, normalises)) return;
  const Index index(graph);
  const std::vector<bool> constant = constants(graph);
  Insertions insertions(graph);
  std::vector<bool> keep(graph.nodes.size(), true);
  for (size_t i = 0; i < keep.size(); ++i) {
    if (!normalises(graph.nodes[i])) continue;
    const int place = foldable(graph, index, constant, graph.nodes[i]);
    if (place < 0) continue;
    fold(graph, insertions, graph.nodes[i], place);
    keep[i] = false;
  }
  insertions.apply(keep);
}

}  // namespace mica
