#include "mica/graph/passes/passes.h"
#include "mica/graph/passes/rewrite.h"
#include "mica/ops/max_pool2d/max_pool2d.h"

namespace mica {
namespace {

bool may_overlap(const MaxPool2dParams& p) {
  const auto along = [](int64_t kernel, int64_t stride, int64_t dilation) {
    return (kernel - 1) * dilation >= (stride == 0 ? kernel : stride);
  };
  return along(p.kernel.h, p.stride.h, p.dilation.h) || along(p.kernel.w, p.stride.w, p.dilation.w);
}

/// Whether a call is the gradient of an activation, computed from its results (dy, y): linear in
/// dy, so that it gives 0 where dy is 0, and may be taken before dy is spread. Where windows
/// overlap dy is summed, which relu's gradient alone lets through to the bit.
bool commutes(const Node& node, const MaxPool2dParams& pool) {
  if (is(node, "relu_grad")) return true;
  return (is(node, "tanh_grad") || is(node, "sigmoid_grad")) && !may_overlap(pool);
}

/// What an elementwise call of pooled values gives.
TensorSpec pooled_spec(const TensorSpec& dy) {
  TensorSpec spec = TensorSpec::contiguous(dy.shape, dy.dtype, dy.device);
  if (dy.is_channels_last()) spec.strides = channels_last_strides(dy.shape);
  spec.defined = true;
  return spec;
}

}  // namespace

void move_gradients_past_pools(Graph& graph) {
  Index index(graph);
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) {
    const Node activation = graph.nodes[static_cast<size_t>(i)];
    if (activation.in.size() != 2) continue;
    const ValueId between = activation.in[0];
    const Node* found = sole_maker(graph, index, between);
    if (!found || !is(*found, "max_pool2d_grad")) continue;
    const Node spread = *found;
    const ValueId positions = spread.in[1];
    const Node* pool = maker(graph, positions);
    if (!pool || !is(*pool, "max_pool2d") || pool->out[1] != positions ||
        pool->in[0] != activation.in[1] ||
        !commutes(activation, pool->params.as<MaxPool2dParams>()) ||
        !lie_alike(graph[between].spec, graph[activation.out[0]].spec))
      continue;
    const int first = graph[between].node;
    const Node small{activation.op, activation.params, {spread.in[0], pool->out[0]}, {between}, {}};
    const Node last{spread.op, spread.params, {between, positions}, activation.out, {}};
    if (!fits_at(graph, index, small, first) || !index.lasts_until(positions, i)) continue;
    graph[between].spec = pooled_spec(graph[spread.in[0]].spec);
    put(graph, index, small, first);
    put(graph, index, last, i);
  }
}

}  // namespace mica
