// The suite's own instruments must find what they are there to find.
#include <gtest/gtest.h>

#include <cmath>

#include "mica/op/guarded_run.h"
#include "mica/op/op_def.h"
#include "tests/op_cases/values.h"

namespace mica::cases {
namespace {

void infer_same(const NoParams&, std::span<const TensorSpec> in, OutSpecs& out) {
  out.add(in[0].shape, in[0].dtype);
}

void writes_behind(const NoParams&, const Call& c) {
  std::fill_n(c.out[0].as<float>(), c.out[0].numel() + 1, 0.0F);
}
void writes_before(const NoParams&, const Call& c) {
  std::fill_n(c.out[0].as<float>() - 1, c.out[0].numel() + 1, 0.0F);
}
void writes_input(const NoParams&, const Call& c) {
  c.in[0].as<float>()[0] = 5;
  std::fill_n(c.out[0].as<float>(), c.out[0].numel(), 0.0F);
}
void forgets_one(const NoParams&, const Call& c) {
  std::fill_n(c.out[0].as<float>(), c.out[0].numel() - 1, 0.0F);
}

struct Scratch : KernelState {};
std::shared_ptr<Scratch> prepare(const NoParams&, const Specs&) {
  auto state = std::make_shared<Scratch>();
  state->workspace_bytes = 8;
  return state;
}
void overruns_workspace(const NoParams&, const Scratch&, const Call& c) {
  std::fill_n(static_cast<char*>(c.workspace), 9, '\0');
  std::fill_n(c.out[0].as<float>(), c.out[0].numel(), 0.0F);
}

struct Result {
  std::vector<std::string> faults;
  HostArray out;
};
Result guarded(Kernel kernel) {
  const OpDef op = Op<NoParams>("faulty")
                       .inputs({"x"})
                       .infer<infer_same>()
                       .no_gradient("it is a test")
                       .cpu({kernel})
                       .build();
  const Tensor x = ones({3});
  Tensor y;
  Result result;
  {
    GuardedRun run;
    y = dispatch(op, NoParams{}, Tensors{x})[0];
    result.faults = run.faults;
  }
  result.out = to_host(y);
  return result;
}

TEST(GuardedRun, FindsWritesOutsideTheOutput) {
  EXPECT_EQ(guarded(kernel<supports_all<NoParams>, writes_behind>("k")).faults,
            std::vector<std::string>{"faulty, kernel k: writes behind output 0"});
  EXPECT_EQ(guarded(kernel<supports_all<NoParams>, writes_before>("k")).faults,
            std::vector<std::string>{"faulty, kernel k: writes before output 0"});
}

TEST(GuardedRun, FindsWritesToInputsAndBehindTheWorkspace) {
  EXPECT_EQ(guarded(kernel<supports_all<NoParams>, writes_input>("k")).faults,
            std::vector<std::string>{"faulty, kernel k: writes to input 0"});
  EXPECT_EQ(guarded(kernel<supports_all<NoParams>, prepare, overruns_workspace>("k")).faults,
            std::vector<std::string>{"faulty, kernel k: writes behind its workspace of 8 bytes"});
}

TEST(GuardedRun, ShowsElementsThatWereNotWritten) {
  const Result result = guarded(kernel<supports_all<NoParams>, forgets_one>("k"));
  EXPECT_TRUE(result.faults.empty());
  EXPECT_TRUE(std::isnan(result.out.values[2]));
}

TEST(Difference, TellsTheWorstIndexAndBothValues) {
  const HostArray expected{{2, 2}, {1, 2, 3, 4}};
  HostArray got = expected;
  EXPECT_FALSE(difference(got, expected, DType::f32, 0));
  got.values[2] = 3.5;
  got.values[1] = 2.1;
  const std::string text = difference(got, expected, DType::f32, 1e-3).value_or("");
  EXPECT_NE(text.find("at [1, 0]: got 3.5, expected 3, relative error"), std::string::npos) << text;
  EXPECT_FALSE(difference(got, expected, DType::f32, 0.2));
}

TEST(Difference, NanAndInfinityMustAgree) {
  const HostArray nan{{1}, {NAN}};
  const HostArray inf{{1}, {INFINITY}};
  const HostArray one{{1}, {1}};
  EXPECT_FALSE(difference(nan, nan, DType::f32, 0));
  EXPECT_FALSE(difference(inf, inf, DType::f32, 0));
  EXPECT_TRUE(difference(nan, one, DType::f32, 1e9));
  EXPECT_TRUE(difference(one, nan, DType::f32, 1e9));
  EXPECT_TRUE(difference(inf, one, DType::f32, 1e9));
  // A value past the dtype's range is infinite in it.
  EXPECT_FALSE(difference(inf, {{1}, {1e6}}, DType::f16, 0));
  EXPECT_TRUE(difference({{1}, {1}}, {{2}, {1, 1}}, DType::f32, 1e9));
}

TEST(Values, LayoutsHoldTheSameValues) {
  const Sample sample{.name = "layouts", .in = {x({2, 3, 4, 5})}, .call = nullptr};
  const HostArgs host = host_inputs(sample, DType::f32);
  for (const Layout layout : {Layout::contiguous, Layout::strided, Layout::channels_last}) {
    const Args args = device_inputs(sample, host, DType::f32, Device::cpu(), layout);
    EXPECT_EQ(to_host(args[0]).values, host[0].values) << name_of(layout);
    EXPECT_EQ(args[0].spec().is_contiguous(), layout == Layout::contiguous);
    EXPECT_EQ(args[0].spec().is_channels_last(), layout == Layout::channels_last);
  }
  EXPECT_FALSE(
      device_inputs(sample, host, DType::f32, Device::cpu(), Layout::strided)[0].spec().aligned);
}

}  // namespace
}  // namespace mica::cases
