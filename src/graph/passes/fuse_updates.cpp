#include <algorithm>
#include <map>
#include <string>

#include "mica/graph/passes/passes.h"
#include "mica/graph/passes/rewrite.h"
#include "mica/ops/optimizer_update/linear_update.h"

namespace mica {
namespace {

constexpr size_t kScalars = 2;  ///< inputs of an update before its lists

/// A layer's products among the gradients of an update: where weight and bias stand in its lists.
struct LayerGrads {
  int node;
  size_t weight, bias;
};

/// Whether convolutions' gradients are made between a layer's and the update: a layer's gradient
/// runs beside them and takes no time, which at the end of the step it would.
bool runs_beside(const Graph& graph, int layer, int update) {
  const auto begin = graph.nodes.begin();
  return std::any_of(begin + layer, begin + update, [](const Node& node) {
    return !node.op->out.empty() && node.op->out[0].format == Format::weight;
  });
}

/// The linear_wgrads whose results this update alone reads, and whose operands are still there.
std::vector<LayerGrads> layers_of(const Graph& graph, Index& index, int number, size_t count) {
  const std::vector<ValueId>& in = graph.nodes[static_cast<size_t>(number)].in;
  const std::span grads(in.data() + kScalars + count, count);
  std::vector<LayerGrads> layers;
  for (size_t k = 0; k < count; ++k) {
    const Node* node = sole_maker(graph, index, grads[k]);
    if (!node || !is(*node, "linear_wgrad") || node->out[0] != grads[k]) continue;
    const auto bias = std::find(grads.begin(), grads.end(), node->out[1]);
    if (bias == grads.end() || !passes_on(index, node->out[1]) ||
        !fits_at(graph, index, *node, number) || runs_beside(graph, graph[grads[k]].node, number))
      continue;
    layers.push_back({graph[grads[k]].node, k, static_cast<size_t>(bias - grads.begin())});
  }
  return layers;
}

/// The update with these layers' parameters first in every list, and what their gradients are made
/// of in place of those.
template <class O>
Node with_layers(const Graph& graph, const Node& update, const std::vector<LayerGrads>& layers) {
  update::WithLayers<typename O::Params> params{update.params.as<typename O::Params>(),
                                                static_cast<int64_t>(layers.size())};
  const auto count = static_cast<size_t>(params.update.count);
  std::vector<size_t> order;
  std::vector<bool> placed(count);
  for (const LayerGrads& l : layers)
    for (const size_t k : {l.weight, l.bias}) {
      order.push_back(k);
      placed[k] = true;
    }
  for (size_t k = 0; k < count; ++k)
    if (!placed[k]) order.push_back(k);
  Node joined{&find_op(O::kName), AnyParams(ParamsRef::of(params)), {}, {}, update.after};
  joined.in.assign(update.in.begin(), update.in.begin() + kScalars);
  for (size_t list = kScalars; list < update.in.size(); list += count)
    for (const size_t k : order) joined.in.push_back(update.in[list + k]);
  for (size_t list = 0; list < update.out.size(); list += count)
    for (const size_t k : order) joined.out.push_back(update.out[list + k]);
  for (size_t l = 0; l < layers.size(); ++l)
    for (size_t i = 0; i < 2; ++i)
      joined.in[kScalars + count + 2 * l + i] =
          graph.nodes[static_cast<size_t>(layers[l].node)].in[i];
  return joined;
}

/// Whether what the gradients are made of, which lives until the update, takes no more memory than
/// they would.
bool saves_memory(const Graph& graph, const std::vector<LayerGrads>& layers) {
  int64_t kept = 0;
  int64_t saved = 0;
  for (const LayerGrads& layer : layers) {
    const Node& node = graph.nodes[static_cast<size_t>(layer.node)];
    for (const ValueId id : node.in) kept += graph[id].spec.numel();
    for (const ValueId id : node.out) saved += graph[id].spec.numel();
  }
  return kept <= saved;
}

template <class O>
void join(Graph& graph, Index& index, int number, std::vector<bool>& keep) {
  const Node& update = graph.nodes[static_cast<size_t>(number)];
  if (!is(update, O::kPlain)) return;
  const auto count = static_cast<size_t>(update.params.as<typename O::Params>().count);
  std::vector<LayerGrads> layers = layers_of(graph, index, number, count);
  // One layer too large for it does not keep the others out. Layers of one size are asked for once:
  // a question goes through the whole update.
  std::map<std::string, bool> takes;
  std::erase_if(layers, [&](const LayerGrads& layer) {
    std::string size;
    for (const ValueId id : graph.nodes[static_cast<size_t>(layer.node)].in)
      size += to_string(graph[id].spec);
    const auto [known, is_new] = takes.try_emplace(size);
    if (is_new) known->second = has_joined_kernel(graph, with_layers<O>(graph, update, {layer}));
    return !known->second;
  });
  if (layers.empty() || !saves_memory(graph, layers)) return;
  for (const LayerGrads& l : layers) keep[static_cast<size_t>(l.node)] = false;
  put(graph, index, with_layers<O>(graph, update, layers), number);
}

}  // namespace

void fuse_updates(Graph& graph) {
  Index index(graph);
  std::vector<bool> keep(graph.nodes.size(), true);
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) {
    join<update::LinearSgd>(graph, index, i, keep);
    join<update::LinearAdam>(graph, index, i, keep);
    join<update::LinearRmsprop>(graph, index, i, keep);
    join<update::LinearAdagrad>(graph, index, i, keep);
  }
  remove_nodes(graph, keep);
}

}  // namespace mica
