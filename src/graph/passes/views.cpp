#include "mica/core/error.h"
#include "mica/graph/passes/passes.h"
#include "mica/graph/passes/rewrite.h"
#include "mica/ops/view/view.h"

namespace mica {
namespace {

/// Whether the outer of two views may be tried on the input of the inner.
bool may_skip(const Node& outer, const Node& inner) {
  return outer.op->view_absorbs || (is_permute(outer) && is_permute(inner));
}

/// Makes a view one of `base`, if its op sees the same there.
bool take_from(Graph& g, Node& node, ValueId base, const AnyParams& params) {
  Value& v = g[node.out[0]];
  int64_t offset = v.offset;  // from `base`, through what lies between
  for (ValueId id = v.base; id != base; id = g[id].base) offset += g[id].offset;
  try {
    const ViewSpec seen = node.op->view(*node.op, params.ref().data, g[base].spec);
    if (!lie_alike(seen.spec, v.spec) || seen.offset != offset) return false;
  } catch (const ShapeError&) {
    return false;
  }
  node.params = params;
  node.in[0] = base;
  v.base = base;
  v.offset = offset;
  return true;
}

/// The parameters of a view of its input's input.
AnyParams through(const Node& outer, const Node& inner) {
  if (!is_permute(outer)) return outer.params;
  Dims order = axis_order(outer);
  for (int64_t& axis : order) axis = axis_order(inner)[static_cast<int>(axis)];
  AnyParams params = outer.params;
  params.set("dims", order);
  return params;
}

/// The value up the chain of views that shows what this one shows.
ValueId equal(const Graph& g, const Node& node) {
  if (!node.is_view()) return kNoValue;
  int64_t offset = g[node.out[0]].offset;
  for (ValueId id = node.in[0];; id = g[id].base) {
    if (offset == 0 && lie_alike(g[id].spec, g[node.out[0]].spec)) return id;
    const Node* above = maker(g, id);
    if (!above || !above->is_view()) return kNoValue;
    offset += g[id].offset;
  }
}

}  // namespace

void collapse_views(Graph& graph) {
  for (Node& node : graph.nodes) {
    if (!node.is_view()) continue;
    for (const Node* inner = maker(graph, node.in[0]);
         inner && inner->is_view() && may_skip(node, *inner); inner = maker(graph, node.in[0]))
      if (!take_from(graph, node, inner->in[0], through(node, *inner))) break;
  }
  replace_results(graph, equal);
}

}  // namespace mica
