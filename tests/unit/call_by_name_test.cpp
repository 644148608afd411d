// Functions as data: called by name, with arguments of every kind.
#include <gtest/gtest.h>

#include <set>

#include "mica/core/check.h"
#include "mica/mica.h"
#include "mica/op/function.h"
#include "tests/unit/expect_error.h"

namespace mica {
namespace {

Argument call_by_name(const char* name, const std::vector<Argument>& given,
                      const std::vector<NamedArgument>& named = {}) {
  const Function* f = find_function(name);
  check(f != nullptr, "no function is named {}", name);
  return call(*f, given, named);
}
Tensor tensor_of(const Argument& a) { return *a.get<Tensor>(); }
std::vector<float> values_of(const Argument& a) { return tensor_of(a).to_vector<float>(); }

TEST(CallByName, ChoosesTheSignatureThatTakesTheArguments) {
  const Tensor x = full({2}, 3);
  EXPECT_EQ(values_of(call_by_name("add", {x, x})), (std::vector<float>{6, 6}));
  EXPECT_EQ(values_of(call_by_name("add", {x, 0.5})), (std::vector<float>{3.5, 3.5}));
  EXPECT_EQ(values_of(call_by_name("sub", {1, x})), (std::vector<float>{-2, -2}));
  EXPECT_EQ(tensor_of(call_by_name("add", {full({1}, 1, {DType::i64}), 2})).dtype(), DType::i64);
  EXPECT_EQ(tensor_of(call_by_name("add", {full({1}, 1, {DType::i64}), 2.0})).dtype(), DType::f32);
  const Argument both = call_by_name("max", {reshape(arange(4), {2, 2}), 1});
  EXPECT_EQ(both.get<Tensors>()->at(1).to_vector<int64_t>(), (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(tensor_of(call_by_name("multiply", {x, x})).to_vector<float>()[0], 9);
  EXPECT_FALSE(call_by_name("equal", {x, full({2}, 4)}).get<Number>()->as<bool>());
}

TEST(CallByName, TakesNamesDefaultsAndWords) {
  const Tensor x = ones({2, 3});
  EXPECT_EQ(tensor_of(call_by_name("sum", {x})).rank(), 0);
  EXPECT_EQ(tensor_of(call_by_name("sum", {x}, {{"dim", 0}})).shape(), Shape{3});
  EXPECT_EQ(tensor_of(call_by_name("sum", {x}, {{"dim", Dims{0, 1}}, {"keepdim", true}})).shape(),
            (Shape{1, 1}));
  EXPECT_EQ(tensor_of(call_by_name("mse_loss", {x, x}, {{"reduction", "none"}})).rank(), 2);
  EXPECT_EQ(tensor_of(call_by_name("conv2d", {ones({1, 1, 4, 4}), ones({1, 1, 3, 3})},
                                   {{"padding", "same"}}))
                .shape(),
            (Shape{1, 1, 4, 4}));
  expect_error<Unsupported>(
      "mse_loss: reduction must be one of 'mean', 'sum', 'none', got 'average'",
      [&] { call_by_name("mse_loss", {x, x}, {{"reduction", "average"}}); });
  EXPECT_EQ(tensor_of(call_by_name("zeros", {2, 3}, {{"dtype", "float64"}})).dtype(), DType::f64);
}

TEST(CallByName, SpreadArgumentsAreOneParameter) {
  const Tensor x = ones({2, 3});
  EXPECT_EQ(tensor_of(call_by_name("permute", {x, 1, 0})).shape(), (Shape{3, 2}));
  EXPECT_EQ(tensor_of(call_by_name("permute", {x, Dims{1, 0}})).shape(), (Shape{3, 2}));
  EXPECT_EQ(tensor_of(call_by_name("einsum", {"ij,kj->ik", x, x})).shape(), (Shape{2, 2}));
  EXPECT_EQ(tensor_of(call_by_name("einsum", {"ij,kj->ik", Tensors{x, x}})).shape(), (Shape{2, 2}));
}

TEST(CallByName, RefusesWhatNoSignatureTakes) {
  const Tensor x = ones({2});
  const auto refuses = [](const char* name, const std::vector<Argument>& given,
                          const std::vector<NamedArgument>& named = {}) {
    expect_error<Unsupported>(std::string(name) + ": no signature takes these",
                              [&] { call_by_name(name, given, named); });
  };
  refuses("exp", {});
  refuses("exp", {x, x});
  refuses("exp", {1.0});
  refuses("exp", {Argument()});
  refuses("add", {x, "one"});
  refuses("sum", {x, 0.5});
  refuses("sum", {x, 0}, {{"dim", 0}});
  refuses("sum", {x}, {{"axis", 0}});
  refuses("softmax", {x, true, 1});
}

TEST(Functions, DescribeThemselves) {
  EXPECT_GT(all_functions().size(), 280U);
  for (const Function& f : all_functions()) {
    EXPECT_GT(std::string(f.doc).size(), 10U) << f.name;
    EXPECT_FALSE(f.signatures.empty()) << f.name;
    for (const Signature& s : f.signatures) {
      std::set<std::string> names;
      for (const Parameter& p : s.parameters)
        EXPECT_TRUE(names.insert(p.name).second) << f.name << ": " << p.name << " stands twice";
    }
  }
}

TEST(Functions, NoTwoAreInOnePlaceUnderOneName) {
  std::set<std::string> taken;
  const auto take = [&](bool offered, const std::string& name) {
    EXPECT_TRUE(!offered || taken.insert(name).second) << name;
  };
  for (const Function& f : all_functions()) {
    std::vector<std::string> names(f.second_names.begin(), f.second_names.end());
    names.emplace_back(f.name);
    for (const std::string& name : names) {
      take(f.offer.module, "mica." + name);
      take(f.offer.method, "Tensor." + name);
      take(f.offer.functional, "mica.nn.functional." + name);
    }
  }
}

}  // namespace
}  // namespace mica
