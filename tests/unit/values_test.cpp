// Trees of tensors: what modules, batches and compiled functions pass.
#include "mica/core/values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mica/core/typed_values.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/runtime/runtime.h"
#include "tests/gaussian.h"
#include "tests/unit/expect_error.h"

namespace mica {
namespace {

using test::Gaussian;

using testing::ElementsAre;

Tensor numbers(std::initializer_list<float> values) {
  return tensor(values, {static_cast<int64_t>(values.size())});
}

/// {"image": [a, None, b], "y": y}
struct Sample {
  Tensor a = numbers({1, 2});
  Tensor b = numbers({3});
  Tensor y = tensor<int64_t>({4}, {1});
  Values all = Values::dict({{"image", Values::list({a, Values(), b})}, {"y", y}});
};

TEST(Values, AreNothingATensorAListOrADict) {
  const Sample s;
  EXPECT_TRUE(Values().is_nothing());
  EXPECT_TRUE(Values(Tensor()).is_nothing());
  EXPECT_TRUE(Values(s.a).is_tensor());
  EXPECT_TRUE(s.all.is_dict());
  EXPECT_TRUE(s.all["image"].is_list());
  EXPECT_EQ(s.all.size(), 2);
  EXPECT_EQ(Values(s.a).size(), 0);
  EXPECT_EQ(s.all["image"][2].tensor().impl(), s.b.impl());
  EXPECT_EQ(s.all[1].tensor().impl(), s.y.impl());
  EXPECT_THAT(s.all.keys(), ElementsAre("image", "y"));
  EXPECT_EQ(s.all.find("mask"), nullptr);
  EXPECT_EQ(to_string(s.all), R"({"image": [f32[2], None, f32[1]], "y": i64[1]})");
}

TEST(Values, AllocateNothingForATensor) {
  const Tensor t = numbers({1});
  const long before = t.impl()->use_count();
  {
    const Values v = t;
    EXPECT_EQ(v.tensor().impl(), t.impl());
    EXPECT_EQ(t.impl()->use_count(), before + 1);  // a handle more, and nothing else
  }
  EXPECT_EQ(t.impl()->use_count(), before);
  EXPECT_LE(sizeof(Values), 2 * sizeof(void*));
  Values v = t;
  EXPECT_EQ(std::move(v).tensor().impl(), t.impl());
  EXPECT_EQ(t.impl()->use_count(), before);  // moved out, not copied
}

TEST(Values, SayWhatTheyAreWhereSomethingElseIsExpected) {
  const Sample s;
  expect_error<Error>(R"(Values: expected a tensor, got {"image")", [&] { s.all.tensor(); });
  expect_error<Error>("Values: expected a tensor, got None", [] { Values().tensor(); });
  expect_error<IndexError>(R"(expected a key of "image", "y", got "mask")", [&] { s.all["mask"]; });
  expect_error<IndexError>(R"(expected a dict with "x", got a list)", [&] { s.all["image"]["x"]; });
  expect_error<IndexError>("expected an entry of [f32[2], None, f32[1]], got 3",
                           [&] { s.all["image"][3]; });
  expect_error<IndexError>("got -1", [&] { s.all["image"][-1]; });
  expect_error<Error>(R"(the key "x" comes twice)",
                      [] { Values::dict({{"x", Values()}, {"x", Values()}}); });
}

TEST(Values, AreBoundedInDepth) {
  Values deep = numbers({1});
  for (int i = 0; i < 1000; ++i) deep = Values::list({deep});
  EXPECT_EQ(flatten(deep).size(), 1);
  expect_error<Error>("nested deeper than 1000", [&] { Values::list({deep}); });
}

TEST(Values, FlattenAndBack) {
  const Sample s;
  const Tensors leaves = flatten(s.all);
  ASSERT_EQ(leaves.size(), 3);
  EXPECT_EQ(leaves[1].impl(), s.b.impl());
  const Values back = unflatten(s.all, leaves);
  EXPECT_TRUE(same_structure(s.all, back));
  EXPECT_EQ(back["image"][0].tensor().impl(), s.a.impl());
  EXPECT_TRUE(back["image"][1].is_nothing());
  expect_error<Error>("unflatten: expected", [&] { unflatten(s.all, Tensors{s.a}); });
  expect_error<Error>("unflatten: expected 1 tensors for f32[2], got 3",
                      [&] { unflatten(s.a, leaves); });
  EXPECT_TRUE(flatten(Values()).empty());
}

TEST(Values, NameTheirLeaves) {
  const Sample s;
  EXPECT_EQ(leaf_path(s.all, 0, "batch"), R"(batch["image"][0])");
  EXPECT_EQ(leaf_path(s.all, 1, "batch"), R"(batch["image"][2])");
  EXPECT_EQ(leaf_path(s.all, 2, "batch"), R"(batch["y"])");
  EXPECT_EQ(leaf_path(s.a, 0, "batch"), "batch");
  expect_error<IndexError>("no tensor 3", [&] { leaf_path(s.all, 3, "batch"); });
}

TEST(Values, MapTheirLeaves) {
  const Sample s;
  const Values twice = map_leaves(s.all, [](const Tensor& t) { return mul(t, 2); });
  EXPECT_TRUE(same_structure(s.all, twice));
  EXPECT_THAT(twice["image"][0].tensor().to_vector<float>(), ElementsAre(2, 4));
  EXPECT_THAT(twice["y"].tensor().to_vector<int64_t>(), ElementsAre(8));
}

TEST(Values, CompareStructures) {
  const Sample s;
  const Values list = Values::list({s.a, s.b});
  EXPECT_TRUE(same_structure(list, Values::list({s.b, s.a})));
  EXPECT_FALSE(same_structure(list, Values::list({s.a})));
  EXPECT_FALSE(same_structure(list, Values::list({s.a, Values()})));
  EXPECT_FALSE(same_structure(Values::dict({{"a", s.a}}), Values::dict({{"b", s.a}})));
  EXPECT_FALSE(same_structure(Values::dict({{"a", s.a}}), Values::list({s.a})));
  struct Named : Values::Form {
    explicit Named(int n) : number(n) {}
    bool equals(const Form& other) const override {
      return number == dynamic_cast<const Named&>(other).number;
    }
    int number;
  };
  const auto of = [&](int n) { return Values::list({s.a}, Ref<const Values::Form>(new Named(n))); };
  EXPECT_TRUE(same_structure(of(1), of(1)));
  EXPECT_FALSE(same_structure(of(1), of(2)));
  EXPECT_FALSE(same_structure(of(1), Values::list({s.a})));
  EXPECT_TRUE(same_structure(of(1), map_leaves(of(1), [](const Tensor& t) { return t; })));
}

TEST(Values, AreBoundAsAPair) {
  const Sample s;
  const Values batch = Values::list({s.a, s.y});
  const auto [x, y] = batch;
  EXPECT_EQ(x.impl(), s.a.impl());
  EXPECT_EQ(y.impl(), s.y.impl());
  for (const auto& [u, v] : std::vector{batch, batch}) EXPECT_EQ(u.size(0), 2);
  const auto [a, b, c] = Values::list({s.a, s.b, s.y}).unpack<3>();
  EXPECT_EQ(c.impl(), s.y.impl());
  expect_error<Error>("expected 2 tensors, got [f32[2], f32[1], i64[1]]",
                      [&] { const auto [p, q] = Values::list({s.a, s.b, s.y}); });
  expect_error<Error>("expected 2 tensors", [&] { const auto [p, q] = s.all; });
}

using Nested = std::tuple<Gaussian, Tensors, std::pair<Tensor, Values>, std::optional<Tensor>>;

TEST(Values, AreMadeOfTypesAndBack) {
  const Sample s;
  const Nested nested = {{s.a, s.b}, {s.a, s.a}, {s.y, s.all}, {}};
  const Values v = to_values(nested);
  EXPECT_EQ(leaf_path(v, 1, "out"), R"(out[0]["log_var"])");
  EXPECT_EQ(leaf_path(v, 7, "out"), R"(out[2][1]["y"])");
  const auto back = from_values<Nested>(v, ValuesPath("out"));
  EXPECT_EQ(std::get<0>(back).log_var.impl(), s.b.impl());
  EXPECT_EQ(std::get<1>(back).size(), 2);
  EXPECT_TRUE(same_structure(std::get<2>(back).second, s.all));
  EXPECT_FALSE(std::get<3>(back).has_value());
}

TEST(Values, OfAnotherTypeRaiseWithTheirPath) {
  const Sample s;
  const ValuesPath out("out");
  expect_error<Error>("out: expected a list of 2, got f32[2]",
                      [&] { from_values<std::pair<Tensor, Tensor>>(s.a, out); });
  expect_error<Error>("out[1]: expected a tensor, got [f32[1]]", [&] {
    from_values<std::pair<Tensor, Tensor>>(Values::list({s.a, Values::list({s.b})}), out);
  });
  expect_error<Error>(R"(out: expected an entry "log_var", got {"mean": f32[2]})",
                      [&] { from_values<Gaussian>(Values::dict({{"mean", s.a}}), out); });
  expect_error<Error>(R"(out["mean"]: expected a tensor, got [])", [&] {
    from_values<Gaussian>(Values::dict({{"mean", Values::list({})}, {"log_var", s.a}}), out);
  });
  expect_error<Error>("out: expected 2 entries", [&] {
    from_values<Gaussian>(Values::dict({{"mean", s.a}, {"log_var", s.a}, {"z", s.a}}), out);
  });
  EXPECT_FALSE(from_values<Tensor>(Values(), out).defined());
}

}  // namespace
}  // namespace mica
