#include "mica/nn/nn.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "mica/autograd/autograd.h"
#include "mica/core/error.h"
#include "mica/models/lenet.h"
#include "mica/ops/ops.h"
#include "mica/optim/sgd.h"

namespace mica {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> names_of(const nn::NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

template <class E, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  return "no error";
}

struct NetImpl : nn::ModuleImpl {
  explicit NetImpl(int64_t count = 3) : classes(count) {}

  nn::Conv2d conv = add("conv", nn::Conv2d({.in = 1, .out = 2, .kernel = 3}));
  nn::BatchNorm2d norm = add("norm", nn::BatchNorm2d(2));
  Tensor scale = parameter("scale", ones({1}));
  Tensor seen = buffer("seen", zeros({1}));

  Tensor forward(const Tensor& x) override { return mul(relu(norm(conv(x))), scale); }
  int64_t classes;
};
using Net = nn::Handle<NetImpl>;

TEST(Module, NamesAsPyTorchDoes) {
  EXPECT_THAT(names_of(models::lenet().named_parameters()),
              ElementsAre("0.weight", "0.bias", "2.weight", "2.bias", "5.weight", "5.bias",
                          "7.weight", "7.bias"));
  const Net net;
  EXPECT_THAT(names_of(net.named_parameters()),
              ElementsAre("scale", "conv.weight", "conv.bias", "norm.weight", "norm.bias"));
  EXPECT_THAT(names_of(net.named_buffers()),
              ElementsAre("seen", "norm.running_mean", "norm.running_var"));
  EXPECT_EQ(net.state_dict().size(), 8U);
}

TEST(Module, LenetHasTheShapesOfThePeers) {
  const nn::StateDict state = models::lenet().state_dict();
  EXPECT_EQ(state.at("0.weight").shape(), Shape({20, 1, 5, 5}));
  EXPECT_EQ(state.at("2.weight").shape(), Shape({50, 20, 5, 5}));
  EXPECT_EQ(state.at("5.weight").shape(), Shape({500, 800}));
  EXPECT_EQ(state.at("7.bias").shape(), Shape({10}));
  EXPECT_EQ(models::lenet()(zeros({3, 1, 28, 28})).shape(), Shape({3, 10}));
}

TEST(Module, OwnModuleRunsAndLearns) {
  const Net net(5);
  EXPECT_EQ(net->classes, 5);
  const Tensor y = net(uniform({2, 1, 6, 6}));
  EXPECT_EQ(y.shape(), Shape({2, 2, 4, 4}));
  sum(y).backward();
  for (const auto& [name, p] : net.named_parameters()) EXPECT_TRUE(p.grad().defined()) << name;
  net.zero_grad();
  EXPECT_FALSE(net->scale.grad().defined());
}

TEST(Module, WorksInsideASequential) {
  const nn::Sequential model{Net(), nn::Flatten(), nn::Linear(2 * 4 * 4, 3)};
  EXPECT_EQ(model(uniform({2, 1, 6, 6})).shape(), Shape({2, 3}));
  EXPECT_EQ(model.named_parameters()[0].first, "0.scale");
}

TEST(Module, SharedModuleIsListedOnce) {
  const nn::Linear layer(4, 4);
  const nn::Sequential model{layer, nn::ReLU(), layer};
  EXPECT_THAT(names_of(model.named_parameters()), ElementsAre("0.weight", "0.bias"));
  EXPECT_EQ(model.state_dict().size(), 4U);
}

TEST(Module, RefusesBadNamesAndCycles) {
  const nn::Sequential model{nn::ReLU()};
  nn::ModuleImpl& impl = *model.impl();
  EXPECT_THAT(message_of<Error>([&] { impl.register_module("0", nn::ReLU()); }), HasSubstr("'0'"));
  EXPECT_THROW(impl.register_parameter("a.b", zeros({1})), Error);
  EXPECT_THROW(impl.register_buffer("", zeros({1})), Error);
  EXPECT_THROW(impl.register_buffer("b", {}), Error);
  EXPECT_THROW(impl.register_parameter("i", zeros({1}, {.dtype = DType::i64})), DTypeError);
  EXPECT_THAT(message_of<Error>([&] { impl.register_module("self", model); }),
              HasSubstr("a part of itself"));
  const nn::Sequential outer{nn::ReLU(), model};
  EXPECT_THROW(impl.register_module("outer", outer), Error);
  EXPECT_THROW(nn::Module(nullptr), Error);
}

TEST(Module, ToMovesWhatEveryHandleSees) {
  const Net net;
  const Tensor weight = net->conv->weight;
  net(uniform({2, 1, 6, 6}));
  sum(net->conv->weight).backward();
  net.to(Device::null());
  EXPECT_TRUE(weight.device().is_null());
  EXPECT_TRUE(weight.requires_grad());
  EXPECT_TRUE(weight.grad().device().is_null());
  EXPECT_TRUE(net->norm->running_mean.device().is_null());
  const optim::SGD optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  EXPECT_TRUE(net(empty({2, 1, 6, 6}, {.device = Device::null()})).device().is_null());
}

TEST(Module, TrainReachesTheChildren) {
  const nn::Dropout dropout(0.5);
  const nn::Sequential model{nn::Sequential{dropout, nn::ReLU()}, nn::ReLU()};
  EXPECT_TRUE(dropout.training());
  model.eval();
  EXPECT_FALSE(dropout.training());
  const Tensor x = ones({64});
  EXPECT_EQ(model(x).to_vector<float>(), x.to_vector<float>());
  model.train();
  EXPECT_NE(model(x).to_vector<float>(), x.to_vector<float>());
}

TEST(Module, BatchNormKeepsStatisticsInTraining) {
  const nn::BatchNorm2d norm(2);
  const Tensor x = uniform({4, 2, 3, 3}, 5, 6);
  norm.eval();
  norm(x);
  EXPECT_EQ(norm->running_mean.to_vector<float>()[0], 0.0F);
  norm.train();
  norm(x);
  EXPECT_NEAR(norm->running_mean.to_vector<float>()[0], 0.55F, 0.05F);
}

TEST(Module, FreezeStopsGradients) {
  const nn::Linear layer(2, 2);
  layer.freeze();
  EXPECT_FALSE(sum(layer(ones({1, 2}))).requires_grad());
  layer.unfreeze();
  EXPECT_TRUE(sum(layer(ones({1, 2}))).requires_grad());
}

TEST(Module, StateDictLoads) {
  const Net a;
  const Net b;
  const Tensor handle = b->conv->weight;
  b.load_state_dict(a.state_dict());
  EXPECT_EQ(handle.to_vector<float>(), a->conv->weight.to_vector<float>());
  EXPECT_TRUE(handle.requires_grad());
}

TEST(Module, StateDictErrorsNameTheKeyAndChangeNothing) {
  const nn::Linear layer(3, 2);
  const auto before = layer->weight.to_vector<float>();
  nn::StateDict state = {{"weight", zeros({2, 3})}};
  const auto load = [&] { layer.load_state_dict(state); };
  EXPECT_THAT(message_of<Error>(load), AllOf(HasSubstr("'bias'"), HasSubstr("missing")));
  state["bias"] = zeros({3});
  EXPECT_THAT(message_of<ShapeError>(load),
              AllOf(HasSubstr("'bias'"), HasSubstr("[2]"), HasSubstr("[3]")));
  state["bias"] = zeros({2}, {.dtype = DType::f64});
  EXPECT_THAT(message_of<DTypeError>(load),
              AllOf(HasSubstr("'bias'"), HasSubstr("f32"), HasSubstr("f64")));
  state["bias"] = zeros({2});
  state["extra"] = zeros({2});
  EXPECT_THAT(message_of<Error>(load), AllOf(HasSubstr("unexpected"), HasSubstr("'extra'")));
  EXPECT_EQ(layer->weight.to_vector<float>(), before);
  state.erase("extra");
  load();
  EXPECT_EQ(layer->weight.to_vector<float>(), std::vector<float>(6, 0.0F));
}

TEST(Module, InitialisesByFanInAndSeed) {
  manual_seed(1);
  const nn::Conv2d a({.in = 4, .out = 16, .kernel = 5, .groups = 2});
  manual_seed(1);
  const nn::Conv2d b({.in = 4, .out = 16, .kernel = 5, .groups = 2});
  const auto weight = a->weight.to_vector<float>();
  EXPECT_EQ(weight, b->weight.to_vector<float>());
  const auto [low, high] = std::minmax_element(weight.begin(), weight.end());
  const float bound = 1.0F / std::sqrt(2.0F * 25.0F);
  EXPECT_GE(*low, -bound);
  EXPECT_LE(*high, bound);
  EXPECT_GT(*high - *low, 1.8F * bound);
}

TEST(Module, LayersRefuseBadOptions) {
  EXPECT_THROW(nn::Conv2d({.in = 1, .out = 2}), Error);
  EXPECT_THROW(nn::Conv2d({.in = 3, .out = 4, .kernel = 3, .groups = 2}), Error);
  EXPECT_THROW(nn::Linear(0, 2), Error);
  EXPECT_THROW(nn::BatchNorm2d(0), Error);
  EXPECT_THROW(nn::BatchNorm2d(2)(zeros({2, 2})), ShapeError);
  EXPECT_FALSE(nn::Linear({.in = 2, .out = 2, .bias = false})->bias.defined());
}

TEST(Sgd, FollowsPyTorchsFormulas) {
  const Tensor w = tensor({1.0F, -2.0F}, {2}).set_requires_grad();
  optim::SGD optimizer({w}, {.lr = 0.1, .momentum = 0.5, .weight_decay = 0.1, .nesterov = true});
  double p = 1;
  double m = 0;
  for (int i = 0; i < 3; ++i) {
    optimizer.zero_grad();
    sum(mul(w, w)).backward();
    optimizer.step();
    const double g = 2 * p + 0.1 * p;
    m = 0.5 * m + g;
    p -= 0.1 * (g + 0.5 * m);
  }
  EXPECT_NEAR(w.to_vector<float>()[0], p, 1e-6);
  EXPECT_NEAR(w.to_vector<float>()[1], -2 * p, 1e-6);
}

TEST(Sgd, LeavesFrozenAndUnusedParametersAlone) {
  const Tensor used = ones({2}).set_requires_grad();
  const Tensor frozen = ones({2}).set_requires_grad();
  const Tensor unused = ones({2}).set_requires_grad();
  optim::SGD optimizer({used, frozen, unused}, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.5});
  sum(mul(used, frozen)).backward();
  frozen.set_requires_grad(false);
  optimizer.step();
  EXPECT_NE(used.to_vector<float>()[0], 1.0F);
  EXPECT_EQ(frozen.to_vector<float>()[0], 1.0F);
  EXPECT_EQ(unused.to_vector<float>()[0], 1.0F);
  EXPECT_EQ(optimizer.lr(), 0.1);
}

TEST(Sgd, RefusesBadOptions) {
  EXPECT_THROW(optim::SGD(Tensors{}), Error);
  EXPECT_THROW(optim::SGD({ones({1})}, {.lr = -1}), Error);
  EXPECT_THROW(optim::SGD({ones({1})}, {.nesterov = true}), Error);
}

}  // namespace
}  // namespace mica
