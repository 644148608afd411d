// The Trainer on streams and by samplers.
#include <gtest/gtest.h>

#include "mica/mica.h"
#include "tests/device.h"
#include "tests/e2e/values_of.h"
#include "tests/temporary_directory.h"
#include "tests/unit/expect_error.h"

namespace mica {
namespace {

using test::device;
using test::values_of;

/// Rows and their sums, of which each epoch has others; counts how often it is opened.
class Sums : public data::StreamImpl {
 public:
  explicit Sums(int64_t n) : n_(n) {}
  std::unique_ptr<data::StreamReader> open(const data::StreamPart& part) const override {
    class Reader : public data::StreamReader {
     public:
      Reader(int64_t n, const data::StreamPart& part) : n_(n), part_(part), at_(part.index) {}
      std::optional<data::Example> next() override {
        if (at_ >= n_) return {};
        const Tensor row =
            reshape(sin(add(arange(3.0), static_cast<double>(at_ + part_.epoch))), {3});
        at_ += part_.count;
        return Values::list({row, sum(row, {0}, true)});
      }
      int64_t parts() const override { return part_.count; }

     private:
      int64_t n_;
      data::StreamPart part_;
      int64_t at_;
    };
    if (part.index == 0) ++opened;
    return std::make_unique<Reader>(n_, part);
  }
  mutable std::atomic<int64_t> opened = 0;

 private:
  int64_t n_;
};

/// Stops a run after a step.
struct StopAt : train::Callback {
  explicit StopAt(int64_t at) : step(at) {}
  bool wants_steps() const override { return true; }
  void on_step_end(int64_t now) override {
    if (now == step) trainer->stop();
  }
  int64_t step;
  train::Trainer* trainer = nullptr;
};

struct Finished {
  train::Outcome outcome;
  std::vector<float> weights;
};

Finished fit(const data::Loader& loader, train::TrainerOptions options, int64_t stop_at = 0,
             bool resumes = false) {
  manual_seed(5);
  const nn::Linear model(3, 1);
  model.to(device());
  optim::SGD optimizer(model.parameters(), {.lr = 0.05, .momentum = 0.5});
  options.loss = nn::MSELoss();
  options.progress = false;
  const auto stop = std::make_shared<StopAt>(stop_at);
  if (stop_at > 0) options.callbacks = {stop};
  const std::string out = options.out;
  train::Trainer trainer(model, optimizer, options);
  stop->trainer = &trainer;
  if (resumes) trainer.resume(out);
  const data::Loader test(data::Stream(std::make_shared<Sums>(20)),
                          {.batch = 8, .device = device()});
  Finished result{trainer.fit(loader, test), {}};
  result.weights = values_of(model);
  return result;
}

std::vector<int64_t> steps_of(const Finished& f) {
  std::vector<int64_t> steps;
  for (const train::EpochResult& r : f.outcome.epochs) steps.push_back(r.steps);
  return steps;
}

class StreamTraining : public testing::Test {
 protected:
  void SetUp() override {
    if (device().is_cuda() && !cuda_available())
      GTEST_SKIP() << "no CUDA device: " << cuda_unavailable_reason();
    set_deterministic(true);
  }
  void TearDown() override { set_deterministic(false); }
};

TEST_F(StreamTraining, AnEpochEndsWithTheStreamOrAfterItsSteps) {
  std::vector<float> weights;
  for (const bool compiled : {false, true}) {
    const auto sums = std::make_shared<Sums>(50);
    const data::Loader loader(data::Stream(sums), {.batch = 8, .device = device()});
    const Finished whole = fit(loader, {.epochs = 3, .compile = compiled});
    EXPECT_EQ(steps_of(whole), (std::vector<int64_t>{7, 14, 21}));
    EXPECT_EQ(sums->opened, 3);
    EXPECT_LT(whole.outcome.epochs[2].test_loss, whole.outcome.epochs[0].test_loss);
    EXPECT_EQ(whole.outcome.evaluation->examples, 20);
    if (!weights.empty()) {
      EXPECT_EQ(whole.weights, weights);
    }
    weights = whole.weights;
    // Epochs of so many steps go on in the stream.
    const Finished parts = fit(loader, {.epochs = 4, .steps_per_epoch = 5, .compile = compiled});
    EXPECT_EQ(steps_of(parts), (std::vector<int64_t>{5, 7, 12, 14}));
    EXPECT_EQ(sums->opened, 5);
  }
}

TEST_F(StreamTraining, ARunGoesOnBitForBit) {
  for (const int workers : {0, 3})
    for (const int64_t steps : {0, 5}) {
      const TemporaryDirectory directory;
      const data::Loader loader(data::Stream(std::make_shared<Sums>(50)).shuffle(7, 3),
                                {.batch = 4, .workers = workers, .device = device()});
      train::TrainerOptions options = {.epochs = 3, .steps_per_epoch = steps};
      const Finished expected = fit(loader, options);
      options.out = directory.file("run");
      EXPECT_TRUE(fit(loader, options, 8).outcome.stopped_early);
      const Finished resumed = fit(loader, options, 0, true);
      EXPECT_EQ(resumed.weights, expected.weights);
      EXPECT_EQ(steps_of(resumed), steps_of(expected));
    }
}

TEST_F(StreamTraining, DataByNumberMayHaveStepsPerEpochToo) {
  const Tensor x = uniform({40, 3});
  const data::TensorDataset set = {x, sum(x, {1}, true)};
  std::vector<float> weights;
  for (const bool resident : {false, true}) {
    const data::Loader loader(set,
                              {.batch = 8, .shuffle = 4, .device = device(), .resident = resident});
    const Finished f = fit(loader, {.epochs = 3, .steps_per_epoch = 3});
    EXPECT_EQ(steps_of(f), (std::vector<int64_t>{3, 5, 8}));
    if (!weights.empty()) {
      EXPECT_EQ(f.weights, weights);
    }
    weights = f.weights;
  }
}

TEST_F(StreamTraining, SamplersSayWhatAnEpochHas) {
  const Tensor x = uniform({40, 3});
  const data::TensorDataset set = {x, sum(x, {1}, true)};
  const data::Sampler sampler = data::random_sampler(40, {.seed = 2, .samples = 27});
  std::vector<float> weights;
  for (const bool resident : {false, true})
    for (const bool by_batches : {false, true})
      for (const bool compiled : {false, true}) {
        data::LoaderOptions options = {.batch = 8, .device = device(), .resident = resident};
        if (by_batches) {
          options.batch_sampler = data::batch_sampler(sampler, 8);
        } else {
          options.sampler = sampler;
        }
        const Finished f = fit(data::Loader(set, options), {.epochs = 3, .compile = compiled});
        EXPECT_EQ(steps_of(f), (std::vector<int64_t>{4, 8, 12}));
        if (!weights.empty()) {
          EXPECT_EQ(f.weights, weights);
        }
        weights = f.weights;
      }
}

TEST_F(StreamTraining, AStreamWithoutExamplesRaises) {
  const data::Loader loader(data::Stream(std::make_shared<Sums>(0)), {.device = device()});
  expect_error<Error>("gave no batch in epoch 1", [&] { fit(loader, {.epochs = 2}); });
}

}  // namespace
}  // namespace mica
