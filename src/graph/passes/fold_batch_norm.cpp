#include <algorithm>

#include "mica/graph/passes/passes.h"
#include "mica/graph/passes/rewrite.h"
#include "mica/ops/batch_norm/batch_norm.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/math/math_ops.h"
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
      !lie_alike(g[norm.in[0]].spec, g[norm.out[0]].spec) || index.uses(norm.out[1]) != 0 ||
      index.uses(norm.out[2]) != 0)
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

/// Weight and bias with a batch norm in them. Of the inputs those that are undefined are not there.
struct Folding {
  double eps;
  bool has_bias, has_scale, has_shift;

  Tensors operator()(std::span<const Tensor> in) const {
    const NoGrad guard;
    const Tensor* next = in.data();
    const Tensor weight = *next++;
    const Tensor bias = has_bias ? *next++ : Tensor();
    const Tensor gamma = has_scale ? *next++ : Tensor();
    const Tensor beta = has_shift ? *next++ : Tensor();
    const Tensor mean = *next++;
    const Tensor var = *next;
    const Tensor deviation = sqrt(add(var, eps));
    const Tensor scale = has_scale ? div(gamma, deviation) : reciprocal(deviation);
    Shape by_channel = Dims::filled(weight.rank(), 1);
    by_channel[0] = weight.size(0);
    const Tensor w = mul(cast(weight, scale.dtype()), reshape(scale, by_channel));
    const Tensor from = has_bias ? sub(cast(bias, scale.dtype()), mean) : neg(mean);
    Tensor b = mul(from, scale);
    if (has_shift) b = add(b, beta);
    return {cast(w, weight.dtype()), cast(b, weight.dtype())};
  }
};

/// Lets the node at `place` make what the batch norm makes.
void fold(Graph& g, Insertions& insertions, const Node& norm, int place) {
  Node& whole = g.nodes[static_cast<size_t>(place)];
  std::vector<ValueId> arguments;
  for (const ValueId id :
       {whole.in[1], whole.in[2], norm.in[1], norm.in[2], norm.in[3], norm.in[4]})
    if (id != kNoValue) arguments.push_back(id);
  const std::vector<ValueId> folded =
      insertions.add(place,
                     Folding{norm.params.as<BatchNormParams>().eps, whole.in[2] != kNoValue,
                             norm.in[1] != kNoValue, norm.in[2] != kNoValue},
                     arguments);
  whole.in[1] = folded[0];
  whole.in[2] = folded[1];
  whole.out[0] = norm.out[0];
  g[norm.out[0]].node = place;
}

}  // namespace

void fold_batch_norm(Graph& graph) {
  const auto normalises = [](const Node& node) {
    return is(node, "batch_norm") && !node.params.as<BatchNormParams>().training;
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
