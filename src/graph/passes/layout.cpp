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
// by its reference; in channels_last it does neither. One image on one Zen 4 core: 64 channels of
// 80x80, 3x3 2.7 ms and 1.7 ms, with hardswish 4.2 ms and 1.7 ms; 16 channels of 160x160 to 32, 1x1
// 0.21 ms and 0.11 ms. Gradients of weights are no faster so: they count against it. Products of
// bf16 read channels_last alone, gradients of weights too: 64 channels of 8 images of 32x32, 3x3
// 1.07 ms and 2.92 ms, the gradient 1.45 and 3.94.
#include <algorithm>
#include <map>

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

/// Nodes, in order, whose images have one format: regions share none.
using Region = std::vector<int>;

class Regions {
 public:
  Regions(DeviceKind kind, Graph& graph)
      : kind_(kind),
        g_(graph),
        index_(graph),
        copies_(graph),
        region_of_(graph.nodes.size(), kNone) {}

  void convert_all() {
    for (int i = 0; i < static_cast<int>(region_of_.size()); ++i)
      if (region_of_[at(i)] == kNone && is_seed(node(i))) find_from(i);
    for (const Region& region : chosen_) convert(region);
    copies_.apply(std::vector<bool>(g_.nodes.size(), true));
  }

 private:
  static constexpr int kNone = -1;
  static size_t at(int i) { return static_cast<size_t>(i); }
  Node& node(int i) { return g_.nodes[at(i)]; }
  const Node& node(int i) const { return g_.nodes[at(i)]; }

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

  bool is_in(const Region& region, int i) const {
    return region_of_[at(i)] != kNone && region_of_[at(i)] == region_of_[at(region[0])];
  }

  void find_from(int seed) {
    const int number = found_++;
    Region region;
    std::vector<int> open = {seed};
    double gain = 0;
    double cost = 0;
    while (!open.empty()) {
      const int i = open.back();
      open.pop_back();
      if (region_of_[at(i)] != kNone || !may_join(node(i))) continue;
      region_of_[at(i)] = number;
      region.push_back(i);
      if (is_seed(node(i))) gain += worth_of(node(i)) * images_of(node(i));
      if (loses(node(i))) cost += images_of(node(i));
      for (const size_t k : image_inputs(g_, node(i)))
        if (image_maker(g_, node(i).in[k])) open.push_back(g_[node(i).in[k]].node);
      for (const ValueId id : image_results(g_, node(i)))
        for (const int reader : index_.readers(id))
          if (reads_image(reader, id)) open.push_back(reader);
    }
    std::sort(region.begin(), region.end());
    for (const auto& [id, reader] : entries(region)) cost += bytes(g_[id].spec);
    for (const auto& [id, reader] : weights(region)) cost += bytes(g_[id].spec);
    for (const ValueId id : exits(region)) cost += bytes(g_[id].spec);
    if (gain > cost) chosen_.push_back(std::move(region));
  }

  /// Whether a node reads a value as an image that would be channels_last.
  bool reads_image(int reader, ValueId id) const {
    const std::vector<size_t> which = image_inputs(g_, node(reader));
    return std::any_of(which.begin(), which.end(),
                       [&](size_t k) { return node(reader).in[k] == id; });
  }

  /// What a convolution gains in channels_last, where its images take 1 to convert. On the CPU that
  /// of bf16 to whole vectors of channels gains at least twice as much, so one alone is converted
  /// too: 64 to 64 channels of 8 images of 32x32, 3x3, 6.4 ms and 2.7 ms on one Zen 4 core, both
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

  /// Images from outside that the region reads, and who does so first.
  std::map<ValueId, int> entries(const Region& region) const {
    std::map<ValueId, int> first;
    for (const int i : region)
      for (const size_t k : image_inputs(g_, node(i))) {
        const ValueId id = node(i).in[k];
        if (!image_maker(g_, id) || !is_in(region, g_[id].node)) first.try_emplace(id, i);
      }
    return first;
  }

  /// Weights that the graph changes, and that stay what they are while the region reads them, and
  /// who reads them first. Those that it never writes to are converted where a kernel asks for it,
  /// before the first run.
  std::map<ValueId, int> weights(const Region& region) const {
    std::map<ValueId, int> first;
    std::map<ValueId, int> last;
    for (const int i : region)
      for (const size_t k : weight_inputs(g_, node(i))) {
        first.try_emplace(node(i).in[k], i);
        last[node(i).in[k]] = i;
      }
    std::erase_if(first, [&](const auto& read) {
      return !index_.ever(read.first) || !index_.lasts_until(read.first, last.at(read.first));
    });
    return first;
  }

  /// Its own that somebody outside needs row-major.
  std::vector<ValueId> exits(const Region& region) const {
    std::vector<ValueId> ids;
    for (const int i : region)
      for (const ValueId id : image_results(g_, node(i))) {
        const auto readers = index_.readers(id);
        if (image_maker(g_, id) &&
            (index_.is_result(id) || std::any_of(readers.begin(), readers.end(), [&](int reader) {
               return needs_rows(region, reader);
             })))
          ids.push_back(id);
      }
    return ids;
  }
  bool needs_rows(const Region& region, int reader) const {
    return !is_in(region, reader) && !reads_either(node(reader));
  }

  ValueId insert_copy(int place, ValueId id, MemoryFormat format) {
    const auto copy = [format](std::span<const Tensor> in) -> Tensors {
      return {contiguous(in[0], format)};
    };
    return copies_.add(place, copy, {id})[0];
  }

  /// A channels_last value that this one is a copy of, if there is one.
  ValueId before_conversion(ValueId id) const {
    const Node* copy = maker(g_, id);
    if (!copy || !copy->op->copies) return kNoValue;
    const TensorSpec& from = g_[copy->in[0]].spec;
    const bool same = from.is_channels_last() && from.dtype == g_[id].spec.dtype;
    return same && !index_.ever(copy->in[0]) ? copy->in[0] : kNoValue;
  }

  void write_channels_last(Node& cast) {
    TensorSpec& spec = g_[cast.out[0]].spec;
    cast.params = AnyParams(ParamsRef::of(CopyParams{spec.dtype, true}));
    spec.strides = channels_last_strides(spec.shape);
  }

  /// A cast that nobody else reads may as well write the other format.
  bool convert_cast(ValueId id) {
    if (index_.uses(id) != 1 || !maker(g_, id) || !maker(g_, id)->op->copies) return false;
    write_channels_last(node(g_[id].node));
    return true;
  }

  /// Whether other nodes than views alone read a value, and nobody writes to it.
  bool is_only_read(ValueId id) const {
    return !index_.is_result(id) && !index_.ever(id) && index_.views(id).empty();
  }

  /// A weight's gradient that is only cast may lie as the kernel makes it; on the CPU that is
  /// row-major.
  void convert_gradient(Node& node) {
    if (kind_ == DeviceKind::cpu) return;
    for (size_t k = 0; k < node.op->out.size(); ++k) {
      if (node.op->out[k].format != Format::weight || !is_image(g_[node.out[k]].spec)) continue;
      const ValueId id = node.out[k];
      const auto readers = index_.readers(id);
      if (!is_only_read(id) || readers.size() != 1 || !this->node(readers[0]).op->copies) continue;
      node.params.set("channels_last", true);
      g_[id].spec.strides = channels_last_strides(g_[id].spec.shape);
    }
  }

  /// A cast of an image of a region that is only summed over stays as it lies.
  void convert_summed(Node& cast) {
    if (!cast.op->copies || cast.out.size() != 1) return;
    const ValueId id = cast.out[0];
    const auto readers = index_.readers(id);
    if (is_image(g_[id].spec) && g_[id].spec.is_contiguous() && is_only_read(id) &&
        !readers.empty() && std::all_of(readers.begin(), readers.end(), [&](int reader) {
          return node(reader).op->reduction;
        }))
      write_channels_last(cast);
  }

  void convert(const Region& region) {
    const auto in = entries(region);
    const std::vector<ValueId> out = exits(region);
    for (const auto& [id, first] : weights(region)) {
      const ValueId converted = insert_copy(first, id, MemoryFormat::channels_last);
      for (const int reader : index_.readers(id)) {
        if (!is_in(region, reader)) continue;
        for (const size_t k : weight_inputs(g_, node(reader)))
          if (node(reader).in[k] == id) node(reader).in[k] = converted;
      }
    }
    for (const auto& [id, first] : in) {
      ValueId converted = before_conversion(id);
      if (converted == kNoValue && convert_cast(id)) continue;
      if (converted == kNoValue) converted = insert_copy(first, id, MemoryFormat::channels_last);
      for (const int reader : index_.readers(id)) {
        if (!is_in(region, reader)) continue;
        for (const size_t k : image_inputs(g_, node(reader)))
          if (node(reader).in[k] == id) node(reader).in[k] = converted;
      }
    }
    std::vector<ValueId> made;
    for (const int i : region)
      for (const ValueId id : image_results(g_, node(i))) made.push_back(id);
    for (const ValueId id : made) g_[id].spec.strides = channels_last_strides(g_[id].spec.shape);
    for (const int i : region) convert_gradient(node(i));
    for (const ValueId id : made)
      for (const int reader : index_.readers(id)) convert_summed(node(reader));
    for (const ValueId id : out) {
      const ValueId converted = insert_copy(g_[id].node + 1, id, MemoryFormat::contiguous);
      for (const int reader : index_.readers(id))
        if (needs_rows(region, reader))
          std::replace(node(reader).in.begin(), node(reader).in.end(), id, converted);
      if (index_.is_result(id)) std::replace(g_.outputs.begin(), g_.outputs.end(), id, converted);
      for (const ValueId view : index_.views(id)) g_[view].base = converted;
    }
  }

  DeviceKind kind_;
  Graph& g_;
  Index index_;  // of the graph as it came, whose nodes keep their numbers until the end
  Insertions copies_;
  std::vector<int> region_of_;  ///< by node: the number of its region, chosen or not
  int found_ = 0;
  std::vector<Region> chosen_;
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
