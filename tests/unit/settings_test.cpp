#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <mutex>
#include <thread>

#include "mica/mica.h"
#include "mica/op/dispatch.h"
#include "mica/op/select.h"
#include "mica/runtime/cpu/parallel.h"
#include "tests/unit/expect_error.h"

namespace mica {
namespace {

using testing::HasSubstr;

class Settings : public testing::Test {
 protected:
  void TearDown() override {
    force_kernel("add", "");
    force_kernel("matmul", "");
    set_deterministic(false);
    set_autotune(false);
    set_verbose_dispatch(false);
  }
};

std::string chosen(const char* op, const Tensors& in, const Shape& out) {
  std::vector<TensorSpec> specs;
  for (const Tensor& t : in) specs.push_back(t.spec());
  const TensorSpec result = TensorSpec::contiguous(out, in[0].dtype());
  return select(find_op(op), ParamsRef::of(NoParams{}), {specs, {&result, 1}}, Device::cpu())
      ->kernel->name;
}

TEST_F(Settings, AForcedKernelIsTaken) {
  const Tensor a = ones({2, 2});
  EXPECT_NE(chosen("add", {a, a}, {2, 2}), "reference");
  force_kernel("add", "reference");
  EXPECT_EQ(forced_kernel("add"), "reference");
  EXPECT_EQ(chosen("add", {a, a}, {2, 2}), "reference");
  force_kernel("add", "");
  EXPECT_EQ(forced_kernel("add"), "");
  EXPECT_NE(chosen("add", {a, a}, {2, 2}), "reference");
}

TEST_F(Settings, AnUnknownForcedKernelIsNamed) {
  force_kernel("add", "magic");
  expect_error<Unsupported>(
      "add: the forced kernel 'magic' on cpu cannot take add(f32[2], f32[2]) {}: there is no such "
      "kernel",
      [] { add(ones({2}), ones({2})); });
}

void infer_same(const NoParams&, std::span<const TensorSpec> in, OutSpecs& out) {
  out.add(in[0].shape, in[0].dtype);
}
Support supports_f64(const NoParams&, const Specs& s) {
  return s.in[0].dtype == DType::f64 ? Support::yes() : Support::no("computes f64 only");
}
void run_nothing(const NoParams&, const Call&) {}

/// An op whose first kernel is hard to please.
const OpDef& picky_op() {
  static const OpDef def = Op<NoParams>("picky")
                               .inputs({"x"})
                               .infer<infer_same>()
                               .no_gradient("it is a test")
                               .cpu({kernel<supports_f64, run_nothing>("choosy"),
                                     kernel<supports_all<NoParams>, run_nothing>("plain")})
                               .build();
  return def;
}

TEST_F(Settings, AForcedKernelThatRefusesGivesItsReason) {
  force_kernel("picky", "choosy");
  expect_error<Unsupported>("choosy: computes f64 only",
                            [] { dispatch(picky_op(), NoParams{}, Tensors{ones({2})}); });
  force_kernel("picky", "");
}

TEST_F(Settings, ChangesMoveTheStamp) {
  const uint64_t before = settings_stamp();
  set_deterministic(true);
  EXPECT_TRUE(deterministic());
  EXPECT_NE(settings_stamp(), before);
  const uint64_t now = settings_stamp();
  set_deterministic(true);
  EXPECT_EQ(settings_stamp(), now);
  set_autotune(true);
  EXPECT_TRUE(autotune());
  EXPECT_NE(settings_stamp(), now);
  const uint64_t tuned = settings_stamp();
  const int64_t limit = conv_workspace_limit();
  set_conv_workspace_limit(1 << 20);
  EXPECT_EQ(conv_workspace_limit(), 1 << 20);
  EXPECT_NE(settings_stamp(), tuned);
  set_conv_workspace_limit(limit);
  expect_error<Error>("set_conv_workspace_limit: expected a number of bytes, got -1",
                      [] { set_conv_workspace_limit(-1); });
}

TEST_F(Settings, VerboseDispatchTellsTheChoiceAndTheRefusals) {
  set_verbose_dispatch(true);
  testing::internal::CaptureStderr();
  const Tensor a = ones({3});
  dispatch(picky_op(), NoParams{}, Tensors{a});
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_THAT(text, HasSubstr("mica: picky: choosy refuses: computes f64 only"));
  EXPECT_THAT(text, HasSubstr("mica: picky(f32[3]) {} on cpu: plain"));
  set_verbose_dispatch(false);
  testing::internal::CaptureStderr();
  dispatch(picky_op(), NoParams{}, Tensors{a});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(Settings, VerboseDispatchTellsOfLayoutCopies) {
  set_verbose_dispatch(true);
  force_kernel("conv2d", "im2col");
  testing::internal::CaptureStderr();
  const Tensor x = transpose(ones({2, 3, 6, 6}), 2, 3);
  conv2d(x, ones({4, 3, 3, 3}));
  const std::string text = testing::internal::GetCapturedStderr();
  force_kernel("conv2d", "");
  EXPECT_THAT(text, HasSubstr("copies input 0"));
}

TEST_F(Settings, AnOpWithoutAKernelForADeviceSaysSo) {
  OpDef op =
      Op<NoParams>("lonely").inputs({"x"}).infer<infer_same>().no_gradient("it is a test").build();
  expect_error<Unsupported>(
      "lonely: no kernel on cpu takes lonely(f32[2]) {}: the op has none there",
      [&] { dispatch(op, NoParams{}, Tensors{ones({2})}); });
  expect_error<Unsupported>(
      "lonely: has no gradient (it is a test), and an input requires one; detach() it if that is "
      "meant",
      [&] { dispatch(op, NoParams{}, Tensors{ones({2}).set_requires_grad()}); });
}

TEST_F(Settings, OperatorsAreFoundByName) {
  EXPECT_STREQ(find_op("conv2d").name, "conv2d");
  expect_error<Unsupported>("no operator is named 'conv4d'", [] { find_op("conv4d"); });
}

TEST_F(Settings, ThreadsAreCounted) {
  const int before = num_threads();
  set_num_threads(1);
  EXPECT_EQ(num_threads(), 1);
  set_num_threads(before);
  for (const int bad : {0, -1, 1025})
    expect_error<Error>("set_num_threads: expected 1 to 1024, got " + std::to_string(bad),
                        [&] { set_num_threads(bad); });
  EXPECT_EQ(num_threads(), before);
}

void infer_count(const NoParams&, std::span<const TensorSpec>, OutSpecs& out) {
  out.add({}, DType::i64);
}
void run_count(const NoParams&, const Call& c) {
  std::atomic<int64_t> parts{0};
  parallel_for(1000, 1, [&](int64_t, int64_t) { ++parts; });
  *c.out[0].as<int64_t>() = parts;
}

TEST_F(Settings, TheNumberOfThreadsHoldsForKernelsInEveryThread) {
  const OpDef op = Op<NoParams>("count")
                       .infer<infer_count>()
                       .inputs({})
                       .no_gradient("it is a test")
                       .cpu({kernel<supports_all<NoParams>, run_count>("parallel")})
                       .build();
  const auto count = [&] { return dispatch(op, NoParams{}, Tensors{})[0].item(); };
  const int before = num_threads();
  for (const int threads : {3, 1, 2}) {
    set_num_threads(threads);
    EXPECT_EQ(count(), threads);
    double elsewhere = 0;
    std::thread([&] { elsewhere = count(); }).join();
    EXPECT_EQ(elsewhere, threads);
  }
  // A thread that computed before the change follows it too, also inside a compiled function.
  auto compiled = compile([&] { return dispatch(op, NoParams{}, Tensors{})[0]; });
  std::vector<double> seen;
  std::mutex mutex;
  std::condition_variable changed;
  bool told = false;
  std::thread worker([&] {
    std::unique_lock lock(mutex);
    seen.push_back(count());
    seen.push_back(compiled().item());
    changed.notify_all();
    changed.wait(lock, [&] { return told; });
    seen.push_back(count());
    seen.push_back(compiled().item());
  });
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return seen.size() == 2; });
    set_num_threads(3);
    told = true;
    changed.notify_all();
  }
  worker.join();
  EXPECT_THAT(seen, testing::ElementsAre(2, 2, 3, 3));
  set_num_threads(before);
}

/// Runs the test below in a process of its own with these variables set; gives what it prints.
std::string output_with(const std::string& variables) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command =
      "GTEST_OUTPUT= GTEST_TOTAL_SHARDS=1 GTEST_SHARD_INDEX=0 " + variables + " '" + self +
      "' --gtest_filter=Environment.DISABLED_Child --gtest_also_run_disabled_tests 2>&1";
  const std::unique_ptr<FILE, int (*)(FILE*)> child(popen(command.c_str(), "r"), pclose);
  std::string text;
  char buffer[512];
  while (child && std::fgets(buffer, sizeof buffer, child.get())) text += buffer;
  return text;
}

TEST(Environment, DISABLED_Child) {
  add(ones({2}), ones({2}));
  if (autotune()) std::puts("autotune is on");
  if (allow_tf32()) std::puts("TF32 is on");
}

TEST(Environment, VariablesForceKernelsAndMakeDispatchTalk) {
  EXPECT_THAT(output_with("MICA_VERBOSE=dispatch"),
              HasSubstr("mica: add(f32[2], f32[2]) {} on cpu: vectorized"));
  EXPECT_THAT(output_with("MICA_VERBOSE=dispatch MICA_KERNEL=mul:reference,add:reference"),
              HasSubstr("mica: add(f32[2], f32[2]) {} on cpu: reference"));
  EXPECT_THAT(output_with("MICA_KERNEL=add:magic"), HasSubstr("add: the forced kernel 'magic'"));
  EXPECT_THAT(output_with("MICA_KERNEL=add"),
              HasSubstr("MICA_KERNEL: expected op:kernel[,op:kernel…], got 'add'"));
  EXPECT_THAT(output_with(""), testing::Not(HasSubstr("mica:")));
  EXPECT_THAT(output_with("MICA_AUTOTUNE=1"), HasSubstr("autotune is on"));
  EXPECT_THAT(output_with("MICA_TF32=1"), HasSubstr("TF32 is on"));
  EXPECT_THAT(output_with("MICA_AUTOTUNE=0"), testing::Not(HasSubstr("autotune is on")));
}

}  // namespace
}  // namespace mica
