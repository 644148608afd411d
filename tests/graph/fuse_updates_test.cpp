// The gradients of linear layers and the update that reads them become one node, on the null device
// where values do not matter; and that the values stay.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mica/graph/passes/passes.h"
#include "mica/graph/plan.h"
#include "mica/mica.h"
#include "mica/op/dispatch.h"
#include "mica/ops/optimizer_update/linear_update.h"
#include "tests/graph/ops_of.h"

namespace mica {
namespace {

using testing::Contains;
using testing::Not;

/// Two layers' parameters with a factor between them that no layer makes the gradient of, and
/// Adam's states. The order in the lists is not that of the layers.
struct Model {
  Tensor lr, step, scale;
  Tensors params;
  AdamStates states;

  explicit Model(Device device = {}) {
    const TensorOptions o{.device = device};
    lr = full({}, 0.1, o);
    step = full({}, 3, {.dtype = DType::i64, .device = device});
    for (const Shape& shape : {Shape{4}, Shape{4, 9}, Shape{7}, Shape{9, 5}, Shape{9}}) {
      params.push_back(device.is_null() ? zeros(shape, o) : uniform(shape, -1, 1));
      states.exp_avg.push_back(zeros(shape, o));
      states.exp_avg_sq.push_back(full(shape, 0.5, o));
    }
  }
  Tensors all() const {
    Tensors list = params;
    list.insert(list.end(), states.exp_avg.begin(), states.exp_avg.end());
    list.insert(list.end(), states.exp_avg_sq.begin(), states.exp_avg_sq.end());
    return list;
  }
};

enum class Also { nothing, gradient, write };

/// A step for x (3, 5), its layer's dy (3, 9) and the last dy (3, 4), with linear_wgrad as a
/// backward pass on CUDA calls it. Where asked for the first layer's gradient is a result too, or
/// what it is made of is written to before the update.
TensorFunction step_of(const Model& m, Also also = Also::nothing) {
  return [=](std::span<const Tensor> in) -> Tensors {
    const auto wgrad = [](const Tensor& dy, const Tensor& x) {
      return dispatch(find_op("linear_wgrad"), NoParams{}, {dy, x});
    };
    const Tensor dy = mul(in[1], in[1]);
    const Outputs first = wgrad(dy, in[0]);
    const Outputs last = wgrad(in[2], tanh(in[1]));
    if (also == Also::write) add_(dy, dy);
    const Tensor other = sum(in[0]);
    adam_update(m.lr, m.step, m.params, {last[1], last[0], expand(other, {7}), first[0], first[1]},
                m.states, {});
    Tensors results = {other};
    if (also == Also::gradient) results.push_back(first[0]);
    if (also == Also::write) results.push_back(dy);
    return results;
  };
}

Graph graph_after(const TensorFunction& f, const std::vector<Shape>& shapes) {
  std::vector<TensorSpec> specs;
  for (const Shape& shape : shapes)
    specs.push_back(TensorSpec::contiguous(shape, DType::f32, Device::null()));
  Graph graph = capture(f, specs).graph;
  run_passes(graph);
  return graph;
}

const std::vector<Shape> kShapes = {{3, 5}, {3, 9}, {3, 4}};

TEST(FuseUpdates, AllLayersAndTheUpdateAreOneNode) {
  const Model model(Device::null());
  const Graph graph = graph_after(step_of(model), kShapes);
  const std::vector<std::string> names = ops_of(graph);
  EXPECT_THAT(names, Contains("linear_adam_update").Times(1));
  EXPECT_THAT(names, Not(Contains("linear_wgrad")));
  EXPECT_THAT(names, Not(Contains("adam_update")));
  const auto node = std::find_if(graph.nodes.begin(), graph.nodes.end(), [](const Node& n) {
    return n.op->name == std::string("linear_adam_update");
  });
  EXPECT_EQ(node->params.as<update::WithLayers<AdamParams>>().layers, 2);
  // Each version follows the value it was made of.
  const auto count = static_cast<size_t>(model.params.size());
  for (size_t i = 0; i < 3 * count; ++i)
    EXPECT_EQ(graph[node->out[i]].base, node->in[2 + i + (i < count ? 0 : count)]) << i;
}

TEST(FuseUpdates, AGradientThatSomebodyReadsStays) {
  const Model model(Device::null());
  const std::vector<std::string> names =
      ops_of(graph_after(step_of(model, Also::gradient), kShapes));
  EXPECT_THAT(names, Contains("linear_wgrad").Times(1));
  EXPECT_THAT(names, Contains("linear_adam_update").Times(1));
}

TEST(FuseUpdates, WhatIsWrittenToInBetweenIsReadBefore) {
  const Model model(Device::null());
  const std::vector<std::string> names = ops_of(graph_after(step_of(model, Also::write), kShapes));
  EXPECT_THAT(names, Contains("linear_wgrad").Times(1));
}

TEST(FuseUpdates, OperandsThatTakeMoreMemoryThanGradientsAreNotKept) {
  const Model model(Device::null());
  const std::vector<std::string> names =
      ops_of(graph_after(step_of(model), {{60, 5}, {60, 9}, {60, 4}}));
  EXPECT_THAT(names, Contains("linear_wgrad").Times(2));
  EXPECT_THAT(names, Contains("adam_update"));
}

TEST(FuseUpdates, ALayerWhoseGradientRunsBesideConvolutionsStays) {
  const TensorOptions o{.device = Device::null()};
  const Tensors params = {zeros({9, 8}, o), zeros({9}, o), zeros({2, 3, 3, 3}, o)};
  const Tensor lr = zeros({}, o);
  const auto after = [&](bool layer_first) {
    return ops_of(graph_after(
        [&](std::span<const Tensor> in) -> Tensors {
          const auto layer = [&] {
            return dispatch(find_op("linear_wgrad"), NoParams{}, {in[1], in[0]});
          };
          Outputs both;
          if (layer_first) both = layer();
          const Tensor weight = zeros({2, 3, 3, 3}, {.device = Device::null()}).set_requires_grad();
          const Tensor loss = sum(conv2d(in[2], weight));
          const Tensors grads = grad({loss}, {weight});
          if (!layer_first) both = layer();
          sgd_update(lr, params, {both[0], both[1], grads[0]}, {}, {});
          return {loss.detach()};
        },
        {{3, 8}, {3, 9}, {2, 3, 8, 8}}));
  };
  EXPECT_THAT(after(true), Contains("linear_wgrad"));
  EXPECT_THAT(after(true), Contains("sgd_update"));
  EXPECT_THAT(after(false), Contains("linear_sgd_update"));
}

TEST(FuseUpdates, EveryOptimizer) {
  const TensorOptions o{.device = Device::null()};
  const Tensor w = zeros({9, 5}, o);
  const Tensor b = zeros({9}, o);
  const Tensor lr = zeros({}, o);
  const Tensor step = zeros({}, {.dtype = DType::i64, .device = Device::null()});
  const auto after = [&](const std::function<void(const Tensors& grads)>& update) {
    return ops_of(graph_after(
        [&](std::span<const Tensor> in) -> Tensors {
          const Outputs both = dispatch(find_op("linear_wgrad"), NoParams{}, {in[1], in[0]});
          update({both[0], both[1]});
          return {in[0]};
        },
        kShapes));
  };
  EXPECT_THAT(after([&](const Tensors& g) { sgd_update(lr, {w, b}, g, {}, {}); }),
              Contains("linear_sgd_update"));
  EXPECT_THAT(after([&](const Tensors& g) { rmsprop_update(lr, {w, b}, g, {{w, b}}, {}); }),
              Contains("linear_rmsprop_update"));
  EXPECT_THAT(after([&](const Tensors& g) { adagrad_update(lr, step, {w, b}, g, {w, b}, {}); }),
              Contains("linear_adagrad_update"));
}

TEST(FuseUpdates, AGradientOfTwoParametersStays) {
  const TensorOptions o{.device = Device::null()};
  const Tensors params = {zeros({9, 5}, o), zeros({9}, o), zeros({9, 5}, o)};
  const Tensor lr = zeros({}, o);
  const std::vector<std::string> names = ops_of(graph_after(
      [&](std::span<const Tensor> in) -> Tensors {
        const Outputs both = dispatch(find_op("linear_wgrad"), NoParams{}, {in[1], in[0]});
        sgd_update(lr, params, {both[0], both[1], both[0]}, {}, {});
        return {in[0]};
      },
      kShapes));
  EXPECT_THAT(names, Contains("linear_wgrad"));
  EXPECT_THAT(names, Contains("sgd_update"));
}

TEST(FuseUpdates, TheValuesStay) {
  manual_seed(3);
  const Tensor arguments[] = {uniform({3, 5}, -1, 1), uniform({3, 9}, -1, 1),
                              uniform({3, 4}, -1, 1)};
  for (const Also also : {Also::nothing, Also::gradient, Also::write}) {
    manual_seed(4);
    const Model eager;
    manual_seed(4);
    const Model model;
    force_kernel("linear_adam_update", "composed");
    CompiledFunction compiled(step_of(model, also));
    for (int i = 0; i < 3; ++i) {
      step_of(eager, also)(arguments);
      compiled(arguments);
    }
    force_kernel("linear_adam_update", "");
    EXPECT_THAT(compiled.plan()->kernels(), Contains("linear_adam_update: composed"));
    const Tensors want = eager.all();
    const Tensors got = model.all();
    for (size_t i = 0; i < want.size(); ++i) {
      const std::vector<float> a = want[i].to_vector<float>();
      const std::vector<float> b = got[i].to_vector<float>();
      for (size_t k = 0; k < a.size(); ++k) EXPECT_NEAR(a[k], b[k], 1e-6) << i << ' ' << k;
    }
  }
}

}  // namespace
}  // namespace mica
