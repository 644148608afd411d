// A model with two inputs and named outputs, trained from examples of three parts by a loss over a
// dict: everything between passes Values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "mica/mica.h"
#include "tests/device.h"
#include "tests/e2e/values_of.h"
#include "tests/gaussian.h"
#include "tests/temporary_directory.h"
#include "tests/unit/expect_error.h"

namespace mica {
namespace {

using test::device;
using test::Gaussian;
using test::values_of;

struct EncoderImpl : nn::ModuleImpl {
  nn::Linear left = add("left", nn::Linear(3, 8));
  nn::Linear right = add("right", nn::Linear(2, 8));
  nn::Linear mean = add("mean", nn::Linear(8, 1));
  nn::Linear log_var = add("log_var", nn::Linear(8, 1));
  nn::Dropout dropout = add("dropout", nn::Dropout(0.1));
  Gaussian forward(const Tensor& a, const Tensor& b) {
    const Tensor h = dropout(tanh(left(a) + right(b)));
    return {mean(h), log_var(h)};
  }
};

/// Keeps the log-variance in bounds.
struct BoundImpl : nn::ModuleImpl {
  Gaussian forward(const Gaussian& g) { return {g.mean, mul(tanh(g.log_var), 3)}; }
};

nn::Sequential net() { return nn::Sequential(nn::Handle<EncoderImpl>{}, nn::Handle<BoundImpl>{}); }

/// y = a·w + b·v, in a set of examples (a, b, y).
data::Dataset examples(int64_t n, uint64_t seed) {
  manual_seed(seed);
  const Tensor a = uniform({n, 3}, -1, 1);
  const Tensor b = uniform({n, 2}, -1, 1);
  const Tensor y = sum(a, {1}, true) - mul(sum(b, {1}, true), 0.5);
  return data::Dataset(Values::list({a, b, y}));
}

/// The negative log-likelihood of y, in two parts.
Values likelihood(const Gaussian& out, const Tensor& y) {
  return Values::dict({{"fit", mean(mul(square(y - out.mean), exp(neg(out.log_var))))},
                       {"spread", mean(out.log_var)}});
}

const train::Metric kBias = {
    .name = "bias",
    .update = [](const Gaussian& out,
                 const Tensor& y) { return Tensors{sum(out.mean - y), scalar(y.numel())}; },
    .compute =
        [](const Values& s) { return std::abs(s[0].tensor().item() / s[1].tensor().item()); },
    .higher_is_better = false};

struct Finished {
  train::Outcome outcome;
  std::vector<float> weights;
};

struct Run {
  bool resident = false;
  bool as_dict = false;  ///< examples
  train::TrainerOptions options = {};
};

Finished fit(const Run& run) {
  manual_seed(3);
  const nn::Sequential model = net();
  model.to(device());
  optim::Adam optimizer(model.parameters(), {.lr = 0.02});
  const auto loader = [&](int64_t n, uint64_t seed, int64_t batch, bool shuffle) {
    data::Dataset set = examples(n, seed);
    if (run.as_dict)
      set = data::Dataset(Values::dict({{"a", (*set.impl()->tensors())[0]},
                                        {"target", (*set.impl()->tensors())[2]},
                                        {"b", (*set.impl()->tensors())[1]}}));
    return data::Loader(set, {.batch = batch,
                              .shuffle = shuffle ? std::optional<uint64_t>(7) : std::nullopt,
                              .device = device(),
                              .resident = run.resident});
  };
  train::TrainerOptions options = run.options;
  options.epochs = 4;
  options.loss = likelihood;
  options.metrics = {kBias};
  options.progress = false;
  if (run.as_dict)
    options.split = [](const Values& batch) -> train::Parts {
      return {Values::list({batch["a"], batch["b"]}), batch["target"]};
    };
  train::Trainer trainer(model, optimizer, options);
  Finished result{trainer.fit(loader(200, 1, 16, true), loader(90, 2, 32, false)), {}};
  result.weights = values_of(model);
  return result;
}

class StructuredTest : public testing::Test {
 protected:
  void SetUp() override {
    if (device().is_cuda() && !cuda_available())
      GTEST_SKIP() << "no CUDA device: " << cuda_unavailable_reason();
    set_deterministic(true);
  }
  void TearDown() override { set_deterministic(false); }
};

TEST_F(StructuredTest, EagerAndCompiledEndWithTheSameBits) {
  const Finished eager = fit({.options = {.compile = false}});
  const auto& epochs = eager.outcome.epochs;
  EXPECT_LT(epochs.back().test_loss, epochs.front().test_loss);
  EXPECT_LT(epochs.back().metric("bias"), 0.5);
  const auto& evaluation = *eager.outcome.evaluation;
  ASSERT_EQ(evaluation.losses.size(), 2U);
  EXPECT_EQ(evaluation.losses[0].first, "fit");
  EXPECT_NEAR(evaluation.losses[0].second + evaluation.losses[1].second, evaluation.loss, 1e-12);
  for (const bool resident : {false, true})
    for (const bool as_dict : {false, true}) {
      const Finished compiled = fit({.resident = resident, .as_dict = as_dict});
      EXPECT_EQ(compiled.weights, eager.weights);
      for (size_t i = 0; i < epochs.size(); ++i) {
        EXPECT_EQ(compiled.outcome.epochs[i].train_loss, epochs[i].train_loss);
        EXPECT_EQ(compiled.outcome.epochs[i].test_loss, epochs[i].test_loss);
        EXPECT_EQ(compiled.outcome.epochs[i].metrics, epochs[i].metrics);
      }
    }
}

/// Writes down what it is told, and stops the run after some steps.
struct Notes : train::Callback {
  std::vector<std::string> events;
  train::Trainer* trainer = nullptr;
  int64_t stop_at = -1;
  bool steps = false;

  void on_fit_begin() override { events.emplace_back("begin"); }
  void on_step_end(int64_t step) override {
    if (step == stop_at) trainer->stop();
    events.push_back("step " + std::to_string(step));
  }
  bool wants_steps() const override { return steps; }
  void on_evaluation_end(int64_t step, const train::Evaluation& e) override {
    EXPECT_EQ(e.examples, 90);
    events.push_back("evaluation " + std::to_string(step));
  }
  void on_epoch_end(const train::EpochResult& r) override {
    events.push_back("epoch " + std::to_string(r.epoch));
  }
  void on_fit_end(const train::Outcome&) override { events.emplace_back("end"); }
};

TEST_F(StructuredTest, CallbacksAreTold) {
  for (const bool resident : {false, true}) {
    const auto notes = std::make_shared<Notes>();
    fit({.resident = resident, .options = {.evaluate_every = 20, .callbacks = {notes}}});
    EXPECT_THAT(notes->events,
                testing::ElementsAre("begin", "evaluation 13", "epoch 1", "evaluation 20",
                                     "evaluation 26", "epoch 2", "evaluation 39", "epoch 3",
                                     "evaluation 40", "evaluation 52", "epoch 4", "end"));
  }
  const auto notes = std::make_shared<Notes>();
  notes->steps = true;
  fit({.resident = true, .options = {.callbacks = {notes}}});
  EXPECT_EQ(
      std::ranges::count_if(notes->events, [](const auto& e) { return e.starts_with("step"); }),
      4 * 13);
}

TEST_F(StructuredTest, EvaluatingInBetweenChangesNothing) {
  EXPECT_EQ(fit({.options = {.evaluate_every = 5}}).weights, fit({}).weights);
}

TEST_F(StructuredTest, TheBestIsKeptByWhatIsNamed) {
  for (const char* by : {"loss", "bias", ""}) {
    const TemporaryDirectory directory;
    const Finished r =
        fit({.options = {.best_by = by, .evaluate_every = 4, .out = directory.file("run")}});
    // Of all evaluations, those between the ends of epochs too.
    std::ifstream file(directory.file("run/metrics.jsonl"));
    const std::string key = std::string(by) == "loss" ? "\"test_loss\":" : "\"test_bias\":";
    double best = HUGE_VAL;
    int64_t evaluations = 0;
    for (std::string line; std::getline(file, line);)
      if (const size_t at = line.find(key); at != std::string::npos) {
        best = std::min(best, std::stod(line.substr(at + key.size())));
        ++evaluations;
      }
    EXPECT_GT(evaluations, 10);
    const io::Checkpoint kept = io::load_checkpoint(directory.file("run/best.safetensors"));
    const nn::Sequential model = net();
    model.to(device());
    model.load_state_dict(kept.model);
    const train::Evaluation e =
        train::evaluate(model, data::Loader(examples(90, 2), {.batch = 32, .device = device()}),
                        {.loss = likelihood, .metrics = {kBias}});
    EXPECT_NEAR(std::string(by) == "loss" ? e.loss : e.metric("bias"), best, 1e-9);
  }
  expect_error<Error>(R"(best_by must be one of "loss", "bias", got "accuracy")",
                      [] { fit({.options = {.best_by = "accuracy"}}); });
}

TEST_F(StructuredTest, StopsWhereACallbackAsks) {
  manual_seed(3);
  const nn::Linear model(3, 1);
  model.to(device());
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  const Tensor x = uniform({64, 3});
  const data::Loader loader(data::TensorDataset{x, sum(x, {1}, true)},
                            {.batch = 8, .device = device()});
  const auto notes = std::make_shared<Notes>();
  notes->steps = true;
  notes->stop_at = 5;
  train::Trainer trainer(
      model, optimizer,
      {.epochs = 3, .loss = nn::MSELoss(), .progress = false, .callbacks = {notes}});
  notes->trainer = &trainer;
  const train::Outcome outcome = trainer.fit(loader, loader);
  EXPECT_TRUE(outcome.stopped_early);
  EXPECT_TRUE(outcome.epochs.empty());
  EXPECT_EQ(notes->events.back(), "end");
}

TEST_F(StructuredTest, TheReportFitsTheTargets) {
  const auto report_of = [](const nn::Module& model, const Values& data, const train::Loss& loss) {
    const TemporaryDirectory directory;
    model.to(device());
    optim::SGD optimizer(model.parameters(), {.lr = 0.01});
    const data::Loader loader(data::Dataset(data), {.batch = 8, .device = device()});
    train::Trainer trainer(
        model, optimizer,
        {.epochs = 1, .loss = loss, .out = directory.file("run"), .progress = false});
    const train::Outcome outcome = trainer.fit(loader, loader);
    return std::pair(outcome, io::read_file(directory.file("run/report.html")));
  };
  manual_seed(0);
  const Tensor x = uniform({16, 3});
  const auto [numbers, page] =
      report_of(nn::Linear(3, 1), Values::list({x, sum(x, {1}, true)}), nn::MSELoss());
  EXPECT_EQ(numbers.evaluation->task, train::Task::numbers);
  EXPECT_THAT(page, testing::HasSubstr("Mean absolute error"));
  EXPECT_THAT(page, testing::Not(testing::HasSubstr("Accuracy")));
  EXPECT_THAT(page, testing::HasSubstr("Examples per second"));
  const Tensor images = uniform({8, 1, 6, 6});
  const auto [pixels, painted] =
      report_of(nn::Conv2d({.in = 1, .out = 3, .kernel = 1}),
                Values::list({images, cast(mul(uniform({8, 6, 6}), 3), DType::i64)}), {});
  EXPECT_EQ(pixels.evaluation->task, train::Task::pixels);
  EXPECT_THAT(painted, testing::HasSubstr("Mean IoU"));
  EXPECT_THAT(painted, testing::HasSubstr("Images per second"));
  const auto [text, read] =
      report_of(nn::Conv1d({.in = 2, .out = 5, .kernel = 1}),
                Values::list({uniform({8, 2, 7}), cast(mul(uniform({8, 7}), 5), DType::i64)}), {});
  EXPECT_EQ(text.evaluation->task, train::Task::text);
  EXPECT_THAT(read, testing::HasSubstr("Perplexity"));
  EXPECT_THAT(read, testing::HasSubstr("Sequences per second"));
}

}  // namespace
}  // namespace mica
