#include <algorithm>

#include "mica/graph/passes/passes.h"
#include "mica/graph/passes/rewrite.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/view/view.h"

namespace mica {
namespace {

Dims inverse(const Dims& order) {
  Dims inv = order;
  for (int i = 0; i < order.rank(); ++i) inv[static_cast<int>(order[i])] = i;
  return inv;
}

/// Elementwise calls whose last result is permuted back.
class Chain {
 public:
  Chain(const Graph& graph, const Index& index, const Dims& order)
      : g_(graph), index_(index), order_(order) {}

  /// Whether a value is made of tensors in this order and of numbers alone.
  bool reaches(ValueId id) {
    if (permuted(id) != kNoValue) return true;
    const Node* node = sole_maker(g_, index_, id);
    if (!node || node->op->elementwise == 0 || node->out.size() != 1) return false;
    calls_.push_back(g_[id].node);
    return std::all_of(node->in.begin(), node->in.end(), [&](ValueId in) {
      return in != kNoValue && (is_number(in) || reaches(in));
    });
  }

  /// Makes the calls on what was permuted. Their results get that shape and format.
  void unpermute(Graph& g, Index& index) const {
    const Dims back = inverse(order_);
    // A call's operands come after it.
    for (auto i = calls_.rbegin(); i != calls_.rend(); ++i) {
      Node& node = g.nodes[static_cast<size_t>(*i)];
      bool channels_last = false;
      index.forget(*i);
      for (ValueId& id : node.in) {
        if (const ValueId source = permuted(id); source != kNoValue) id = source;
        channels_last = channels_last || g[id].spec.is_channels_last();
      }
      index.note(*i);
      TensorSpec& spec = g[node.out[0]].spec;
      Shape shape = spec.shape;
      for (int k = 0; k < shape.rank(); ++k) shape[k] = spec.shape[static_cast<int>(back[k])];
      spec.shape = shape;
      spec.strides = channels_last ? channels_last_strides(shape) : contiguous_strides(shape);
      if (node.op->copies)
        node.params = AnyParams(ParamsRef::of(CopyParams{spec.dtype, channels_last}));
    }
  }

 private:
  bool is_number(ValueId id) const { return g_[id].spec.rank() == 0; }

  /// The value that this one shows in the order, or none.
  ValueId permuted(ValueId id) const {
    const Node* view = maker(g_, id);
    const bool so = view && is_permute(*view) && axis_order(*view) == order_ && !index_.ever(id);
    return so ? view->in[0] : kNoValue;
  }

  const Graph& g_;
  const Index& index_;
  const Dims order_;
  std::vector<int> calls_;
};

/// Whether nobody but elementwise calls, which take any layout, reads a value.
bool is_read_by_element(const Graph& g, const Index& index, ValueId id) {
  const auto readers = index.readers(id);
  return !index.is_result(id) && std::all_of(readers.begin(), readers.end(), [&](int i) {
    return g.nodes[static_cast<size_t>(i)].op->elementwise > 0;
  });
}

}  // namespace

void cancel_permutations(Graph& graph) {
  if (!any_node(graph, is_permute)) return;
  Index index(graph);
  std::vector<bool> keep(graph.nodes.size(), true);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& last = graph.nodes[i];
    if (!is_permute(last)) continue;
    const ValueId from = last.out[0];
    const ValueId to = last.in[0];
    Chain chain(graph, index, inverse(axis_order(last)));
    const Node* before = sole_maker(graph, index, to);
    if (!before || before->is_view() || !is_read_by_element(graph, index, from) ||
        !chain.reaches(to))
      continue;
    chain.unpermute(graph, index);
    for (const int reader : index.readers(from)) {
      std::vector<ValueId>& in = graph.nodes[static_cast<size_t>(reader)].in;
      std::replace(in.begin(), in.end(), from, to);
    }
    index.rename(from, to);
    keep[i] = false;
  }
  remove_nodes(graph, keep);
}

}  // namespace mica
