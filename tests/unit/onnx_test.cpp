#include "mica/onnx/onnx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "mica/core/error.h"
#include "mica/core/make_tensor.h"
#include "mica/graph/compile.h"
#include "mica/nn/module.h"
#include "mica/onnx/model.h"
#include "mica/ops/reduce/reduce.h"

namespace mica::onnx {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A field that has a length, of less than 128.
std::string part(int field, const std::string& bytes) {
  return std::string(1, static_cast<char>(field << 3 | 2)) + static_cast<char>(bytes.size()) +
         bytes;
}
std::string number(int field, int value) {
  return {static_cast<char>(field << 3), static_cast<char>(value)};
}
std::string floats(std::initializer_list<float> values) {
  return {reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(float)};
}
std::string node(const std::string& op, const std::string& name,
                 std::initializer_list<const char*> inputs, const std::string& output) {
  std::string bytes;
  for (const char* input : inputs) bytes += part(1, input);
  return bytes + part(2, output) + part(3, name) + part(4, op);
}

/// y = x · scale.weight, z = relu(y).
std::string model() {
  const std::string weight =
      number(1, 2) + number(2, 1) + part(8, "scale.weight") + part(9, floats({2, -1}));
  const std::string graph = part(1, node("Mul", "times", {"x", "scale.weight"}, "y")) +
                            part(1, node("Relu", "", {"y"}, "z"));
  const std::string ends =
      part(5, weight) + part(11, part(1, "x")) + part(12, part(1, "y")) + part(12, part(1, "z"));
  const std::string body = graph + ends;
  return number(1, 8) + part(8, number(2, 13)) + "\x3a" +
         static_cast<char>(0x80 | (body.size() & 0x7F)) + static_cast<char>(body.size() >> 7) +
         body;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(Onnx, AFileIsReadIntoItsStructs) {
  const std::string file = model();
  const ModelProto read = parse_model(bytes_of(file), "file");
  EXPECT_EQ(read.ir_version, 8);
  ASSERT_EQ(read.opset_import.size(), 1U);
  EXPECT_EQ(read.opset_import[0].version, 13);
  ASSERT_EQ(read.graph.node.size(), 2U);
  EXPECT_EQ(read.graph.node[0].op_type, "Mul");
  EXPECT_THAT(read.graph.node[0].input, ElementsAre("x", "scale.weight"));
  ASSERT_EQ(read.graph.initializer.size(), 1U);
  EXPECT_THAT(read.graph.initializer[0].dims, ElementsAre(2));
  EXPECT_EQ(read.graph.initializer[0].raw_data.size(), 8U);
}

TEST(Onnx, AModelIsAModule) {
  const nn::Module net = load(bytes_of(model()));
  EXPECT_FALSE(net.training());
  EXPECT_TRUE(net.state_dict().contains("scale.weight"));
  const Tensor x = tensor({3.0F, 4.0F});
  const Values by_order = net(Values::list({x}));
  const Values by_name = net(Values::dict({{"x", x}}));
  for (const Values& results : {by_order, by_name}) {
    EXPECT_THAT(results[0].tensor().to_vector<float>(), ElementsAre(6, -4));
    EXPECT_THAT(results[1].tensor().to_vector<float>(), ElementsAre(6, 0));
  }
  sum(by_order[1].tensor()).backward();
  EXPECT_THAT(net.parameters()[0].grad().to_vector<float>(), ElementsAre(3, 0));
}

TEST(Onnx, ItCompiles) {
  const nn::Module net = load(bytes_of(model()));
  auto f = compile([&](const Tensor& x) { return net(Values(x))[1].tensor(); });
  const Tensor x = tensor({-1.0F, -2.0F});
  EXPECT_THAT(f(x).to_vector<float>(), ElementsAre(0, 2));
}

TEST(Onnx, EveryPrefixOfAFileRaises) {
  const std::string file = model();
  for (size_t n = 0; n < file.size(); ++n) {
    try {
      load(bytes_of(file.substr(0, n)), "cut");
      // What ends between two fields may still be a model, of fewer nodes.
    } catch (const IoError& e) {
      EXPECT_THAT(e.what(), HasSubstr("onnx: cut: "));
    }
  }
}

TEST(Onnx, UnsupportedOperatorsAreListedWithTheirNodes) {
  std::string file = model();
  file.replace(file.find("Mul"), 3, "Mux");
  try {
    load(bytes_of(file));
    FAIL();
  } catch (const Unsupported& e) {
    EXPECT_THAT(e.what(), HasSubstr("Mux: times"));
  }
}

}  // namespace
}  // namespace mica::onnx
