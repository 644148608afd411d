// The picture of a graph. Boxes stand in layers, each below everything it reads. A value that is
// read further down goes there along a line of points, one in each layer between, which take their
// place among the boxes: so no line crosses a box.
#include <algorithm>
#include <numeric>

#include "mica/core/check.h"
#include "mica/graph/graph.h"
#include "mica/op/select.h"

namespace mica {
namespace {

constexpr double kBoxHeight = 46;
constexpr double kLayerGap = 40;
constexpr double kGap = 14;   // between neighbours
constexpr double kPoint = 6;  // the width of a line's place
constexpr double kMargin = 20;
constexpr double kLegend = 40;

/// A box, or a point of a line.
struct Item {
  std::string name;  ///< empty: a point
  std::string detail, params, tip;
  std::string id;
  const char* kind = "";
  int layer = 0;
  double width = kPoint;
  double x = 0;  ///< of its middle
  std::vector<int> above, below;
};

std::string escaped(const std::string& text) {
  std::string s;
  for (const char c : text) {
    switch (c) {
      case '<':
        s += "&lt;";
        break;
      case '>':
        s += "&gt;";
        break;
      case '&':
        s += "&amp;";
        break;
      case '"':
        s += "&quot;";
        break;
      default:
        s += c;
    }
  }
  return s;
}

/// Parameters without their braces, shortened.
std::string brief(std::string params) {
  constexpr size_t kMost = 34;
  params = params.substr(1, params.size() - 2);
  return params.size() <= kMost ? params : params.substr(0, kMost - 1) + "…";
}

class Picture {
 public:
  explicit Picture(const Graph& graph) : g_(graph), item_of_value_(graph.values.size(), -1) {
    add_boxes();
    choose_layers();
    add_points();
    order();
    place();
  }

  std::string draw() const;

 private:
  int add(Item item) {
    const size_t longest = std::max({item.name.size(), item.detail.size(), item.params.size()});
    if (!item.name.empty()) item.width = 18 + 6.7 * static_cast<double>(longest);
    items_.push_back(std::move(item));
    return static_cast<int>(items_.size() - 1);
  }
  Item& at(int i) { return items_[static_cast<size_t>(i)]; }
  const Item& at(int i) const { return items_[static_cast<size_t>(i)]; }

  void add_boxes();
  void choose_layers();
  void add_points();
  void order();
  void place();
  void connect(int from, int to) {
    if (std::find(at(from).below.begin(), at(from).below.end(), to) != at(from).below.end()) return;
    at(from).below.push_back(to);
    at(to).above.push_back(from);
  }
  /// The box a value comes from; made here for one that exists outside.
  int source(ValueId id) {
    int& item = item_of_value_[static_cast<size_t>(id)];
    if (item < 0)
      item = add({"parameter",
                  to_string(g_[id].spec),
                  "",
                  fmt::format("%{}", id),
                  fmt::format("value-{}", id),
                  "external",
                  0,
                  0,
                  0,
                  {},
                  {}});
    return item;
  }
  double top(int layer) const { return kMargin + kLegend + layer * (kBoxHeight + kLayerGap); }

  const Graph& g_;
  std::vector<int> item_of_value_;
  std::vector<Item> items_;
  std::vector<std::vector<int>> layers_;
  int boxes_ = 0;
};

void Picture::add_boxes() {
  for (size_t i = 0; i < g_.inputs.size(); ++i) {
    const ValueId id = g_.inputs[i];
    item_of_value_[static_cast<size_t>(id)] = add({fmt::format("input {}", i),
                                                   to_string(g_[id].spec),
                                                   "",
                                                   fmt::format("%{}", id),
                                                   fmt::format("value-{}", id),
                                                   "input",
                                                   0,
                                                   0,
                                                   0,
                                                   {},
                                                   {}});
  }
  for (size_t i = 0; i < g_.nodes.size(); ++i) {
    const Node& node = g_.nodes[i];
    std::string tip = fmt::format("{} {}", node.op->name, node.params.print());
    if (node.kernel) tip += fmt::format(" by {}", node.kernel->kernel->name);
    if (node.scope) tip += " (" + to_string(*node.scope) + ")";
    for (const ValueId id : node.out) tip += fmt::format(" %{}: {}", id, to_string(g_[id].spec));
    const std::string detail = node.out.empty() ? "" : to_string(g_[node.out[0]].spec);
    const char* kind = g_.has_effect(node) ? "writes" : node.is_view() ? "view" : "call";
    const int box = add({node.op->name,
                         detail,
                         brief(node.params.print()),
                         tip,
                         fmt::format("node-{}", i),
                         kind,
                         0,
                         0,
                         0,
                         {},
                         {}});
    for (const ValueId id : node.in)
      if (id != kNoValue) connect(source(id), box);
    for (const ValueId id : node.out) item_of_value_[static_cast<size_t>(id)] = box;
  }
  for (size_t i = 0; i < g_.outputs.size(); ++i) {
    const ValueId id = g_.outputs[i];
    const int box = add({fmt::format("output {}", i),
                         to_string(g_[id].spec),
                         "",
                         fmt::format("%{}", id),
                         fmt::format("output-{}", i),
                         "output",
                         0,
                         0,
                         0,
                         {},
                         {}});
    connect(source(id), box);
  }
  boxes_ = static_cast<int>(items_.size());
}

/// The longest way from the top. What reads nothing stands right above its first reader.
void Picture::choose_layers() {
  std::vector<int> waiting(items_.size());
  std::vector<int> ready;
  for (int i = 0; i < boxes_; ++i) {
    waiting[static_cast<size_t>(i)] = static_cast<int>(at(i).above.size());
    if (at(i).above.empty()) ready.push_back(i);
  }
  while (!ready.empty()) {
    const int i = ready.back();
    ready.pop_back();
    for (const int below : at(i).below) {
      at(below).layer = std::max(at(below).layer, at(i).layer + 1);
      if (--waiting[static_cast<size_t>(below)] == 0) ready.push_back(below);
    }
  }
  for (int i = 0; i < boxes_; ++i) {
    if (!at(i).above.empty() || at(i).below.empty()) continue;
    int first = at(at(i).below[0]).layer;
    for (const int below : at(i).below) first = std::min(first, at(below).layer);
    at(i).layer = first - 1;
  }
}

/// Breaks what spans several layers into steps from one to the next.
void Picture::add_points() {
  for (int i = 0; i < boxes_; ++i) {
    const std::vector<int> readers = std::exchange(at(i).below, {});
    std::vector<int> line = {i};  // one item in each layer from this box on
    for (const int reader : readers) {
      std::vector<int>& above = at(reader).above;
      above.erase(std::find(above.begin(), above.end(), i));
      while (at(line.back()).layer + 1 < at(reader).layer) {
        Item point;
        point.layer = at(line.back()).layer + 1;
        const int next = add(std::move(point));
        connect(line.back(), next);
        line.push_back(next);
      }
      connect(line[static_cast<size_t>(at(reader).layer - 1 - at(i).layer)], reader);
    }
  }
  for (int i = 0; i < static_cast<int>(items_.size()); ++i) {
    const auto layer = static_cast<size_t>(at(i).layer);
    if (layers_.size() <= layer) layers_.resize(layer + 1);
    layers_[layer].push_back(i);
  }
}

/// Sorts each layer by the middle of the neighbours' places in the layer beside, down and up.
void Picture::order() {
  constexpr int kSweeps = 8;
  std::vector<double> rank(items_.size());
  std::vector<double> wish(items_.size());
  const auto number = [&](const std::vector<int>& layer) {
    for (size_t k = 0; k < layer.size(); ++k)
      rank[static_cast<size_t>(layer[k])] = static_cast<double>(k);
  };
  for (const std::vector<int>& layer : layers_) number(layer);
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    const bool down = sweep % 2 == 0;
    for (size_t k = 0; k < layers_.size(); ++k) {
      std::vector<int>& layer = layers_[down ? k : layers_.size() - 1 - k];
      for (const int i : layer) {
        const std::vector<int>& beside = down ? at(i).above : at(i).below;
        double sum = 0;
        for (const int j : beside) sum += rank[static_cast<size_t>(j)];
        wish[static_cast<size_t>(i)] = beside.empty() ? rank[static_cast<size_t>(i)]
                                                      : sum / static_cast<double>(beside.size());
      }
      const auto key = [&](int i) {
        return std::pair(wish[static_cast<size_t>(i)], rank[static_cast<size_t>(i)]);
      };
      std::sort(layer.begin(), layer.end(), [&](int a, int b) { return key(a) < key(b); });
      number(layer);
    }
  }
}

/// Moves items to the middle of their neighbours as far as the order and the widths allow.
void Picture::place() {
  constexpr int kSweeps = 2;  // down and up: more let the layers drift apart
  const auto apart = [&](int a, int b) { return (at(a).width + at(b).width) / 2 + kGap; };
  for (const std::vector<int>& layer : layers_) {
    for (size_t k = 1; k < layer.size(); ++k)
      at(layer[k]).x = at(layer[k - 1]).x + apart(layer[k - 1], layer[k]);
    const double middle = at(layer.back()).x / 2;
    for (const int i : layer) at(i).x -= middle;
  }
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    for (size_t k = 0; k < layers_.size(); ++k) {
      const std::vector<int>& layer = layers_[sweep % 2 == 0 ? k : layers_.size() - 1 - k];
      std::vector<double> from_left;
      for (const int i : layer) {
        std::vector<int> beside = at(i).above;
        beside.insert(beside.end(), at(i).below.begin(), at(i).below.end());
        double sum = 0;
        for (const int j : beside) sum += at(j).x;
        from_left.push_back(beside.empty() ? at(i).x : sum / static_cast<double>(beside.size()));
      }
      std::vector<double> from_right = from_left;
      for (size_t i = 1; i < layer.size(); ++i)
        from_left[i] = std::max(from_left[i], from_left[i - 1] + apart(layer[i - 1], layer[i]));
      for (size_t i = layer.size(); i-- > 1;)
        from_right[i - 1] =
            std::min(from_right[i - 1], from_right[i] - apart(layer[i - 1], layer[i]));
      for (size_t i = 0; i < layer.size(); ++i) at(layer[i]).x = (from_left[i] + from_right[i]) / 2;
    }
  }
  double left = 0;
  for (const Item& item : items_) left = std::min(left, item.x - item.width / 2);
  for (Item& item : items_) item.x += kMargin - left;
}

std::string Picture::draw() const {
  double right = 800;
  for (const Item& item : items_) right = std::max(right, item.x + item.width / 2);
  const double bottom = top(static_cast<int>(layers_.size()));
  std::string s = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"monospace\" font-size=\"11\">\n"
      "<style>rect{{stroke:#556;rx:4px}} .input rect{{fill:#cfe6ff}} .external "
      "rect{{fill:#ffe9b0}} "
      ".output rect{{fill:#cdeec6}} .call rect{{fill:#f1f2f6}} .view rect{{fill:#fff;"
      "stroke-dasharray:3 2}} .writes rect{{fill:#ffd2cc}} .name{{font-weight:bold}} "
      "path{{fill:none;stroke:#99a;stroke-width:1.2}}</style>\n"
      "<rect class=\"page\" width=\"100%\" height=\"100%\" fill=\"#fff\" stroke=\"none\" "
      "style=\"stroke:none\"/>\n",
      right + kMargin, bottom);
  double x = kMargin;
  for (const char* kind : {"input", "external", "call", "view", "writes", "output"}) {
    s += fmt::format(
        "<g class=\"{0}\"><rect class=\"legend\" x=\"{1:.1f}\" y=\"{2}\" width=\"14\" "
        "height=\"14\"/><text x=\"{3:.1f}\" y=\"{4}\">{5}</text></g>\n",
        kind, x, kMargin, x + 19, kMargin + 11,
        kind == std::string("writes") ? "writes outside" : kind);
    x += 130;
  }
  for (const Item& from : items_) {
    const double middle = top(from.layer);
    if (from.name.empty())
      s += fmt::format("<path d=\"M{0:.1f} {1:.1f}V{2:.1f}\"/>\n", from.x, middle,
                       middle + kBoxHeight);
    for (const int to : from.below) {
      const double begin = middle + kBoxHeight;
      const double bend = begin + kLayerGap / 2;
      s += fmt::format("<path d=\"M{:.1f} {:.1f}C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}\"/>\n",
                       from.x, begin, from.x, bend, at(to).x, bend, at(to).x, begin + kLayerGap);
    }
  }
  for (int i = 0; i < boxes_; ++i) {
    const Item& box = at(i);
    s += fmt::format(
        "<g class=\"{}\" id=\"{}\"><title>{}</title><rect x=\"{:.1f}\" y=\"{:.1f}\" "
        "width=\"{:.1f}\" height=\"{}\"/>",
        box.kind, box.id, escaped(box.tip), box.x - box.width / 2, top(box.layer), box.width,
        kBoxHeight);
    double y = top(box.layer) + 14;
    for (const std::string* line : {&box.name, &box.detail, &box.params}) {
      s += fmt::format("<text{} x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>",
                       line == &box.name ? " class=\"name\"" : "", box.x, y, escaped(*line));
      y += 13;
    }
    s += "</g>\n";
  }
  return s + "</svg>\n";
}

}  // namespace

std::string Graph::svg() const { return Picture(*this).draw(); }

}  // namespace mica
