#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mica/mica.h"
#include "tests/unit/expect_error.h"

namespace mica {
namespace {

using testing::ElementsAre;

Tensor leaf(std::initializer_list<float> values) {
  return tensor(values, {static_cast<int64_t>(values.size())}).set_requires_grad();
}
std::vector<float> values(const Tensor& t) { return t.to_vector<float>(); }

TEST(Hooks, OfALeafGetTheWholeGradientOnceAndMayReplaceIt) {
  const Tensor w = leaf({1, 2});
  int calls = 0;
  HookHandle handle = add_hook(w, [&](const Tensor& g) {
    ++calls;
    EXPECT_THAT(values(g), ElementsAre(5, 7));  // of both uses
    return mul(g, 10);
  });
  sum(add(mul(w, 3), mul(w, w))).backward();
  EXPECT_EQ(calls, 1);
  EXPECT_THAT(values(w.grad()), ElementsAre(50, 70));
  handle.remove();
  handle.remove();  // nothing is there to remove
  sum(mul(w, 3)).backward();
  EXPECT_EQ(calls, 1);
  EXPECT_THAT(values(w.grad()), ElementsAre(53, 73));
}

TEST(Hooks, OfAResultChangeWhatFlowsOn) {
  const Tensor w = leaf({1, 2});
  std::vector<float> seen;
  Tensor y = mul(w, 2);
  add_hook(y, [&](const Tensor& g) {
    seen = values(g);
    return mul(g, 100);
  });
  const Tensor loss = sum(add(mul(y, 3), y));
  y = {};  // the hook stays with the graph
  loss.backward();
  EXPECT_THAT(seen, ElementsAre(4, 4));
  EXPECT_THAT(values(w.grad()), ElementsAre(800, 800));
}

TEST(Hooks, ThatReturnNothingLeaveTheGradient) {
  const Tensor w = leaf({1});
  bool called = false;
  add_hook(w, [&](const Tensor&) {
    called = true;
    return Tensor();
  });
  mul(w, 3).backward();
  EXPECT_TRUE(called);
  EXPECT_EQ(w.grad().item(), 3);
}

TEST(Hooks, RunInTheOrderTheyWereAddedEachWithWhatTheLastReturned) {
  const Tensor w = leaf({1});
  std::string order;
  add_hook(w, [&](const Tensor& g) {
    order += "a";
    return add(g, 1);
  });
  HookHandle middle = add_hook(w, [&](const Tensor& g) {
    order += "b";
    return mul(g, 0);
  });
  add_hook(w, [&](const Tensor& g) {
    order += "c";
    return mul(g, 10);
  });
  middle.remove();
  mul(w, 2).backward();
  EXPECT_EQ(order, "ac");
  EXPECT_EQ(w.grad().item(), 30);
}

TEST(Hooks, GradSeesWhatTheyReturn) {
  const Tensor w = leaf({1, 2});
  const Tensor y = mul(w, w);
  add_hook(y, [](const Tensor& g) { return mul(g, 2); });
  add_hook(w, [](const Tensor& g) { return add(g, 1); });
  int after = 0;
  add_post_accumulate_hook(w, [&](const Tensor&) { ++after; });
  const Tensors g = grad({sum(y)}, {y, w});
  EXPECT_THAT(values(g[0]), ElementsAre(2, 2));
  EXPECT_THAT(values(g[1]), ElementsAre(5, 9));
  EXPECT_EQ(after, 0);
  EXPECT_FALSE(w.grad().defined());
}

TEST(Hooks, MayRemoveThemselvesAndOutliveTheirTensor) {
  HookHandle handle;
  {
    const Tensor w = leaf({1});
    int calls = 0;
    handle = add_hook(w, [&](const Tensor&) {
      ++calls;
      handle.remove();
      return Tensor();
    });
    mul(w, 2).backward();
    mul(w, 2).backward();
    EXPECT_EQ(calls, 1);
  }
  handle.remove();
}

TEST(Hooks, AfterAccumulationRunAsSoonAsALeafIsDone) {
  // The last layer's gradient is complete first: its hook must not wait for the others.
  std::vector<std::string> order;
  const Tensor first = leaf({2});
  const Tensor last = leaf({3});
  const Tensor y = mul(first, first);
  add_hook(y, [&](const Tensor&) {
    order.emplace_back("differentiates the first layer");
    return Tensor();
  });
  const auto hook = [&](const char* name) {
    return [&order, name](const Tensor& w) {
      order.emplace_back(name);
      EXPECT_TRUE(w.grad().defined());
      w.set_grad(mul(w.grad(), 2));  // what an all-reduce would do
    };
  };
  add_post_accumulate_hook(first, hook("first"));
  add_post_accumulate_hook(last, hook("last"));
  const Tensor loss = sum(add(mul(y, last), last));
  loss.backward();
  EXPECT_THAT(order, ElementsAre("last", "differentiates the first layer", "first"));
  EXPECT_EQ(first.grad().item(), 2 * 12);
  EXPECT_EQ(last.grad().item(), 2 * 5);
}

TEST(Hooks, RunWhereAnotherPathGaveNothing) {
  // An edge over which no gradient comes does not hold a leaf's gradient back for ever.
  const Tensor x = tensor({1.0F, 2.0F, 3.0F, 4.0F}, {1, 1, 2, 2}).set_requires_grad();
  int calls = 0;
  add_post_accumulate_hook(x, [&](const Tensor&) { ++calls; });
  const Tensor y = max_pool2d(x);
  backward({sum(y)}, {});
  EXPECT_EQ(calls, 1);
}

TEST(Hooks, AreDifferentiatedWithCreateGraph) {
  const Tensor x = leaf({3});
  add_hook(x, [&](const Tensor& g) { return mul(g, g); });
  const Tensor g = grad({sum(mul(x, x))}, {x}, {}, {.create_graph = true})[0];  // (2x)^2
  EXPECT_EQ(g.item(), 36);
  // The hook runs in this pass too: the gradient of 4x^2 is 8x, squared.
  EXPECT_EQ(grad({sum(g)}, {x})[0].item(), 24 * 24);
}

TEST(Hooks, RunOnceAtCaptureAndBecomePartOfTheGraph) {
  const Tensor w = leaf({1, 2});
  int calls = 0;
  int after = 0;
  add_hook(w, [&](const Tensor& g) {
    ++calls;
    EXPECT_TRUE(g.is_traced());
    return mul(g, 10);
  });
  add_post_accumulate_hook(w, [&](const Tensor& t) {
    ++after;
    t.set_grad(add(t.grad(), 1));
  });
  auto step = compile([&](const Tensor& x) {
    const Tensor loss = sum(mul(w, x));
    w.set_grad({});
    loss.backward();
    return loss.detach();
  });
  step(tensor({3.0F, 4.0F}, {2}));
  EXPECT_THAT(values(w.grad()), ElementsAre(31, 41));
  step(tensor({5.0F, 6.0F}, {2}));
  EXPECT_THAT(values(w.grad()), ElementsAre(51, 61));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(after, 1);
}

TEST(Hooks, MisuseIsAnError) {
  expect_error<Error>("add_hook: the tensor does not require a gradient",
                      [] { add_hook(ones({2}), [](const Tensor& g) { return g; }); });
  expect_error<Error>("add_post_accumulate_hook: expected a leaf that requires a gradient",
                      [] { add_post_accumulate_hook(mul(leaf({1}), 2), [](const Tensor&) {}); });
  const Tensor w = leaf({1, 2});
  HookHandle wrong = add_hook(w, [](const Tensor&) { return ones({3}); });
  expect_error<ShapeError>("add_hook: a hook must return a gradient of shape [2], got [3]",
                           [&] { sum(w).backward(); });
  wrong.remove();
  add_hook(w, [](const Tensor& g) { return cast(g, DType::f64); });
  expect_error<DTypeError>("add_hook: a hook must return a gradient of f32, got f64",
                           [&] { sum(w).backward(); });
}

}  // namespace
}  // namespace mica
