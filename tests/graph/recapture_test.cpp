// What is said when a function is captured again, when plans are dropped, and when a value is asked
// for that is not there yet.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mica/mica.h"
#include "tests/unit/expect_error.h"

namespace mica {
namespace {

using testing::HasSubstr;
using testing::Not;

/// What a call prints in verbose mode.
template <class F>
std::string said(F&& f) {
  set_verbose_compile(true);
  testing::internal::CaptureStderr();
  f();
  set_verbose_compile(false);
  return testing::internal::GetCapturedStderr();
}

TEST(Recapture, NamesTheArgumentThatChanged) {
  auto f = compile([](const Tensor& x, const Tensor& y) { return mul(relu(x), sum(y)); });
  const Tensor x = ones({2, 3, 4, 5});
  const Tensor y = ones({2});
  const std::string first = said([&] { f(x, y); });
  EXPECT_THAT(first, Not(HasSubstr("captured again")));
  EXPECT_THAT(first, HasSubstr("mica: compile: planned: 2 steps in "));
  EXPECT_THAT(said([&] { f(x, ones({3})); }),
              HasSubstr("mica: compile: captured again: argument 1: shape [2] → [3]\n"));
  EXPECT_THAT(said([&] { f(x, cast(y, DType::f64)); }),
              HasSubstr("captured again: argument 1: dtype f32 → f64\n"));
  EXPECT_THAT(said([&] { f(contiguous(x, MemoryFormat::channels_last), y); }),
              HasSubstr("captured again: argument 0: layout row-major → channels_last\n"));
  EXPECT_EQ(said([&] { f(x, y); }), "");
  EXPECT_EQ(f.function()->captures(), 4);
}

TEST(Recapture, NamesSettings) {
  auto f = compile([](const Tensor& x) { return neg(x); });
  f(ones({2}));
  set_deterministic(true);
  EXPECT_THAT(said([&] { f(ones({2})); }), HasSubstr("captured again: settings changed\n"));
  set_deterministic(false);
}

TEST(Recapture, SeesWhatModulesConsistOf) {
  const nn::Sequential net(nn::ReLU(), nn::Linear({.in = 2, .out = 2, .bias = false}));
  auto f = compile([&](const Tensor& x) { return net(x).detach(); });
  const Tensor x = tensor<float>({-1, 2}, {1, 2});
  const auto same = [&](int captures) {
    for (int i = 0; i < 2; ++i) EXPECT_EQ(f(x).to_vector<float>(), net(x).to_vector<float>());
    EXPECT_EQ(f.function()->captures(), captures);
  };
  same(1);
  net->replace_module("0", nn::Tanh());
  same(2);
  net->replace_module("1", nn::Linear({.in = 2, .out = 2, .bias = false}));
  same(3);
  net.push_back(nn::Sigmoid());
  same(4);
  HookHandle hook = net[0].register_forward_hook(
      [](const nn::Module&, const Tensor&, const Tensor& y) { return mul(y, 2.0); });
  same(5);
  hook.remove();
  same(6);
  const nn::BatchNorm1d norm(2);
  net.push_back(norm);
  norm.eval();
  same(7);
  norm->replace_buffer("running_mean", full({2}, 0.5));
  same(8);
  norm->unregister("running_var");
  f(x);
  EXPECT_EQ(f.function()->captures(), 9);
}

TEST(Recapture, AWeightThatIsAssignedIsSeen) {
  const nn::Linear layer({.in = 2, .out = 2, .bias = false});
  const nn::BatchNorm1d norm(2);
  norm.eval();
  const nn::Sequential net(layer, norm);
  const Tensor x = tensor({1.0F, 2.0F}, {1, 2});
  const auto f = compile([&](const Tensor& t) { return net(t); });
  const auto same = [&](int captures) {
    EXPECT_EQ(f(x).to_vector<float>(), net(x).to_vector<float>());
    EXPECT_EQ(f.function()->captures(), captures);
  };
  same(1);
  const Tensor twos = full({2, 2}, 2.0);
  layer->weight = twos;
  same(2);
  EXPECT_EQ(net.parameters()[0].impl(), twos.impl());
  EXPECT_TRUE(twos.requires_grad());
  layer->bias = ones({2});  // which it had not
  same(3);
  EXPECT_EQ(layer.parameters().size(), 2);
  norm->running_mean = full({2}, 0.5);
  same(4);
  layer->bias = Tensor();
  same(5);
  EXPECT_EQ(layer.parameters().size(), 1);
  layer->weight = layer->weight;
  same(5);

  const nn::Linear tied({.in = 2, .out = 2, .bias = false});
  tied->weight = layer->weight;
  EXPECT_EQ(nn::Sequential(layer, tied).parameters().size(), 1);
  auto copy = layer->weight;  // the tensor alone: what becomes of it is nobody's
  copy = ones({2, 2});
  same(5);
  EXPECT_EQ(layer->weight.impl(), twos.impl());
}

struct WrapperImpl : nn::ModuleImpl {
  nn::Linear fc = add("fc", nn::Linear({.in = 2, .out = 2, .bias = false}));
  Tensor forward(const Tensor& x) { return fc(x); }
};
using Wrapper = nn::Handle<WrapperImpl>;

/// A compiled function of x that reads `layer`, against the same run eagerly, while the layer gets
/// another weight, a bias or a hook.
template <class F>
void expect_seen(const char* how, const nn::Linear& layer, F function, bool by_call) {
  SCOPED_TRACE(how);
  const Tensor x = tensor({1.0F, 2.0F}, {1, 2});
  const auto f = compile(function);
  int captures = 0;
  const auto same = [&] {
    ++captures;
    for (int i = 0; i < 2; ++i)
      EXPECT_EQ(f(x).template to_vector<float>(), function(x).template to_vector<float>());
    EXPECT_EQ(f.function()->captures(), captures);
  };
  same();
  layer->weight = full({2, 2}, 2.0);
  same();
  layer->bias = ones({2});  // which it had not
  same();
  layer->bias = full({2}, 3.0);
  same();
  layer->bias = Tensor();
  same();
  if (!by_call) return;
  HookHandle hook = layer.register_forward_hook(
      [](const nn::Module&, const Tensor&, const Tensor& y) { return mul(y, 2.0); });
  same();
  hook.remove();
  same();
}

TEST(Recapture, AWeightIsSeenInWhicheverWayItIsRead) {
  const auto layer = [] { return nn::Linear({.in = 2, .out = 2, .bias = false}); };
  const nn::Linear called = layer();
  expect_seen("the layer", called, [=](const Tensor& x) { return called(x); }, true);
  const nn::Linear values = layer();
  expect_seen(
      "with Values", values,
      [=](const Tensor& x) { return nn::Module(values)(Values(x)).tensor(); }, true);
  const nn::Linear plain = layer();
  const nn::Module any = plain;
  expect_seen("any module", plain, [=](const Tensor& x) { return any(x); }, true);
  const Wrapper wrapper;
  expect_seen("a part", wrapper->fc, [=](const Tensor& x) { return wrapper(x); }, true);
  const nn::Linear read = layer();
  expect_seen(
      "its tensors", read, [=](const Tensor& x) { return linear(x, read->weight, read->bias); },
      false);
  const nn::Linear detached = layer();
  expect_seen(
      "under another name", detached,
      [=](const Tensor& x) {
        return linear(x, detached->weight.detach(),
                      detached->bias.defined() ? detached->bias.detach() : Tensor());
      },
      false);
}

TEST(Recapture, SeesBuffersAndPartsThatAreReadDirectly) {
  const nn::BatchNorm1d norm(2);
  norm.eval();
  const Tensor x = tensor({1.0F, 2.0F}, {1, 2});
  const auto mean = compile([&](const Tensor& t) { return t - norm->running_mean; });
  EXPECT_EQ(mean(x).sum().item(), 3);
  norm->running_mean = full({2}, 1.0);
  EXPECT_EQ(mean(x).sum().item(), 1);
  norm->replace_buffer("running_mean", full({2}, 5.0));  // the member stays, as it is said to
  EXPECT_EQ(mean(x).sum().item(), 1);
  EXPECT_EQ(mean.function()->captures(), 3);

  const Wrapper net;
  const auto call = compile([&](const Tensor& t) { return net->fc(t); });
  const auto read = compile([&](const Tensor& t) { return matmul(t, net->fc->weight); });
  call(x), read(x);
  const nn::Linear other({.in = 2, .out = 2, .bias = false});
  net->replace_module("fc", other);
  net->fc = other;
  EXPECT_EQ(call(x).to_vector<float>(), other(x).to_vector<float>());
  EXPECT_EQ(read(x).to_vector<float>(), matmul(x, other->weight).to_vector<float>());

  // Nor is a function disturbed by what becomes of others' modules.
  const nn::Linear elsewhere(2, 2);
  elsewhere->weight = ones({2, 2});
  call(x), read(x), mean(x);
  EXPECT_EQ(call.function()->captures(), 2);
  EXPECT_EQ(read.function()->captures(), 2);
  EXPECT_EQ(mean.function()->captures(), 3);
}

TEST(Recapture, NamesATensorThatWasReplaced) {
  const nn::Linear layer({.in = 2, .out = 2, .bias = false});
  const auto f = compile([&](const Tensor& x) { return matmul(x, layer->weight); });
  f(ones({1, 2}));
  layer->weight = ones({2, 2});
  EXPECT_THAT(said([&] { f(ones({1, 2})); }),
              HasSubstr("captured again: a module has another tensor in the place of f32[2, 2], "
                        "or beside it"));
}

TEST(Recapture, NamesModesAndGradients) {
  nn::Dropout layer(0.5);
  auto f = compile([&](const Tensor& x) { return layer(x); });
  f(ones({2}));
  layer.eval();
  EXPECT_THAT(said([&] { f(ones({2})); }),
              HasSubstr("captured again: a module went to evaluation mode, or has other parts or "
                        "hooks\n"));

  const Tensor w = ones({2}).set_requires_grad();
  auto step = compile([&](const Tensor& x) { sum(mul(w, x)).backward(); });
  step(ones({2}));
  EXPECT_THAT(said([&] { step(ones({2})); }),
              HasSubstr("captured again: the .grad of a leaf f32[2] is there now\n"));
}

TEST(Recapture, NamesALeafThatChanged) {
  const Tensor w = ones({2}).set_requires_grad();
  const Tensor v = ones({2}).set_requires_grad();
  auto step = compile([&](const Tensor& x) {
    w.set_grad({});
    v.set_grad({});
    sum(mul(mul(w, v), x)).backward();
  });
  step(ones({2}));
  v.set_requires_grad(false);
  EXPECT_THAT(said([&] { step(ones({2})); }),
              HasSubstr("a tensor f32[2] from outside does not require a gradient now"));
}

TEST(Recapture, SaysOnceThatPlansAreDropped) {
  auto f = compile([](const Tensor& x) { return neg(x); });
  testing::internal::CaptureStderr();
  for (int64_t n = 1; n <= 32; ++n) f(ones({n}));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  testing::internal::CaptureStderr();
  for (int64_t n = 33; n <= 36; ++n) f(ones({n}));
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, HasSubstr("captured for more than 32 kinds of arguments"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  f(ones({36}));
  EXPECT_EQ(f.function()->captures(), 36);
  f(ones({1}));  // dropped
  EXPECT_EQ(f.function()->captures(), 37);
}

TEST(Recapture, PlansOfOtherSettingsMakeRoom) {
  auto f = compile([](const Tensor& x) { return neg(x); });
  for (int64_t n = 1; n <= 32; ++n) f(ones({n}));
  set_deterministic(true);
  testing::internal::CaptureStderr();
  f(ones({1}));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  set_deterministic(false);
}

TEST(HostReads, NameTheCallThatMakesTheValue) {
  const Tensor w = ones({4});
  auto f = compile([&](const Tensor& x) {
    const Tensor loss = sum(mul(w, neg(x)));
    return loss.item() > 0 ? neg(loss) : exp(loss);
  });
  expect_error<Unsupported>(
      "the value of a f32[] tensor, the result of sum (op 2 of the function: sum ← mul ← neg ← "
      "argument 0), was asked for while a graph is captured",
      [&] { f(ones({4})); });
  auto g = compile([](const Tensor& x) { return full({2}, x.item()); });
  expect_error<Unsupported>("a f32[1] tensor, argument 0, was asked for while a graph is captured",
                            [&] { g(ones({1})); });
}

}  // namespace
}  // namespace mica
