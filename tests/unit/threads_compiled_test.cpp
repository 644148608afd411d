// Compiled functions and gradients that threads share; also run under ThreadSanitizer (scripts/test
// --tsan), where each has a thousand rounds.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

#include "mica/core/sanitizers.h"
#include "mica/graph/plan.h"
#include "mica/mica.h"
#include "mica/op/dispatch.h"
#include "mica/op/op_def.h"

namespace mica {
namespace {

using Floats = std::vector<float>;

constexpr int kRounds = kThreadSanitizer ? 1000 : 50;

/// Runs f(0), f(1), … in a thread each, and begins with all of them at once.
template <class F>
void at_once(int count, F&& f) {
  std::barrier start(count);
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(count));
  for (int t = 0; t < count; ++t)
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      f(t);
    });
  for (std::thread& t : threads) t.join();
}

/// Lets so many compiled calls run at once, whatever the machine has.
class ConcurrentRuns {
 public:
  explicit ConcurrentRuns(int runs) : before_(max_concurrent_runs()) {
    set_max_concurrent_runs(runs);
  }
  ~ConcurrentRuns() { set_max_concurrent_runs(before_); }
  ConcurrentRuns(const ConcurrentRuns&) = delete;
  ConcurrentRuns& operator=(const ConcurrentRuns&) = delete;

 private:
  int before_;
};

TEST(ThreadsCompiled, MayAllBeTheFirstToCall) {
  const ConcurrentRuns runs(4);
  const Tensor w = full({3}, 2.0);
  for (int round = 0; round < kRounds; ++round) {
    const auto f = compile([&](const Tensor& x) { return mul(add(x, w), w); });
    at_once(4, [&](int t) {
      const auto v = static_cast<float>(t);
      EXPECT_EQ(f(full({3}, v)).to_vector<float>(), Floats(3, (v + 2) * 2));
    });
    EXPECT_EQ(f.function()->captures(), 1);
  }
}

TEST(ThreadsCompiled, RunBesideEachOther) {
  const ConcurrentRuns runs(3);
  const nn::Sequential net(nn::Linear({.in = 4, .out = 8}), nn::ReLU(),
                           nn::Linear({.in = 8, .out = 2}));
  net.eval();
  const auto f = compile([&](const Tensor& x) {
    const NoGrad guard;
    return net(x);
  });
  at_once(5, [&](int t) {
    for (int i = 0; i < kRounds; ++i) {
      const NoGrad guard;
      const Tensor x = full({1 + t % 2, 4}, static_cast<double>(t * kRounds + i));
      EXPECT_EQ(f(x).to_vector<float>(), net(x).to_vector<float>());
    }
  });
  EXPECT_EQ(f.function()->captures(), 2);
  EXPECT_TRUE(f.function()->plan()->is_pure());
}

/// An op whose kernel waits until two are in it.
struct Meeting {
  std::mutex mutex;
  std::condition_variable both_are_there;
  int there = 0;
  bool met = false;
};
Meeting& meeting() {
  static Meeting m;
  return m;
}

void meet(const NoParams&, const Call& call) {
  Meeting& m = meeting();
  std::unique_lock lock(m.mutex);
  ++m.there;
  m.both_are_there.notify_all();
  m.met = m.both_are_there.wait_for(lock, std::chrono::seconds(20), [&] { return m.there >= 2; });
  std::memcpy(call.out[0].data, call.in[0].data, sizeof(float));
}

void like_the_input(const NoParams&, std::span<const TensorSpec> in, OutSpecs& out) {
  out.add(in[0].shape, in[0].dtype);
}

TEST(ThreadsCompiled, AreInTheirRunsAtTheSameTime) {
  const ConcurrentRuns runs(2);
  const OpDef& op =
      register_op("test_meet", Op<NoParams>("test_meet")
                                   .inputs({"x"})
                                   .infer<like_the_input>()
                                   .no_gradient("it is for a test")
                                   .cpu({kernel<supports_all<NoParams>, meet>("direct")})
                                   .build());
  const auto f = compile([&](const Tensor& x) { return dispatch(op, NoParams{}, {x})[0]; });
  at_once(2, [&](int) { f(ones({1})); });
  EXPECT_TRUE(meeting().met);
}

/// How many were in it at once, at most.
struct Crowd {
  std::atomic<int> now = 0;
  std::atomic<int> most = 0;
};
Crowd& crowd() {
  static Crowd c;
  return c;
}

void count_crowd(const NoParams&, const Call& call) {
  Crowd& c = crowd();
  const int now = ++c.now;
  for (int most = c.most; most < now && !c.most.compare_exchange_weak(most, now);) {
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  --c.now;
  std::memcpy(call.out[0].data, call.in[0].data, sizeof(float));
}

TEST(ThreadsCompiled, StepsOfTwoNetworksRunBesideEachOther) {
  const ConcurrentRuns runs(4);
  const OpDef& op =
      register_op("test_crowd", Op<NoParams>("test_crowd")
                                    .inputs({"x"})
                                    .infer<like_the_input>()
                                    .no_gradient("it is for a test")
                                    .cpu({kernel<supports_all<NoParams>, count_crowd>("direct")})
                                    .build());
  const auto step_of = [&](const Tensor& weight) {
    return compile([&op, weight](const Tensor& x) {
      sum(mul(weight, x)).backward();
      const NoGrad guard;
      weight.sub_(mul(weight.grad(), dispatch(op, NoParams{}, {x})[0]));
      weight.set_grad({});
    });
  };
  const auto run_two = [&](const Tensor& a, const Tensor& b) {
    const auto first = step_of(a);
    const auto second = step_of(b);
    first(ones({1}));
    second(ones({1}));
    EXPECT_FALSE(first.function()->plan()->is_pure());
    crowd().most = 0;
    at_once(2, [&](int t) {
      for (int i = 0; i < 50; ++i) t == 0 ? first(ones({1})) : second(ones({1}));
    });
  };
  const Tensor a = zeros({1}).set_requires_grad();
  const Tensor b = zeros({1}).set_requires_grad();
  run_two(a, b);
  EXPECT_EQ(crowd().most, 2);
  EXPECT_EQ(a.to_vector<float>(), Floats{-51});
  EXPECT_EQ(b.to_vector<float>(), Floats{-51});
  run_two(a, a);
  EXPECT_EQ(crowd().most, 1);
  EXPECT_EQ(a.to_vector<float>(), Floats{-51 - 102});
}

TEST(ThreadsCompiled, TakeTurnsWhereTheyWrite) {
  const ConcurrentRuns runs(4);
  const Tensor total = zeros({2});
  const auto f = compile([&](const Tensor& x) {
    add_(total, x);
    return mul(total, 1.0);
  });
  at_once(4, [&](int) {
    for (int i = 0; i < kRounds; ++i) {
      const Floats seen = f(ones({2})).to_vector<float>();
      EXPECT_EQ(seen[0], seen[1]);
    }
  });
  EXPECT_FALSE(f.function()->plan()->is_pure());
  EXPECT_EQ(total.to_vector<float>(), Floats(2, static_cast<float>(4 * kRounds)));
}

TEST(ThreadsCompiled, ReadNothingThatIsHalfWritten) {
  const ConcurrentRuns runs(4);
  const Tensor weight = zeros({1 << 12});
  const auto step = compile([&](const Tensor& x) {
    weight.narrow(0, 0, 1 << 11).add_(x);
    weight.narrow(0, 1 << 11, 1 << 11).add_(x);
  });
  const auto spread = compile([&](const Tensor& x) { return (weight.max() - weight.min()) * x; });
  std::atomic<bool> done = false;
  std::atomic<int> seen = 0;
  at_once(3, [&](int t) {
    if (t == 0) {
      for (int i = 0; i < 10 * kRounds; ++i) step(ones({1}));
      done = true;
    } else {
      // None starves: those that came before go first.
      for (int i = 0; i < kRounds || !done; ++i, ++seen) EXPECT_EQ(spread(ones({1})).item(), 0);
    }
  });
  EXPECT_TRUE(spread.function()->plan()->is_pure());
  EXPECT_GE(seen, 2 * kRounds);
  EXPECT_EQ(weight.max().item(), 10 * kRounds);
}

TEST(ThreadsCompiled, DropPlansWhileOthersRunThem) {
  const ConcurrentRuns runs(4);
  const auto f = compile([](const Tensor& x) { return mul(x, 2); }, {.max_plans = 1});
  set_log_callback([](LogLevel, const std::string&) {});
  at_once(4, [&](int t) {
    for (int i = 0; i < kRounds / 10; ++i) {
      const int64_t n = 1 + (t + i) % 3;
      EXPECT_EQ(f(ones({n})).to_vector<float>(), Floats(static_cast<size_t>(n), 2));
    }
  });
  set_log_callback({});
}

TEST(ThreadsCompiled, RefreshWhatIsFoldedFromWeights) {
  const ConcurrentRuns runs(4);
  const Tensor w = ones({4, 4});
  const auto f = compile([&](const Tensor& x) { return matmul(x, cast(w, DType::f64)); });
  for (int round = 0; round < kRounds / 10; ++round) {
    fill_(w, round);
    at_once(4, [&](int) {
      EXPECT_EQ(f(ones({1, 4}, {.dtype = DType::f64})).to_vector<double>(),
                std::vector<double>(4, 4.0 * round));
    });
  }
  EXPECT_GT(f.function()->plan()->prologue_steps(), 0U);
}

TEST(ThreadsCompiled, BackwardAddsToSharedParameters) {
  const Tensor w = ones({3}).set_requires_grad();
  at_once(4, [&](int) {
    for (int i = 0; i < kRounds; ++i) sum(mul(w, 2.0)).backward();
  });
  EXPECT_EQ(w.grad().to_vector<float>(), Floats(3, static_cast<float>(8 * kRounds)));
}

TEST(ThreadsCompiled, BackwardThroughASharedFunction) {
  const ConcurrentRuns runs(4);
  const Tensor w = full({3}, 2.0).set_requires_grad();
  const auto f = compile([&](const Tensor& x) { return mul(mul(w, w), x); });
  at_once(4, [&](int t) {
    for (int i = 0; i < kRounds; ++i) {
      const Tensor x = full({3}, static_cast<double>(t + 1));
      const Tensor y = f(x);
      EXPECT_EQ(y.to_vector<float>(), Floats(3, 4 * static_cast<float>(t + 1)));
      sum(y).backward();
    }
  });
  // 2 w x, over the threads' x = 1, 2, 3, 4.
  EXPECT_EQ(w.grad().to_vector<float>(), Floats(3, static_cast<float>(40 * kRounds)));
}

TEST(ThreadsCompiled, DrawDifferentNumbers) {
  const ConcurrentRuns runs(4);
  const auto f = compile([](const Tensor& x) { return add(uniform({8}), x); });
  std::vector<Floats> drawn(4);
  at_once(4, [&](int t) {
    for (int i = 0; i < kRounds / 2; ++i)
      for (const float v : f(zeros({8})).to_vector<float>())
        drawn[static_cast<size_t>(t)].push_back(v);
  });
  Floats all;
  for (const Floats& d : drawn) all.insert(all.end(), d.begin(), d.end());
  std::ranges::sort(all);
  const auto equal = static_cast<size_t>(all.end() - std::ranges::unique(all).begin());
  EXPECT_LT(equal, all.size() / 100);  // a few by chance, not whole calls
}

}  // namespace
}  // namespace mica
