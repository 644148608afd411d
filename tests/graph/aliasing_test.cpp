// Memory that a compiled function reaches in more than one way: views, arguments that overlap each
// other or a tensor it writes to. Each case runs eagerly and compiled.
#include <gtest/gtest.h>

#include "mica/mica.h"
#include "mica/ops/fill/fill.h"
#include "tests/unit/expect_error.h"

namespace mica {
namespace {

using Floats = std::vector<float>;

/// What a case works on: a captured tensor and two arguments, which may lie in it.
struct Scene {
  Tensor w = arange(0, 6, 1);
  Tensor x = full({6}, 2);
  Tensor y = full({6}, 3);
};

using Body = std::function<Tensors(const Tensor& w, const Tensor& x, const Tensor& y)>;

/// Runs the body three times, eagerly and compiled, and compares everything. Returns captures.
int expect_same(const Body& body, const std::function<void(Scene&)>& arrange = {}) {
  set_deterministic(true);
  std::vector<std::vector<Floats>> all;
  int captures = 0;
  for (const bool compiled : {false, true}) {
    Scene s;
    if (arrange) arrange(s);
    CompiledFunction f(
        TensorFunction([&](std::span<const Tensor> in) { return body(s.w, in[0], in[1]); }));
    std::vector<Floats>& seen = all.emplace_back();
    Tensors kept;
    for (int i = 0; i < 3; ++i) {
      const Tensors arguments = {s.x, s.y};
      for (const Tensor& t : compiled ? f(arguments) : body(s.w, s.x, s.y)) kept.push_back(t);
      for (const Tensor& t : {s.w, s.x, s.y}) seen.push_back(t.to_vector<float>());
    }
    add_(s.x, ones({1}));  // results that are views of an argument follow it
    for (const Tensor& t : kept) seen.push_back(t.to_vector<float>());
    captures = f.captures();
  }
  set_deterministic(false);
  EXPECT_EQ(all[1], all[0]);
  return captures;
}

TEST(Views, FollowWhatIsWrittenToTheirBase) {
  EXPECT_EQ(expect_same([](const Tensor& w, const Tensor& x, const Tensor&) -> Tensors {
              const Tensor view = reshape(w, {2, 3});
              const Tensor before = sum(view, {0});
              add_(w, x);
              return {before, sum(view, {0}), mul(view, 2.0)};
            }),
            1);
  expect_same([](const Tensor&, const Tensor& x, const Tensor& y) -> Tensors {
    const Tensor t = mul(x, y);
    const Tensor view = reshape(t, {3, 2});
    const Tensor same = t.detach();
    fill_(t, 5);
    add_(same, x);
    return {view, same, transpose(view, 0, 1)};
  });
}

TEST(Views, CanBeWrittenThrough) {
  expect_same([](const Tensor& w, const Tensor& x, const Tensor& y) -> Tensors {
    copy_(slice(w, 0, 0, 2), slice(x, 0, 0, 2));
    add_(slice(w, 0, 1, 6, 2), slice(y, 0, 0, 3));
    return {mul(w, 2.0)};
  });
  expect_same([](const Tensor&, const Tensor& x, const Tensor& y) -> Tensors {
    const Tensor t = reshape(mul(x, y), {2, 3});
    const Tensor before = sum(t);
    fill_(select(t, 0, 1), 1);
    copy_(select(t, 1, 0), sum(t, {1}));
    return {before, sum(t, {0}), t, transpose(t, 0, 1)};
  });
}

TEST(Views, OfTheOutsideShareItsMemory) {
  set_deterministic(true);
  std::vector<Floats> all[2];
  for (const bool compiled : {false, true}) {
    const Tensor whole = arange(0, 6, 1);
    const Tensor front = slice(whole, 0, 0, 4);
    const Tensor back = slice(whole, 0, 2, 6);
    const auto body = [&](const Tensor& x) -> Tensors {
      const Tensor before = add(back, x);
      add_(front, x);
      const Tensor between = mul(back, back);
      fill_(back, 7);
      return {before, between, mul(front, 2.0)};
    };
    auto f = compile(body);
    for (int i = 0; i < 3; ++i)
      for (const Tensor& t : compiled ? f(full({4}, 2)) : body(full({4}, 2)))
        all[compiled].push_back(t.to_vector<float>());
    all[compiled].push_back(whole.to_vector<float>());
  }
  set_deterministic(false);
  EXPECT_EQ(all[1], all[0]);
}

TEST(Arguments, MayLieInWhatIsWritten) {
  const Body body = [](const Tensor& w, const Tensor& x, const Tensor& y) -> Tensors {
    const Tensor before = add(x, y);
    add_(w, y);
    return {before, mul(x, 2.0), x};
  };
  EXPECT_EQ(expect_same(body), 1);
  EXPECT_EQ(expect_same(body, [](Scene& s) { s.x = s.w; }), 1);
  EXPECT_EQ(expect_same(body, [](Scene& s) { s.y = s.w.detach(); }), 1);
  EXPECT_EQ(expect_same(body, [](Scene& s) { s.x = reshape(s.w, {2, 3}), s.y = ones({1}); }), 1);
  EXPECT_EQ(expect_same(body, [](Scene& s) { s.x = s.y = s.w; }), 1);
}

TEST(Arguments, CanBeWrittenTo) {
  const Body body = [](const Tensor& w, const Tensor& x, const Tensor& y) -> Tensors {
    const Tensor before = add(x, y);
    add_(x, w);
    return {before, mul(y, 2.0), x, slice(x, 0, 0, 1)};
  };
  EXPECT_EQ(expect_same(body), 1);
  EXPECT_EQ(expect_same(body, [](Scene& s) { s.y = s.x; }), 1);
  EXPECT_EQ(expect_same(body, [](Scene& s) { s.x = s.w; }), 1);
  // With gaps: copied back where they came from.
  const Body without_view = [&](const Tensor& w, const Tensor& x, const Tensor& y) -> Tensors {
    const Tensors all = body(w, x, y);
    return {all[0], all[1], all[2]};
  };
  EXPECT_EQ(expect_same(without_view, [](Scene& s) { s.x = slice(arange(0, 12, 1), 0, 0, 12, 2); }),
            1);
}

TEST(Arguments, OfOtherMemoryAreCapturedAgainWhereThatMatters) {
  const Tensor w = ones({2});
  auto f = compile([&](const Tensor& x) {
    add_(w, full({2}, 1));
    return mul(x, 2.0);
  });
  const Tensor x = full({2}, 5);
  EXPECT_EQ(f(x).to_vector<float>(), (Floats{10, 10}));
  EXPECT_EQ(f(w).to_vector<float>(), (Floats{6, 6}));
  EXPECT_EQ(f(w).to_vector<float>(), (Floats{8, 8}));
  EXPECT_EQ(f(x).to_vector<float>(), (Floats{10, 10}));
  EXPECT_EQ(f.function()->captures(), 2);
}

TEST(Arguments, WithGapsInWhatIsWrittenAreRefused) {
  const Tensor w = arange(0, 6, 1);
  auto f = compile([&](const Tensor& x) {
    add_(w, full({6}, 1));
    return neg(x);
  });
  expect_error<Unsupported>(
      "argument 0 (f32[3] strides [2]) shares memory with another tensor that the "
      "function writes to, and its elements lie with gaps",
      [&] { f(slice(w, 0, 0, 6, 2)); });
}

TEST(Saved, ViewsThatAreWrittenToAreAnError) {
  const Tensor w = ones({4}).set_requires_grad();
  const Tensor scale = ones({4});
  const auto body = [&](const Tensor& x) {
    const Tensor view = reshape(scale, {2, 2});
    const Tensor loss = sum(mul(reshape(mul(w, x), {2, 2}), view));
    fill_(scale, 2);
    loss.backward();
  };
  expect_error<Error>("modified afterwards", [&] { body(ones({4})); });
  auto f = compile(body);
  expect_error<Error>("modified afterwards", [&] { f(ones({4})); });
  // An argument that is the tensor written to.
  const auto with_argument = [&](const Tensor& x) {
    const Tensor loss = sum(mul(w, x));
    fill_(scale, 2);
    loss.backward();
  };
  auto g = compile(with_argument);
  expect_error<Error>("modified afterwards", [&] { with_argument(scale); });
  expect_error<Error>("modified afterwards", [&] { g(scale); });
}

}  // namespace
}  // namespace mica
