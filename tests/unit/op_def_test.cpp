// The definition of an operator: what it carries, and what may be any number.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mica/mica.h"
#include "mica/op/dispatch.h"
#include "mica/op/op_def.h"
#include "mica/ops/conv2d/conv2d.h"
#include "mica/ops/pad/pad.h"
#include "tests/unit/expect_error.h"

namespace mica {
namespace {

using Floats = std::vector<float>;

TEST(IndexSet, HoldsAnyPosition) {
  IndexSet set = 0b101;
  EXPECT_TRUE(set.contains(0));
  EXPECT_FALSE(set.contains(1));
  EXPECT_FALSE(set.contains(1000));
  set.insert(130);
  EXPECT_TRUE(set.contains(130));
  EXPECT_FALSE(set.contains(66));
  IndexSet other = {63, 64};
  other |= set;
  for (const int i : {0, 2, 63, 64, 130}) EXPECT_TRUE(other.contains(i)) << i;
  EXPECT_FALSE(other.empty());
  EXPECT_TRUE(IndexSet().empty());
}

TEST(InlineVector, KeepsItsElementsWhenItGrows) {
  InlineVector<std::string, 2> v;
  for (int i = 0; i < 5; ++i) {
    v.add(std::to_string(i));
    EXPECT_EQ(v.size(), i + 1);
    for (int k = 0; k <= i; ++k) EXPECT_EQ(v[k], std::to_string(k));
  }
  const InlineVector<std::string, 2> copy = v;
  EXPECT_EQ(copy.span().size(), 5U);
  EXPECT_EQ(copy[4], "4");
}

TEST(Params, AreReadAndSetByName) {
  AnyParams params(params_info<Conv2dParams>());
  EXPECT_EQ(params.get("groups"), FieldValue(int64_t{1}));
  params.set("groups", int64_t{4});
  params.set("stride", int64_t{2});  // both
  params.set("padding", Dims{1, 3});
  params.set("dilation", Size2{2, 2});
  const auto& p = params.as<Conv2dParams>();
  EXPECT_EQ(p.groups, 4);
  EXPECT_EQ(p.stride, (Size2{2, 2}));
  EXPECT_EQ(p.padding, (Size2{1, 3}));
  EXPECT_EQ(p.dilation, (Size2{2, 2}));
  expect_error<Error>("no parameter 'group' among {stride",
                      [&] { params.set("group", int64_t{1}); });
  expect_error<Error>("parameter 'groups', now 4, cannot be 'two'",
                      [&] { params.set("groups", std::string("two")); });
}

TEST(Params, AnEnumIsTheNameOfItsValue) {
  AnyParams params(params_info<PadParams>());
  EXPECT_EQ(params.get("mode"), FieldValue(std::string("constant")));
  params.set("mode", std::string("circular"));
  params.set("value", int64_t{3});
  EXPECT_EQ(params.as<PadParams>().mode, PadMode::circular);
  EXPECT_EQ(params.as<PadParams>().value, Number(3));
  expect_error<Error>("cannot be 'wrapped'", [&] { params.set("mode", std::string("wrapped")); });
}

TEST(Params, OfEveryOpComeBackAsTheyWere) {
  for (const OpDef* op : all_ops()) {
    const std::string op_name = op->name;  // a program is no plain value
    if (op_name.starts_with("fused") || op_name == "anchored") continue;
    const AnyParams defaults(*op->params_info);
    AnyParams again(*op->params_info);
    for (const auto& [name, value] : op->params_info->values(defaults.ref().data))
      again.set(name, value);
    EXPECT_EQ(defaults.print(), again.print()) << op->name;
  }
}

/// y_k = scale_k * x, for as many scales as the definition carries.
struct Scales {
  std::vector<float> values;
};
const Scales& scales_of(const OpDef& op) { return *static_cast<const Scales*>(op.data.get()); }

void infer_scales(const OpDef& op, const NoParams&, std::span<const TensorSpec> in, OutSpecs& out) {
  for (size_t i = 0; i < scales_of(op).values.size(); ++i) out.add(in[0].shape, in[0].dtype);
}
Tensors vjp_scales(const OpDef& op, const NoParams&, const VjpArgs& args) {
  Tensor sum;
  for (size_t i = 0; i < args.grad.size(); ++i) {
    if (!args.grad[i].defined()) continue;
    const Tensor one = mul(args.grad[i], scales_of(op).values[i]);
    sum = sum.defined() ? add(sum, one) : one;
  }
  return {sum};
}
Support supports_scales(const NoParams&, const Specs&) { return Support::yes().with_contiguous(1); }
void run_scales(const OpDef& op, const NoParams&, const Call& call) {
  for (size_t k = 0; k < call.out.size(); ++k)
    for (int64_t i = 0; i < call.in[0].numel(); ++i)
      call.out[k].as<float>()[i] = scales_of(op).values[k] * call.in[0].as<float>()[i];
}

const OpDef& scales_op() {
  static const OpDef& op = register_op(
      "test_scales", Op<NoParams>("test_scales")
                         .inputs({"x"})
                         .outputs({"y..."})
                         .dtypes({{DType::f32}, "f32"})
                         .infer<infer_scales>()
                         .vjp<vjp_scales>({})
                         .data(std::make_shared<const Scales>(Scales{{1, 2, 3, 4, 5, 6}}))
                         .cpu({kernel<supports_scales, run_scales>("direct")})
                         .build());
  return op;
}

TEST(RegisteredOp, IsFoundRunsAndHasItsOwnData) {
  const OpDef& op = scales_op();
  EXPECT_EQ(&find_op("test_scales"), &op);
  EXPECT_EQ(all_ops().back(), &op);
  const Tensor x = tensor({1.F, 10.F}, {2});
  const Outputs y = dispatch(op, NoParams{}, {x});
  ASSERT_EQ(y.size(), 6);
  for (int k = 0; k < 6; ++k)
    EXPECT_EQ(y[k].to_vector<float>(),
              (Floats{static_cast<float>(k + 1), static_cast<float>(10 * (k + 1))}));
  expect_error<Unsupported>("an operator named 'add' is there already",
                            [] { register_op("add", Op<NoParams>("add").build()); });
}

TEST(RegisteredOp, IsDifferentiatedAndCompiled) {
  const auto last = [](const Tensor& x) {
    const Outputs y = dispatch(scales_op(), NoParams{}, {x});
    return add(mul(y[5], y[5]), y[0]);
  };
  Tensor x = tensor({1.F, 2.F}, {2});
  x.set_requires_grad(true);
  const Tensors g = grad({sum(last(x))}, {x});
  EXPECT_EQ(g[0].to_vector<float>(), (Floats{73, 145}));  // 2 * 36 x + 1
  auto compiled = compile([&](const Tensor& t) { return last(t); });
  EXPECT_EQ(compiled(x.detach()).to_vector<float>(), (Floats{37, 146}));
}

/// The last of any number of inputs, read as if it were row-major.
void infer_last(const NoParams&, std::span<const TensorSpec> in, OutSpecs& out) {
  out.add(in.back().shape, in.back().dtype);
  out[0].strides = contiguous_strides(in.back().shape);
}
Support supports_last(const NoParams&, const Specs& specs) {
  IndexSet all;
  for (int i = 0; i < static_cast<int>(specs.in.size()); ++i) all.insert(i);
  return Support::yes().with_contiguous(all);
}
void run_last(const NoParams&, const Call& call) {
  std::copy_n(call.in.back().as<float>(), call.out[0].numel(), call.out[0].as<float>());
}

TEST(Dispatch, CopiesInputsPastTheThirtySecond) {
  const OpDef& last = register_op("test_last", Op<NoParams>("test_last")
                                                   .inputs({"x..."})
                                                   .infer<infer_last>()
                                                   .no_gradient("it is a test")
                                                   .cpu({kernel<supports_last, run_last>("direct")})
                                                   .build());
  Tensors parts;
  for (int i = 0; i < 70; ++i)
    parts.push_back(transpose(tensor({1.F, 2.F, 3.F, 4.F}, {2, 2}), 0, 1));
  const Floats expected = {1, 3, 2, 4};
  EXPECT_EQ(dispatch(last, NoParams{}, parts)[0].to_vector<float>(), expected);
  auto compiled = compile([&](const Tensor& x) {
    parts.back() = transpose(x, 0, 1);
    return dispatch(last, NoParams{}, parts)[0];
  });
  EXPECT_EQ(compiled(tensor({1.F, 2.F, 3.F, 4.F}, {2, 2})).to_vector<float>(), expected);
}

TEST(Gradient, ReachesInputsPastTheSixtyFourth) {
  Tensors parts;
  for (int i = 0; i < 100; ++i) {
    parts.push_back(full({2}, i));
    parts.back().set_requires_grad(true);
  }
  const Tensor y = sum(mul(concat(parts, 0), concat(parts, 0)));
  const Tensors g = grad({y}, parts);
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(g[static_cast<size_t>(i)].to_vector<float>(), Floats(2, static_cast<float>(2 * i)))
        << i;
}

}  // namespace
}  // namespace mica
