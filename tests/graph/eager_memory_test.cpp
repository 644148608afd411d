// Plans need no more memory than eager execution of the same function.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "mica/graph/memory_plan.h"
#include "mica/graph/passes/passes.h"
#include "mica/graph/plan.h"
#include "mica/mica.h"
#include "mica/models.h"

namespace mica {
namespace {

size_t allocated() { return memory_stats(Device::cpu()).allocated; }

/// The most memory that a call takes, its arguments included.
template <class F>
size_t eager_peak(F&& f, const Tensors& arguments) {
  const size_t before = allocated();
  runtime(Device::cpu()).reset_peak(0);
  f();
  size_t bytes = memory_stats(Device::cpu()).peak - before;
  for (const Tensor& t : arguments) bytes += round_up(t.storage()->bytes(), alignment(t.device()));
  return bytes;
}

struct Training {
  nn::Module model;
  optim::SGD optimizer;

  explicit Training(nn::Module network)
      : model(std::move(network)), optimizer(model.parameters(), {.lr = 0.01}) {}
  explicit Training(const std::string& name) : Training(models::make(name)) {}
  Tensor operator()(const Tensor& x, const Tensor& y) {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(model(x), y);
    loss.backward();
    optimizer.step();
    return loss.detach();
  }
};

TEST(EagerMemory, IsNotExceededByTrainingSteps) {
  const int threads = num_threads();
  set_num_threads(1);  // every thread has workspaces
  for (const std::string name : {"mlp", "simple_cnn", "lenet", "lenet6", "mnist_net"})
    for (const int64_t batch : {2, 32}) {
      const Tensor x = uniform({batch, 1, 28, 28});
      const Tensor y = zeros({batch}, {.dtype = DType::i64});
      Training eager(name);
      eager(x, y);
      eager.optimizer.zero_grad();
      const size_t peak = eager_peak([&] { eager(x, y); }, {x, y});
      Training compiled(name);
      auto step = compile([&](const Tensor& a, const Tensor& b) { return compiled(a, b); });
      step(x, y);
      const Plan& plan = *step.function()->plan();
      EXPECT_LE(plan.planned_bytes(), peak) << name << " " << batch;
      // What the capture counts is what eager holds, without rounding and workspaces.
      EXPECT_LE(plan.captured().eager_bytes, peak) << name << " " << batch;
      EXPECT_GE(plan.captured().eager_bytes, peak / 2) << name << " " << batch;
    }
  set_num_threads(threads);
}

TEST(EagerMemory, IsNotExceededByResidualNetworks) {
  const int threads = num_threads();
  set_num_threads(1);
  struct Case {
    const char* name;
    nn::Module (*model)();
    MemoryFormat format;
  };
  for (const Case& c :
       {Case{"resnet18", [] { return nn::Module(models::resnet18()); }, MemoryFormat::contiguous},
        Case{"resnet50", [] { return nn::Module(models::resnet50()); }, MemoryFormat::contiguous},
        Case{"resnet50 in channels_last", [] { return nn::Module(models::resnet50()); },
             MemoryFormat::channels_last}}) {
    const Tensor x = contiguous(uniform({8, 3, 32, 32}), c.format);
    const Tensor y = zeros({8}, {.dtype = DType::i64});
    Training eager(c.model());
    eager(x, y);
    eager.optimizer.zero_grad();
    const size_t peak = eager_peak([&] { eager(x, y); }, {x, y});
    Training compiled(c.model());
    auto step = compile([&](const Tensor& a, const Tensor& b) { return compiled(a, b); });
    step(x, y);
    const Plan& plan = *step.function()->plan();
    const size_t planned = plan.planned_bytes() + plan.kept_bytes();
    std::printf("%s: a compiled step takes %zu bytes, an eager one %zu\n", c.name, planned, peak);
    EXPECT_LE(planned, peak) << c.name;
  }
  set_num_threads(threads);
}

/// On a GPU images are converted to channels_last and back, and weights once a step.
TEST(EagerMemory, IsNotExceededWhereLayoutsAreChosen) {
  const Shape shape{16, 3, 224, 224};
  for (const bool channels_last : {false, true}) {
    nn::Module model(models::resnet50());
    model.to(Device::null());
    model.to(DType::bf16);
    Training training(model);
    TensorSpec x = TensorSpec::contiguous(shape, DType::bf16, Device::null());
    if (channels_last) x.strides = channels_last_strides(shape);
    const TensorSpec specs[] = {x, TensorSpec::contiguous({16}, DType::i64, Device::null())};
    Captured captured = capture(
        [&](std::span<const Tensor> in) -> Tensors { return {training(in[0], in[1])}; }, specs);
    choose_layout_on(DeviceKind::cuda, captured.graph);
    const size_t eager = captured.eager_bytes;
    const Plan plan(std::move(captured));
    const size_t planned = plan.planned_bytes() + plan.kept_bytes();
    std::printf("resnet50 in bf16%s: a compiled step takes %zu bytes, an eager one %zu\n",
                channels_last ? " and channels_last" : "", planned, eager);
    EXPECT_LE(planned, eager) << channels_last;
  }
}

TEST(EagerMemory, IsCountedAsHandlesHoldIt) {
  const Tensor x = ones({1024});  // 4 KiB
  const auto held = [&](const std::function<Tensor(const Tensor&)>& f) {
    auto compiled = compile(f);
    compiled(x);
    return compiled.function()->plan()->captured().eager_bytes / 4096;
  };
  EXPECT_EQ(held([](const Tensor& a) { return neg(a); }), 2U);
  EXPECT_EQ(held([](const Tensor& a) { return neg(exp(neg(a))); }), 4U);  // to the statement's end
  EXPECT_EQ(held([](const Tensor& a) {
              Tensor b = neg(a);
              b = exp(b);
              b = neg(b);
              return neg(b);
            }),
            3U);
  EXPECT_EQ(held([](const Tensor& a) {
              const Tensor b = neg(a);
              const Tensor c = exp(b);
              return neg(c);
            }),
            4U);
  EXPECT_EQ(held([](const Tensor& a) { return neg(reshape(exp(a), {32, 32})); }), 3U);
  EXPECT_EQ(held([](const Tensor& a) {
              Tensor view;
              {
                const Tensor b = neg(a);
                view = slice(b, 0, 0, 1);
              }
              const Tensor c = neg(exp(a));  // while the view keeps b
              return add(c, view);
            }),
            4U);
  EXPECT_EQ(held([](const Tensor& a) {
              const Tensor b = neg(a);
              copy_(b, exp(b));
              return b;
            }),
            3U);
}

TEST(EagerMemory, IsTold) {
  set_verbose_compile(true);
  testing::internal::CaptureStderr();
  auto f = compile([](const Tensor& x) { return neg(exp(neg(x))); });
  f(ones({16}));
  set_verbose_compile(false);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("1 steps in 64 bytes, 64 alive at once; eager holds 256\n"));
}

TEST(InPlace, FusedResultsAreWrittenOverOperands) {
  const Tensor x = uniform({1000});
  const auto planned = [&](const std::function<Tensor(const Tensor&)>& f) {
    const Tensor expected = f(x);
    auto compiled = compile(f);
    for (int i = 0; i < 2; ++i)
      EXPECT_EQ(compiled(x).to_vector<float>(), expected.to_vector<float>());
    EXPECT_EQ(compiled.function()->plan()->kernels(), std::vector<std::string>{"fused: tiled"});
    return compiled.function()->plan()->planned_bytes() / 4000;
  };
  EXPECT_EQ(planned([](const Tensor& a) { return mul(exp(neg(a)), a); }), 1U);
  // Both results stay; one takes the argument's place.
  auto two = compile([](const Tensor& a) -> Tensors {
    const Tensor b = neg(exp(a));
    return {b, tanh(mul(b, a))};
  });
  const Tensors results = two(x);
  EXPECT_EQ(results[0].to_vector<float>(), neg(exp(x)).to_vector<float>());
  EXPECT_EQ(results[1].to_vector<float>(), tanh(mul(neg(exp(x)), x)).to_vector<float>());
  EXPECT_EQ(two.function()->plan()->planned_bytes() / 4000, 2U);
}

}  // namespace
}  // namespace mica
