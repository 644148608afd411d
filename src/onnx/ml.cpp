// Operators of ai.onnx.ml.
#include <algorithm>
#include <cmath>
#include <set>

#include "mica/core/make_tensor.h"
#include "mica/onnx/broadcast.h"
#include "mica/onnx/call.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/gather/gather.h"

namespace mica::onnx {
namespace {

Results array_feature_extractor(const Call& c) {
  const Tensor x = c[0];
  const Tensor y = index_select(x, -1, reshape(cast(c[1], DType::i64), {-1}));
  return x.rank() == 1 ? unsqueeze(y, 0) : y;
}

Results binarizer(const Call& c) { return cast(gt(c[0], c.number("threshold", 0)), c[0].dtype()); }

/// Trees as the node's attributes describe them.
struct Trees {
  std::vector<int64_t> roots, feature, true_node, false_node, true_leaf, false_leaf, missing;
  std::vector<double> mode, split, weight;
  std::vector<int64_t> target;
  std::vector<std::set<double>> members;  ///< of each node

  bool decides(size_t node, double value) const {
    const double split_at = split[node];
    const bool is_missing = std::isnan(value) && node < missing.size() && missing[node] != 0;
    switch (static_cast<int>(mode[node])) {
      case 0:
        return value <= split_at || is_missing;
      case 1:
        return value < split_at || is_missing;
      case 2:
        return value >= split_at || is_missing;
      case 3:
        return value > split_at || is_missing;
      case 4:
        return value == split_at || is_missing;
      case 5:
        return value != split_at || is_missing;
      default:
        return members[node].contains(value) || is_missing;
    }
  }
};

std::vector<double> doubles(const Call& c, std::string_view name) {
  const Tensor t = c.tensor_attribute(name);
  if (!t.defined()) return {};
  const HostSection host;
  return cast(t, DType::f64).to_vector<double>();
}

Results tree_ensemble(const Call& c) {
  Trees t;
  t.roots = c.ints("tree_roots");
  t.feature = c.ints("nodes_featureids");
  t.true_node = c.ints("nodes_truenodeids");
  t.false_node = c.ints("nodes_falsenodeids");
  t.true_leaf = c.ints("nodes_trueleafs");
  t.false_leaf = c.ints("nodes_falseleafs");
  t.missing = c.ints("nodes_missing_value_tracks_true");
  t.target = c.ints("leaf_targetids");
  t.mode = doubles(c, "nodes_modes");
  t.split = doubles(c, "nodes_splits");
  t.weight = doubles(c, "leaf_weights");
  const size_t nodes = t.mode.size();
  c.check(t.feature.size() == nodes && t.true_node.size() == nodes &&
              t.false_node.size() == nodes && t.true_leaf.size() == nodes &&
              t.false_leaf.size() == nodes && t.split.size() == nodes &&
              t.target.size() == t.weight.size(),
          "attributes of {} nodes and {} leaves differ in length", nodes, t.weight.size());
  const std::vector<double> sets = doubles(c, "membership_values");
  t.members.resize(nodes);
  for (size_t node = 0, at = 0; node < nodes; ++node) {
    if (t.mode[node] != 6) continue;
    for (; at < sets.size() && !std::isnan(sets[at]); ++at) t.members[node].insert(sets[at]);
    ++at;
  }
  const Tensor x = c[0];
  c.check(x.rank() == 2, "rows of {}", x.shape());
  const std::vector<double> values = c.numbers(0);
  const int64_t features = x.shape()[1];
  const int64_t targets = c.integer("n_targets");
  const int64_t how = c.integer("aggregate_function", 1);
  c.check(targets > 0 && targets < 1 << 24 && c.integer("post_transform", 0) == 0,
          "{} targets, post_transform of {}", targets, c.integer("post_transform", 0));
  const auto wanted = static_cast<double>(std::max<size_t>(1, t.roots.size()));
  std::vector<double> results;
  for (int64_t row = 0; row < x.shape()[0]; ++row) {
    std::vector<std::vector<double>> found(static_cast<size_t>(targets));
    for (const int64_t root : t.roots) {
      int64_t at = root;
      bool is_leaf = false;
      for (size_t steps = 0; !is_leaf; ++steps) {
        c.check(at >= 0 && static_cast<size_t>(at) < nodes && steps <= nodes, "node {} of {}", at,
                nodes);
        const auto node = static_cast<size_t>(at);
        c.check(t.feature[node] >= 0 && t.feature[node] < features, "feature {} of {}",
                t.feature[node], features);
        const bool yes =
            t.decides(node, values[static_cast<size_t>(row * features + t.feature[node])]);
        at = yes ? t.true_node[node] : t.false_node[node];
        is_leaf = (yes ? t.true_leaf[node] : t.false_leaf[node]) != 0;
      }
      c.check(at >= 0 && static_cast<size_t>(at) < t.weight.size(), "leaf {} of {}", at,
              t.weight.size());
      const int64_t target = t.target[static_cast<size_t>(at)];
      c.check(target >= 0 && target < targets, "target {} of {}", target, targets);
      found[static_cast<size_t>(target)].push_back(t.weight[static_cast<size_t>(at)]);
    }
    for (const std::vector<double>& leaves : found) {
      double result = 0;
      if (how <= 1)
        for (const double v : leaves) result += how == 0 ? v / wanted : v;
      if (how == 2 && !leaves.empty()) result = *std::ranges::min_element(leaves);
      if (how == 3 && !leaves.empty()) result = *std::ranges::max_element(leaves);
      results.push_back(result);
    }
  }
  const HostSection host;
  return to(cast(tensor(results, {x.shape()[0], targets}), x.dtype()), x.device());
}

}  // namespace

Operators ml_operators() {
  return {
      {"ArrayFeatureExtractor", array_feature_extractor},
      {"Binarizer", binarizer},
      {"TreeEnsemble", tree_ensemble},
  };
}

}  // namespace mica::onnx
