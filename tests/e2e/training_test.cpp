#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "mica/graph/plan.h"
#include "mica/mica.h"
#include "tests/device.h"
#include "tests/e2e/values_of.h"

namespace mica {
namespace {

using test::device;
using test::values_of;

/// Skips where the device is not there; restores the settings.
class Training : public testing::Test {
 protected:
  void SetUp() override {
    if (device().is_cuda() && !cuda_available())
      GTEST_SKIP() << "no CUDA device: " << cuda_unavailable_reason();
    manual_seed(0);
  }
  void TearDown() override {
    set_deterministic(false);
    set_allow_tf32(tf32_);
  }

 private:
  const bool tf32_ = allow_tf32();
};

/// The same on Fashion-MNIST.
class FashionTraining : public Training {
 protected:
  void SetUp() override {
    Training::SetUp();
    if (IsSkipped()) return;
    try {
      train_set();
    } catch (const IoError& e) {
      GTEST_SKIP() << e.what();
    }
  }
  static const data::TensorDataset& train_set() {
    static const auto set = data::fashion_mnist({.train = true}).first(6000);
    return set;
  }
  static const data::TensorDataset& test_set() {
    static const auto set = data::fashion_mnist({.train = false}).first(1000);
    return set;
  }
};

nn::Sequential lenet_on_device() {
  nn::Sequential model = models::lenet();
  model.to(device());
  return model;
}

/// Convolution, batch norm and dropout: what has running statistics and random numbers.
nn::Sequential noisy_net() {
  nn::Sequential model{nn::Conv2d({.in = 1, .out = 8, .kernel = 3, .bias = false}),
                       nn::BatchNorm2d(8),
                       nn::ReLU(),
                       nn::MaxPool2d(2),
                       nn::Flatten(),
                       nn::Dropout(0.25),
                       nn::Linear(8 * 13 * 13, 10)};
  model.to(device());
  return model;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::pow(double{a[i]} - double{b[i]}, 2);
  return std::sqrt(sum);
}

/// One training step as a function of the batch.
auto step_of(const nn::Module& model, optim::SGD& optimizer) {
  return [&optimizer, model](const Tensor& x, const Tensor& y) {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(model(x), y);
    loss.backward();
    optimizer.step();
    return loss.detach();
  };
}

data::Batch random_batch(int64_t n) {
  return Values::list({to(uniform({n, 1, 28, 28}), device()),
                       to(cast(mul(uniform({n}), 10.0), DType::i64), device())});
}

double train_and_test(bool compiled, const data::TensorDataset& train_set,
                      const data::TensorDataset& test_set) {
  const nn::Sequential model = lenet_on_device();
  optim::SGD optimizer(model.parameters(), {.lr = 0.02, .momentum = 0.9});
  const auto eager_step = step_of(model, optimizer);
  auto compiled_step = compile(eager_step);
  const data::Loader loader(train_set, {.shuffle = 0, .device = device()});
  for (int64_t epoch = 0; epoch < 2; ++epoch)
    for (const auto& [x, y] : loader.epoch(epoch))
      compiled ? compiled_step(x, y) : eager_step(x, y);
  return train::accuracy(model, test_set);
}

TEST_F(FashionTraining, LenetLearnsEager) {
  EXPECT_GE(train_and_test(false, train_set(), test_set()), 0.7);
}

TEST_F(FashionTraining, LenetLearnsCompiled) {
  EXPECT_GE(train_and_test(true, train_set(), test_set()), 0.7);
}

/// The state after 50 steps over changing batches.
std::vector<float> state_after_steps(nn::Sequential (*make)(), bool compiled,
                                     const optim::SGDOptions& options) {
  manual_seed(3);
  const nn::Sequential model = make();
  optim::SGD optimizer(model.parameters(), options);
  const auto eager_step = step_of(model, optimizer);
  auto compiled_step = compile(eager_step);
  for (int i = 0; i < 50; ++i) {
    const auto [x, y] = random_batch(16);
    compiled ? compiled_step(x, y) : eager_step(x, y);
  }
  return values_of(model);
}

TEST_F(Training, EagerAndCompiledAgreeAfterFiftySteps) {
  set_allow_tf32(false);  // which not every kernel of a call uses; RandomNetworks have it
  for (const auto make : {lenet_on_device, noisy_net}) {
    manual_seed(3);
    const auto start = values_of(make());
    // Small steps: with large ones rounding grows so fast that two eager runs on CUDA, whose
    // convolutions may add in any order, end far apart.
    const auto eager = state_after_steps(make, false, {.lr = 0.01});
    const auto compiled = state_after_steps(make, true, {.lr = 0.01});
    const double moved = distance(start, eager);
    EXPECT_GT(moved, 0.01);
    EXPECT_LE(distance(eager, compiled), 0.01 * moved);
  }
}

TEST_F(Training, EagerAndCompiledAreBitEqualWhenDeterministic) {
  set_deterministic(true);
  const optim::SGDOptions options = {
      .lr = 0.02, .momentum = 0.9, .weight_decay = 1e-4, .nesterov = true};
  for (const auto make : {lenet_on_device, noisy_net})
    EXPECT_EQ(state_after_steps(make, false, options), state_after_steps(make, true, options));
}

TEST_F(Training, StepsOfAPlanAreTimedAlone) {
  const nn::Sequential model = noisy_net();
  optim::SGD optimizer(model.parameters(), {.lr = 0.01});
  // Not arguments: their slots hold something else once they are not needed any more.
  auto step = compile([&, x = random_batch(16)] {
    return step_of(model, optimizer)(x[0].tensor(), x[1].tensor());
  });
  step();
  const Plan& plan = *step.function()->plan();
  bool convolves = false;
  for (size_t i = 0; i < plan.steps(); ++i) {
    const Plan::StepInfo info = plan.step(i);
    convolves = convolves || std::string_view(info.op).starts_with("conv2d");
    EXPECT_NE(info.kernel, nullptr);
    EXPECT_GT(info.bytes, 0);
    const double seconds = plan.seconds_of_step(i);
    EXPECT_GT(seconds, 0) << info.op;
    EXPECT_LT(seconds, 1) << info.op;
  }
  EXPECT_TRUE(convolves);
}

TEST_F(Training, LossOfStepOneStaysAfterStepTwo) {
  const nn::Sequential model = lenet_on_device();
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  auto step = compile(step_of(model, optimizer));
  const auto [x, y] = random_batch(32);
  const Tensor first = step(x, y);
  const double kept = first.item();
  const Tensor second = step(x, y);
  EXPECT_EQ(first.item(), kept);
  EXPECT_LT(second.item(), kept);
}

TEST_F(Training, FrozenLayerDoesNotMove) {
  for (const bool compiled : {false, true}) {
    const nn::Sequential model = lenet_on_device();
    const nn::Module& frozen = model->children()[0].second;
    frozen.freeze();
    optim::SGD optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1});
    const auto frozen_before = values_of(frozen);
    const auto all_before = values_of(model);
    const auto eager_step = step_of(model, optimizer);
    auto compiled_step = compile(eager_step);
    const auto [x, y] = random_batch(8);
    for (int i = 0; i < 3; ++i) compiled ? compiled_step(x, y) : eager_step(x, y);
    EXPECT_EQ(values_of(frozen), frozen_before);
    EXPECT_GT(distance(values_of(model), all_before), 0);

    frozen.unfreeze();
    eager_step(x, y);
    EXPECT_NE(values_of(frozen), frozen_before);
  }
}

TEST_F(Training, CompiledStepSeesTheLearningRate) {
  const nn::Sequential model = lenet_on_device();
  optim::SGD optimizer(model.parameters(), {.lr = 0.1});
  auto step = compile(step_of(model, optimizer));
  const auto [x, y] = random_batch(8);
  step(x, y);
  const auto before = values_of(model);
  optimizer.set_lr(0);
  step(x, y);
  EXPECT_EQ(values_of(model), before);
  optimizer.set_lr(0.1);
  step(x, y);
  EXPECT_NE(values_of(model), before);
  EXPECT_EQ(step.function()->captures(), 1);
}

TEST_F(Training, SmallerLastBatchHasItsOwnPlan) {
  const nn::Sequential model = lenet_on_device();
  optim::SGD optimizer(model.parameters(), {.lr = 0.01});
  auto step = compile(step_of(model, optimizer));
  const data::TensorDataset images = {uniform({40, 1, 28, 28}), zeros({40}, {.dtype = DType::i64})};
  const data::Loader loader(images, {.batch = 16, .device = device()});
  for (int64_t epoch = 0; epoch < 2; ++epoch)
    for (const auto& [x, y] : loader.epoch(epoch)) step(x, y);
  EXPECT_EQ(step.function()->captures(), 2);
  EXPECT_EQ(step.function()->plan()->is_one_launch(), device().is_cuda());
}

TEST_F(Training, LoadedStateContinuesTheSame) {
  set_deterministic(true);
  const auto [x, y] = random_batch(16);
  const nn::Sequential model = noisy_net();
  optim::SGD optimizer(model.parameters(), {.lr = 0.05});
  for (int i = 0; i < 3; ++i) step_of(model, optimizer)(x, y);
  nn::StateDict kept;
  for (const auto& [name, tensor] : model.state_dict()) kept.emplace(name, clone(tensor));
  const Tensor generator = clone(rng_state(device()));
  for (int i = 0; i < 3; ++i) step_of(model, optimizer)(x, y);

  const nn::Sequential other = noisy_net();
  EXPECT_NE(values_of(other), values_of(model));
  other.load_state_dict(kept);
  copy_(rng_state(device()), generator);
  optim::SGD other_optimizer(other.parameters(), {.lr = 0.05});
  for (int i = 0; i < 3; ++i) step_of(other, other_optimizer)(x, y);
  EXPECT_EQ(values_of(other), values_of(model));
}

}  // namespace
}  // namespace mica
