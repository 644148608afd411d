// How kernels share the cores with each other.
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <latch>
#include <mutex>
#include <set>
#include <thread>

#include "mica/mica.h"
#include "mica/runtime/cpu/openmp_waits.h"
#include "mica/runtime/cpu/parallel.h"

namespace mica {
namespace {

struct Seen {
  std::set<std::pair<int64_t, int64_t>> ranges;
  std::set<std::thread::id> threads;
};

Seen run(int64_t n, int64_t grain) {
  Seen seen;
  std::mutex mutex;
  parallel_for(n, grain, [&](int64_t begin, int64_t end) {
    const std::lock_guard lock(mutex);
    seen.ranges.emplace(begin, end);
    seen.threads.insert(std::this_thread::get_id());
  });
  return seen;
}

class Parallel : public testing::Test {
 protected:
  void SetUp() override { set_num_threads(4); }
  void TearDown() override { set_num_threads(before_); }

 private:
  int before_ = num_threads();
};

TEST_F(Parallel, RangesDoNotDependOnWhoElseComputes) {
  const Seen alone = run(100, 1);
  EXPECT_EQ(alone.ranges.size(), 4U);
  // As many other callers as there are cores: then each has one.
  const int others = omp_get_num_procs();
  std::latch there(others);
  std::latch done(1);
  std::vector<std::thread> holders;
  for (int i = 0; i < others; ++i)
    holders.emplace_back([&] {
      const ParallelCaller caller;
      there.count_down();
      done.wait();
    });
  there.wait();
  const Seen beside = run(100, 1);
  done.count_down();
  for (std::thread& t : holders) t.join();
  EXPECT_EQ(beside.ranges, alone.ranges);
  EXPECT_EQ(beside.threads.size(), 1U);
  EXPECT_EQ(run(100, 1).ranges, alone.ranges);
}

TEST_F(Parallel, SmallWorkStaysWithTheCaller) {
  const Seen seen = run(100, 100);
  EXPECT_EQ(seen.ranges.size(), 1U);
  EXPECT_EQ(*seen.threads.begin(), std::this_thread::get_id());
}

TEST_F(Parallel, ErrorsComeToTheCaller) {
  EXPECT_THROW(parallel_for(8, 1, [](int64_t, int64_t) { throw Error("in a kernel"); }), Error);
}

TEST_F(Parallel, ALibraryIsLimitedForAWhile) {
  EXPECT_EQ(omp_get_max_threads(), 4);
  {
    const ThreadLimit one(1);
    EXPECT_EQ(omp_get_max_threads(), 1);
  }
  EXPECT_EQ(omp_get_max_threads(), 4);
  const ThreadLimit more(100);
  EXPECT_EQ(omp_get_max_threads(), 4);
}

TEST_F(Parallel, APartStartsNoThreadsOfItsOwn) {
  parallel_for(8, 1, [](int64_t, int64_t) {
    EXPECT_TRUE(in_pool());
    EXPECT_EQ(omp_get_max_threads(), 1);
    const std::thread::id here = std::this_thread::get_id();
    parallel_for(8, 1, [&](int64_t begin, int64_t end) {
      EXPECT_EQ(std::this_thread::get_id(), here);
      EXPECT_EQ(end - begin, 8);
    });
  });
  EXPECT_FALSE(in_pool());
  EXPECT_EQ(omp_get_max_threads(), 4);
}

TEST_F(Parallel, ThePoolServesSeveralCallers) {
  std::vector<std::thread> callers;
  for (int64_t t = 0; t < 4; ++t)
    callers.emplace_back([t] {
      std::array<int64_t, 16> sums{};
      const auto add = [&](int64_t i) { sums[static_cast<size_t>(i)] += i + t; };
      const auto run = [](const void* f, int64_t i) { (*static_cast<decltype(&add)>(f))(i); };
      for (int round = 0; round < 1000; ++round) run_in_pool(4, 16, run, &add);
      for (int64_t i = 0; i < 16; ++i) EXPECT_EQ(sums[static_cast<size_t>(i)], 1000 * (i + t));
    });
  for (std::thread& t : callers) t.join();
}

/// The median of some steps of 20 small regions, in µs.
double median_step(int threads) {
  std::array<std::array<float, 256>, 2> data{};
  const auto part = [&](int64_t i) {
    for (int k = 0; k < 100; ++k)
      for (float& x : data[static_cast<size_t>(i)]) x = x * 1.0001F + 0.5F;
  };
  const auto run = [](const void* f, int64_t i) { (*static_cast<decltype(&part)>(f))(i); };
  std::vector<double> steps;
  for (int step = 0; step < 101; ++step) {
    const auto start = std::chrono::steady_clock::now();
    for (int region = 0; region < 20; ++region) run_in_pool(threads, 2, run, &part);
    const std::chrono::duration<double, std::micro> taken =
        std::chrono::steady_clock::now() - start;
    steps.push_back(taken.count());
  }
  std::nth_element(steps.begin(), steps.begin() + 50, steps.end());
  return steps[50];
}

TEST_F(Parallel, ABusyNeighbourDoesNotMultiplyAStep) {
  std::atomic<bool> done = false;
  std::vector<std::thread> neighbours;
  for (int i = 0; i < 2 * omp_get_num_procs(); ++i)
    neighbours.emplace_back([&] {
      while (!done) {
      }
    });
  const double one = median_step(1);
  const double two = median_step(2);
  done = true;
  for (std::thread& t : neighbours) t.join();
  EXPECT_LT(two, 10 * one) << "µs; in one thread " << one;
}

TEST(CrowdedCores, AreThoseThatThreadsWaitedFor) {
  CrowdedCores cores;
  // Two threads that always have a core, and wait a little when a third comes by.
  for (int i = 1; i <= 20; ++i) EXPECT_FALSE(cores.update(0.2 * i, 0.4 * i, 0.01 * i));
  // Too little to tell.
  EXPECT_FALSE(cores.update(4.1, 8.1, 0.3));
  // Half of the time somebody else has the core: for a second, whatever is measured then.
  EXPECT_TRUE(cores.update(4.4, 8.4, 0.6));
  EXPECT_TRUE(cores.update(5.0, 8.5, 0.6));
  EXPECT_TRUE(cores.update(5.3, 8.6, 3.0));
  EXPECT_FALSE(cores.update(5.5, 9.0, 5.0));
}

TEST(CrowdedCores, AreTriedAgainLaterAndLater) {
  CrowdedCores cores;
  double run = 0;
  double waited = 0;
  double spun = 0;  // seconds in which threads were let spin
  for (double now = 10; now < 210; now += 0.1) {
    run += 0.2;
    waited += 0.8;
    if (!cores.update(now, run, waited)) spun += 0.1;
  }
  EXPECT_GT(spun, 0.4);
  EXPECT_LT(spun, 3);
  // And soon again when the others were away for a while.
  for (double now = 300; now < 310; now += 0.1) EXPECT_FALSE(cores.update(now, run += 0.2, waited));
  EXPECT_TRUE(cores.update(310, run += 0.2, waited += 0.8));
  EXPECT_TRUE(cores.update(310.9, run += 0.2, waited));
  EXPECT_FALSE(cores.update(311.1, run += 0.2, waited));
}

/// Threads that ended take what they ran and waited out of the sums.
TEST(CrowdedCores, DoNotMindThreadsThatEnd) {
  CrowdedCores cores;
  EXPECT_FALSE(cores.update(1, 10, 1));
  EXPECT_FALSE(cores.update(2, 3, 0.5));
  EXPECT_FALSE(cores.update(3, 4, 0.5));
}

}  // namespace
}  // namespace mica
