#include "mica/graph/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

namespace mica {
namespace {

std::array<std::byte, 1024> g_memory;

Access reads(int from, int to) { return {&g_memory[0] + from, &g_memory[0] + to, false}; }
Access writes(int from, int to) { return {&g_memory[0] + from, &g_memory[0] + to, true}; }

TEST(Schedule, ReadersOfOneValueRunSideBySide) {
  const auto after =
      schedule({{writes(0, 8)}, {reads(0, 8), writes(8, 16)}, {reads(0, 8), writes(16, 24)}});
  EXPECT_EQ(after, (std::vector<std::vector<int>>{{}, {0}, {0}}));
}

TEST(Schedule, AWriteWaitsForTheReadersBeforeIt) {
  const auto after =
      schedule({{reads(0, 8), writes(8, 16)}, {reads(0, 8), writes(16, 24)}, {writes(0, 8)}});
  EXPECT_EQ(after, (std::vector<std::vector<int>>{{}, {}, {1, 0}}));
}

TEST(Schedule, ReusedMemoryKeepsTheOrder) {
  const auto after = schedule({{writes(0, 8)}, {reads(0, 8), writes(8, 16)}, {writes(4, 12)}});
  EXPECT_EQ(after, (std::vector<std::vector<int>>{{}, {0}, {1}}));
}

TEST(Schedule, ImpliedWaitsAreLeftOut) {
  const auto after =
      schedule({{writes(0, 8)}, {reads(0, 8), writes(8, 16)}, {reads(0, 16), writes(16, 24)}});
  EXPECT_EQ(after[2], std::vector<int>{1});
}

TEST(Schedule, EmptyAccessesConflictWithNothing) {
  EXPECT_EQ(schedule({{writes(0, 8)}, {writes(4, 4)}})[1], std::vector<int>{});
}

/// Any order the waits allow gives each step what it would have seen in the order given.
TEST(Schedule, EveryConflictIsOrdered) {
  std::mt19937 random(1);
  const auto draw = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 50; ++round) {
    std::vector<std::vector<Access>> steps(20);
    for (auto& step : steps)
      for (int k = 0; k < 3; ++k) {
        const int from = draw(200);
        const int to = from + draw(30);
        step.push_back(draw(2) ? reads(from, to) : writes(from, to));
      }
    const auto after = schedule(steps);
    std::vector<std::vector<bool>> reaches(20, std::vector<bool>(20));
    for (size_t i = 0; i < 20; ++i)
      for (const int j : after[i]) {
        reaches[i][static_cast<size_t>(j)] = true;
        for (size_t k = 0; k < 20; ++k)
          if (reaches[static_cast<size_t>(j)][k]) reaches[i][k] = true;
      }
    for (size_t i = 0; i < 20; ++i)
      for (size_t j = 0; j < i; ++j)
        for (const Access& a : steps[i])
          for (const Access& b : steps[j])
            if ((a.writes || b.writes) && std::max(a.begin, b.begin) < std::min(a.end, b.end)) {
              EXPECT_TRUE(reaches[i][j]) << i << " must wait for " << j;
            }
  }
}

}  // namespace
}  // namespace mica
