#include <algorithm>

#include "mica/core/error.h"
#include "mica/graph/passes/passes.h"
#include "mica/graph/passes/rewrite.h"
#include "mica/ops/copy/copy.h"

namespace mica {
namespace {

bool is_cast(const Graph& g, const Node* node) {
  return node && node->op->copies && g[node->in[0]].spec.dtype != g[node->out[0]].spec.dtype;
}

/// Whether a value may come to lie otherwise: nobody takes a view of it, writes to it or is given
/// it.
bool is_free(const Index& index, ValueId id) {
  return !index.ever(id) && !index.is_result(id) && index.views(id).empty();
}

ValueId add_value(Graph& g, Index& index, TensorSpec spec, ValueId base, int64_t offset) {
  spec.defined = true;
  g.values.push_back({spec, Value::Kind::computed, {}, -1, base, offset, false});
  const auto id = static_cast<ValueId>(g.values.size() - 1);
  index.note_view(id);
  return id;
}

/// Lets a value lie elsewhere.
void rebase(Graph& g, Index& index, ValueId id, ValueId base, int64_t offset) {
  index.forget_view(id);
  g[id].base = base;
  g[id].offset = offset;
  index.note_view(id);
}

/// The spec of a cast.
TensorSpec in_dtype(const TensorSpec& x, DType dtype) {
  TensorSpec spec = TensorSpec::contiguous(x.shape, dtype, x.device);
  if (x.is_channels_last()) spec.strides = channels_last_strides(x.shape);
  return spec;
}

Node cast_node(const Graph& g, ValueId from, ValueId to) {
  return {&layout_copy_op(), layout_copy_params(g[to].spec), {from}, {to}, {}};
}

void put_at(Graph& g, Index& index, Node node, int place) {
  for (const ValueId id : node.out) g[id].node = place;
  index.forget(place);
  g.nodes[static_cast<size_t>(place)] = std::move(node);
  index.note(place);
}

/// view(cast(x)) of fewer elements becomes cast(view(x)).
void cast_less(Graph& g, Index& index, int at) {
  const Node view = g.nodes[static_cast<size_t>(at)];
  const Node* cast = sole_maker(g, index, view.in[0]);
  const ValueId y = view.out[0];
  if (!is_cast(g, cast) || g[y].spec.numel() >= g[view.in[0]].spec.numel() || !is_free(index, y) ||
      index.ever(cast->in[0]))
    return;
  const int place = g[view.in[0]].node;
  const ValueId x = cast->in[0];
  ViewSpec seen;
  try {
    seen = view.op->view(*view.op, view.params.ref().data, g[x].spec);
  } catch (const ShapeError&) {
    return;
  }
  const ValueId part = add_value(g, index, seen.spec, x, seen.offset);
  put_at(g, index, {view.op, view.params, {x}, {part}, {}}, place);
  g[y].spec.strides = contiguous_strides(g[y].spec.shape);
  g[y].spec.aligned = true;
  rebase(g, index, y, kNoValue, 0);
  put_at(g, index, cast_node(g, part, y), at);
}

/// cast(view(x)) of more elements becomes view(cast(x)), where nobody minds how that lies.
void cast_before_more(Graph& g, Index& index, int at) {
  const Node cast = g.nodes[static_cast<size_t>(at)];
  const Node* view = sole_maker(g, index, cast.in[0]);
  const ValueId y = cast.out[0];
  if (!view || !view->is_view() || index.ever(view->in[0]) || !is_free(index, y) ||
      g[y].spec.numel() <= g[view->in[0]].spec.numel() ||
      std::any_of(index.readers(y).begin(), index.readers(y).end(), [&](int reader) {
        return g.nodes[static_cast<size_t>(reader)].op->elementwise == 0;
      }))
    return;
  const int place = g[cast.in[0]].node;
  const Node more = *view;
  const ValueId x = more.in[0];
  const TensorSpec spec = in_dtype(g[x].spec, g[y].spec.dtype);
  ViewSpec seen;
  try {
    seen = more.op->view(*more.op, more.params.ref().data, spec);
  } catch (const ShapeError&) {
    return;
  }
  const ValueId few = add_value(g, index, spec, kNoValue, 0);
  put_at(g, index, cast_node(g, x, few), place);
  g[y].spec.strides = seen.spec.strides;
  rebase(g, index, y, few, seen.offset);
  put_at(g, index, {more.op, more.params, {few}, {y}, {}}, at);
}

/// concat(cast(a), cast(b)) to something wider becomes cast(concat(a, b)).
void cast_joined(Graph& g, Index& index, int at) {
  const Node joined = g.nodes[static_cast<size_t>(at)];
  const ValueId y = joined.out[0];
  std::vector<ValueId> sources;
  int place = -1;
  for (const ValueId id : joined.in) {
    const Node* cast = sole_maker(g, index, id);
    if (!is_cast(g, cast) || index.ever(cast->in[0])) return;
    sources.push_back(cast->in[0]);
    place = std::max(place, g[id].node);
  }
  const DType from = g[sources[0]].spec.dtype;
  if (size_of(from) >= size_of(g[y].spec.dtype) ||
      std::any_of(sources.begin(), sources.end(),
                  [&](ValueId id) { return g[id].spec.dtype != from; }))
    return;
  TensorSpec spec = g[y].spec;
  spec.dtype = from;
  const ValueId narrow = add_value(g, index, spec, kNoValue, 0);
  put_at(g, index, {joined.op, joined.params, sources, {narrow}, {}}, place);
  put_at(g, index, cast_node(g, narrow, y), at);
}

/// cast(concat(a, b)) to something narrower becomes concat(cast(a), cast(b)), in place of the
/// concat. Whether it does.
bool cast_parts(Graph& g, const Index& index, Insertions& insertions, const Node& cast) {
  const Node* joined = maker(g, cast.in[0]);
  if (!joined || !joined->op->joins || !passes_on(index, cast.in[0])) return false;
  const TensorSpec& wide = g[cast.in[0]].spec;
  const TensorSpec& narrow = g[cast.out[0]].spec;
  if (size_of(narrow.dtype) >= size_of(wide.dtype) || narrow.strides != wide.strides) return false;
  const auto cast_all = [dtype = narrow.dtype](std::span<const Tensor> in) {
    const NoGrad guard;
    Tensors out;
    for (const Tensor& t : in) out.push_back(mica::cast(t, dtype));
    return out;
  };
  const int place = g[cast.in[0]].node;
  Node& parts = g.nodes[static_cast<size_t>(place)];
  parts.in = insertions.add(place, cast_all, parts.in);
  parts.out = cast.out;
  g[cast.out[0]].node = place;
  return true;
}

}  // namespace

void move_casts(Graph& graph) {
  if (!any_node(graph, [](const Node& node) { return node.op->copies; })) return;
  {
    Index index(graph);
    for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) {
      const Node& node = graph.nodes[static_cast<size_t>(i)];
      if (node.is_view()) {
        cast_less(graph, index, i);
      } else if (node.op->joins) {
        cast_joined(graph, index, i);
      } else if (is_cast(graph, &node)) {
        cast_before_more(graph, index, i);
      }
    }
  }
  remove_dead_nodes(graph);
  const Index index(graph);
  Insertions insertions(graph);
  std::vector<bool> keep(graph.nodes.size(), true);
  for (size_t i = 0; i < keep.size(); ++i)
    keep[i] =
        !is_cast(graph, &graph.nodes[i]) || !cast_parts(graph, index, insertions, graph.nodes[i]);
  insertions.apply(keep);
}

}  // namespace mica
