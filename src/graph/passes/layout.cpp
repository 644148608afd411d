// Which convolutions run in channels_last though they were written for row-major images.
//
// A region is made of convolutions and of what lies between them and takes the format of its
// inputs. All its images become channels_last; those that come from outside, or go there, are
// converted, weights too, once for all who read them. Gradients are convolutions like others, so in
// training a region goes through backward; what it makes of weights stays row-major. cuDNN converts
// both images of every row-major convolution of halves and of f32 in TF32, so a region pays
// once it has fewer bytes to convert than its convolutions have images. On an H200 four
// convolutions of 64 channels on 32 images of 56x56 in bf16 take 63 µs each row-major and 24 µs in
// channels_last, a conversion 7 µs; a first layer of 3 channels gains too. ResNet-50 in TF32 trains
// at 2,970 images a second row-major and at 3,640 in channels_last. Small convolutions in TF32 have
// kernels of our own, which read rows: what a region makes them lose counts against it.
//
// On the CPU oneDNN copies the windows of a row-major convolution of f32 and computes what follows
// by its reference; in channels_last it does neither. One image on one Zen 5 core: 64 channels of
// 80x80, 3x3 2.7 ms and 1.7 ms, with hardswish 4.2 ms and 1.7 ms; 16 channels of 160x160 to 32, 1x1
// 0.21 ms and 0.11 ms. Gradients of weights are no faster so: they count against it. Products of
// bf16 read channels_last alone, gradients of weights too: 64 channels of 8 images of 32x32, 3x3
// 1.07 ms and 2.92 ms, the gradient 1.45 and 3.94.
#include <algorithm>
#include <map>
#include <set>

#include "mica/core/error.h"
#include "mica/graph/passes/passes.h"
#include "mica/graph/passes/rewrite.h"
#include "mica/op/settings.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/device_table.h"
#include "mica/runtime/cpu/cpu_features.h"

namespace mica {
namespace {

double bytes(const TensorSpec& s) {
  return static_cast<double>(s.numel()) * static_cast<double>(size_of(s.dtype));
}

/// An image whose two formats differ.
bool is_image(const TensorSpec& s) {
  return s.defined && s.rank() == 4 && s.numel() > 0 && !s.is_channels_last_dense();
}

/// Whether the op leaves the format of the images it makes to those that come in.
bool leaves_format_open(const Graph& g, const Node& node) {
  std::vector<TensorSpec> in;
  for (const ValueId id : node.in) in.push_back(id == kNoValue ? TensorSpec{} : g[id].spec);
  OutSpecs out(node.op->name);
  try {
    node.op->infer(*node.op, node.params.ref().data, in, out);
  } catch (const Error&) {
    return false;
  }
  for (size_t k = 0; k < out.span().size(); ++k) {
    const TensorSpec& s = out.span()[k];
    const bool follows = k < node.op->out.size() && node.op->out[k].format == Format::images;
    if (follows && s.rank() == 4 && s.strides.rank() != 0) return false;
    if (!follows && s.rank() == 4 && s.strides.rank() == 0 && is_image(g[node.out[k]].spec))
      return false;  // dispatch would give it the format of the images
  }
  return true;
}

/// Its results that have the format of the images that come in.
std::vector<ValueId> image_results(const Graph& g, const Node& node) {
  std::vector<ValueId> which;
  for (size_t k = 0; k < std::min(node.out.size(), node.op->out.size()); ++k)
    if (node.op->out[k].format == Format::images && is_image(g[node.out[k]].spec))
      which.push_back(node.out[k]);
  return which;
}

/// The node that such a result is of; null for views, versions that a write made, and all else.
const Node* image_maker(const Graph& g, ValueId id) {
  const Value& v = g[id];
  if (v.kind != Value::Kind::computed || v.node < 0 || v.base != kNoValue) return nullptr;
  const Node& node = g.nodes[static_cast<size_t>(v.node)];
  const std::vector<ValueId> results = image_results(g, node);
  return std::find(results.begin(), results.end(), id) == results.end() ? nullptr : &node;
}

/// Whether it reads images of either format as they are, and makes none.
bool reads_either(const Node& node) { return node.op->copies || node.op->reduction; }

/// Positions of the inputs that would be channels_last.
std::vector<size_t> image_inputs(const Graph& g, const Node& node) {
  std::vector<size_t> which;
  if (node.out.empty() || node.op->copies) return which;
  const Shape& shape = g[node.out[0]].spec.shape;
  for (size_t k = 0; k < node.in.size(); ++k) {
    const ValueId id = node.in[k];
    if (id == kNoValue || node.op->input(static_cast<int>(k)).format != Format::images ||
        !is_image(g[id].spec))
      continue;
    if (node.op->elementwise == 0 || g[id].spec.shape == shape) which.push_back(k);
  }
  return which;
}

/// Positions of the inputs that are weights, which follow the images.
std::vector<size_t> weight_inputs(const Graph& g, const Node& node) {
  std::vector<size_t> which;
  for (size_t k = 0; k < node.in.size(); ++k)
    if (node.in[k] != kNoValue && node.op->input(static_cast<int>(k)).format == Format::weight &&
        is_image(g[node.in[k]].spec))
      which.push_back(k);
  return which;
}

class Regions {
 public:
  Regions(DeviceKind kind, Graph& graph) : kind_(kind), g_(graph), index_(graph) {}

  void convert_all() {
    for (size_t i = 0; i < g_.nodes.size(); ++i)
      if (is_seed(g_.nodes[i]) && !seen_.contains(g_.nodes[i].out[0])) try_from(i);
    for (const std::set<ValueId>& region : chosen_) convert(region);
  }

 private:
  /// The weight of a convolution, or of its gradients the one they read or make; null for others.
  const TensorSpec* weight_of(const Node& node) const {
    for (size_t k = 0; k < node.op->in.size(); ++k)
      if (node.op->in[k].format == Format::weight) return &g_[node.in[k]].spec;
    for (size_t k = 0; k < node.op->out.size(); ++k)
      if (node.op->out[k].format == Format::weight) return &g_[node.out[k]].spec;
    return nullptr;
  }

  /// Whether a convolution of f32 is too large for our kernels that read rows.
  bool is_for_library(const Node& node, const TensorSpec& weight) const {
    const DeviceTable::ImplicitGemm& ours = device_table(weight.device).implicit_gemm;
    const auto is_large = [&](ValueId id) {
      return g_[id].spec.shape[2] * g_[id].spec.shape[3] > ours.most_pixels;
    };
    const std::vector<size_t> images = image_inputs(g_, node);
    const std::vector<ValueId> results = image_results(g_, node);
    return weight.numel() > ours.most_weights ||
           std::any_of(images.begin(), images.end(),
                       [&](size_t k) { return is_large(node.in[k]); }) ||
           std::any_of(results.begin(), results.end(), is_large);
  }

  /// A convolution whose images the library would convert.
  bool is_seed(const Node& node) const {
    const TensorSpec* weight = weight_of(node);
    if (!weight || weight->rank() != 4 || !may_join(node)) return false;
    if (kind_ == DeviceKind::cpu)
      return node.op->contraction.has_value() &&
             (weight->dtype == DType::f32 || (weight->dtype == DType::bf16 && has_bf16_products()));
    // On tensor cores, which like 16 bytes of channels.
    const bool halves = weight->dtype == DType::f16 || weight->dtype == DType::bf16;
    const bool tf32 = weight->dtype == DType::f32 && allow_tf32() && is_for_library(node, *weight);
    const int64_t unit = halves ? 8 : 4;
    return (halves || tf32) && weight->shape[0] % unit == 0 && weight->shape[1] % unit == 0 &&
           node.params.get("groups") == FieldValue(int64_t{1});
  }

  /// A convolution that runs by a kernel of our own now and would not in channels_last.
  bool loses(const Node& node) const {
    const TensorSpec* weight = weight_of(node);
    if (!weight || weight->rank() != 4 || weight->dtype != DType::f32) return false;
    return kind_ == DeviceKind::cpu ? makes_weight(node) : !is_seed(node);
  }

  bool makes_weight(const Node& node) const {
    return std::any_of(node.op->out.begin(), node.op->out.end(),
                       [](const auto& out) { return out.format == Format::weight; });
  }

  bool may_join(const Node& node) const {
    const std::vector<size_t> images = image_inputs(g_, node);
    if (images.empty()) return false;
    for (const size_t k : images)
      if (index_.ever(node.in[k])) return false;
    for (const ValueId id : image_results(g_, node))
      if (!g_[id].spec.is_contiguous() || index_.ever(id)) return false;
    return leaves_format_open(g_, node);
  }

  void try_from(size_t seed) {
    std::set<ValueId> region;  // by a node's first result
    std::vector<const Node*> open = {&g_.nodes[seed]};
    double gain = 0;
    double cost = 0;
    while (!open.empty()) {
      const Node& node = *open.back();
      open.pop_back();
      if (!may_join(node) || !region.insert(node.out[0]).second) continue;
      if (is_seed(node)) gain += worth_of(node) * images_of(node);
      if (loses(node)) cost += images_of(node);
      for (const size_t k : image_inputs(g_, node))
        if (const Node* before = image_maker(g_, node.in[k])) open.push_back(before);
      for (const ValueId id : image_results(g_, node))
        for (const int reader : index_.readers(id)) {
          const Node& after = g_.nodes[static_cast<size_t>(reader)];
          const std::vector<size_t> which = image_inputs(g_, after);
          if (std::any_of(which.begin(), which.end(), [&](size_t k) { return after.in[k] == id; }))
            open.push_back(&after);
        }
    }
    seen_.insert(region.begin(), region.end());
    for (const ValueId id : entries(region)) cost += bytes(g_[id].spec);
    for (const ValueId id : weights(region)) cost += bytes(g_[id].spec);
    for (const ValueId id : exits(region)) cost += bytes(g_[id].spec);
    if (gain > cost) chosen_.push_back(std::move(region));
  }

  /// What a convolution gains in channels_last, where its images take 1 to convert. On the CPU that
  /// of bf16 to whole vectors of channels gains at least twice as much, so one alone is converted
  /// too: 64 to 64 channels of 8 images of 32x32, 3x3, 6.4 ms and 2.7 ms on one Zen 5 core, both
  /// conversions 0.5 ms.
  double worth_of(const Node& node) const {
    const TensorSpec& weight = *weight_of(node);
    const bool fast = weight.dtype == DType::bf16 && weight.shape[0] % 32 == 0;
    return kind_ == DeviceKind::cpu && fast ? 2 : 1;
  }

  /// Bytes of the images that a convolution reads and makes.
  double images_of(const Node& node) const {
    double sum = 0;
    for (const size_t k : image_inputs(g_, node)) sum += bytes(g_[node.in[k]].spec);
    for (const ValueId id : image_results(g_, node)) sum += bytes(g_[id].spec);
    return sum;
  }

  bool is_in(const std::set<ValueId>& region, const Node& node) const {
    return !node.out.empty() && region.contains(node.out[0]);
  }

  /// Images from outside that the region reads.
  std::set<ValueId> entries(const std::set<ValueId>& region) const {
    std::set<ValueId> ids;
    for (const Node& node : g_.nodes) {
      if (!is_in(region, node)) continue;
      for (const size_t k : image_inputs(g_, node)) {
        const Node* before = image_maker(g_, node.in[k]);
        if (!before || !is_in(region, *before)) ids.insert(node.in[k]);
      }
    }
    return ids;
  }

  /// Weights that the graph changes, and that stay what they are while the region reads them. Those
  /// that it never writes to are converted where a kernel asks for it, before the first run.
  std::set<ValueId> weights(const std::set<ValueId>& region) const {
    std::map<ValueId, int> last_reader;
    for (size_t i = 0; i < g_.nodes.size(); ++i)
      if (is_in(region, g_.nodes[i]))
        for (const size_t k : weight_inputs(g_, g_.nodes[i]))
          last_reader[g_.nodes[i].in[k]] = static_cast<int>(i);
    std::set<ValueId> ids;
    for (const auto& [id, last] : last_reader)
      if (index_.ever(id) && index_.lasts_until(id, last)) ids.insert(id);
    return ids;
  }

  /// Its own that somebody outside needs row-major.
  std::set<ValueId> exits(const std::set<ValueId>& region) const {
    std::set<ValueId> ids;
    const auto add = [&](ValueId id) {
      const Node* node = id == kNoValue ? nullptr : image_maker(g_, id);
      if (node && is_in(region, *node)) ids.insert(id);
    };
    for (const ValueId id : g_.outputs) add(id);
    for (const Node& node : g_.nodes)
      if (!is_in(region, node) && !reads_either(node))
        std::for_each(node.in.begin(), node.in.end(), add);
    return ids;
  }

  ValueId insert_copy(int place, ValueId id, MemoryFormat format) {
    const auto copy = [format](std::span<const Tensor> in) -> Tensors {
      return {contiguous(in[0], format)};
    };
    return insert_before(g_, place, copy, {id})[0];
  }

  /// A channels_last value that this one is a copy of, if there is one.
  ValueId before_conversion(ValueId id) const {
    const Node* copy = maker(g_, id);
    if (!copy || !copy->op->copies) return kNoValue;
    const TensorSpec& from = g_[copy->in[0]].spec;
    const bool same = from.is_channels_last() && from.dtype == g_[id].spec.dtype;
    return same && !index_.ever(copy->in[0]) ? copy->in[0] : kNoValue;
  }

  /// A cast that nobody else reads may as well write the other format.
  bool convert_cast(ValueId id) {
    if (Index(g_).uses(id) != 1 || !maker(g_, id) || !maker(g_, id)->op->copies) return false;
    Node& cast = g_.nodes[static_cast<size_t>(g_[id].node)];
    cast.params = AnyParams(ParamsRef::of(CopyParams{g_[id].spec.dtype, true}));
    g_[id].spec.strides = channels_last_strides(g_[id].spec.shape);
    return true;
  }

  void convert_weight(const std::set<ValueId>& region, ValueId id) {
    const auto reads = [&](const Node& node) {
      const std::vector<size_t> which = weight_inputs(g_, node);
      return is_in(region, node) &&
             std::any_of(which.begin(), which.end(), [&](size_t k) { return node.in[k] == id; });
    };
    const auto first =
        static_cast<int>(std::find_if(g_.nodes.begin(), g_.nodes.end(), reads) - g_.nodes.begin());
    const ValueId converted = insert_copy(first, id, MemoryFormat::channels_last);
    if (const int writer = Index(g_).next(id, first); writer >= 0)
      g_.nodes[static_cast<size_t>(writer)].after.push_back(first);
    for (Node& node : g_.nodes)
      if (reads(node))
        for (const size_t k : weight_inputs(g_, node))
          if (node.in[k] == id) node.in[k] = converted;
  }

  /// A weight's gradient that is only cast may lie as the kernel makes it; on the CPU that is
  /// row-major.
  void convert_gradient(const Index& now, Node& node) {
    if (kind_ == DeviceKind::cpu) return;
    for (size_t k = 0; k < node.op->out.size(); ++k) {
      if (node.op->out[k].format != Format::weight || !is_image(g_[node.out[k]].spec)) continue;
      const ValueId id = node.out[k];
      const auto readers = now.readers(id);
      const bool is_cast = !now.is_result(id) && !now.ever(id) && now.views(id).empty() &&
                           readers.size() == 1 &&
                           g_.nodes[static_cast<size_t>(readers[0])].op->copies;
      if (!is_cast) continue;
      node.params.set("channels_last", true);
      g_[id].spec.strides = channels_last_strides(g_[id].spec.shape);
    }
  }

  /// A cast of such an image that is only summed over stays as it lies.
  void convert_summed(const Index& now, const std::set<ValueId>& region, Node& node) {
    if (!node.op->copies || is_in(region, node) || node.out.size() != 1) return;
    const Node* before = image_maker_in(region, node.in[0]);
    const ValueId id = node.out[0];
    const auto readers = now.readers(id);
    const bool is_summed = before && is_image(g_[id].spec) && g_[id].spec.is_contiguous() &&
                           !now.is_result(id) && !now.ever(id) && now.views(id).empty() &&
                           !readers.empty() &&
                           std::all_of(readers.begin(), readers.end(), [&](int reader) {
                             return g_.nodes[static_cast<size_t>(reader)].op->reduction;
                           });
    if (!is_summed) return;
    node.params = AnyParams(ParamsRef::of(CopyParams{g_[id].spec.dtype, true}));
    g_[id].spec.strides = channels_last_strides(g_[id].spec.shape);
  }

  /// The node of the region that makes an image, which is channels_last by now.
  const Node* image_maker_in(const std::set<ValueId>& region, ValueId id) const {
    const Value& v = g_[id];
    if (v.kind != Value::Kind::computed || v.node < 0 || v.base != kNoValue) return nullptr;
    const Node& node = g_.nodes[static_cast<size_t>(v.node)];
    return is_in(region, node) && v.spec.is_channels_last() ? &node : nullptr;
  }

  void convert(const std::set<ValueId>& region) {
    const std::set<ValueId> in = entries(region);
    const std::set<ValueId> out = exits(region);
    for (const ValueId id : weights(region)) convert_weight(region, id);
    for (const ValueId id : in) {
      ValueId converted = before_conversion(id);
      if (converted == kNoValue && convert_cast(id)) continue;
      const auto reads = [&](const Node& node) {
        if (!is_in(region, node)) return false;
        const std::vector<size_t> which = image_inputs(g_, node);
        return std::any_of(which.begin(), which.end(), [&](size_t k) { return node.in[k] == id; });
      };
      if (converted == kNoValue) {
        const auto first = std::find_if(g_.nodes.begin(), g_.nodes.end(), reads);
        converted = insert_copy(static_cast<int>(first - g_.nodes.begin()), id,
                                MemoryFormat::channels_last);
      }
      for (Node& node : g_.nodes)
        if (is_in(region, node))
          for (const size_t k : image_inputs(g_, node))
            if (node.in[k] == id) node.in[k] = converted;
    }
    for (const Node& node : g_.nodes) {
      if (!is_in(region, node)) continue;
      for (const ValueId id : image_results(g_, node))
        g_[id].spec.strides = channels_last_strides(g_[id].spec.shape);
    }
    {
      const Index now(g_);
      for (Node& node : g_.nodes) {
        if (is_in(region, node)) convert_gradient(now, node);
        convert_summed(now, region, node);
      }
    }
    for (const ValueId id : out) {
      const ValueId converted = insert_copy(g_[id].node + 1, id, MemoryFormat::contiguous);
      for (Node& node : g_.nodes)
        if (!is_in(region, node) && !reads_either(node))
          std::replace(node.in.begin(), node.in.end(), id, converted);
      std::replace(g_.outputs.begin(), g_.outputs.end(), id, converted);
      for (Value& v : g_.values)
        if (v.base == id) v.base = converted;
    }
  }

  DeviceKind kind_;
  Graph& g_;
  Index index_;  // right before the first conversion, which it decides
  std::set<ValueId> seen_;
  std::vector<std::set<ValueId>> chosen_;
};

/// Casts of images that reductions alone read leave them in the format they have.
void keep_formats_of_casts(Graph& graph) {
  const Index index(graph);
  for (Node& cast : graph.nodes) {
    if (!cast.op->copies || cast.out.size() != 1) continue;
    const TensorSpec& from = graph[cast.in[0]].spec;
    const ValueId id = cast.out[0];
    const auto reduces = [&](int reader) {
      return graph.nodes[static_cast<size_t>(reader)].op->reduction;
    };
    if (from.dtype == graph[id].spec.dtype || !from.is_channels_last() ||
        !is_image(graph[id].spec) || graph[id].base != kNoValue || index.ever(id) ||
        index.is_result(id) || !std::ranges::all_of(index.readers(id), reduces))
      continue;
    cast.params = AnyParams(ParamsRef::of(CopyParams{graph[id].spec.dtype, true}));
    graph[id].spec.strides = channels_last_strides(graph[id].spec.shape);
  }
}

}  // namespace

void choose_layout_on(DeviceKind kind, Graph& graph) {
  if (kind == DeviceKind::null) return;
  Regions(kind, graph).convert_all();
  keep_formats_of_casts(graph);
}

void choose_layout(Graph& graph) {
  if (!graph.values.empty()) choose_layout_on(graph.values[0].spec.device.kind, graph);
}

}  // namespace mica
