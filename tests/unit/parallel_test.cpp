// How kernels share the cores with each other.
#include <gtest/gtest.h>
#include <omp.h>

#include <latch>
#include <mutex>
#include <set>
#include <thread>

#include "mica/mica.h"
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

}  // namespace
}  // namespace mica
