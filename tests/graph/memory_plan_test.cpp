#include "mica/graph/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace mica {
namespace {

bool overlap(size_t a, size_t a_bytes, size_t b, size_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}

size_t most_alive(const std::vector<Block>& blocks, int steps) {
  size_t most = 0;
  for (int t = 0; t < steps; ++t) {
    size_t alive = 0;
    for (const Block& b : blocks)
      if (b.first <= t && t <= b.last) alive += b.bytes;
    most = std::max(most, alive);
  }
  return most;
}

TEST(MemoryPlan, RandomBlocksNeverMeet) {
  std::mt19937 random(7);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 200; ++round) {
    const int steps = 1 + below(40);
    std::vector<Block> blocks;
    for (int i = below(60); i >= 0; --i) {
      const int first = below(steps);
      const int last = first + below(steps - first);
      blocks.push_back({static_cast<size_t>(below(8) == 0 ? 0 : below(5000)), first, last});
    }
    const size_t alignment = size_t{1} << below(9);
    const MemoryPlan plan = plan_memory(blocks, alignment);
    ASSERT_EQ(plan.offset.size(), blocks.size());
    for (size_t i = 0; i < blocks.size(); ++i) {
      ASSERT_EQ(plan.offset[i] % alignment, 0U);
      ASSERT_LE(plan.offset[i] + blocks[i].bytes, plan.bytes);
      for (size_t j = 0; j < i; ++j) {
        const bool together =
            blocks[i].first <= blocks[j].last && blocks[j].first <= blocks[i].last;
        ASSERT_FALSE(together &&
                     overlap(plan.offset[i], blocks[i].bytes, plan.offset[j], blocks[j].bytes))
            << "round " << round << ": blocks " << i << " and " << j;
      }
    }
    ASSERT_GE(plan.bytes, plan.live);
    ASSERT_GE(plan.live, most_alive(blocks, steps));
  }
}

TEST(MemoryPlan, UsesAGapTwice) {
  // Two that follow each other share one place.
  const MemoryPlan plan = plan_memory({{100, 0, 1}, {100, 2, 3}, {50, 0, 3}}, 1);
  EXPECT_EQ(plan.bytes, 150U);
  EXPECT_EQ(plan.live, 150U);
  EXPECT_EQ(plan.offset[0], plan.offset[1]);
}

TEST(MemoryPlan, OfNothing) {
  const MemoryPlan plan = plan_memory({}, 256);
  EXPECT_EQ(plan.bytes, 0U);
  EXPECT_EQ(plan.live, 0U);
}

}  // namespace
}  // namespace mica
