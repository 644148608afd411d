// Autocast and the scaling of gradients, eager and compiled.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mica/mica.h"
#include "tests/device.h"
#include "tests/unit/expect_error.h"

namespace mica {
namespace {

using test::device;

class OnDevice : public testing::Test {
 protected:
  void SetUp() override {
    if (device().is_cuda() && !cuda_available())
      GTEST_SKIP() << "no CUDA device: " << cuda_unavailable_reason();
  }
};
class AutocastTest : public OnDevice {};
class GradScalerTest : public OnDevice {};

Tensor drawn(const Shape& shape, uint64_t seed) {
  manual_seed(seed);
  return to(uniform(shape, -1, 1), device());
}
Tensor parameter(const Shape& shape, uint64_t seed) {
  return drawn(shape, seed).set_requires_grad();
}
std::vector<float> floats(const Tensor& t) {
  return cast(t.detach(), DType::f32).to_vector<float>();
}

TEST_F(AutocastTest, EachOpComputesInItsPrecision) {
  const Tensor x = drawn({4, 8}, 1);
  const Tensor w = drawn({8, 8}, 2);
  const Autocast low(device().kind, DType::bf16);
  const Tensor y = linear(x, w);
  EXPECT_EQ(y.dtype(), DType::bf16);
  EXPECT_EQ(relu(y).dtype(), DType::bf16);
  EXPECT_EQ(add(y, x).dtype(), DType::f32);
  EXPECT_EQ(softmax(y, 1).dtype(), DType::f32);
  EXPECT_EQ(sum(y).dtype(), DType::f32);
  EXPECT_EQ(mse_loss(y, y).dtype(), DType::f32);
  EXPECT_EQ(concat({y, x}, 0).dtype(), DType::f32);
  EXPECT_EQ(add(x, x).dtype(), DType::f32);
}

TEST_F(AutocastTest, RegionsNestAndEnd) {
  const Tensor x = drawn({4, 8}, 1);
  EXPECT_FALSE(autocast_mode().on());
  {
    const Autocast low(device().kind, DType::bf16);
    {
      const Autocast off(device().kind, {}, false);
      EXPECT_EQ(matmul(x, transpose(x, 0, 1)).dtype(), DType::f32);
      const Autocast other(device().kind, DType::f16);
      EXPECT_EQ(matmul(x, transpose(x, 0, 1)).dtype(), DType::f16);
    }
    EXPECT_EQ(matmul(x, transpose(x, 0, 1)).dtype(), DType::bf16);
  }
  EXPECT_EQ(matmul(x, transpose(x, 0, 1)).dtype(), DType::f32);
  expect_error<DTypeError>("autocast: expected f16 or bf16, got f32",
                           [&] { Autocast(device().kind, DType::f32); });
}

TEST_F(AutocastTest, LeavesOtherDevicesWideTensorsAndIntegersAlone) {
  const Tensor x = drawn({4, 4}, 1);
  const DeviceKind other = device().is_cuda() ? DeviceKind::cpu : DeviceKind::cuda;
  {
    const Autocast elsewhere(other, DType::bf16);
    EXPECT_EQ(matmul(x, x).dtype(), DType::f32);
  }
  const Autocast low(device().kind, DType::bf16);
  EXPECT_EQ(matmul(cast(x, DType::f64), cast(x, DType::f64)).dtype(), DType::f64);
  EXPECT_EQ(sum(cast(x, DType::i64)).dtype(), DType::i64);
}

TEST_F(AutocastTest, GradientsAreThoseOfCastsWrittenByHand) {
  const Tensor x = drawn({4, 8}, 1);
  const auto run = [&](bool automatic) {
    const Tensor w = parameter({3, 8}, 2);
    const Tensor b = parameter({3}, 3);
    Tensor loss;
    if (automatic) {
      const Autocast low(device().kind, DType::bf16);
      loss = sum(square(linear(x, w, b)));
    } else {
      const auto low = [](const Tensor& t) { return cast(t, DType::bf16); };
      loss = sum(cast(square(linear(low(x), low(w), low(b))), DType::f32));
    }
    loss.backward();
    EXPECT_EQ(w.grad().dtype(), DType::f32);
    return std::vector{floats(loss), floats(w.grad()), floats(b.grad())};
  };
  EXPECT_EQ(run(true), run(false));
}

TEST_F(AutocastTest, ACastIsKeptUntilTheParameterIsWrittenTo) {
  const Tensor w = parameter({8, 8}, 2);
  const Tensor x = drawn({4, 8}, 1);
  const Autocast low(device().kind, DType::bf16);
  {
    const NoGrad guard;  // what is made here has no history, and is not what is used below
    linear(x, w);
  }
  sum(linear(x, w)).backward();
  sum(linear(x, w)).backward();  // through the same cast
  const Tensor once = linear(x, w).detach();
  {
    const NoGrad guard;
    fill_(w, 0);
  }
  EXPECT_THAT(floats(linear(x, w)), testing::Each(0.0F));
  EXPECT_THAT(floats(once), testing::Not(testing::Each(0.0F)));
  std::vector<float> twice = floats(sum(cast(x, DType::bf16), {0}));
  const auto grads = floats(w.grad());
  for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(grads[i], 2 * twice[i], 0.05) << i;
}

TEST_F(AutocastTest, CheckpointsRunAgainAsTheyRan) {
  const Tensor w = parameter({8, 8}, 2);
  const auto run = [&](bool checkpointed) {
    const Tensor x = parameter({4, 8}, 1);
    w.set_grad({});
    Tensor loss;
    {
      const Autocast low(device().kind, DType::bf16);
      const auto block = [&](const Tensor& in) { return relu(linear(in, w)); };
      const Tensor h = linear(x, w);  // the cast of w is kept already
      loss = sum(square(checkpointed ? checkpoint(block, h) : block(h)));
    }
    loss.backward();
    return std::vector{floats(loss), floats(x.grad()), floats(w.grad())};
  };
  EXPECT_EQ(run(true)[0], run(false)[0]);
  EXPECT_EQ(run(true)[1], run(false)[1]);
}

/// A network of convolution, normalisation and a linear layer, and one step of it.
struct Training {
  nn::Sequential net = make();
  std::unique_ptr<optim::SGD> optimizer;
  amp::GradScaler scaler;
  Tensor x = drawn({4, 1, 8, 8}, 5);
  Tensor target = tensor<int64_t>({1, 2, 3, 4}, {4}, device());
  DType low;

  static nn::Sequential make() {
    manual_seed(3);
    return nn::Sequential(nn::Conv2d({.in = 1, .out = 4, .kernel = 3}), nn::BatchNorm2d(4),
                          nn::ReLU(), nn::Flatten(), nn::Linear(4 * 36, 10));
  }
  explicit Training(DType dtype, const amp::GradScalerOptions& options = {})
      : scaler(device(), options), low(dtype) {
    net.to(device());
    optimizer = std::make_unique<optim::SGD>(net.parameters(),
                                             optim::SGDOptions{.lr = 0.1, .momentum = 0.9});
  }
  Tensor step(const Tensor& images) {
    optimizer->zero_grad();
    Tensor loss;
    {
      const Autocast region(device().kind, low);
      loss = cross_entropy(net(images), target);
    }
    scaler.scale(loss).backward();
    scaler.step(*optimizer);
    scaler.update();
    return loss;
  }
  std::vector<std::vector<float>> state() const {
    std::vector<std::vector<float>> all;
    for (const Tensor& p : net.parameters()) all.push_back(floats(p));
    for (const auto& [name, tensor] : optimizer->state_dict()) all.push_back(floats(tensor));
    return all;
  }
};

class Precise : public OnDevice, public testing::WithParamInterface<DType> {};
INSTANTIATE_TEST_SUITE_P(Amp, Precise, testing::Values(DType::f16, DType::bf16),
                         [](const auto& i) { return std::string(name_of(i.param)); });

TEST_P(Precise, ACompiledStepIsTheEagerOne) {
  set_deterministic(true);
  Training eager(GetParam());
  Training compiled(GetParam());
  auto step = compile([&](const Tensor& x) { return compiled.step(x); });
  for (int i = 0; i < 5; ++i) {
    const Tensor a = eager.step(eager.x);
    const Tensor b = step(compiled.x);
    EXPECT_NEAR(floats(a)[0], floats(b)[0], 2e-2) << i;
  }
  EXPECT_EQ(step.function()->captures(), 1);
  EXPECT_EQ(compiled.scaler.get_scale(), eager.scaler.get_scale());
  const auto a = eager.state();
  const auto b = compiled.state();
  for (size_t k = 0; k < a.size(); ++k)
    for (size_t i = 0; i < a[k].size(); ++i) EXPECT_NEAR(a[k][i], b[k][i], 2e-2) << k << " " << i;
  set_deterministic(false);
}

TEST_P(Precise, AnOverflowLeavesTheStepOutAndHalvesTheScale) {
  for (const bool compiles : {false, true}) {
    Training t(GetParam());
    auto step = compile([&](const Tensor& x) { return t.step(x); });
    const auto run = [&](const Tensor& x) { return compiles ? step(x) : t.step(x); };
    run(t.x);
    const auto before = t.state();
    const Tensor bad = clone(t.x);
    fill_(bad, std::numeric_limits<double>::infinity());
    run(bad);
    EXPECT_EQ(t.scaler.get_scale(), 32768);
    EXPECT_EQ(t.optimizer->steps(), 1);
    EXPECT_EQ(t.state(), before);
    if (compiles) {
      EXPECT_EQ(step.function()->captures(), 1);
    }
  }
}

TEST_F(GradScalerTest, GrowsAfterItsIntervalAndClipsWhatIsUnscaled) {
  Training t(DType::bf16, {.init_scale = 8, .growth_interval = 3});
  for (int i = 0; i < 3; ++i) t.step(t.x);
  EXPECT_EQ(t.scaler.get_scale(), 16);
  t.optimizer->zero_grad();
  t.scaler.scale(cross_entropy(t.net(t.x), t.target)).backward();
  t.scaler.unscale(*t.optimizer);
  optim::clip_grad_norm_(t.net.parameters(), 1e-3);
  expect_error<Error>("amp::GradScaler::unscale: called twice since the last update()",
                      [&] { t.scaler.unscale(*t.optimizer); });
  t.scaler.step(*t.optimizer);
  expect_error<Error>("amp::GradScaler::step: called twice since the last update()",
                      [&] { t.scaler.step(*t.optimizer); });
  t.scaler.update();
  expect_error<Error>("amp::GradScaler::update: no step since the last one",
                      [&] { t.scaler.update(); });
  t.optimizer->zero_grad();
  expect_error<Error>("amp::GradScaler: no parameter of the optimizer has a gradient",
                      [&] { t.scaler.step(*t.optimizer); });
}

TEST_F(GradScalerTest, GoesOnWhereAnotherWas) {
  set_deterministic(true);
  Training a(DType::f16, {.init_scale = 8, .growth_interval = 2});
  Training b(DType::f16);
  for (int i = 0; i < 3; ++i) a.step(a.x);
  b.net.load_state_dict(a.net.state_dict());
  b.optimizer->load_state_dict(a.optimizer->state_dict());
  amp::GradScaler other(device(), {.init_scale = 8, .growth_interval = 2});
  other.load_state_dict(a.scaler.state_dict());
  EXPECT_EQ(other.get_scale(), 16);
  expect_error<Error>("amp::GradScaler: the state has no \"growth_tracker\"",
                      [&] { other.load_state_dict({}); });
  set_deterministic(false);
}

TEST_F(GradScalerTest, TurnedOffItIsNotThere) {
  Training t(DType::bf16, {.enabled = false});
  const Tensor loss = drawn({}, 1);
  EXPECT_EQ(t.scaler.scale(loss).impl(), loss.impl());
  t.step(t.x);
  EXPECT_EQ(t.optimizer->steps(), 1);
  EXPECT_EQ(t.scaler.get_scale(), 1);
}

TEST_F(AutocastTest, ACompiledFunctionIsCapturedForEachMode) {
  const Tensor w = parameter({8, 8}, 2);
  const Tensor x = drawn({4, 8}, 1);
  auto f = compile([&](const Tensor& in) { return linear(in, w); });
  EXPECT_EQ(f(x).dtype(), DType::f32);
  {
    const Autocast low(device().kind, DType::bf16);
    linear(x, w);  // a cast that is kept outside is not what the plan reads
    EXPECT_EQ(f(x).dtype(), DType::bf16);
    {
      const NoGrad guard;
      fill_(w, 0);
    }
    EXPECT_THAT(floats(f(x)), testing::Each(0.0F));
    EXPECT_EQ(f.function()->captures(), 2);
  }
  EXPECT_EQ(f(x).dtype(), DType::f32);
  EXPECT_EQ(f.function()->captures(), 2);
}

/// A linear layer whose result is 1e8 times as large: gradients of f16 overflow.
struct HugeImpl : nn::ModuleImpl {
  nn::Linear fc = add("fc", nn::Linear(2, 2));
  Tensor forward(const Tensor& x) { return fc(x) * 1e8; }
};

TEST_F(GradScalerTest, TrainerLeavesStepsOutThatOverflow) {
  manual_seed(1);
  const nn::Handle<HugeImpl> net;
  net.to(device());
  optim::Adam optimizer(net.parameters(), {.lr = 0.1});
  const Tensor x = uniform({32, 2}, -1, 1);
  const Tensor y = cast(gt(select(x, 1, 0), 0), DType::i64);
  const data::Loader loader(data::TensorDataset{x, y}, {.batch = 8, .device = device()});
  const auto copies = [](const StateDict& state) {
    std::vector<std::vector<double>> all;
    for (const auto& [name, t] : state) all.push_back(cast(t, DType::f64).to_vector<double>());
    return all;
  };
  const auto weights = copies(net.state_dict());
  const auto states = copies(optimizer.state_dict());
  for (const bool compiled : {false, true}) {
    train::Trainer trainer(
        net, optimizer, {.epochs = 2, .compile = compiled, .precision = "f16", .progress = false});
    trainer.fit(loader, loader);
    EXPECT_EQ(copies(net.state_dict()), weights);
    EXPECT_EQ(copies(optimizer.state_dict()), states);
  }
  // As f32 the same steps are made.
  train::Trainer plain(net, optimizer, {.epochs = 1, .precision = "f32", .progress = false});
  plain.fit(loader, loader);
  EXPECT_NE(copies(net.state_dict()), weights);
  expect_error<Error>("precision must be \"f32\", \"tf32\", \"bf16\" or \"f16\", got \"half\"",
                      [&] { train::Trainer(net, optimizer, {.precision = "half"}); });
}

}  // namespace
}  // namespace mica
