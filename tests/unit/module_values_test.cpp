// Modules with several inputs and structured results, and what calls them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mica/autograd/checkpoint.h"
#include "mica/nn/nn.h"
#include "mica/nn/summary.h"
#include "mica/ops/ops.h"
#include "tests/gaussian.h"
#include "tests/unit/expect_error.h"

namespace mica {
namespace {

using test::Gaussian;
using testing::ElementsAre;

/// Two inputs and a named pair of outputs.
struct EncoderImpl : nn::ModuleImpl {
  nn::Linear left = add("left", nn::Linear(3, 2));
  nn::Linear right = add("right", nn::Linear(4, 2));
  Gaussian forward(const Tensor& a, const Tensor& b) {
    const Tensor h = left(a) + right(b);
    return {h, mul(h, 2)};
  }
};
using Encoder = nn::Handle<EncoderImpl>;

struct SampleImpl : nn::ModuleImpl {
  Tensor forward(const Gaussian& g) { return g.mean + g.log_var; }
};
using Sample = nn::Handle<SampleImpl>;

struct MaskedImpl : nn::ModuleImpl {
  std::tuple<Tensor, Tensor> forward(const Tensor& x, const Tensor& mask = {}) {
    return {mask.defined() ? mul(x, mask) : x, x};
  }
};
using Masked = nn::Handle<MaskedImpl>;

struct SplitImpl : nn::ModuleImpl {
  Gaussian forward(const Tensor& x) { return {x, x}; }
};

std::vector<float> of(const Tensor& t) { return t.to_vector<float>(); }

TEST(ModuleValues, AHandleCallsForwardWithItsTypes) {
  const Encoder net;
  const Tensor a = ones({5, 3});
  const Tensor b = ones({5, 4});
  const Gaussian g = net(a, b);
  EXPECT_EQ(g.mean.shape(), (Shape{5, 2}));
  const nn::Module module = net;
  const Values v = module(a, b);
  EXPECT_EQ(of(v["log_var"].tensor()), of(g.log_var));
  EXPECT_THAT(v.keys(), ElementsAre("mean", "log_var"));
  const Masked masked;
  const auto [kept, all] = masked(a);  // the mask may be left out
  EXPECT_EQ(kept.impl(), a.impl());
  EXPECT_EQ(of(module.impl()->call(Values::list({a, b}))["mean"].tensor()), of(g.mean));
  EXPECT_EQ(nn::Module(masked)(Values(a)).size(), 2);
  EXPECT_EQ(of(nn::Module(masked)(a, zeros({5, 3}))[0].tensor()), of(zeros({5, 3})));
}

TEST(ModuleValues, GoThroughContainers) {
  const Encoder encoder;
  const nn::Sequential net(encoder, Sample(), nn::ReLU());
  const Tensor a = ones({2, 3});
  const Tensor b = ones({2, 4});
  const Gaussian g = encoder(a, b);
  EXPECT_EQ(of(net(a, b).tensor()), of(relu(g.mean + g.log_var)));
  EXPECT_EQ(of(nn::Sequential(nn::Linear(3, 2), nn::ReLU())(a)).size(), 4);
}

TEST(ModuleValues, OfAnotherStructureRaiseWithThePath) {
  const nn::Module net = Encoder();
  const Tensor a = ones({2, 3});
  expect_error<Error>("nn::Encoder: expected 2 inputs, got f32[2, 3]", [&] { net(a); });
  expect_error<Error>("nn::Encoder: expected 2 inputs, got [f32[2, 3], f32[2, 3], f32[2, 3]]",
                      [&] { net(a, a, a); });
  expect_error<Error>("input[1]: expected a tensor, got [f32[2, 3]]",
                      [&] { net(a, Values::list({a})); });
  expect_error<Error>(R"(input: expected an entry "log_var", got {"mean": f32[2, 3]})",
                      [&] { nn::Module{Sample()}(Values::dict({{"mean", a}})); });
  expect_error<Error>(R"(nn::Split: gives {"mean": f32[2, 3], "log_var": f32[2, 3]}, where one)",
                      [&] { nn::Module{nn::Handle<SplitImpl>()}(a); });
  expect_error<Error>("input: expected a tensor, got [f32[2, 3]]",
                      [&] { nn::Module(nn::Linear(3, 2))(Values::list({a})); });
}

TEST(ModuleValues, PassHooks) {
  const Encoder net;
  const Tensor a = ones({2, 3});
  const Tensor b = ones({2, 4});
  std::string seen;
  net.register_forward_pre_hook([&](const nn::Module&, const Values& in) -> Values {
    seen = to_string(in);
    return Values::list({zeros({2, 3}), in[1]});
  });
  net.register_forward_hook([&](const nn::Module&, const Values& in, const Values& out) -> Values {
    EXPECT_EQ(of(in[0].tensor()), of(zeros({2, 3})));
    return Values::dict({{"mean", out["mean"]}, {"log_var", zeros({2, 2})}});
  });
  const Gaussian g = net(a, b);
  EXPECT_EQ(seen, "[f32[2, 3], f32[2, 4]]");
  EXPECT_EQ(of(g.log_var), of(zeros({2, 2})));
  EXPECT_EQ(of(g.mean), of(net->left->bias + net->right(b)));
  // One that says Tensor is for modules of one.
  const nn::Linear linear(3, 3);
  linear.register_forward_hook(
      [](const nn::Module&, const Tensor&, const Tensor& out) { return mul(out, 2); });
  EXPECT_EQ(of(linear(a)), of(mul(linear->forward(a), 2)));
  net.register_forward_hook(
      [](const nn::Module&, const Tensor&, const Tensor& out) { return out; });
  expect_error<Error>(": expected a tensor, got", [&] { net(a, b); });
}

TEST(ModuleValues, AreCheckpointed) {
  const Encoder net;
  const Tensor a = ones({2, 3});
  a.set_requires_grad();
  const Tensor b = ones({2, 4});
  const auto gradients = [&](const Values& out) {
    net.zero_grad();
    a.set_grad({});
    sum(mul(out["mean"].tensor(), 3.0) + square(out["log_var"].tensor())).backward();
    return std::pair(of(a.grad()), of(net->right->weight.grad()));
  };
  const auto plain = gradients(nn::Module(net)(a, b));
  const auto body = [&](const Values& in) { return nn::Module(net)(in["xs"]); };
  const Values in = Values::dict({{"xs", Values::list({a, b})}, {"none", Values()}});
  EXPECT_EQ(gradients(checkpoint(body, in)), plain);
  int run = 0;
  const Values odd = checkpoint(
      [&](const Values& v) { return ++run == 1 ? v["xs"][0] : Values::list({v["xs"][0]}); }, in);
  expect_error<Error>("checkpoint: the function gave", [&] { sum(odd.tensor()).backward(); });
}

TEST(ModuleValues, AreDescribedByTheirClass) {
  const Encoder net;
  EXPECT_EQ(net->type_name(), "Encoder");
  EXPECT_EQ(nn::Module(net).as<Encoder>(), net.operator->());
}

}  // namespace
}  // namespace mica
