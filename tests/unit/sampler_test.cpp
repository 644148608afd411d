#include "mica/data/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "mica/data/loader.h"
#include "mica/graph/compile.h"
#include "mica/ops/ops.h"
#include "tests/unit/expect_error.h"

namespace mica::data {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;
using Labels = std::vector<int64_t>;

TensorDataset numbered(int64_t n) {
  return {reshape(cast(arange(n), DType::f32), {n, 1}), arange(n)};
}

std::vector<Labels> batches_of(Epoch epoch) {
  std::vector<Labels> all;
  for (const auto& [x, y] : epoch) {
    EXPECT_EQ(cast(reshape(x, {y.numel()}), DType::i64).to_vector<int64_t>(),
              y.to_vector<int64_t>());
    all.push_back(y.to_vector<int64_t>());
  }
  return all;
}

Labels joined(const std::vector<Labels>& batches) {
  Labels all;
  for (const Labels& batch : batches) all.insert(all.end(), batch.begin(), batch.end());
  return all;
}

TEST(Sampler, RandomOrders) {
  const Sampler sampler = random_sampler(50, {.seed = 3});
  EXPECT_EQ(sampler.size, 50);
  Labels sorted = sampler.order(1);
  EXPECT_NE(sorted, sampler.order(0));
  EXPECT_EQ(sorted, sampler.order(1));
  std::ranges::sort(sorted);
  EXPECT_EQ(sorted, arange(50).to_vector<int64_t>());
  // More samples than examples: whole rounds.
  const Labels rounds = random_sampler(4, {.samples = 10}).order(0);
  EXPECT_EQ(std::set<int64_t>(rounds.begin(), rounds.begin() + 4).size(), 4U);
  EXPECT_EQ(std::set<int64_t>(rounds.begin() + 4, rounds.begin() + 8).size(), 4U);
  EXPECT_EQ(rounds.size(), 10U);
  const Labels again = random_sampler(3, {.replacement = true, .samples = 3000}).order(0);
  for (const int64_t i : {0, 1, 2}) EXPECT_NEAR(std::ranges::count(again, i), 1000, 120);
  expect_error<Error>("cannot take 2 samples of 0", [] { random_sampler(0, {.samples = 2}); });
}

TEST(Sampler, WeightedDraws) {
  const Labels drawn = weighted_sampler({0, 1, 0, 3}, 4000, {.seed = 5}).order(2);
  EXPECT_EQ(std::ranges::count(drawn, 0) + std::ranges::count(drawn, 2), 0);
  EXPECT_NEAR(std::ranges::count(drawn, 3), 3000, 150);
  EXPECT_THAT(weighted_sampler({1, 0, 2, 5}, 3, {.replacement = false}).order(0),
              UnorderedElementsAre(0, 2, 3));
  // Without replacement the heaviest comes first most often.
  int first = 0;
  const Sampler all = weighted_sampler({1, 8, 1}, 3, {.replacement = false});
  for (int64_t epoch = 0; epoch < 400; ++epoch) first += all.order(epoch)[0] == 1 ? 1 : 0;
  EXPECT_NEAR(first, 320, 40);
  expect_error<Error>("must not be negative", [] { weighted_sampler({1, -1}, 1); });
  expect_error<Error>("cannot take 3 samples of 2 examples",
                      [] { weighted_sampler({1, 1, 0}, 3, {.replacement = false}); });
}

TEST(Sampler, PartsOfProcesses) {
  for (const bool drop_last : {false, true}) {
    std::multiset<int64_t> all;
    for (int64_t rank = 0; rank < 3; ++rank) {
      const Labels part =
          distributed_sampler(10, {.replicas = 3, .rank = rank, .drop_last = drop_last}).order(4);
      EXPECT_EQ(part.size(), drop_last ? 3U : 4U);
      all.insert(part.begin(), part.end());
    }
    EXPECT_EQ(std::set<int64_t>(all.begin(), all.end()).size(), drop_last ? 9U : 10U);
  }
  EXPECT_THAT(distributed_sampler(5, {.replicas = 2, .rank = 1, .shuffle = {}}).order(0),
              ElementsAre(1, 3, 0));
  EXPECT_THAT(subset_sampler({7, 3, 5}).order(9), ElementsAre(7, 3, 5));
  EXPECT_THAT(subset_sampler({7, 3, 5}, 1).order(9), UnorderedElementsAre(7, 3, 5));
  expect_error<Error>("got 3 of 3", [] { distributed_sampler(9, {.replicas = 3, .rank = 3}); });
}

TEST(Sampler, LoadersTakeTheirOrderFromIt) {
  const Sampler sampler = random_sampler(20, {.seed = 1, .samples = 11});
  for (const bool resident : {false, true})
    for (const int workers : {0, 2}) {
      const Loader loader(
          numbered(20), {.batch = 4, .sampler = sampler, .workers = workers, .resident = resident});
      EXPECT_EQ(loader.size(), 3);
      EXPECT_EQ(loader.examples(), 11);
      for (const int64_t epoch : {0, 3}) {
        EXPECT_EQ(joined(batches_of(loader.epoch(epoch))), sampler.order(epoch));
        EXPECT_EQ(loader.order(epoch), sampler.order(epoch));
      }
      EXPECT_EQ(batches_of(loader.epoch(3, 2)).size(), 1U);
      const Loader dropping(numbered(20), {.batch = 4,
                                           .sampler = sampler,
                                           .drop_last = true,
                                           .workers = workers,
                                           .resident = resident});
      EXPECT_EQ(dropping.examples(), 8);
      EXPECT_EQ(joined(batches_of(dropping.epoch(0))).size(), 8U);
    }
}

TEST(Sampler, BatchesOfItsOwn) {
  const BatchSampler by_length = {3, 4, [](int64_t epoch) -> std::vector<Labels> {
                                    if (epoch == 0) return {{5, 1}, {0, 2, 3, 4}, {9}};
                                    return {{1}, {2}, {3}};
                                  }};
  for (const bool resident : {false, true})
    for (const int workers : {0, 2}) {
      const Loader loader(numbered(10),
                          {.batch_sampler = by_length, .workers = workers, .resident = resident});
      EXPECT_EQ(loader.size(), 3);
      EXPECT_EQ(loader.examples(), kUnknownSize);
      EXPECT_EQ(batches_of(loader.epoch(0)), by_length.batches(0));
      EXPECT_EQ(batches_of(loader.epoch(1)), by_length.batches(1));
      EXPECT_EQ(batches_of(loader.epoch(0, 2)), (std::vector<Labels>{{9}}));
    }
  const Sampler in_order = subset_sampler({4, 3, 2, 1, 0});
  EXPECT_THAT(batch_sampler(in_order, 2).batches(0),
              ElementsAre(Labels{4, 3}, Labels{2, 1}, Labels{0}));
  EXPECT_EQ(batch_sampler(in_order, 2, true).size, 2);
}

TEST(Sampler, FeedsFollowIt) {
  const Sampler sampler = weighted_sampler({1, 2, 3, 4, 5, 6}, 10, {.seed = 2});
  const Loader loader(numbered(6), {.batch = 4, .sampler = sampler, .resident = true});
  Feed feed(loader);
  const Tensor got = zeros({4}, {.dtype = DType::i64});
  auto step = compile([&] { copy_(got, feed.next(4)[1].tensor()); });
  for (const int64_t epoch : {0, 1}) {
    feed.start(epoch);
    EXPECT_EQ(feed.batches(), 3);
    EXPECT_EQ(feed.size_of(2), 2);
    const Labels order = sampler.order(epoch);
    for (int b = 0; b < 2; ++b) {
      step();
      EXPECT_EQ(got.to_vector<int64_t>(),
                Labels(order.begin() + 4 * b, order.begin() + 4 * (b + 1)));
    }
    EXPECT_EQ(feed.next(2)[1].tensor().to_vector<int64_t>(),
              Labels(order.begin() + 8, order.end()));
  }
  const BatchSampler two = {2, 3, [](int64_t) -> std::vector<Labels> { return {{1, 2, 3}, {4}}; }};
  Feed batches(Loader(numbered(6), {.batch_sampler = two, .resident = true}));
  batches.start(0, 1);
  EXPECT_EQ(batches.next(batches.size_of(1))[1].tensor().to_vector<int64_t>(), Labels{4});
  const BatchSampler unsaid = {2, 0, two.batches};
  const Loader unknown(numbered(6), {.batch_sampler = unsaid, .resident = true});
  EXPECT_FALSE(Feed::is_possible(unknown));
  expect_error<Unsupported>("does not say how many", [&] { Feed{unknown}; });
}

TEST(Sampler, AnExampleThatComesTwiceIsNotChangedAlike) {
  const Tensor image = arange(64);
  const TensorDataset one = {reshape(cast(image, DType::f32), {1, 1, 8, 8}), zeros({1})};
  const Sampler often = subset_sampler(Labels(16, 0));
  for (const bool resident : {false, true}) {
    const Loader loader(one, {.batch = 16,
                              .sampler = often,
                              .augment = {flip(), vertical_flip()},
                              .resident = resident});
    std::set<std::vector<float>> seen;
    for (const auto& [x, y] : loader.epoch(0))
      for (int64_t i = 0; i < 16; ++i) seen.insert(select(x, 0, i).to_vector<float>());
    EXPECT_EQ(seen.size(), 4U);
  }
}

TEST(Sampler, RefusesWhatDoesNotFit) {
  const auto walk = [](LoaderOptions options) {
    joined(batches_of(Loader(numbered(10), std::move(options)).epoch(0)));
  };
  expect_error<IndexError>("no example 10 in a set of 10",
                           [&] { walk({.sampler = subset_sampler({1, 10})}); });
  expect_error<Error>("expected 3 numbers for an epoch, got 1",
                      [&] { walk({.sampler = Sampler{3, [](int64_t) { return Labels{1}; }}}); });
  expect_error<Error>("a batch has no examples", [&] {
    walk({.batch_sampler = BatchSampler{1, 1, [](int64_t) { return std::vector<Labels>{{}}; }}});
  });
  expect_error<Error>("exclude each other",
                      [&] { walk({.shuffle = 1, .sampler = subset_sampler({1})}); });
}

}  // namespace
}  // namespace mica::data
