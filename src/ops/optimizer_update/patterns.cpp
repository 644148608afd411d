// An update and the gradients of linear layers that it alone reads are one call, so that these
// never go to memory.
#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>

#include "mica/op/pattern.h"
#include "mica/ops/optimizer_update/linear_update.h"
#include "mica/ops/optimizer_update/multi_tensor.h"

namespace mica {

const OpDef& linear_wgrad_op();

namespace {

using update::kScalars;

/// A layer's products among the gradients of an update: where weight and bias stand in its lists.
struct LayerGrads {
  MatchedCall products;
  size_t weight, bias;
};

bool makes_weight_gradient(const OpDef& op) {
  return !op.out.empty() && op.out[0].format == Format::weight;
}

/// The linear_wgrads whose results this update alone reads, and whose operands are still there.
/// Where convolutions' gradients are made between a layer's and the update, the layer's runs beside
/// them and takes no time, which at the end of the step it would.
std::vector<LayerGrads> layers_of(const Match& match, size_t count) {
  const MatchedCall& update = match.calls[0];
  const std::span grads(update.in.data() + kScalars + count, count);
  std::unordered_map<int, size_t> place_of;
  std::unordered_map<int, int> uses;
  for (size_t k = 0; k < count; ++k) {
    place_of[grads[k]] = k;
    ++uses[grads[k]];
  }
  const auto is_its_own = [&](int value) { return uses[value] == 1 && match.goes(value); };
  const int last_convolution = match.last_before(makes_weight_gradient);
  std::vector<LayerGrads> layers;
  for (size_t k = 0; k < count; ++k) {
    std::optional<MatchedCall> call = match.maker(grads[k]);
    if (!call || call->op != &linear_wgrad_op() || call->out[0] != grads[k] ||
        call->place < last_convolution)
      continue;
    const auto bias = place_of.find(call->out[1]);
    if (bias == place_of.end() || !is_its_own(call->out[0]) || !is_its_own(call->out[1]) ||
        !std::all_of(call->in.begin(), call->in.end(), [&](int id) { return match.lasts(id); }))
      continue;
    layers.push_back({std::move(*call), k, bias->second});
  }
  return layers;
}

/// The update with these layers' parameters first in every list, and what their gradients are made
/// of in place of those.
template <class O>
MatchedCall with_layers(const MatchedCall& update, const std::vector<LayerGrads>& layers) {
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
  MatchedCall joined{&find_op(O::kName), AnyParams(ParamsRef::of(params)), {}, {}};
  joined.in.assign(update.in.begin(), update.in.begin() + kScalars);
  for (size_t list = kScalars; list < update.in.size(); list += count)
    for (const size_t k : order) joined.in.push_back(update.in[list + k]);
  for (size_t list = 0; list < update.out.size(); list += count)
    for (const size_t k : order) joined.out.push_back(update.out[list + k]);
  for (size_t l = 0; l < layers.size(); ++l) {
    for (size_t i = 0; i < 2; ++i)
      joined.in[kScalars + count + 2 * l + i] = layers[l].products.in[i];
    joined.also_replaces.push_back(layers[l].products.place);
  }
  return joined;
}

/// Whether what the gradients are made of, which lives until the update, takes no more memory than
/// they would.
bool saves_memory(const Match& match, const std::vector<LayerGrads>& layers) {
  int64_t kept = 0;
  int64_t saved = 0;
  for (const LayerGrads& layer : layers) {
    for (const int id : layer.products.in) kept += match.spec(id).numel();
    for (const int id : layer.products.out) saved += match.spec(id).numel();
  }
  return kept <= saved;
}

template <class O>
std::optional<MatchedCall> join(const Match& match) {
  const MatchedCall& update = match.calls[0];
  const auto count = static_cast<size_t>(update.params.as<typename O::Params>().count);
  std::vector<LayerGrads> layers = layers_of(match, count);
  // One layer too large for it does not keep the others out. Layers of one size are asked for once:
  // a question goes through the whole update.
  std::map<std::string, bool> takes;
  std::erase_if(layers, [&](const LayerGrads& layer) {
    std::string size;
    for (const int id : layer.products.in) size += to_string(match.spec(id));
    const auto [known, is_new] = takes.try_emplace(size);
    if (is_new) known->second = match.has_kernel(with_layers<O>(update, {layer}));
    return !known->second;
  });
  if (layers.empty() || !saves_memory(match, layers)) return std::nullopt;
  return with_layers<O>(update, layers);
}

}  // namespace

Patterns optimizer_update_patterns() {
  return {
      {{{update::Sgd::kName, {}}}, join<update::LinearSgd>},
      {{{update::Adam::kName, {}}}, join<update::LinearAdam>},
      {{{update::Rmsprop::kName, {}}}, join<update::LinearRmsprop>},
      {{{update::Adagrad::kName, {}}}, join<update::LinearAdagrad>},
  };
}

}  // namespace mica
