#include "mica/data/batches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "mica/core/error.h"
#include "mica/ops/ops.h"

namespace mica::data {
namespace {

/// Image i is filled with i and labelled i.
ImageDataset numbered(int64_t n) {
  const Tensor labels = arange(n);
  const Tensor column = reshape(cast(labels, DType::f32), {n, 1, 1, 1});
  return {contiguous(expand(column, {n, 1, 2, 2})), labels};
}

std::vector<int64_t> labels_of(const Batches& batches) {
  std::vector<int64_t> all;
  for (const auto& [x, y] : batches) {
    EXPECT_EQ(x.shape(), Shape({y.numel(), 1, 2, 2}));
    const auto pixels = x.to_vector<float>();
    const auto labels = y.to_vector<int64_t>();
    for (size_t i = 0; i < labels.size(); ++i) {
      EXPECT_EQ(static_cast<int64_t>(pixels[4 * i]), labels[i]);
      EXPECT_EQ(pixels[4 * i + 3], pixels[4 * i]);
    }
    all.insert(all.end(), labels.begin(), labels.end());
  }
  return all;
}

std::vector<int64_t> count_to(int64_t n) {
  std::vector<int64_t> all(static_cast<size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

TEST(Batches, GivesEveryImageOnce) {
  for (const int64_t n : {0, 1, 7, 8, 9, 10000}) {
    const Batches plain(numbered(n), {.batch = 8});
    EXPECT_EQ(plain.size(), (n + 7) / 8);
    EXPECT_EQ(labels_of(plain), count_to(n));
    auto shuffled = labels_of(Batches(numbered(n), {.batch = 8, .shuffle = 1}));
    std::sort(shuffled.begin(), shuffled.end());
    EXPECT_EQ(shuffled, count_to(n));
  }
}

TEST(Batches, LastOneIsSmaller) {
  std::vector<int64_t> sizes;
  for (const auto& [x, y] : Batches(numbered(20), {.batch = 8})) sizes.push_back(y.numel());
  EXPECT_EQ(sizes, (std::vector<int64_t>{8, 8, 4}));
}

TEST(Batches, OrderDependsOnSeedAndEpochAlone) {
  const auto order = [](uint64_t seed, int64_t epoch, int64_t batch) {
    return labels_of(Batches(numbered(100), {.batch = batch, .shuffle = seed, .epoch = epoch}));
  };
  const auto first = order(5, 0, 8);
  manual_seed(77);
  EXPECT_EQ(order(5, 0, 8), first);
  EXPECT_EQ(order(5, 0, 33), first);
  EXPECT_NE(order(5, 1, 8), first);
  EXPECT_NE(order(6, 0, 8), first);
  manual_seed(5);
  EXPECT_EQ(randperm(100).to_vector<int64_t>(), first);
  EXPECT_EQ(randperm(100).to_vector<int64_t>(), order(5, 1, 8));
}

TEST(Batches, RefusesWhatDoesNotFit) {
  EXPECT_THROW(Batches(numbered(4), {.batch = 0}), Error);
  EXPECT_THROW(Batches({zeros({4, 1, 2, 2}), arange(3)}, {}), ShapeError);
  EXPECT_THROW(Batches({zeros({4, 1, 2, 2}), zeros({4})}, {}), Error);
}

}  // namespace
}  // namespace mica::data
