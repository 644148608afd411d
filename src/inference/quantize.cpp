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
  bool image = false;  ///< a convolution reads it or makes it
  double low = 0;
  double high = 0;
  std::vector<double> bins = std::vector<double>(kBins);

  double most() const { return std::max(-low, high); }
};

bool is_constant(const Network& network, int id) {
  const int constant = id - static_cast<int>(network.inputs.size());
  return constant >= 0 && constant < static_cast<int>(network.constants.size());
}
const Tensor& constant_of(const Network& network, int id) {
  return network.constants[static_cast<size_t>(id) - network.inputs.size()].tensor;
}

bool on_cuda(const Network& network) {
  return !network.constants.empty() && network.constants[0].tensor.device().is_cuda();
}

/// Of a layer: whether it has images, with channels on axis 1.
bool is_conv(const Call& call) { return call.op->contraction->channel_axis == 1; }

/// Whether it is computed in bytes. On CUDA these are the ones that the library has kernels for:
/// others, such as the first of a network of images, are faster in halves.
bool is_layer(const Network& network, const Call& call) {
  constexpr int64_t kVector = 16;
  if (!call.op->in_bytes) return false;
  if (!is_constant(network, call.in[1]) || (call.in[2] >= 0 && !is_constant(network, call.in[2])))
    return false;
  const Tensor& weight = constant_of(network, call.in[1]);
  if (weight.dtype() != DType::f32) return false;
  return !on_cuda(network) ||
         (weight.size(0) % kVector == 0 && weight.size(1) % kVector == 0 &&
          (!is_conv(call) || call.params.get("groups") == FieldValue(int64_t{1})));
}

/// The values that are kept as bytes: what layers read, and on CUDA a layer's result that is added
/// to another value, the earlier one of two.
std::map<int, Seen> values_to_observe(const Network& network) {
  std::map<int, Seen> seen;
  const std::vector<int> first = network.first_results();
  std::map<int, const Call*> made_by;
  std::map<int, int> readers;
  for (size_t i = 0; i < network.calls.size(); ++i) {
    const Call& call = network.calls[i];
    for (const int id : call.in) ++readers[id];
    if (!is_layer(network, call)) continue;
    made_by[first[i]] = &call;
    Seen& s = seen[call.in[0]];
    s.image = s.image || is_conv(call);
  }
  if (!on_cuda(network)) return seen;
  for (const Call& call : network.calls) {
    if (std::string_view(call.op->name) != "add") continue;
    const int earlier = std::min(call.in[0], call.in[1]);
    const auto layer = made_by.find(earlier);
    if (layer != made_by.end() && is_conv(*layer->second) && readers[earlier] == 1 &&
        made_by.contains(std::max(call.in[0], call.in[1])))
      seen[earlier].image = true;
  }
  return seen;
}

/// What these values hold. Two passes: the range, then how often its parts occur.
std::map<int, Seen> observe(const Network& network, std::span<const Tensors> batches) {
  std::map<int, Seen> seen = values_to_observe(network);
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

/// The library for CUDA has kernels of bytes with a sign alone.
Quantization quantization_of(const Seen& seen, bool always_with_sign,
                             const QuantizeOptions& options) {
  const bool has_sign = always_with_sign || seen.low < 0;
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

/// Writes the network anew. On CUDA what layers read is made bytes where it is made, and whoever
/// adds it reads these, so that a library's kernel has only bytes to read and to write.
class Rewriting {
 public:
  Rewriting(const Network& network, const std::map<int, Seen>& seen, const QuantizeOptions& options)
      : old_(network),
        seen_(seen),
        options_(options),
        on_cuda_(on_cuda(network)),
        known_(static_cast<int>(network.inputs.size() + network.constants.size())) {
    made_ = network;
    made_.calls.clear();
    const std::vector<int> first = network.first_results();
    value_.resize(static_cast<size_t>(first.back()));
    for (int i = 0; i < known_; ++i) value_[static_cast<size_t>(i)] = i;
  }

  Network run() {
    const std::vector<int> first = old_.first_results();
    for (size_t i = 0; i < old_.calls.size(); ++i) {
      const Call& call = old_.calls[i];
      Call made = call;
      for (int& id : made.in) id = id < 0 ? id : value_[static_cast<size_t>(id)];
      if (is_layer(old_, call)) {
        made = layer(call, std::to_string(i));
      } else if (on_cuda_ && std::string_view(call.op->name) == "add") {
        for (size_t k = 0; k < 2; ++k)
          if (seen_.contains(call.in[k])) made.in[k] = numbers_of(call.in[k]);
      }
      const int results = add(std::move(made));
      for (int k = 0; k < call.outputs; ++k)
        value_[static_cast<size_t>(first[i]) + static_cast<size_t>(k)] = results + k;
    }
    for (int& id : made_.outputs) id = value_[static_cast<size_t>(id)];
    // Results of calls come after all constants.
    const auto added = static_cast<int>(made_.inputs.size() + made_.constants.size());
    const auto renumber = [&](int& id) { id += id >= kResults ? added - kResults : 0; };
    for (Call& call : made_.calls) std::ranges::for_each(call.in, renumber);
    std::ranges::for_each(made_.outputs, renumber);
    return std::move(made_);
  }

 private:
  static constexpr int kResults = 1 << 28;  ///< numbers of results until all constants are known

  int add(Call call) {
    const int results = kResults + results_;
    results_ += call.outputs;
    made_.calls.push_back(std::move(call));
    return results;
  }
  int add_constant(const std::string& name, const Tensor& tensor) {
    made_.constants.push_back({name, tensor});
    return static_cast<int>(made_.inputs.size() + made_.constants.size()) - 1;
  }
  int add(const char* op, std::vector<int> in,
          std::initializer_list<std::pair<const char*, FieldValue>> fields = {}) {
    Call call{.op = &find_op(op), .params = AnyParams(*find_op(op).params_info)};
    for (const auto& [field, value] : fields) call.params.set(field, value);
    call.in = std::move(in);
    return add(std::move(call));
  }
  int number(int id, const char* what, double value) {
    return add_constant(fmt::format("{}.{}", what, id),
                        scalar(value, {DType::f32, old_.constants[0].tensor.device()}));
  }
  int as(DType dtype, int value, bool image) {
    return add("copy", {value}, {{"dtype", dtype}, {"channels_last", image}});
  }

  Quantization quantization(int id) const {
    return quantization_of(seen_.at(id), on_cuda_, options_);
  }

  /// A value of the old network as bytes.
  int bytes_of(int id) {
    if (const auto found = bytes_.find(id); found != bytes_.end()) return found->second;
    const Quantization q = quantization(id);
    const bool image = seen_.at(id).image;
    int value = as(DType::f32, value_[static_cast<size_t>(id)], image);
    value = add("mul", {value, number(id, "times", 1 / q.scale)});
    value = add("round", {value});
    value = add("clamp", {value}, {{"low", q.lowest()}, {"high", q.highest()}});
    return bytes_[id] = as(DType::i8, value, image);
  }
  /// And as the numbers that these stand for, for each reader anew.
  int numbers_of(int id) {
    const int value = as(DType::f32, bytes_of(id), seen_.at(id).image);
    return add("mul", {value, number(id, fmt::format("step.{}", results_).c_str(),
                                     quantization(id).scale)});
  }

  Call layer(const Call& call, const std::string& count) {
    const Quantization q = quantization(call.in[0]);
    const auto& weight = old_.constants[static_cast<size_t>(call.in[1]) - old_.inputs.size()];
    const auto [bytes, step] = quantized_weight(weight.tensor);
    Call made = call;
    made.op = &find_op(call.op->in_bytes);
    made.params = AnyParams(*made.op->params_info);
    for (const auto& [field, value] : call.params.ref().info->values(call.params.ref().data))
      made.params.set(field, value);
    made.params.set("x_scale", q.scale);
    made.params.set("x_sign", q.has_sign);
    made.in = {on_cuda_ ? bytes_of(call.in[0]) : value_[static_cast<size_t>(call.in[0])],
               add_constant(weight.name + ".int8." + count, bytes),
               add_constant(weight.name + ".scale." + count, mul(step, q.scale)), call.in[2]};
    return made;
  }

  const Network& old_;
  const std::map<int, Seen>& seen_;
  QuantizeOptions options_;
  bool on_cuda_;
  int known_;
  Network made_;
  std::vector<int> value_;  ///< by a value of the old network
  std::map<int, int> bytes_;
  int results_ = 0;
};

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
  Network made = Rewriting(network, seen, options).run();
  const auto convolves = [&](const Call& call) { return is_layer(network, call) && is_conv(call); };
  if (std::ranges::any_of(network.calls, convolves)) use_channels_last(made);
  remove_unused(made);
  return made;
}

}  // namespace mica::inference
