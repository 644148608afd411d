// The picture of a graph: whole XML, every call in it, no box over another.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>

#include "mica/graph/plan.h"
#include "mica/mica.h"

namespace mica {
namespace {

using testing::HasSubstr;

/// What is wrong with a text as XML; empty when nothing is. Knows elements, attributes and the five
/// entities, which is what the picture uses.
std::string xml_error(const std::string& text) {
  std::vector<std::string> open;
  size_t at = 0;
  int roots = 0;
  const std::regex tag(R"(<(/?)([a-zA-Z]+)((?:\s+[a-zA-Z:-]+="[^"<]*")*)\s*(/?)>)");
  const std::regex entity("&(?!(?:lt|gt|amp|quot|apos);)");
  while (at < text.size()) {
    const size_t next = std::min(text.find('<', at), text.size());
    const std::string between = text.substr(at, next - at);
    if (open.empty() && between.find_first_not_of(" \n") != std::string::npos)
      return "text outside: " + between;
    if (std::regex_search(between, entity) || between.find('>') != std::string::npos)
      return "not escaped: " + between;
    if (next == text.size()) break;
    const size_t end = text.find('>', next);
    if (end == std::string::npos) return "a tag without end";
    const std::string piece = text.substr(next, end - next + 1);
    std::smatch m;
    if (!std::regex_match(piece, m, tag)) return "not a tag: " + piece;
    if (m[1] == "/") {
      if (open.empty() || open.back() != m[2]) return "closes what is not open: " + piece;
      open.pop_back();
    } else if (m[4] != "/") {
      if (open.empty()) ++roots;
      open.push_back(m[2]);
    }
    at = end + 1;
  }
  return !open.empty() ? "never closed: " + open.back() : roots == 1 ? "" : "not one root";
}

struct Box {
  std::string id;
  double x, y, width, height;
  bool overlaps(const Box& o) const {
    return x < o.x + o.width && o.x < x + width && y < o.y + o.height && o.y < y + height;
  }
};

std::vector<Box> boxes_of(const std::string& svg) {
  const std::regex box(
      "id=\"([a-z0-9-]+)\"><title>[^<]*</title><rect x=\"([0-9.]+)\" y=\"([0-9.]+)\" "
      "width=\"([0-9.]+)\" height=\"([0-9.]+)\"/>");
  std::vector<Box> all;
  for (std::sregex_iterator it(svg.begin(), svg.end(), box), end; it != end; ++it)
    all.push_back({(*it)[1], std::stod((*it)[2]), std::stod((*it)[3]), std::stod((*it)[4]),
                   std::stod((*it)[5])});
  return all;
}

/// A whole training step of a small convolutional network, without hardware.
Graph training_step() {
  const TensorOptions null{.device = Device::null()};
  Tensors w = {zeros({20, 1, 5, 5}, null), zeros({20}, null),       zeros({50, 20, 5, 5}, null),
               zeros({50}, null),          zeros({500, 800}, null), zeros({500}, null),
               zeros({10, 500}, null),     zeros({10}, null)};
  for (const Tensor& t : w) t.set_requires_grad();
  const std::array<TensorSpec, 2> specs = {
      TensorSpec::contiguous({64, 1, 28, 28}, DType::f32, Device::null()),
      TensorSpec::contiguous({64}, DType::i64, Device::null())};
  return capture(
             [&](std::span<const Tensor> in) -> Tensors {
               Tensor h = max_pool2d(conv2d(in[0], w[0], w[1]));
               h = max_pool2d(conv2d(h, w[2], w[3]));
               h = relu(linear(flatten(h, 1), w[4], w[5]));
               const Tensor loss = cross_entropy(linear(h, w[6], w[7]), in[1]);
               loss.backward();
               const NoGrad guard;
               Tensors grads;
               for (const Tensor& t : w) grads.push_back(t.grad());
               sgd_update(zeros({}, null), w, grads, {}, {});
               return {loss};
             },
             specs)
      .graph;
}

TEST(Svg, ShowsEveryCallAndNoBoxLiesOverAnother) {
  const Graph g = training_step();
  ASSERT_GT(g.nodes.size(), 20U);
  const std::string svg = g.svg();
  EXPECT_EQ(xml_error(svg), "");
  const std::vector<Box> boxes = boxes_of(svg);
  std::vector<std::string> ids;
  ids.reserve(boxes.size());
  for (const Box& b : boxes) ids.push_back(b.id);
  for (size_t i = 0; i < g.nodes.size(); ++i)
    EXPECT_THAT(ids, testing::Contains("node-" + std::to_string(i)));
  EXPECT_THAT(ids, testing::Contains("output-0"));
  // Two arguments and eight weights at least stand beside the calls and the result.
  EXPECT_GE(boxes.size(), g.nodes.size() + 11);
  for (size_t i = 0; i < boxes.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      EXPECT_FALSE(boxes[i].overlaps(boxes[j])) << boxes[i].id << " over " << boxes[j].id;
  EXPECT_THAT(svg, HasSubstr(">conv2d_wgrad</text>"));
  EXPECT_THAT(svg, HasSubstr(">f32[64, 20, 24, 24]"));
  EXPECT_THAT(svg, HasSubstr("class=\"writes\""));
}

TEST(Svg, StandsBelowWhatItReads) {
  const Graph g = training_step();
  std::map<std::string, double> y;
  for (const Box& b : boxes_of(g.svg())) y[b.id] = b.y;
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    for (const ValueId id : g.nodes[i].in) {
      if (id == kNoValue || g[id].node < 0) continue;
      EXPECT_LT(y["node-" + std::to_string(g[id].node)], y["node-" + std::to_string(i)]);
    }
  }
}

TEST(Svg, OfACompiledFunction) {
  auto f = compile([](const Tensor& x) { return relu(add(x, x)); });
  f(ones({2}));
  EXPECT_EQ(xml_error(f.function()->plan()->captured().graph.svg()), "");
  auto nothing = compile([](const Tensor& x) { return x; });
  nothing(ones({2}));
  EXPECT_EQ(xml_error(nothing.function()->plan()->captured().graph.svg()), "");
}

TEST(Svg, TheCheckerSeesMistakes) {
  EXPECT_EQ(xml_error("<a><b c=\"1\"/>x &lt; y</a>"), "");
  EXPECT_NE(xml_error("<a><b></a>"), "");
  EXPECT_NE(xml_error("<a>x & y</a>"), "");
  EXPECT_NE(xml_error("<a b=c></a>"), "");
  EXPECT_NE(xml_error("<a></a><a></a>"), "");
}

}  // namespace
}  // namespace mica
