// Which convolutions run in channels_last though they were written for row-major images.
//
// A region is made of convolutions and of what lies between them and takes the format of its
// inputs. All its images become channels_last; those that come from outside, or go there, are
// converted. cuDNN converts both images of every row-major convolution of halves, so a region pays
// once it has fewer bytes to convert than its convolutions have images. On an H200 four
// convolutions of 64 channels on 32 images of 56x56 in bf16 take 63 µs each row-major and 24 µs in
// channels_last, a conversion 7 µs; a first layer of 3 channels gains too.
#include <algorithm>
#include <set>

#include "mica/core/error.h"
#include "mica/graph/passes/passes.h"
#include "mica/graph/passes/rewrite.h"
#include "mica/ops/copy/copy.h"

namespace mica {
namespace {

double bytes(const TensorSpec& s) {
  return static_cast<double>(s.numel()) * static_cast<double>(size_of(s.dtype));
}

/// An image whose two formats differ.
bool is_image(const TensorSpec& s) {
  return s.defined && s.rank() == 4 && s.numel() > 0 && !s.is_channels_last_dense();
}

/// Whether an op's results have the format of the images that come in.
bool follows_images(const Node& node) {
  return !node.op->out.empty() && node.op->out[0].format == Format::images;
}

/// Whether the op leaves its results' format to that of its inputs.
bool leaves_format_open(const Graph& g, const Node& node) {
  std::vector<TensorSpec> in;
  for (const ValueId id : node.in) in.push_back(id == kNoValue ? TensorSpec{} : g[id].spec);
  OutSpecs out(node.op->name);
  try {
    node.op->infer(*node.op, node.params.ref().data, in, out);
  } catch (const Error&) {
    return false;
  }
  const auto results = out.span();
  return std::all_of(results.begin(), results.end(),
                     [](const TensorSpec& s) { return s.rank() != 4 || s.strides.rank() == 0; });
}

/// Positions of the inputs that would be channels_last.
std::vector<size_t> image_inputs(const Graph& g, const Node& node) {
  std::vector<size_t> which;
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

class Regions {
 public:
  explicit Regions(Graph& graph) : g_(graph), index_(graph), constant_(constants(graph)) {}

  void convert_all() {
    for (size_t i = 0; i < g_.nodes.size(); ++i)
      if (is_seed(g_.nodes[i]) && !seen_.contains(g_.nodes[i].out[0])) try_from(i);
    for (const std::set<ValueId>& region : chosen_) convert(region);
  }

 private:
  /// A convolution of halves with as many channels as the tensor cores like.
  bool is_seed(const Node& node) const {
    if (!node.op->contraction || node.op->in[1].format != Format::weight || !may_join(node))
      return false;
    const TensorSpec& y = g_[node.out[0]].spec;
    const Shape& weight = g_[node.in[1]].spec.shape;
    return (y.dtype == DType::f16 || y.dtype == DType::bf16) && weight[0] % 8 == 0 &&
           weight[1] % 8 == 0 && node.params.get("groups") == FieldValue(int64_t{1});
  }

  bool may_join(const Node& node) const {
    if (!follows_images(node) || writes_input(node)) return false;
    const Value& y = g_[node.out[0]];
    if (!is_image(y.spec) || !y.spec.is_contiguous() || image_inputs(g_, node).empty())
      return false;
    // A weight that changes would be converted each time.
    for (size_t k = 0; k < node.in.size(); ++k)
      if (node.op->input(static_cast<int>(k)).format == Format::weight &&
          !constant_[static_cast<size_t>(node.in[k])])
        return false;
    const auto written = [&](ValueId id) { return id != kNoValue && index_.ever(id); };
    return std::none_of(node.in.begin(), node.in.end(), written) &&
           std::none_of(node.out.begin(), node.out.end(), written) && leaves_format_open(g_, node);
  }

  void try_from(size_t seed) {
    std::set<ValueId> region;  // by a node's first result
    std::vector<const Node*> open = {&g_.nodes[seed]};
    double gain = 0;
    while (!open.empty()) {
      const Node& node = *open.back();
      open.pop_back();
      if (!may_join(node) || !region.insert(node.out[0]).second) continue;
      if (is_seed(node)) gain += bytes(g_[node.in[0]].spec) + bytes(g_[node.out[0]].spec);
      for (const size_t k : image_inputs(g_, node))
        if (const Node* before = maker(g_, node.in[k])) open.push_back(before);
      for (const ValueId id : node.out)
        for (const int reader : index_.readers(id)) {
          const Node& after = g_.nodes[static_cast<size_t>(reader)];
          const std::vector<size_t> which = image_inputs(g_, after);
          if (std::any_of(which.begin(), which.end(), [&](size_t k) { return after.in[k] == id; }))
            open.push_back(&after);
        }
    }
    seen_.insert(region.begin(), region.end());
    double cost = 0;
    for (const ValueId id : entries(region)) cost += bytes(g_[id].spec);
    for (const ValueId id : exits(region)) cost += bytes(g_[id].spec);
    if (gain > cost) chosen_.push_back(std::move(region));
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
        const Node* before = maker(g_, node.in[k]);
        if (!before || !is_in(region, *before)) ids.insert(node.in[k]);
      }
    }
    return ids;
  }

  /// Its own that somebody outside needs row-major: anyone but a copy.
  std::set<ValueId> exits(const std::set<ValueId>& region) const {
    std::set<ValueId> ids;
    const auto add = [&](ValueId id) {
      const Node* node = id == kNoValue ? nullptr : maker(g_, id);
      if (node && is_in(region, *node) && is_image(g_[id].spec)) ids.insert(id);
    };
    for (const ValueId id : g_.outputs) add(id);
    for (const Node& node : g_.nodes)
      if (!is_in(region, node) && !node.op->copies)
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

  void convert(const std::set<ValueId>& region) {
    const std::set<ValueId> in = entries(region);
    const std::set<ValueId> out = exits(region);
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
      for (const ValueId id : node.out)
        if (is_image(g_[id].spec)) g_[id].spec.strides = channels_last_strides(g_[id].spec.shape);
    }
    for (const ValueId id : out) {
      const ValueId converted = insert_copy(g_[id].node + 1, id, MemoryFormat::contiguous);
      for (Node& node : g_.nodes)
        if (!is_in(region, node) && !node.op->copies)
          std::replace(node.in.begin(), node.in.end(), id, converted);
      std::replace(g_.outputs.begin(), g_.outputs.end(), id, converted);
      for (Value& v : g_.values)
        if (v.base == id) v.base = converted;
    }
  }

  Graph& g_;
  Index index_;  // right before the first conversion, which it decides
  const std::vector<bool> constant_;
  std::set<ValueId> seen_;
  std::vector<std::set<ValueId>> chosen_;
};

}  // namespace

void choose_layout_on(DeviceKind kind, Graph& graph) {
  if (kind == DeviceKind::cuda) Regions(graph).convert_all();
}

void choose_layout(Graph& graph) {
  if (!graph.values.empty()) choose_layout_on(graph.values[0].spec.device.kind, graph);
}

}  // namespace mica
