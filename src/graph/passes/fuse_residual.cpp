#include "mica/graph/passes/passes.h"
#include "mica/graph/passes/rewrite.h"
#include "mica/ops/conv2d_act/conv2d_act.h"

namespace mica {
namespace {

/// The activation that alone reads a value, or -1.
int activation_after(const Graph& g, const Index& index, ValueId id) {
  if (!passes_on(index, id) || index.is_result(id)) return -1;
  const int reader = index.readers(id)[0];
  return activation_of(g.nodes[static_cast<size_t>(reader)]) != Activation::none ? reader : -1;
}

/// Puts the convolution, the sum and what `place` does (the sum itself, or the activation after it)
/// in that place.
bool fuse_at(Graph& g, Index& index, ValueId y, ValueId residual, int place) {
  const Node* conv = sole_maker(g, index, y);
  if (!conv || !is(*conv, "conv2d")) return false;
  const Node& last = g.nodes[static_cast<size_t>(place)];
  const Conv2dActParams params{conv->params.as<Conv2dParams>(), activation_of(last)};
  const Node joined{&find_op("conv2d_act"),
                    AnyParams(ParamsRef::of(params)),
                    {conv->in[0], conv->in[1], conv->in[2], residual},
                    last.out,
                    {}};
  if (!fits_at(g, index, joined, place) || !has_joined_kernel(g, joined)) return false;
  put(g, index, joined, place);
  return true;
}

/// Fuses a sum with a convolution that is an operand of it. Says which nodes go away.
void fuse_sum(Graph& g, Index& index, int at, std::vector<bool>& keep) {
  const Node sum = g.nodes[static_cast<size_t>(at)];
  const TensorSpec& spec = g[sum.out[0]].spec;
  if (!lie_alike(g[sum.in[0]].spec, spec) || !lie_alike(g[sum.in[1]].spec, spec)) return;
  // Of two convolutions the later one: the other's result is there by then.
  const bool later = g[sum.in[1]].node > g[sum.in[0]].node;
  const int activation = activation_after(g, index, sum.out[0]);
  for (const int place : {activation, at})
    for (const size_t k : {later ? 1U : 0U, later ? 0U : 1U}) {
      const ValueId y = sum.in[k];
      if (place < 0 || !fuse_at(g, index, y, sum.in[1 - k], place)) continue;
      keep[static_cast<size_t>(g[y].node)] = false;
      keep[static_cast<size_t>(at)] = place == at;
      return;
    }
}

}  // namespace

void fuse_residual(Graph& graph) {
  Index index(graph);
  std::vector<bool> keep(graph.nodes.size(), true);
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i)
    if (is(graph.nodes[static_cast<size_t>(i)], "add")) fuse_sum(graph, index, i, keep);
  remove_nodes(graph, keep);
}

}  // namespace mica
