#include "mica/nn/nn.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "mica/autograd/autograd.h"
#include "mica/core/error.h"
#include "mica/graph/compile.h"
#include "mica/models/models.h"
#include "mica/nn/forward_hooks.h"
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

  Tensor forward(const Tensor& x) { return mul(relu(norm(conv(x))), scale); }
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
  EXPECT_THAT(
      names_of(net.named_buffers()),
      ElementsAre("seen", "norm.running_mean", "norm.running_var", "norm.num_batches_tracked"));
  EXPECT_EQ(net.state_dict().size(), 9U);
}

TEST(Module, StateDictIsInOrderOfRegistration) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : Net().state_dict()) names.push_back(name);
  EXPECT_THAT(names,
              ElementsAre("scale", "seen", "conv.weight", "conv.bias", "norm.weight", "norm.bias",
                          "norm.running_mean", "norm.running_var", "norm.num_batches_tracked"));
}

TEST(StateDict, KeepsItsOrder) {
  StateDict state = {{"z", ones({1})}, {"a", ones({2})}};
  EXPECT_TRUE(state.emplace("m", ones({3})).second);
  EXPECT_FALSE(state.emplace("a", ones({9})).second);
  state["q"] = ones({4});
  EXPECT_EQ(state.erase("a"), 1U);
  EXPECT_EQ(state.erase("a"), 0U);
  EXPECT_EQ(state.take("none").defined(), false);
  EXPECT_EQ(state.take("q").numel(), 4);
  state.emplace("a", ones({5}));
  EXPECT_THAT(names_of({state.begin(), state.end()}), ElementsAre("z", "m", "a"));
  EXPECT_EQ(state.at("m").numel(), 3);
  EXPECT_EQ(state.find("a")->second.numel(), 5);
  EXPECT_EQ(state.find("q"), state.end());
  EXPECT_EQ(message_of<IndexError>([&] { state.at("q"); }), "StateDict: there is no 'q'");
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

TEST(Module, HooksSeeEachCallAndMayReplaceItsInputAndOutput) {
  const nn::Linear layer(2, 2);
  const nn::Sequential model{nn::Identity(), layer};
  const Tensor x = uniform({3, 2});
  const Tensor plain = model(x);
  std::vector<std::string> calls;
  HookHandle before = layer.register_forward_pre_hook([&](const nn::Module& m, const Tensor& in) {
    EXPECT_EQ(m.impl(), layer.impl());
    EXPECT_EQ(in.to_vector<float>(), x.to_vector<float>());
    calls.emplace_back("before");
    return zeros_like(in);
  });
  HookHandle after = layer.register_forward_hook(
      [&](const nn::Module&, const Tensor& in, const Tensor& out) -> Tensor {
        EXPECT_EQ(in.to_vector<float>(), std::vector<float>(6, 0));
        calls.emplace_back("after");
        return out * 2;
      });
  const HookHandle last = layer.register_forward_hook([&](const nn::Module&, const Tensor&,
                                                          const Tensor& out) -> Tensor {
    EXPECT_FLOAT_EQ(select(out, 0, 0).to_vector<float>()[0], 2 * layer->bias.to_vector<float>()[0]);
    calls.emplace_back("last");
    return {};
  });
  model(x);
  EXPECT_THAT(calls, ElementsAre("before", "after", "last"));
  before.remove();
  before.remove();  // nothing is there to remove
  after.remove();
  EXPECT_EQ(layer.impl()->forward_hooks()->after.size(), 1U);
  layer.impl()->make_forward_hooks().after.clear();
  EXPECT_EQ(model(x).to_vector<float>(), plain.to_vector<float>());
  EXPECT_THROW(layer.register_forward_hook({}), Error);
}

TEST(Module, HooksMayComeFirstAndBeCalledAfterErrors) {
  const nn::Linear layer(2, 3);
  std::vector<std::string> calls;
  layer.register_forward_pre_hook([&](const nn::Module&, const Tensor&) -> Tensor {
    calls.emplace_back("before");
    return {};
  });
  layer.register_forward_pre_hook(
      [&](const nn::Module&, const Tensor&) -> Tensor {
        calls.emplace_back("first");
        return {};
      },
      true);
  const auto note = [&](const char* name) {
    return [&calls, name](const nn::Module&, const Tensor&, const Tensor& out) -> Tensor {
      calls.push_back(std::string(name) + (out.defined() ? "" : ", nothing"));
      return {};
    };
  };
  layer.register_forward_hook(note("after"));
  layer.register_forward_hook(note("zeroth"), {.prepend = true});
  HookHandle always = layer.register_forward_hook(note("always"), {.always_call = true});
  layer(ones({1, 2}));
  EXPECT_THAT(calls, ElementsAre("first", "before", "zeroth", "after", "always"));
  calls.clear();
  EXPECT_THROW(layer(ones({1, 5})), ShapeError);
  EXPECT_THAT(calls, ElementsAre("first", "before", "always, nothing"));
  calls.clear();
  // A hook after it is called although this one raises, which is not called again.
  layer.register_forward_hook(
      [](const nn::Module&, const Tensor&, const Tensor&) -> Tensor { throw Error("a hook's"); },
      {.prepend = true, .always_call = true});
  EXPECT_THROW(layer(ones({1, 2})), Error);
  EXPECT_THAT(calls, ElementsAre("first", "before", "always, nothing"));
  always.remove();
  calls.clear();
  EXPECT_THROW(layer(ones({1, 5})), ShapeError);
  EXPECT_THAT(calls, ElementsAre("first", "before"));
}

TEST(Module, AHookMayTakeItselfAwayAndOutliveItsModule) {
  HookHandle handle;
  int calls = 0;
  {
    const nn::ReLU layer;
    handle =
        layer.register_forward_hook([&](const nn::Module&, const Tensor&, const Tensor&) -> Tensor {
          ++calls;
          handle.remove();
          return {};
        });
    layer(ones({1}));
    layer(ones({1}));
    handle = layer.register_forward_pre_hook(
        [](const nn::Module&, const Tensor&) -> Tensor { return {}; });
  }
  EXPECT_EQ(calls, 1);
  handle.remove();
}

TEST(Module, ACompiledFunctionHasItsHooksResults) {
  const nn::Linear layer(2, 2);
  layer.register_forward_hook(
      [](const nn::Module&, const Tensor&, const Tensor& out) { return out * 3; });
  auto f = compile([&](const Tensor& in) { return layer(in).detach(); });
  const Tensor x = uniform({3, 2});
  EXPECT_EQ(f(x).to_vector<float>(), layer(x).to_vector<float>());
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
  EXPECT_THROW(impl.register_module("none", nn::Module(nullptr)), Error);
}

TEST(Module, ReplacingKeepsTheOrder) {
  const nn::Sequential model{nn::Linear(2, 3), nn::ReLU(), nn::Linear(3, 2)};
  nn::ModuleImpl& impl = *model.impl();
  impl.replace_module("0", nn::Linear(2, 3));
  impl.replace_module("1", nn::PReLU(3));
  EXPECT_THAT(names_of(model.named_parameters()),
              ElementsAre("0.weight", "0.bias", "1.weight", "2.weight", "2.bias"));
  EXPECT_THROW(impl.replace_module("3", nn::ReLU()), Error);
  EXPECT_THAT(message_of<Error>([&] { impl.replace_module("2", model); }),
              HasSubstr("a part of itself"));

  nn::ModuleImpl& linear = *model[0].impl();
  const Tensor weight = ones({3, 2});
  linear.replace_parameter("weight", weight);
  EXPECT_TRUE(weight.requires_grad());
  EXPECT_THAT(names_of(linear.own_parameters()), ElementsAre("weight", "bias"));
  EXPECT_EQ(model.state_dict().at("0.weight").to_vector<float>(), std::vector<float>(6, 1.F));
  model[0].reset_parameters();  // it has no initialiser any more
  EXPECT_EQ(weight.to_vector<float>(), std::vector<float>(6, 1.F));
  EXPECT_THROW(linear.replace_parameter("none", weight), Error);
  EXPECT_THROW(linear.replace_parameter("bias", {}), Error);

  linear.register_buffer("count", zeros({1}));
  linear.replace_buffer("count", ones({2}));
  EXPECT_EQ(model.state_dict().at("0.count").numel(), 2);
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
  EXPECT_EQ(norm->num_batches_tracked.item(), 1);
  auto counting = compile([&](const Tensor& in) { return norm(in).detach(); });
  for (int i = 0; i < 3; ++i) counting(x);
  EXPECT_EQ(norm->num_batches_tracked.item(), 4);
}

TEST(Module, FreezeStopsGradients) {
  const nn::Linear layer(2, 2);
  layer.freeze();
  EXPECT_FALSE(sum(layer(ones({1, 2}))).requires_grad());
  layer.unfreeze();
  EXPECT_TRUE(sum(layer(ones({1, 2}))).requires_grad());
}

TEST(Module, FreezesAPartByItsPath) {
  const nn::Sequential model(nn::Linear(2, 2), nn::Sequential(nn::Linear(2, 2), nn::ReLU()));
  for (int i = 0; i < 9; ++i) model.push_back(nn::Linear(2, 2));
  model.freeze("1");
  for (const auto& [name, p] : model.named_parameters())
    EXPECT_EQ(p.requires_grad(), !name.starts_with("1.")) << name;  // and not "10."
  model.unfreeze("1.0.bias");
  EXPECT_TRUE(model.at("1.0").as<nn::Linear>()->bias.requires_grad());
  EXPECT_FALSE(model.at("1.0").as<nn::Linear>()->weight.requires_grad());
  EXPECT_THAT(message_of<Error>([&] { model.freeze("1.0.b"); }), HasSubstr("'1.0.b'"));
}

TEST(Module, PartsAreFoundByPath) {
  const nn::Sequential model(nn::Sequential({{"fc", nn::Linear(2, 3)}}), nn::ReLU());
  EXPECT_EQ(model.at("0.fc").as<nn::Linear>()->weight.shape(), Shape({3, 2}));
  EXPECT_EQ(model[-1].impl(), model.at("1").impl());
  EXPECT_THAT(message_of<Error>([&] { model.at("0.fcc"); }),
              AllOf(HasSubstr("'fcc'"), HasSubstr("'fc'")));
  EXPECT_THAT(message_of<Error>([&] { model.at("1").as<nn::Linear>(); }), HasSubstr("ReLU()"));
  EXPECT_THROW(model[2], IndexError);
}

TEST(Module, AppliesChildrenFirst) {
  const nn::Sequential model(nn::Linear(2, 2), nn::Sequential(nn::ReLU()));
  std::vector<std::string> seen;
  model.apply([&](const nn::Module& m) { seen.push_back(m.impl()->type_name()); });
  EXPECT_THAT(seen, ElementsAre("Linear", "ReLU", "Sequential", "Sequential"));
}

TEST(Module, ToDTypeMovesWhatIsFloating) {
  const Net net;
  const Tensor weight = net->conv->weight;
  sum(net(uniform({2, 1, 6, 6}))).backward();
  const auto before = weight.to_vector<float>();
  net.to(DType::f64);
  EXPECT_EQ(weight.dtype(), DType::f64);
  EXPECT_EQ(weight.grad().dtype(), DType::f64);
  EXPECT_EQ(weight.to_vector<double>()[0], before[0]);
  EXPECT_TRUE(weight.requires_grad());
  EXPECT_EQ(net->norm->running_mean.dtype(), DType::f64);
  EXPECT_EQ(net->norm->num_batches_tracked.dtype(), DType::i64);
  EXPECT_EQ(net(uniform({2, 1, 6, 6}, 0, 1, {.dtype = DType::f64})).dtype(), DType::f64);
  net.to(DType::bf16);
  EXPECT_EQ(weight.dtype(), DType::bf16);
  EXPECT_EQ(net->norm->weight.dtype(), DType::f32);  // as batch_norm wants it
  EXPECT_EQ(net->norm(zeros({2, 2, 3, 3}, {.dtype = DType::bf16})).dtype(), DType::bf16);
  EXPECT_THROW(net.to(DType::i64), DTypeError);
}

TEST(Module, ResetDrawsAnew) {
  const nn::Sequential model(nn::Linear(3, 3), nn::BatchNorm1d(3));
  const auto* linear = model[0].as<nn::Linear>();
  const auto first = linear->weight.to_vector<float>();
  fill_(model[1].as<nn::BatchNorm1d>()->weight.detach(), 7);
  model.reset_parameters();
  EXPECT_NE(linear->weight.to_vector<float>(), first);
  EXPECT_EQ(model[1].as<nn::BatchNorm1d>()->weight.to_vector<float>()[0], 1.0F);
}

/// All parameters of a module in a row.
std::vector<float> all_values(const nn::Module& module) {
  std::vector<float> all;
  for (const Tensor& p : module.parameters()) {
    const auto values = p.to_vector<float>();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

TEST(Sequential, DrawsFromLeftToRightInWhateverOrderArgumentsAreMade) {
  // What the layers must have, drawn one after the other.
  manual_seed(5);
  std::vector<float> expected;
  for (const Tensor& t : {uniform({2, 1, 3, 3}, -1.0 / 3, 1.0 / 3), uniform({2}, -1.0 / 3, 1.0 / 3),
                          uniform({3, 4}, -0.5, 0.5), uniform({3}, -0.5, 0.5), normal({5, 2})}) {
    const auto values = t.to_vector<float>();
    expected.insert(expected.end(), values.begin(), values.end());
  }
  const float after = uniform({1}).to_vector<float>()[0];

  const auto conv = [] { return nn::Conv2d({.in = 1, .out = 2, .kernel = 3}); };
  const auto embedding = [] { return nn::Embedding({.rows = 5, .dim = 2}); };
  manual_seed(5);
  const nn::Sequential plain(conv(), nn::ReLU(), nn::Linear(4, 3), embedding());
  EXPECT_EQ(all_values(plain), expected);
  EXPECT_EQ(uniform({1}).to_vector<float>()[0], after);
  manual_seed(5);
  const nn::Sequential braces{conv(), nn::ReLU(), nn::Linear(4, 3), embedding()};
  EXPECT_EQ(all_values(braces), expected);
  manual_seed(5);
  const nn::Sequential nested(nn::Sequential(conv(), nn::Linear(4, 3)), nn::ReLU(), embedding());
  EXPECT_EQ(all_values(nested), expected);
  manual_seed(5);
  nn::Embedding last = embedding();
  nn::Linear middle(4, 3);
  const nn::ModuleList backwards(conv(), std::move(middle), std::move(last));
  EXPECT_EQ(all_values(backwards), expected);
}

TEST(Sequential, LeavesAloneWhatMayHaveBeenSeen) {
  const nn::Linear kept(2, 2);
  const auto values = all_values(kept);
  const nn::Sequential lvalue(nn::Linear(2, 2), kept);
  EXPECT_EQ(all_values(kept), values);
  const nn::Linear other(2, 2);
  const auto loaded = [&] {
    const nn::Linear layer(2, 2);
    layer.load_state_dict(other.state_dict());
    return layer;
  };
  const nn::Sequential with_loaded(nn::Linear(2, 2), loaded(), nn::Linear(2, 2));
  EXPECT_EQ(all_values(with_loaded[1]), all_values(other));
}

TEST(Sequential, NamesIndexesAndCounts) {
  const nn::Sequential model({{"fc1", nn::Linear(2, 3)}, {"act", nn::ReLU()}});
  EXPECT_THAT(names_of(model.named_parameters()), ElementsAre("fc1.weight", "fc1.bias"));
  EXPECT_EQ(model.size(), 2);
  EXPECT_EQ(model(ones({1, 2})).shape(), Shape({1, 3}));
  // A copy is the same module, and not one inside another.
  nn::Sequential copy(model);  // NOLINT(performance-unnecessary-copy-initialization)
  EXPECT_EQ(copy.impl(), model.impl());
  nn::Sequential of_mutable(copy);  // NOLINT(performance-unnecessary-copy-initialization)
  EXPECT_EQ(of_mutable.impl(), model.impl());
  EXPECT_THAT(nn::to_string(model), HasSubstr("(fc1): Linear(in=2, out=3)"));
}

TEST(Containers, ListAndDictRegisterAndRefuseCalls) {
  const nn::ModuleList list(nn::Linear(2, 2));
  list.push_back(nn::Linear(2, 4));
  EXPECT_EQ(list[1](ones({1, 2})).shape(), Shape({1, 4}));
  EXPECT_THROW(list(ones({1, 2})), Unsupported);
  const nn::ModuleDict dict({{"left", nn::Linear(2, 2)}});
  dict.insert("right", nn::Linear(2, 3));
  EXPECT_TRUE(dict.contains("left"));
  EXPECT_FALSE(dict.contains("middle"));
  EXPECT_EQ(dict.at("right")(ones({1, 2})).shape(), Shape({1, 3}));
  EXPECT_EQ(dict.size(), 2);
  EXPECT_THROW(dict.insert("left", nn::ReLU()), Error);
  EXPECT_THROW(dict(ones({1, 2})), Unsupported);
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
