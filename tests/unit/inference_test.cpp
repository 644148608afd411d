#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "mica/core/make_tensor.h"
#include "mica/inference/engine.h"
#include "mica/inference/engine_file.h"
#include "mica/inference/network.h"
#include "mica/io/safetensors.h"
#include "mica/models/models.h"
#include "mica/nn/nn.h"
#include "mica/onnx/export.h"
#include "mica/onnx/to_model.h"
#include "mica/onnx/write_model.h"
#include "mica/ops/ops.h"
#include "tests/temporary_directory.h"
#include "tests/unit/expect_error.h"

namespace mica::inference {
namespace {

double distance(const Tensor& a, const Tensor& b) { return max(abs(sub(a, b))).item<double>(); }

TEST(Inference, AnEngineIsSavedAndLoaded) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("lenet.mica");
  const nn::Sequential net = models::lenet();
  const Tensor x = normal({2, 1, 28, 28});
  {
    const auto engine = optimize(net, x, {.dynamic = {{"input", 0, "batch"}}});
    engine.save(path);
  }
  const Engine engine = load(path);
  const Tensor y = engine(x);
  net.eval();
  EXPECT_LT(distance(y, net(x).detach()), 1e-5);
  const Tensor more = normal({5, 1, 28, 28});
  EXPECT_LT(distance(engine(more), net(more).detach()), 1e-5);
  EXPECT_TRUE(is_engine(path));
  EXPECT_EQ(engine.plans(), 2);
}

TEST(Inference, BatchNormsAreFolded) {
  const nn::Sequential net(nn::Conv2d({.in = 3, .out = 4, .kernel = 3}), nn::BatchNorm2d(4));
  net(normal({8, 3, 6, 6}));  // statistics of its own
  const Tensor x = normal({1, 3, 6, 6});
  const Engine engine = optimize(net, x);
  ASSERT_EQ(engine.network().calls.size(), 1U);
  EXPECT_STREQ(engine.network().calls[0].op->name, "conv2d");
  EXPECT_TRUE(net.training());
  net.eval();
  EXPECT_LT(distance(engine(x), net(x).detach()), 1e-5);
}

TEST(Inference, BoundMemoryIsReadAndWrittenWhereItLies) {
  const nn::Linear net(3, 2);
  std::vector<float> in(6, 1.0F);
  std::vector<float> out(4);
  const Engine engine = optimize(net, ones({2, 3}));
  const Binding binding =
      engine.bind({from_blob(in.data(), {2, 3})}, {from_blob(out.data(), {2, 2})});
  for (const float value : {1.0F, -2.0F}) {
    std::ranges::fill(in, value);
    binding.run();
    const Tensor y = net(full({2, 3}, double{value})).detach();
    EXPECT_LT(distance(tensor(out, {2, 2}), y), 1e-6);
  }
}

TEST(Inference, SizesArePolynomials) {
  const std::vector<std::string> names = {"n", "m"};
  const Size size({1, 0, -2, 3});  // 1 - 2 m + 3 n m
  EXPECT_EQ(size.at({4, 5}), 1 - 10 + 60);
  EXPECT_EQ(size.print(names), "3*n*m + -2*m + 1");
  EXPECT_EQ(Size::symbol(1, 2).at({4, 5}), 5);
  EXPECT_TRUE(Size({7, 0, 0, 0}).is_fixed());
  expect_error<ShapeError>("cannot be computed", [&] { size.at({INT64_MAX, 2}); });
  expect_error<Error>("power of two", [] { Size({1, 2, 3}); });
}

/// The text of a network whose file is read in the place of a damaged one.
void expect_refused(const std::string& text, const std::string& fragment) {
  try {
    network_from_text(text, {{"w", ones({2, 3})}}, "net.mica");
    ADD_FAILURE() << "nothing was thrown; expected '" << fragment << "'";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find(fragment), std::string::npos) << e.what();
  }
}

TEST(Inference, TextsOfNetworksAreHeldToTheirGrammar) {
  const auto text = [](const std::string& calls, const std::string& outputs = "[2]") {
    return R"({"symbols":["n"],"inputs":[{"name":"x","dtype":"f32","shape":[[0,1],3]}],)"
           R"("constants":["w"],"calls":[)" +
           calls + R"(],"outputs":)" + outputs +
           R"(,"output_names":["y"],"input_form":"tensor","output_form":"tensor","profiles":[]})";
  };
  const std::string linear = R"({"op":"linear","in":[0,1,-1],"params":{}})";
  const EngineFile file = network_from_text(text(linear), {{"w", ones({2, 3})}}, "net.mica");
  EXPECT_EQ(Engine(file.network)(ones({4, 3})).shape(), (Shape{4, 2}));
  expect_refused("{", "not JSON");
  expect_refused("[]", "'symbols' is missing");
  expect_refused(text(R"({"op":"linaer","in":[0,1,-1],"params":{}})"), "linaer");
  expect_refused(text(R"({"op":"linear","in":[0,9,-1],"params":{}})"), "value 9 is not there");
  expect_refused(text(R"({"op":"softmax","in":[0],"params":{"axes":1}})"), "axes");
  expect_refused(text(R"({"op":"softmax","in":[0],"params":{"axis":"a"}})"), "whole number");
  expect_refused(text(R"({"op":"copy_into","in":[0,0],"params":{}})"), "writes to its inputs");
  expect_refused(text(linear, "[3]"), "value 3 is not there");
  expect_refused(text(R"({"op":"reshape","in":[0],"params":{"dims":[[1,2,3]]}})"), "coefficients");
}

TEST(Inference, WhatAFileAsksForIsCheckedWhenItIsCalled) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("net.mica");
  EngineFile file{.network = optimize(nn::Linear(3, 2), ones({1, 3})).network(), .profiles = {{}}};
  file.network.constants[0].tensor = ones({2, 4});
  save_engine(path, file);
  expect_error<IoError>(path + ": what it holds cannot be computed: linear", [&] { load(path); });
}

TEST(OnnxExport, CallsThatOnnxHasNotAreListed) {
  const TemporaryDirectory directory;
  struct NetImpl : nn::ModuleImpl {
    Tensor forward(const Tensor& x) { return mul(roll(x, {1}, {0}), atan2(x, x)); }
  };
  expect_error<Unsupported>("\n  roll: mica does not write it", [&] {
    onnx::export_model(nn::Handle<NetImpl>(), ones({3}), directory.file("net.onnx"));
  });
  EXPECT_EQ(directory.files(), 0);
}

TEST(OnnxExport, WhatIsWrittenIsRead) {
  const nn::Sequential net = models::lenet();
  const Network network =
      network_of(net, normal({2, 1, 28, 28}), {.dynamic = {{"input", 0, "batch"}}});
  const std::vector<std::byte> bytes = onnx::model_bytes(onnx::to_model(network, 17));
  const onnx::ModelProto model = onnx::parse_model(bytes, "lenet");
  EXPECT_EQ(model.opset_import.at(0).version, 17);
  EXPECT_EQ(model.graph.input.at(0).type.shape->at(0).param, "batch");
  EXPECT_EQ(model.graph.initializer.at(0).name, "0.weight");
  std::vector<std::string> ops;
  for (const onnx::NodeProto& node : model.graph.node) ops.push_back(node.op_type);
  EXPECT_EQ(ops, (std::vector<std::string>{"Conv", "MaxPool", "Conv", "MaxPool", "Reshape", "Gemm",
                                           "Relu", "Gemm"}));
}

}  // namespace
}  // namespace mica::inference
