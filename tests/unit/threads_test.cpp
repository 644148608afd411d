// What several threads may do at once; also run under ThreadSanitizer (scripts/test --tsan).
#include <gtest/gtest.h>

#include <thread>

#include "mica/mica.h"

namespace mica {
namespace {

using Floats = std::vector<float>;

/// Runs f(0), f(1), … in a thread each.
template <class F>
void in_threads(size_t count, F&& f) {
  std::vector<std::thread> threads;
  threads.reserve(count);
  for (size_t t = 0; t < count; ++t) threads.emplace_back([&f, t] { f(t); });
  for (std::thread& t : threads) t.join();
}

Tensor parameter(const Shape& shape) { return uniform(shape, -1, 1).set_requires_grad(); }

struct Net {
  Tensor conv = parameter({4, 1, 3, 3});
  Tensor w = parameter({3, 16});
  Tensor b = parameter({3});
  Tensors parameters() const { return {conv, w, b}; }
  Tensor loss(const Tensor& x, const Tensor& target) const {
    const Tensor h = flatten(max_pool2d(relu(conv2d(x, conv))), 1);
    return cross_entropy(linear(dropout(h, 0.1), w, b), target);
  }
};

struct Batch {
  Tensor x = uniform({2, 1, 6, 6});
  Tensor target = tensor({int64_t{0}, int64_t{2}}, {2});
};

TEST(Threads, EachDifferentiatesAGraphOfItsOwn) {
  in_threads(4, [](size_t) {
    const Net net;
    const Batch batch;
    for (int i = 0; i < 20; ++i) {
      net.loss(batch.x, batch.target).backward();
      const NoGrad guard;
      for (const Tensor& p : net.parameters()) {
        sgd_update(scalar(0.1), {p}, {p.grad()}, {}, {});
        p.set_grad({});
      }
    }
  });
}

TEST(Threads, ShareParametersThatNobodyWrites) {
  const Net net;
  const Batch batch;
  const Tensors p = net.parameters();
  const Tensor x = batch.x;
  const auto gradient = [&] {
    const Tensor h = flatten(max_pool2d(relu(conv2d(x, net.conv))), 1);
    return grad({cross_entropy(linear(h, net.w, net.b), batch.target)}, {net.w})[0];
  };
  const Floats expected = gradient().to_vector<float>();
  in_threads(4, [&](size_t) {
    for (int i = 0; i < 20; ++i) EXPECT_EQ(gradient().to_vector<float>(), expected);
  });
  for (const Tensor& t : p) EXPECT_FALSE(t.grad().defined());
}

TEST(Threads, HaveTheirOwnModes) {
  const Tensor w = tensor({1.0F, 2.0F, 3.0F}, {3}).set_requires_grad();
  const NoGrad guard;
  const AnomalyMode anomaly;
  std::vector<Tensor> grads(2);
  in_threads(2, [&](size_t t) {
    EXPECT_TRUE(grad_enabled());
    EXPECT_FALSE(detect_anomaly());
    for (int i = 0; i < 200; ++i) {
      const Tensor loss = sum(mul(mul(w, w), static_cast<double>(t + 1)));
      grads[t] = grad({loss}, {w})[0];
    }
  });
  EXPECT_EQ(grads[0].to_vector<float>(), (Floats{2, 4, 6}));
  EXPECT_EQ(grads[1].to_vector<float>(), (Floats{4, 8, 12}));
  EXPECT_FALSE(grad_enabled());
}

TEST(Threads, AGraphMayBeDifferentiatedInAnotherThread) {
  const Tensor w = tensor({1.0F, 2.0F}, {2}).set_requires_grad();
  Tensor loss = sum(mul(w, w));
  std::thread([&] {
    loss.backward();
    loss = {};
  }).join();
  EXPECT_EQ(w.grad().to_vector<float>(), (Floats{2, 4}));
}

TEST(Threads, CheckpointsDrawWhatTheirThreadDrew) {
  in_threads(3, [](size_t) {
    const Tensor x = ones({64}).set_requires_grad();
    for (int i = 0; i < 30; ++i) {
      const Tensor y = checkpoint([](const Tensor& t) { return dropout(t, 0.5); }, x);
      // Of the elements that were kept, and of no others.
      EXPECT_EQ(grad({sum(y)}, {x})[0].to_vector<float>(), y.detach().to_vector<float>());
    }
  });
}

TEST(Threads, DrawDifferentNumbers) {
  manual_seed(1);
  std::vector<Floats> drawn(4);
  in_threads(4, [&](size_t t) {
    for (int i = 0; i < 50; ++i)
      for (const float v : uniform({4}).to_vector<float>()) drawn[t].push_back(v);
  });
  Floats all;
  for (const Floats& d : drawn) all.insert(all.end(), d.begin(), d.end());
  std::sort(all.begin(), all.end());
  manual_seed(1);
  Floats expected = uniform({800}).to_vector<float>();
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(all, expected);  // between them, the numbers that one thread would have drawn
}

TEST(Threads, CompileAndRunBesideEachOther) {
  in_threads(3, [](size_t) {
    const Net net;
    const Batch batch;
    auto step = compile([&](const Tensor& x) {
      const Tensor loss = net.loss(x, batch.target);
      loss.backward();
      const NoGrad guard;
      for (const Tensor& p : net.parameters()) {
        sgd_update(scalar(0.1), {p}, {p.grad()}, {}, {});
        p.set_grad({});
      }
      return loss.detach();
    });
    for (int i = 0; i < 10; ++i) step(batch.x);
    EXPECT_EQ(step.function()->captures(), 1);
  });
}

/// On devices whose stream the threads share.
class ThreadsOn : public testing::TestWithParam<Device> {
 protected:
  void SetUp() override {
    if (GetParam().is_cuda() && !cuda_available())
      GTEST_SKIP() << "skipped: no CUDA device: " << cuda_unavailable_reason();
  }
};

TEST_P(ThreadsOn, TrainAsEachWouldAlone) {
  const Device device = GetParam();
  const auto train = [&](size_t seed) {
    const auto values = [&](const Shape& shape, double scale) {
      const Tensor t = mul(sin(arange(numel(shape), {.dtype = DType::f32})), scale);
      return to(reshape(t, shape), device);
    };
    const double scale = 0.1 * static_cast<double>(1 + seed);
    const Tensor conv = values({8, 1, 3, 3}, scale).set_requires_grad();
    const Tensor w = values({10, 8 * 13 * 13}, scale).set_requires_grad();
    const Tensor x = values({16, 1, 28, 28}, 1);
    const Tensor target = to(remainder(arange(int64_t{16}), 10), device);
    const Tensor rate = scalar(0.1, {.device = device});
    const auto step = [&] {
      const Tensor h = flatten(max_pool2d(relu(conv2d(x, conv))), 1);
      const Tensor loss = cross_entropy(linear(h, w), target);
      loss.backward();
      const NoGrad guard;
      for (const Tensor& p : {conv, w}) {
        sgd_update(rate, {p}, {p.grad()}, {}, {});
        p.set_grad({});
      }
    };
    auto compiled = compile(step);
    for (int i = 0; i < 20; ++i) seed % 2 ? compiled() : step();
    return w.to_vector<float>();
  };
  std::vector<Floats> together(4);
  in_threads(4, [&](size_t t) { together[t] = train(t); });
  for (size_t t = 0; t < 4; ++t) {
    const Floats alone = train(t);
    for (size_t i = 0; i < alone.size(); ++i) ASSERT_NEAR(together[t][i], alone[i], 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, ThreadsOn, testing::Values(Device::cpu(), Device::cuda()),
                         [](const auto& on) { return on.param.is_cuda() ? "cuda" : "cpu"; });

TEST(Threads, ACompiledFunctionMayBeShared) {
  const Tensor w = ones({8});
  auto f = compile([&](const Tensor& x) { return mul(add(x, w), 2); });
  f(ones({8}));
  in_threads(3, [&](size_t t) {
    const Tensor x = full({8}, static_cast<double>(t));
    for (int i = 0; i < 50; ++i)
      EXPECT_EQ(f(x).to_vector<float>(), Floats(8, 2 * static_cast<float>(t + 1)));
  });
}

TEST(Threads, SettingsMayChangeWhileOthersCompute) {
  const int before = num_threads();
  in_threads(3, [](size_t t) {
    for (int i = 0; i < 50; ++i) {
      if (t == 0) {
        set_num_threads(1 + i % 2);
        force_kernel("mul", i % 2 ? "reference" : "");
      }
      EXPECT_EQ(sum(mul(ones({10}), 2)).item(), 20);
    }
  });
  force_kernel("mul", "");
  set_num_threads(before);
}

}  // namespace
}  // namespace mica
