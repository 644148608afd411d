// Compiled functions whose arguments and results are trees of tensors and numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mica/graph/compile.h"
#include "mica/ops/ops.h"
#include "tests/device.h"
#include "tests/unit/expect_error.h"

namespace mica {
namespace {

using testing::ElementsAre;

struct Pair {
  Tensor low, high;
  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("low", self.low);
    f("high", self.high);
  }
};

Tensor numbers(std::initializer_list<float> values) {
  return tensor(values, {static_cast<int64_t>(values.size())}, test::device());
}
std::vector<float> of(const Tensor& t) { return t.to_vector<float>(); }

TEST(CompileValues, TakesAndGivesTrees) {
  auto f = compile([](const Values& batch, const Pair& p) -> Values {
    return Values::dict({{"sum", batch["a"].tensor() + batch["b"][1].tensor()},
                         {"none", batch["b"][0]},
                         {"p", Values::list({p.high})}});
  });
  const auto batch = [&](float v) {
    return Values::dict({{"a", numbers({v})}, {"b", Values::list({Values(), numbers({2})})}});
  };
  const Pair p{numbers({3}), numbers({4})};
  for (const float v : {1.0F, 5.0F}) {
    const Values out = f(batch(v), p);
    EXPECT_THAT(out.keys(), ElementsAre("sum", "none", "p"));
    EXPECT_THAT(of(out["sum"].tensor()), ElementsAre(v + 2));
    EXPECT_TRUE(out["none"].is_nothing());
    EXPECT_THAT(of(out["p"][0].tensor()), ElementsAre(4));
  }
  EXPECT_EQ(f.function()->captures(), 1);
  // Another structure is another plan, and the first is still there.
  f(Values::dict({{"a", numbers({1})}, {"b", Values::list({numbers({1}), numbers({2})})}}), p);
  EXPECT_EQ(f.function()->captures(), 2);
  f(batch(2), p);
  EXPECT_EQ(f.function()->captures(), 2);
}

TEST(CompileValues, GivesTypes) {
  auto f = compile([](const Tensor& x) { return std::pair(mul(x, 2), Pair{x, neg(x)}); });
  for (const float v : {1.0F, 2.0F}) {
    const auto [twice, p] = f(numbers({v}));
    EXPECT_THAT(of(twice), ElementsAre(2 * v));
    EXPECT_THAT(of(p.high), ElementsAre(-v));
  }
  EXPECT_EQ(f.function()->captures(), 1);
}

TEST(CompileValues, IsCapturedForEachNumber) {
  auto f = compile([](const Tensor& x, double factor, int64_t n, bool negative) {
    const Tensor y = mul(x, factor * static_cast<double>(n));
    return negative ? neg(y) : y;
  });
  EXPECT_THAT(of(f(numbers({1}), 0.5, 4, false)), ElementsAre(2));
  EXPECT_THAT(of(f(numbers({3}), 0.5, 4, false)), ElementsAre(6));
  EXPECT_EQ(f.function()->captures(), 1);
  EXPECT_THAT(of(f(numbers({1}), 0.5, 4, true)), ElementsAre(-2));
  EXPECT_THAT(of(f(numbers({1}), 0.25, 4, true)), ElementsAre(-1));
  EXPECT_THAT(of(f(numbers({1}), 0.25, 8, true)), ElementsAre(-2));
  EXPECT_EQ(f.function()->captures(), 4);
  EXPECT_THAT(of(f(numbers({1}), 0.5, 4, false)), ElementsAre(2));
  EXPECT_EQ(f.function()->captures(), 4);
  auto count = compile([](const Values& v) { return v.size(); });
  EXPECT_EQ(count(Values::list({numbers({1}), numbers({1})})), 2);
  EXPECT_EQ(count(Values::list({numbers({1}), numbers({1})})), 2);
}

TEST(CompileValues, ArgumentsMayHaveOtherTypesThanInTheFirstCall) {
  const auto f = compile([](const Tensor& x, double factor) { return mul(x, factor); });
  EXPECT_THAT(of(f(numbers({1}), 2)), ElementsAre(2));
  EXPECT_THAT(of(f(numbers({1}), 2.5)), ElementsAre(2.5));
  EXPECT_THAT(of(f(numbers({1}), true)), ElementsAre(1));
  EXPECT_THAT(of(f(numbers({3}), 2)), ElementsAre(6));
  EXPECT_EQ(f.function()->captures(), 3);

  const auto product =
      compile([](const auto& x, const auto&... factors) { return (x * ... * factors); });
  EXPECT_THAT(of(product(numbers({3}), 0.5)), ElementsAre(1.5));
  EXPECT_THAT(of(product(numbers({3}), numbers({4}))), ElementsAre(12));
  EXPECT_THAT(of(product(numbers({3}))), ElementsAre(3));
  EXPECT_THAT(of(product(numbers({3}), numbers({4}), numbers({5}))), ElementsAre(60));
}

TEST(CompileValues, GradientsFlowThroughTrees) {
  auto f = compile([](const Values& v) -> Values {
    return Values::list({mul(v["a"].tensor(), v["b"].tensor())});
  });
  const Tensor a = numbers({2, 3});
  a.set_requires_grad();
  const Values in = Values::dict({{"a", a}, {"b", numbers({5, 7})}});
  for (int i = 0; i < 2; ++i) {
    a.set_grad({});
    sum(f(in)[0].tensor()).backward();
    EXPECT_THAT(of(a.grad()), ElementsAre(5, 7));
  }
}

}  // namespace
}  // namespace mica
