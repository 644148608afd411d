#include <gtest/gtest.h>

#include "mica/autograd/gradcheck.h"
#include "mica/mica.h"
#include "mica/op/dispatch.h"
#include "tests/unit/expect_error.h"

namespace mica {
namespace {

using Floats = std::vector<float>;

Tensor leaf(std::initializer_list<float> values) {
  return tensor(values, {static_cast<int64_t>(values.size())}).set_requires_grad();
}

TEST(Autograd, BackwardFillsLeaves) {
  const Tensor a = leaf({1, 2, 3});
  const Tensor b = leaf({4, 5, 6});
  sum(mul(a, b)).backward();
  EXPECT_EQ(a.grad().to_vector<float>(), (Floats{4, 5, 6}));
  EXPECT_EQ(b.grad().to_vector<float>(), (Floats{1, 2, 3}));
  EXPECT_FALSE(a.grad().requires_grad());
}

TEST(Autograd, GradientsAccumulate) {
  const Tensor a = leaf({1, 2});
  sum(mul(a, 3)).backward();
  sum(mul(a, 4)).backward();
  EXPECT_EQ(a.grad().to_vector<float>(), (Floats{7, 7}));
  a.set_grad({});
  EXPECT_FALSE(a.grad().defined());
  // A tensor used several times gets the sum over its uses.
  sum(add(mul(a, a), a)).backward();
  EXPECT_EQ(a.grad().to_vector<float>(), (Floats{3, 5}));
}

TEST(Autograd, AccumulationLeavesAGradientTakenBeforeAlone) {
  const Tensor a = leaf({1, 2});
  sum(mul(a, 3)).backward();
  const Tensor first = a.grad();
  sum(mul(a, 4)).backward();
  EXPECT_EQ(first.to_vector<float>(), (Floats{3, 3}));
}

TEST(Autograd, CotangentsOfAnyShape) {
  const Tensor a = leaf({1, 2, 3});
  mul(a, 2).backward(tensor({1.0F, 10.0F, 100.0F}, {3}));
  EXPECT_EQ(a.grad().to_vector<float>(), (Floats{2, 20, 200}));
  expect_error<ShapeError>("only a one-element output may go without a cotangent",
                           [&] { mul(a, 2).backward(); });
  expect_error<ShapeError>("the cotangent of output 0 must have its shape [3], got [2]",
                           [&] { mul(a, 2).backward(ones({2})); });
  expect_error<Error>("does not depend on a tensor that requires a gradient",
                      [] { sum(ones({2})).backward(); });
  expect_error<Error>("backward: 1 outputs but 2 cotangents",
                      [&] { backward({sum(a)}, {scalar(1), scalar(1)}); });
}

TEST(Autograd, SeveralOutputsAtOnce) {
  const Tensor a = leaf({1, 2});
  const Tensor y = mul(a, 3);
  const Tensor z = mul(a, a);
  backward({y, z}, {ones({2}), ones({2})});
  EXPECT_EQ(a.grad().to_vector<float>(), (Floats{5, 7}));
}

TEST(Autograd, NothingIsRecordedUnderNoGrad) {
  const Tensor a = leaf({1, 2});
  {
    const NoGrad guard;
    EXPECT_FALSE(grad_enabled());
    EXPECT_FALSE(mul(a, 2).requires_grad());
    {
      const NoGrad nested;
    }
    EXPECT_FALSE(grad_enabled());
  }
  EXPECT_TRUE(grad_enabled());
  EXPECT_TRUE(mul(a, 2).requires_grad());
}

TEST(Autograd, DetachStopsTheGradientAndSharesTheValues) {
  const Tensor a = leaf({1, 2});
  const Tensor y = mul(a, 2);
  const Tensor d = y.detach();
  EXPECT_FALSE(d.requires_grad());
  EXPECT_TRUE(d.is_leaf());
  EXPECT_EQ(d.storage(), y.storage());
  sum(mul(y, d)).backward();
  EXPECT_EQ(a.grad().to_vector<float>(), (Floats{4, 8}));  // 2 d, not 4 y
}

TEST(Autograd, FrozenLeavesGetNoGradientUntilUnfrozen) {
  const Tensor w = leaf({2, 3});
  const Tensor x = leaf({1, 1});
  w.set_requires_grad(false);
  sum(mul(w, x)).backward();
  EXPECT_FALSE(w.grad().defined());
  EXPECT_TRUE(x.grad().defined());
  w.set_requires_grad(true);
  sum(mul(w, x)).backward();
  EXPECT_EQ(w.grad().to_vector<float>(), (Floats{1, 1}));
}

TEST(Autograd, OnlyFloatingLeavesRequireGradients) {
  expect_error<DTypeError>("set_requires_grad: expected a floating or complex dtype, got i64",
                           [] { arange(3).set_requires_grad(); });
  const Tensor y = mul(leaf({1}), 2);
  EXPECT_FALSE(y.is_leaf());
  expect_error<Error>("set_requires_grad: only a leaf can be told to",
                      [&] { y.set_requires_grad(false); });
  expect_error<ShapeError>(
      "set_grad: the gradient of a tensor of shape [1] must have it too, got [2]",
      [] { leaf({1}).set_grad(ones({2})); });
}

TEST(Autograd, AModifiedSavedTensorIsAnError) {
  const Tensor a = leaf({1, 2});
  const Tensor w = tensor({3.0F, 4.0F}, {2});
  const Tensor loss = sum(mul(a, w));
  fill_(w, 0);
  expect_error<Error>("mul: a tensor it saved for backward (f32[2]) was modified afterwards",
                      [&] { loss.backward(); });
  // Also through a view, and also when the leaf itself is updated.
  const Tensor v = tensor({3.0F, 4.0F}, {2});
  const Tensor second = sum(mul(a, v));
  fill_(slice(v, 0, 0, 1), 0);
  expect_error<Error>("was modified afterwards", [&] { second.backward(); });
  const Tensor third = sum(mul(a, a));
  {
    const NoGrad guard;
    fill_(a, 0);
  }
  expect_error<Error>("was modified afterwards", [&] { third.backward(); });
  // What nobody saved may change.
  const Tensor fourth = sum(add(a, v));
  fill_(v, 1);
  fourth.backward();
  EXPECT_EQ(a.grad().to_vector<float>(), (Floats{1, 1}));
}

TEST(Autograd, WritesToWhatRequiresAGradientAreRefusedBeforeTheyHappen) {
  const Tensor a = leaf({1, 2});
  expect_error<Error>("copy_into: writes to a tensor that requires a gradient",
                      [&] { copy_(a, zeros({2})); });
  EXPECT_EQ(a.to_vector<float>(), (Floats{1, 2}));
}

TEST(Autograd, ViewsShareWhatIsWrittenAndItsHistory) {
  const Tensor a = leaf({1, 2});
  const Tensor whole = mul(full({2, 2}, 3), full({2, 2}, 1));
  const Tensor column = slice(transpose(whole, 0, 1), 0, 1, 2);  // (1, 2), the second
  const Tensor flat = reshape(whole, {4});
  EXPECT_FALSE(flat.requires_grad());
  copy_(column, a);
  EXPECT_EQ(flat.to_vector<float>(), (Floats{3, 1, 3, 2}));
  EXPECT_TRUE(whole.requires_grad() && flat.requires_grad());
  add_(flat, flat);
  sum(mul(whole, tensor<float>({1, 10, 100, 1000}, {2, 2}))).backward();
  EXPECT_EQ(a.grad().to_vector<float>(), (Floats{20, 2000}));
  // What is overwritten leads nowhere any more.
  a.set_grad({});
  const Tensor b = leaf({5, 5, 5, 5});
  copy_(flat, b);
  sum(column).backward();
  EXPECT_FALSE(a.grad().defined());
  EXPECT_EQ(b.grad().to_vector<float>(), (Floats{0, 1, 0, 1}));
}

TEST(Autograd, KeepsWhatTheGradientsThatAreWantedRead) {
  const Tensor x = tensor<float>({1, 2}, {2});
  const Tensor w = leaf({3, 4});
  const Tensor product = sum(mul(x, w));
  {
    const NoGrad guard;
    fill_(w, 0);  // only x is read for its gradient
  }
  product.backward();
  EXPECT_EQ(w.grad().to_vector<float>(), (Floats{1, 2}));
  const Tensor again = sum(mul(x, w));
  fill_(x, 0);
  expect_error<Error>("was modified afterwards", [&] { again.backward(); });
}

TEST(Autograd, ASecondBackwardNeedsRetainGraph) {
  const Tensor a = leaf({1, 2});
  const Tensor loss = sum(mul(a, a));
  loss.backward();
  expect_error<Error>(
      "backward runs a second time through a graph whose saved tensors are freed; pass "
      "retain_graph",
      [&] { loss.backward(); });
  const Tensor again = sum(mul(a, a));
  a.set_grad({});
  backward({again}, {}, {.retain_graph = true});
  backward({again}, {}, {.retain_graph = true});
  EXPECT_EQ(a.grad().to_vector<float>(), (Floats{4, 8}));
}

TEST(Autograd, GradDoesNotTouchLeavesAndKnowsInnerTensors) {
  const Tensor a = leaf({1, 2});
  const Tensor unused = leaf({1});
  const Tensor y = mul(a, a);
  const Tensor z = sum(mul(y, 3));
  const Tensors g = grad({z}, {y, a, unused, z}, {}, {.retain_graph = true});
  EXPECT_EQ(g[0].to_vector<float>(), (Floats{3, 3}));
  EXPECT_EQ(g[1].to_vector<float>(), (Floats{6, 12}));
  EXPECT_FALSE(g[2].defined());
  EXPECT_EQ(g[3].item(), 1);
  EXPECT_FALSE(a.grad().defined());
  expect_error<Error>("grad: input 0 does not require a gradient", [&] { grad({z}, {ones({2})}); });
}

TEST(Autograd, HigherOrders) {
  const Tensor x = tensor({2.0}, {}).set_requires_grad();
  const Tensor y = mul(mul(mul(x, x), x), x);  // x^4
  const Tensor first = grad({y}, {x}, {}, {.create_graph = true})[0];
  EXPECT_EQ(first.item(), 32);
  const Tensor second = grad({first}, {x}, {}, {.create_graph = true})[0];
  EXPECT_EQ(second.item(), 48);
  const Tensor third = grad({second}, {x}, {}, {.create_graph = true})[0];
  EXPECT_EQ(third.item(), 48);
  EXPECT_EQ(grad({third}, {x})[0].item(), 24);
}

TEST(Autograd, CreateGraphWithBackwardRecordsTheGradient) {
  const Tensor x = leaf({3});
  backward({sum(mul(mul(x, x), x))}, {}, {.create_graph = true});
  EXPECT_TRUE(x.grad().requires_grad());
  EXPECT_EQ(grad({sum(x.grad())}, {x})[0].item(), 18);
  x.set_grad({});  // the gradient's history holds x, which holds its gradient
}

TEST(Autograd, IntegerOutputsHaveNoHistory) {
  // The second derivative of a maximum is zero, not unsupported: its positions are no function of
  // x.
  const Tensor x = reshape(cast(arange(16), DType::f64), {1, 1, 4, 4}).detach().set_requires_grad();
  const Tensor g = grad({max_pool2d(x)}, {x}, {ones({1, 1, 2, 2}, {.dtype = DType::f64})},
                        {.create_graph = true})[0];
  EXPECT_FALSE(g.requires_grad());
}

TEST(Autograd, GradientsHaveTheDtypeOfTheirInput) {
  const Tensor h = ones({2}, {.dtype = DType::f16}).set_requires_grad();
  const Tensor d = ones({2}, {.dtype = DType::f64}).set_requires_grad();
  sum(mul(h, d)).backward();
  EXPECT_EQ(h.grad().dtype(), DType::f16);
  EXPECT_EQ(d.grad().dtype(), DType::f64);
}

TEST(Autograd, ResultsThatAreNotFloatsHaveNoHistory) {
  EXPECT_EQ(argmax(leaf({1, 2})).item(), 1);
  EXPECT_FALSE(argmax(leaf({1, 2})).requires_grad());
  EXPECT_FALSE(gt(leaf({1, 2}), 1.5).requires_grad());
}

TEST(Autograd, EqualsShareTheGradientOfTheSmaller) {
  const Tensor a = leaf({1, 2, 3});
  const Tensor b = leaf({1, 5, 1});
  sum(minimum(a, b)).backward();
  EXPECT_EQ(a.grad().to_vector<float>(), (std::vector<float>{0.5F, 1, 0}));
  EXPECT_EQ(b.grad().to_vector<float>(), (std::vector<float>{0.5F, 0, 1}));
}

// A function whose gradient is wrong by a factor must be found out.
Tensors wrong_vjp(const NoParams&, const VjpArgs& a) { return {mul(a.grad[0], 1.001)}; }
void infer_same(const NoParams&, std::span<const TensorSpec> in, OutSpecs& out) {
  out.add(in[0].shape, in[0].dtype);
}
void run_copy(const NoParams&, const Call& c) {
  std::copy_n(c.in[0].as<double>(), c.in[0].numel(), c.out[0].as<double>());
}

TEST(Gradcheck, FindsAWrongGradient) {
  OpDef op = Op<NoParams>("wrong")
                 .inputs({"x"})
                 .infer<infer_same>()
                 .vjp<wrong_vjp>({})
                 .cpu({kernel<supports_all<NoParams>, run_copy>("copy")})
                 .build();
  const auto f = [&](const Tensors& in) -> Tensors { return {dispatch(op, NoParams{}, in)[0]}; };
  for (const int64_t n : {5, 500}) {
    const Tensor x = uniform({n}, -1, 1, {.dtype = DType::f64}).set_requires_grad();
    const GradcheckResult result = gradcheck(f, {x});
    EXPECT_FALSE(result.ok);
    EXPECT_NE(result.message.find("differences give"), std::string::npos) << result.message;
    EXPECT_NEAR(result.worst, 1e-3, 1e-3);
  }
}

TEST(Gradcheck, AcceptsARightOneOfBothOrders) {
  const Tensor x = uniform({7}, 1, 2, {.dtype = DType::f64}).set_requires_grad();
  const Tensor y = uniform({100}, 1, 2, {.dtype = DType::f64}).set_requires_grad();
  const auto f = [](const Tensors& in) -> Tensors { return {div(sum(mul(in[0], in[0])), in[1])}; };
  EXPECT_TRUE(gradcheck(f, {x, y})) << gradcheck(f, {x, y}).message;
  EXPECT_TRUE(gradcheck(f, {x, y}, {.second_order = true}));
}

TEST(Gradcheck, AsksForF64) {
  expect_error<DTypeError>("gradcheck: inputs must be f64 or c128, got f32", [] {
    gradcheck([](const Tensors& in) -> Tensors { return {in[0]}; }, {leaf({1})});
  });
  expect_error<Error>("gradcheck: no input requires a gradient", [] {
    gradcheck([](const Tensors& in) -> Tensors { return {in[0]}; }, {ones({1})});
  });
}

}  // namespace
}  // namespace mica
