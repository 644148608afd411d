// Rows long enough to be sorted by all threads together.
#include <gtest/gtest.h>

#include "mica/mica.h"

namespace mica {
namespace {

/// Values that repeat, in no order.
Tensor long_row() {
  std::vector<int32_t> values((1 << 22) + 5);
  uint32_t state = 1;
  for (int32_t& v : values) {
    state = state * 1664525 + 1013904223;
    v = static_cast<int32_t>(state) / 4096;
  }
  return tensor(values, {static_cast<int64_t>(values.size())});
}

TEST(Sort, OneLongRowIsSortedAndStable) {
  const Tensor x = long_row();
  for (const bool descending : {false, true}) {
    const Sorted s = sort(x, 0, descending);
    const int32_t* from = x.data_as<int32_t>();
    const int32_t* values = s.values.data_as<int32_t>();
    const int64_t* indices = s.indices.data_as<int64_t>();
    std::vector<bool> seen(static_cast<size_t>(x.numel()));
    int64_t wrong = 0;
    for (int64_t i = 0; i < x.numel(); ++i) {
      seen[static_cast<size_t>(indices[i])] = true;
      wrong += values[i] == from[indices[i]] ? 0 : 1;
      if (i == 0) continue;
      const bool in_order = descending ? values[i - 1] > values[i] : values[i - 1] < values[i];
      wrong += in_order || (values[i - 1] == values[i] && indices[i - 1] < indices[i]) ? 0 : 1;
    }
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(std::count(seen.begin(), seen.end(), false), 0);
  }
}

TEST(Sort, BestOfALongRow) {
  const Tensor x = long_row();
  const Sorted all = sort(x, 0, true);
  for (const int64_t k : {10, 1000}) {
    const Sorted best = topk(x, k, 0);
    EXPECT_EQ(best.values.to_vector<int32_t>(), slice(all.values, 0, 0, k).to_vector<int32_t>());
    EXPECT_EQ(best.indices.to_vector<int64_t>(), slice(all.indices, 0, 0, k).to_vector<int64_t>());
  }
}

}  // namespace
}  // namespace mica
