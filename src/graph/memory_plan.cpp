#include "mica/graph/memory_plan.h"

#include <algorithm>
#include <numeric>

namespace mica {

MemoryPlan plan_memory(const std::vector<Block>& blocks, size_t alignment) {
  const auto rounded = [alignment](size_t bytes) { return round_up(bytes, alignment); };
  MemoryPlan plan;
  plan.offset.resize(blocks.size());
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return blocks[a].bytes > blocks[b].bytes; });
  std::vector<size_t> placed;  // by address
  int last = 0;
  for (const size_t i : order) {
    const Block& b = blocks[i];
    last = std::max(last, b.last);
    size_t at = 0;
    for (const size_t j : placed) {
      if (blocks[j].last < b.first || b.last < blocks[j].first) continue;
      if (at + rounded(b.bytes) <= plan.offset[j]) break;
      at = std::max(at, plan.offset[j] + rounded(blocks[j].bytes));
    }
    plan.offset[i] = at;
    plan.bytes = std::max(plan.bytes, at + rounded(b.bytes));
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), i,
                         [&](size_t a, size_t c) { return plan.offset[a] < plan.offset[c]; }),
        i);
  }
  std::vector<size_t> alive(static_cast<size_t>(last) + 2);
  for (const Block& b : blocks)
    for (int t = b.first; t <= b.last; ++t) alive[static_cast<size_t>(t)] += rounded(b.bytes);
  for (const size_t a : alive) plan.live = std::max(plan.live, a);
  return plan;
}

}  // namespace mica
