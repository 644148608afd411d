// How often an evaluation waits for the device, and what its step is made of.
#include <gtest/gtest.h>

#include "mica/mica.h"
#include "mica/runtime/host_waits.h"
#include "tests/device.h"

namespace mica {
namespace {

using test::device;

class EvaluationTest : public testing::Test {
 protected:
  void SetUp() override {
    if (device().is_cuda() && !cuda_available())
      GTEST_SKIP() << "no CUDA device: " << cuda_unavailable_reason();
  }
};

data::TensorDataset digits(int64_t n) {
  manual_seed(1);
  return {uniform({n, 1, 28, 28}), cast(mul(uniform({n}), 10), DType::i64)};
}

/// Its number needs nothing but what was read already.
const train::Metric kConstant = {
    .name = "constant",
    .update = [](const Tensor& out, const Tensor&) { return sum(out); },
    .compute = [](const Values&) { return 1.0; }};

struct Waits {
  int64_t first;  ///< run of an evaluator
  int64_t second;
};

Waits waits_of(const data::Loader& loader, const train::EvaluateOptions& options) {
  const nn::Sequential model = models::lenet();
  model.to(device());
  train::Evaluator evaluator(model, loader, options);
  const auto run = [&] {
    const int64_t before = host_waits(device().kind);
    EXPECT_EQ(evaluator.run().examples, loader.examples());
    return host_waits(device().kind) - before;
  };
  const int64_t first = run();
  return {first, run()};
}

TEST_F(EvaluationTest, WaitsOnceHoweverManyBatchesThereAre) {
  for (const int64_t n : {40, 400, 410})
    for (const bool resident : {false, true}) {
      const data::Loader loader(digits(n), {.batch = 20, .device = device(), .resident = resident});
      // Batches of the host are copied in pieces of many, and a large copy waits: here one piece.
      const int64_t waits = device().is_cuda() && !resident ? 2 : 1;
      EXPECT_EQ(waits_of(loader, {.metrics = {kConstant}}).second, waits) << n << " " << resident;
      // On the CPU the metrics' own numbers are read from there too.
      if (device().is_cuda()) {
        EXPECT_EQ(waits_of(loader, {}).second, waits) << n << " " << resident;
      }
    }
}

TEST_F(EvaluationTest, TheFirstRunWaitsAsOften) {
  const data::Loader loader(digits(200), {.batch = 20, .device = device(), .resident = true});
  const bool timed = autotune();
  set_autotune(false);  // timing waits for each candidate
  EXPECT_EQ(waits_of(loader, {.metrics = {kConstant}, .compile = false}).first, 1);
  if (device().is_cpu()) {
    EXPECT_EQ(waits_of(loader, {.metrics = {kConstant}}).first, 1);
  }
  set_autotune(timed);
}

TEST_F(EvaluationTest, AStreamIsEvaluatedToo) {
  const data::Dataset set(digits(50));
  const data::Stream stream([set](int64_t) -> data::Stream::Next {
    return [set, i = int64_t{0}]() mutable -> std::optional<data::Example> {
      if (i == set.size()) return {};
      return set.get(i++);
    };
  });
  manual_seed(2);
  const nn::Sequential model = models::lenet();
  model.to(device());
  const train::Evaluation all =
      train::evaluate(model, data::Loader(set, {.batch = 20, .device = device()}));
  for (const int workers : {0, 2}) {
    const train::Evaluation e = train::evaluate(
        model, data::Loader(stream, {.batch = 20, .workers = workers, .device = device()}));
    EXPECT_EQ(e.examples, 50);
    EXPECT_EQ(e.loss, all.loss);
    EXPECT_EQ(e.metrics, all.metrics);
    EXPECT_EQ(e.confusion, all.confusion);
  }
}

}  // namespace
}  // namespace mica
