#include "mica/inference/quantize.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "mica/autograd/autograd.h"
#include "mica/core/check.h"
#include "mica/inference/network.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/conv2d/conv2d.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/quantized/quantized.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/view/view.h"
#include "mica/ops/where/where.h"

namespace mica::inference {
namespace {

constexpr size_t kBins = 2048;
constexpr double kMostWeight = 127;

/// What a value held in calibration.
struct Seen {
  double low = 0;
  double high = 0;
  std::vector<double> bins = std::vector<double>(kBins);

  double most() const { return std::max(-low, high); }
};

bool is_layer(const Network& network, const Call& call) {
  const std::string_view op = call.op->name;
  if (op != "conv2d" && op != "linear") return false;
  const auto inputs = static_cast<int>(network.inputs.size());
  const int weight = call.in[1] - inputs;
  const int bias = call.in[2] - inputs;
  const auto constants = static_cast<int>(network.constants.size());
  return weight >= 0 && weight < constants && (call.in[2] < 0 || (bias >= 0 && bias < constants)) &&
         network.constants[static_cast<size_t>(weight)].tensor.dtype() == DType::f32;
}

/// What the inputs of layers hold. Two passes: the range, then how often its parts occur.
std::map<int, Seen> observe(const Network& network, std::span<const Tensors> batches) {
  std::map<int, Seen> seen;
  for (const Call& call : network.calls)
    if (is_layer(network, call)) seen.try_emplace(call.in[0]);
  for (const bool count : {false, true})
    for (const Tensors& batch : batches)
      network.run(batch, [&](int value, const Tensor& t) {
        const auto at = seen.find(value);
        if (at == seen.end() || t.numel() == 0) return;
        Seen& s = at->second;
        if (!count) {
          s.low = std::min(s.low, min(t).item<double>());
          s.high = std::max(s.high, max(t).item<double>());
          check(std::isfinite(s.low) && std::isfinite(s.high),
                "inference: calibration met a number that is not finite");
          return;
        }
        const double width = s.most() / static_cast<double>(kBins);
        if (width == 0) return;
        for (const float v : to(contiguous(t), Device::cpu()).to_vector<float>()) {
          if (v == 0) continue;  // which any scale gives exactly, and many a layer gives often
          const double place = std::abs(double{v}) / width;
          ++s.bins[std::min(static_cast<size_t>(place), kBins - 1)];
        }
      });
  return seen;
}

/// How much less is told of a distribution by `levels` steps up to bin `end`.
double divergence(std::span<const double> bins, size_t end, size_t levels) {
  std::vector<double> p(bins.begin(), bins.begin() + static_cast<std::ptrdiff_t>(end));
  p.back() += std::accumulate(bins.begin() + static_cast<std::ptrdiff_t>(end), bins.end(), 0.0);
  std::vector<double> q(end);
  for (size_t level = 0; level < levels; ++level) {
    const size_t from = level * end / levels;
    const size_t to = (level + 1) * end / levels;
    double sum = 0;
    double held = 0;
    for (size_t i = from; i < to; ++i) {
      sum += bins[i];
      held += p[i] > 0 ? 1 : 0;
    }
    for (size_t i = from; i < to; ++i) q[i] = p[i] > 0 ? sum / held : 0;
  }
  const double p_total = std::accumulate(p.begin(), p.end(), 0.0);
  const double q_total = std::accumulate(q.begin(), q.end(), 0.0);
  double sum = 0;
  for (size_t i = 0; i < end; ++i) {
    if (p[i] == 0) continue;
    if (q[i] == 0) return std::numeric_limits<double>::infinity();
    sum += p[i] / p_total * std::log(p[i] / p_total / (q[i] / q_total));
  }
  return sum;
}

Quantization quantization_of(const Seen& seen, const QuantizeOptions& options) {
  const bool has_sign = seen.low < 0;
  const double bound = bound_of(seen.bins, seen.most(), has_sign ? 128 : 256, options);
  return {.scale = bound > 0 ? bound / (has_sign ? 127 : 255) : 1, .has_sign = has_sign};
}

/// A weight (out, …) as bytes, and the number that each row is taken times.
std::pair<Tensor, Tensor> quantized_weight(const Tensor& weight) {
  const Tensor rows = reshape(contiguous(weight), {weight.size(0), -1});
  const Tensor most = max(abs(rows), Dims{1}, true);
  const Tensor step = where(gt(most, 0.0), div(most, kMostWeight), ones_like(most));
  const Tensor bytes = clamp(round(div(rows, step)), {.low = -kMostWeight, .high = kMostWeight});
  return {reshape(cast(bytes, DType::i8), weight.shape()), reshape(step, {weight.size(0)})};
}

/// Images of inputs are brought into channels_last, in which products of bytes are computed; calls
/// keep the format of what they read.
void use_channels_last(Network& network) {
  const auto inputs = static_cast<int>(network.inputs.size());
  const int known = inputs + static_cast<int>(network.constants.size());
  std::vector<Call> copies;
  std::vector<int> instead(static_cast<size_t>(inputs), -1);
  const OpDef& copy = find_op("copy");
  for (int i = 0; i < inputs; ++i) {
    const Network::Input& input = network.inputs[static_cast<size_t>(i)];
    if (input.shape.size() != 4 || !is_floating(input.dtype)) continue;
    Call call{.op = &copy, .params = AnyParams(*copy.params_info)};
    call.params.set("dtype", input.dtype);
    call.params.set("channels_last", true);
    call.in = {i};
    instead[static_cast<size_t>(i)] = known + static_cast<int>(copies.size());
    copies.push_back(std::move(call));
  }
  const auto more = static_cast<int>(copies.size());
  const auto renumber = [&](int& id) {
    if (id >= known) {
      id += more;
    } else if (id >= 0 && id < inputs && instead[static_cast<size_t>(id)] >= 0) {
      id = instead[static_cast<size_t>(id)];
    }
  };
  for (Call& call : network.calls) std::ranges::for_each(call.in, renumber);
  for (int& id : network.outputs)
    if (id >= known) id += more;
  network.calls.insert(network.calls.begin(), std::make_move_iterator(copies.begin()),
                       std::make_move_iterator(copies.end()));
}

}  // namespace

double bound_of(std::span<const double> bins, double most, int levels,
                const QuantizeOptions& options) {
  const auto count = static_cast<double>(bins.size());
  if (options.calibration == Calibration::min_max || most == 0) return most;
  const double total = std::accumulate(bins.begin(), bins.end(), 0.0);
  if (options.calibration == Calibration::percentile) {
    double sum = 0;
    for (size_t i = 0; i < bins.size(); ++i) {
      sum += bins[i];
      if (sum >= total * options.percentile / 100) return most * static_cast<double>(i + 1) / count;
    }
    return most;
  }
  const auto steps = static_cast<size_t>(levels);
  size_t best = bins.size();
  double least = std::numeric_limits<double>::infinity();
  for (size_t end = steps; end <= bins.size(); end += 8) {
    const double lost = divergence(bins, end, steps);
    if (lost < least) {
      least = lost;
      best = end;
    }
  }
  return most * static_cast<double>(best) / count;
}

Network quantize(const Network& network, std::span<const Tensors> batches,
                 const QuantizeOptions& options) {
  check(!batches.empty(), "inference: int8 wants batches to calibrate with");
  check(options.percentile > 0 && options.percentile <= 100,
        "inference: expected a percentile above 0 and at most 100, got {}", options.percentile);
  const NoGrad guard;
  const std::map<int, Seen> seen = observe(network, batches);
  const auto inputs = static_cast<int>(network.inputs.size());
  const auto constants = static_cast<int>(network.constants.size());
  // New constants come after the old ones, and the results of calls after all of them.
  Network made = network;
  std::vector<std::pair<size_t, std::pair<int, int>>> layers;
  for (size_t i = 0; i < network.calls.size(); ++i) {
    const Call& call = network.calls[i];
    if (!is_layer(network, call)) continue;
    const Quantization q = quantization_of(seen.at(call.in[0]), options);
    const Network::Constant& weight = network.constants[static_cast<size_t>(call.in[1] - inputs)];
    const auto [bytes, step] = quantized_weight(weight.tensor);
    const auto next = inputs + static_cast<int>(made.constants.size());
    const std::string count = std::to_string(i);
    made.constants.push_back({weight.name + ".int8." + count, bytes});
    made.constants.push_back({weight.name + ".scale." + count, mul(step, q.scale)});
    Call& layer = made.calls[i];
    const bool conv = std::string_view(call.op->name) == "conv2d";
    layer.op = &find_op(conv ? "quantized_conv2d" : "quantized_linear");
    layer.params = AnyParams(*layer.op->params_info);
    for (const auto& [field, value] : call.params.ref().info->values(call.params.ref().data))
      layer.params.set(field, value);
    layer.params.set("x_scale", q.scale);
    layer.params.set("x_sign", q.has_sign);
    layers.push_back({i, {next, next + 1}});
  }
  const auto more = static_cast<int>(made.constants.size()) - constants;
  const auto shift = [&](int& id) { id += id >= inputs + constants ? more : 0; };
  for (Call& call : made.calls) std::ranges::for_each(call.in, shift);
  std::ranges::for_each(made.outputs, shift);
  for (const auto& [i, added] : layers) {
    Call& call = made.calls[i];
    call.in = {call.in[0], added.first, added.second, call.in[2]};
  }
  const auto convolves = [](const Call& call) {
    return std::string_view(call.op->name) == "quantized_conv2d";
  };
  if (std::ranges::any_of(made.calls, convolves)) use_channels_last(made);
  remove_unused(made);
  return made;
}

}  // namespace mica::inference
