#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "mica/mica.h"
#include "tests/device.h"
#include "tests/e2e/values_of.h"
#include "tests/temporary_directory.h"

namespace mica {
namespace {

namespace fs = std::filesystem;
using test::device;
using test::values_of;

class TrainerTest : public testing::Test {
 protected:
  void SetUp() override {
    if (device().is_cuda() && !cuda_available())
      GTEST_SKIP() << "no CUDA device: " << cuda_unavailable_reason();
    set_deterministic(true);
  }
  void TearDown() override { set_deterministic(false); }
};

/// Images whose class is which third of them is bright.
data::TensorDataset stripes(int64_t n, uint64_t seed) {
  manual_seed(seed);
  const Tensor y = randint(0, 3, {n});
  Tensor x = uniform({n, 1, 9, 9});
  const auto classes = y.to_vector<int64_t>();
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < 27; ++k)
      x.data_as<float>()[i * 81 + classes[static_cast<size_t>(i)] * 27 + k] += 0.5F;
  return {.x = x, .y = y, .class_names = {"top", "middle", "bottom"}};
}

/// Running statistics, dropout and a schedule: all that a checkpoint must hold.
nn::Sequential net() {
  nn::Sequential model(nn::Conv2d({.in = 1, .out = 6, .kernel = 3}), nn::BatchNorm2d(6), nn::ReLU(),
                       nn::MaxPool2d(2), nn::Flatten(), nn::Dropout(0.2), nn::Linear(54, 3));
  model.to(device());
  return model;
}

/// Ends a run like Ctrl-C after so many batches.
data::Dataset interrupting(const data::TensorDataset& tensors, int64_t after) {
  auto seen = std::make_shared<int64_t>(0);
  return data::Dataset(tensors).map([seen, after](const data::Example& e) {
    if (++*seen == after) std::raise(SIGINT);
    return e;
  });
}

struct Finished {
  train::Outcome outcome;
  std::vector<float> weights;
};

Finished run(const data::Dataset& images, const std::string& out, const std::string& resume,
             train::TrainerOptions options = {}) {
  manual_seed(5);
  const nn::Sequential model = net();
  optim::SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  options.epochs = options.epochs == 10 ? 3 : options.epochs;
  const data::Loader train(images, {.batch = 16, .shuffle = 7, .device = device()});
  const data::Loader test(stripes(100, 2), {.batch = 50, .device = device()});
  optimizer.set_schedule(optim::cosine({.steps = train.size() * options.epochs}));
  options.out = out;
  options.progress = false;
  train::Trainer trainer(model, optimizer, options);
  if (!resume.empty()) trainer.resume(resume);
  Finished result{trainer.fit(train, test), {}};
  result.weights = values_of(model);
  return result;
}

TEST_F(TrainerTest, LearnsAndWritesEverything) {
  const TemporaryDirectory directory;
  const std::string out = directory.file("run");
  const Finished r = run(data::Dataset(stripes(200, 1)), out, "");
  ASSERT_EQ(r.outcome.epochs.size(), 3U);
  EXPECT_GT(r.outcome.epochs.back().metric("accuracy"), 0.9);
  EXPECT_LT(r.outcome.epochs.back().train_loss, r.outcome.epochs.front().train_loss);
  EXPECT_EQ(r.outcome.epochs.back().steps, 39);
  EXPECT_EQ(r.outcome.evaluation->examples, 100);
  int64_t all = 0;
  for (const int64_t n : r.outcome.evaluation->confusion) all += n;
  EXPECT_EQ(all, 100);
  EXPECT_EQ(r.outcome.evaluation->metric("top5"), 1);
  for (const char* name : {"last.safetensors", "best.safetensors", "metrics.jsonl", "report.html"})
    EXPECT_TRUE(fs::exists(fs::path(out) / name)) << name;
  std::ifstream metrics(fs::path(out) / "metrics.jsonl");
  std::string text((std::istreambuf_iterator<char>(metrics)), {});
  EXPECT_THAT(text, testing::HasSubstr("\"test_accuracy\""));
}

TEST_F(TrainerTest, ResumedAnywhereEndsWithTheSameBits) {
  const data::TensorDataset images = stripes(200, 1);
  const std::vector<float> whole = run(data::Dataset(images), "", "").weights;
  // In the middle of an epoch, at the last example of one, in the last one.
  for (const int64_t after : {40, 200, 520}) {
    const TemporaryDirectory directory;
    const std::string out = directory.file("run");
    const Finished stopped = run(interrupting(images, after), out, "");
    EXPECT_TRUE(stopped.outcome.interrupted);
    EXPECT_NE(stopped.weights, whole);
    const Finished resumed = run(data::Dataset(images), out, out);
    EXPECT_FALSE(resumed.outcome.interrupted);
    EXPECT_EQ(resumed.outcome.epochs.size(), 3U);
    EXPECT_EQ(resumed.weights, whole) << "stopped after " << after << " images";
  }
}

TEST_F(TrainerTest, EagerAndCompiledAgree) {
  const data::Dataset images(stripes(100, 1));
  EXPECT_EQ(run(images, "", "", {.compile = false}).weights, run(images, "", "").weights);
}

/// Weights after three epochs of 13 batches, the last of them smaller, from pixels that are moved
/// about.
Finished run_resident(bool resident, const train::TrainerOptions& given,
                      const std::string& resume = "", int64_t interrupt_at = 0) {
  manual_seed(5);
  data::TensorDataset images = stripes(200, 1);
  images.x = cast(mul(clamp(images.x, 0, 1), 255), DType::u8);
  const nn::Sequential model = net();
  optim::SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  const data::Loader train(images, {.batch = 16,
                                    .shuffle = 7,
                                    .device = device(),
                                    .augment = {data::pad_crop(1), data::flip()},
                                    .resident = resident});
  const data::Loader test(stripes(100, 2), {.batch = 50, .device = device()});
  optimizer.set_schedule(optim::cosine({.steps = train.size() * 3}));
  train::TrainerOptions options = given;
  options.epochs = 3;
  options.progress = false;
  int64_t calls = 0;  // of the loss: it runs when a step is captured
  options.loss = [&](const Tensor& output, const Tensor& y) {
    if (++calls == interrupt_at) std::raise(SIGINT);
    return cross_entropy(output, y);
  };
  train::Trainer trainer(model, optimizer, options);
  if (!resume.empty()) trainer.resume(resume);
  Finished result{trainer.fit(train, test), {}};
  result.weights = values_of(model);
  return result;
}

TEST_F(TrainerTest, StepsOfOneLaunchAreTheSameSteps) {
  const Finished eager = run_resident(false, {.compile = false});
  const Finished loader = run_resident(false, {});
  ASSERT_EQ(loader.weights, eager.weights);
  for (const int64_t k : {0, 1, 3, 4, 12, 100}) {
    const Finished replayed = run_resident(true, {.steps_per_launch = k});
    EXPECT_EQ(replayed.weights, eager.weights) << k << " steps per launch";
    ASSERT_EQ(replayed.outcome.epochs.size(), 3U);
    EXPECT_EQ(replayed.outcome.epochs.back().steps, 39);
    for (size_t i = 0; i < 3; ++i)
      EXPECT_EQ(replayed.outcome.epochs[i].train_loss, eager.outcome.epochs[i].train_loss);
  }
}

TEST_F(TrainerTest, StepsOfOneLaunchAreSavedAndResumed) {
  const std::vector<float> whole = run_resident(true, {.steps_per_launch = 4}).weights;
  // In the first launch of the epoch, and in its last step.
  for (const int64_t interrupt_at : {1, 2}) {
    const TemporaryDirectory directory;
    const std::string out = directory.file("run");
    const train::TrainerOptions options = {.steps_per_launch = 4, .out = out, .save_every = 5};
    const Finished stopped = run_resident(true, options, "", interrupt_at);
    EXPECT_TRUE(stopped.outcome.interrupted);
    EXPECT_NE(stopped.weights, whole);
    EXPECT_EQ(run_resident(true, options, out).weights, whole);
  }
}

TEST_F(TrainerTest, StopsOnceItIsAccurateEnough) {
  const data::Dataset images(stripes(200, 1));
  const train::Outcome all = run(images, "", "", {.epochs = 6}).outcome;
  EXPECT_FALSE(all.reached);
  double seconds = 0;
  for (const train::EpochResult& r : all.epochs) seconds += r.seconds;
  EXPECT_EQ(all.seconds(), seconds);
  // What the best epoch reached, and nothing before it.
  const auto best = std::find_if(all.epochs.rbegin(), all.epochs.rend(),
                                 [](const train::EpochResult& r) { return r.best; });
  ASSERT_NE(best, all.epochs.rend());
  const train::Outcome some =
      run(images, "", "", {.epochs = 6, .until_accuracy = best->metric("accuracy")}).outcome;
  EXPECT_TRUE(some.reached);
  EXPECT_EQ(some.epochs.size(), static_cast<size_t>(best->epoch));
  EXPECT_EQ(some.epochs.back().metric("accuracy"), best->metric("accuracy"));
  EXPECT_FALSE(run(images, "", "", {.epochs = 2, .until_accuracy = 1.1}).outcome.reached);
}

TEST_F(TrainerTest, StopsWithoutABetterEpoch) {
  manual_seed(0);
  const nn::Sequential model = net();
  optim::SGD optimizer(model.parameters(), {.lr = 0});
  const data::Loader images(stripes(32, 1), {.batch = 16, .device = device()});
  model.eval();
  train::Trainer trainer(model, optimizer,
                         {.epochs = 10,
                          .loss = [](const Tensor& y, const Tensor&) { return mean(mul(y, 0.0)); },
                          .patience = 2,
                          .progress = false});
  const train::Outcome outcome = trainer.fit(images, images);
  EXPECT_TRUE(outcome.stopped_early);
  EXPECT_LT(outcome.epochs.size(), 10U);
}

TEST_F(TrainerTest, WhatIsNoCheckpointIsRefusedAndNothingChanges) {
  const TemporaryDirectory directory;
  const std::string file = directory.file("weights.safetensors");
  const nn::Sequential model = net();
  io::save_safetensors(file, model.state_dict());
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  const auto before = values_of(model);
  train::Trainer trainer(model, optimizer, {.progress = false});
  EXPECT_THROW(trainer.resume(file), IoError);
  EXPECT_THROW(trainer.resume(directory.file("nothing")), IoError);
  EXPECT_EQ(values_of(model), before);
}

}  // namespace
}  // namespace mica
