// How modules, optimizers and programs that use whole namespaces read in C++.
#include <gtest/gtest.h>

#include <algorithm>
#include <any>
#include <functional>
#include <iostream>
#include <numeric>
#include <valarray>

#include "mica/mica.h"
#include "tests/temporary_directory.h"
#include "tests/unit/expect_error.h"

namespace both {

using namespace std;   // NOLINT(google-build-using-namespace)
using namespace mica;  // NOLINT(google-build-using-namespace)

/// A program that has every name of both at hand.
double in_both_namespaces() {
  const vector<float> values = {3, 1, 2};
  const Tensor a = tensor(values);
  const Tensor b = exp(a) + max(a) * sqrt(abs(a)) - min(a, {0}, true);
  auto net = make_shared<nn::Linear>(3, 1);
  const Tensor c = sort(a).values.sum() + a.std() + a.any() + a.logical_and(b > 0).sum();
  string text = to_string(a);
  std::sort(text.begin(), text.end());
  return (b + c).mean().item() + static_cast<double>(text.size()) +
         std::max(1.0, (*net)(a).item()) * 0;
}

}  // namespace both

namespace mica {
namespace {

using Floats = std::vector<float>;

TEST(CppSurface, BothNamespacesAtOnce) { EXPECT_GT(both::in_both_namespaces(), 0); }

TEST(CppSurface, LayersByPosition) {
  EXPECT_EQ(nn::Conv2d(1, 20, 5)->options.out, 20);
  EXPECT_EQ(nn::Conv2d(3, 8, {3, 5})->weight.shape(), (Shape{8, 3, 3, 5}));
  EXPECT_EQ(nn::ConvTranspose2d(8, 3, 2)->weight.shape(), (Shape{8, 3, 2, 2}));
  EXPECT_EQ(nn::Conv1d(2, 4, 3)->weight.shape(), (Shape{4, 2, 3}));
  EXPECT_EQ(nn::Embedding(10, 4)->weight.shape(), (Shape{10, 4}));
  EXPECT_EQ(nn::GroupNorm(2, 4)->weight.shape(), (Shape{4}));
}

TEST(CppSurface, FunctionsStandBetweenLayers) {
  const nn::Sequential net(
      nn::Linear(2, 3), [](const Tensor& x) { return relu(x); }, nn::Linear(3, 1));
  net.push_back([](const Tensor& x) { return x * 2; });
  const Tensor x = ones({4, 2});
  const Tensor expected = net[2](relu(net[0](x))) * 2;
  EXPECT_EQ(net(x).to_vector<float>(), expected.to_vector<float>());
  EXPECT_EQ(net.parameters().size(), 4U);
  EXPECT_EQ(net.state_dict().begin()->first, "0.weight");
}

Tensor doubled(const Tensor& x) { return x * 2; }

/// Warnings are errors here: a pointer to a function, and a list of nothing, give none.
TEST(CppSurface, FunctionsByNameAndEmptyLists) {
  const nn::Sequential net;
  net.push_back(doubled);
  EXPECT_EQ(net(ones({2})).sum().item(), 4);
  EXPECT_EQ(compile(doubled)(ones({2})).sum().item(), 4);
}

struct TwoStageImpl : nn::ModuleImpl {
  nn::Linear fc = nullptr;
  nn::Sequential more = nullptr;
  void build(int64_t in) {
    fc = add("fc", nn::Linear(in, 2));
    more = add("more", nn::Sequential(nn::ReLU()));
  }
  Tensor forward(const Tensor& x) { return more(fc(x)); }
};
using TwoStage = nn::Handle<TwoStageImpl>;

TEST(CppSurface, EmptyHandlesAreFilledLater) {
  const TwoStage net;
  EXPECT_TRUE(net->fc.is_empty());
  EXPECT_TRUE(net->fc.parameters().empty());
  expect_error<Error>("an empty handle was used", [&] { net(ones({1, 3})); });
  expect_error<Error>("an empty handle was used", [&] { (void)net->fc->weight; });
  expect_error<Error>("'x' is an empty handle", [&] { net->register_module("x", net->fc); });
  net->build(3);
  EXPECT_FALSE(net->fc.is_empty());
  EXPECT_EQ(net(ones({1, 3})).shape(), (Shape{1, 2}));
  nn::Conv2d conv = nullptr;
  nn::MaxPool2d pool = nullptr;
  nn::Dropout dropout = nullptr;
  TwoStage other = nullptr;
  EXPECT_TRUE(conv.is_empty() && pool.is_empty() && dropout.is_empty() && other.is_empty());
  other = net;
  EXPECT_EQ(other.impl(), net.impl());
}

TEST(CppSurface, ModulesAreSavedAndLoaded) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("net.safetensors");
  const nn::Sequential a(nn::Linear(2, 3), nn::BatchNorm1d(3));
  const nn::Sequential b(nn::Linear(2, 3), nn::BatchNorm1d(3));
  a.save(path);
  b.load(path);
  EXPECT_TRUE(b[0].as<nn::Linear>()->weight.equal(a[0].as<nn::Linear>()->weight));
  const nn::Sequential c(nn::Linear(2, 3), nn::BatchNorm1d(3));
  const std::vector<std::byte> bytes = a.save();
  c.load(bytes);
  EXPECT_TRUE(c[0].as<nn::Linear>()->weight.equal(a[0].as<nn::Linear>()->weight));
  expect_error<IoError>("safetensors in memory",
                        [&] { c.load(std::span(bytes).first(bytes.size() - 1)); });
  expect_error<IoError>("safetensors in memory", [&] { c.load(std::span(bytes).first(3)); });
  expect_error<Error>("", [&] { nn::Linear(2, 3).load(bytes); });
}

TEST(CppSurface, OptimizersMove) {
  const nn::Linear net(2, 1);
  std::vector<optim::SGD> all;
  all.emplace_back(net.parameters(), optim::SGDOptions{.lr = 0.5});
  all.emplace_back(net.parameters(), optim::SGDOptions{.lr = 0.25});  // moves the first
  const float before = net->bias.to_vector<float>()[0];
  sum(net(ones({1, 2}))).backward();
  all[0].step();
  EXPECT_FLOAT_EQ(net->bias.to_vector<float>()[0], before - 0.5F);
  EXPECT_EQ(all[0].steps(), 1);
  // One takes another's place, and a compiled step sees it.
  optim::SGD own(net.parameters(), {.lr = 0.5});
  const auto step = compile([&] {
    net->bias.set_grad(ones({1}));
    own.step();
  });
  step();
  own = optim::SGD(net.parameters(), {.lr = 2});
  const float then = net->bias.to_vector<float>()[0];
  step();
  EXPECT_FLOAT_EQ(net->bias.to_vector<float>()[0], then - 2);
  EXPECT_EQ(own.steps(), 1);
  optim::Adam adam(net.parameters());
  adam = optim::Adam(net.parameters(), {.lr = 0.25});
  EXPECT_EQ(adam.lr(), 0.25);
}

}  // namespace
}  // namespace mica
