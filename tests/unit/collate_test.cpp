#include "mica/data/collate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mica/data/loader.h"
#include "mica/ops/ops.h"
#include "tests/unit/expect_error.h"

namespace mica::data {
namespace {

using testing::ElementsAre;

/// Example i has i + 1 rows of i, and its number.
class Ragged : public DatasetImpl {
 public:
  int64_t size() const override { return 5; }
  Example get(int64_t i) const override {
    return Values::dict({{"x", full({i + 1, 2}, static_cast<double>(i))},
                         {"more", Values::list({scalar(i), Values()})}});
  }
};

TEST(Collate, PadsToTheLargest) {
  const Dataset ragged(std::make_shared<Ragged>());
  const Loader loader(collated(ragged, pad_collate({.value = -1})), {.batch = 2});
  std::vector<Batch> batches;
  for (const Batch& batch : loader.epoch(0)) batches.push_back(batch);
  ASSERT_EQ(batches.size(), 3U);
  const Values& x = batches[1]["x"];
  EXPECT_EQ(x["values"].tensor().shape(), Shape({2, 4, 2}));
  EXPECT_THAT(x["lengths"].tensor().to_vector<int64_t>(), ElementsAre(3, 4));
  EXPECT_THAT(select(x["values"].tensor(), 0, 0).to_vector<float>(),
              ElementsAre(2, 2, 2, 2, 2, 2, -1, -1));
  EXPECT_THAT(batches[1]["more"][0].tensor().to_vector<float>(), ElementsAre(2, 3));
  EXPECT_TRUE(batches[1]["more"][1].is_nothing());
  // Alone an example has one size, unless multiples are asked for.
  EXPECT_EQ(batches[2]["x"].tensor().shape(), Shape({1, 5, 2}));
  const Batch eights = pad_collate({.multiple = 4})({ragged.get(4)});
  EXPECT_EQ(eights["x"]["values"].tensor().shape(), Shape({1, 8, 4}));
  EXPECT_THAT(eights["x"]["lengths"].tensor().to_vector<int64_t>(), ElementsAre(5));
}

TEST(Collate, NamesTheExampleAndTheLeaf) {
  const Dataset ragged(std::make_shared<Ragged>());
  expect_error<ShapeError>(R"(example["x"] of example 1 is f32[2, 2], others of its batch)", [&] {
    for (const Batch& batch : Loader(ragged, {.batch = 2}).epoch(0)) EXPECT_TRUE(batch.is_dict());
  });
  const Example a = ragged.get(0);
  expect_error<ShapeError>(R"(example["x"] of example 1 of the batch is)", [&] {
    pad_collate()({a, Values::dict({{"x", zeros({2})}, {"more", a["more"]}})});
  });
  expect_error<ShapeError>("has the key 'z', the first 'x'", [&] {
    pad_collate()({a, Values::dict({{"z", a["x"]}, {"more", a["more"]}})});
  });
  expect_error<ShapeError>(R"(example["more"] of example 1 of the batch is)", [&] {
    pad_collate()({a, Values::dict({{"x", a["x"]}, {"more", a["x"]}})});
  });
  expect_error<Error>("expected examples, got none", [] { pad_collate()({}); });
  expect_error<Error>("multiple must be at least 1", [] { pad_collate({.multiple = 0}); });
}

TEST(Collate, ATupleOfTargetsIsStackedByParts) {
  class Pairs : public DatasetImpl {
   public:
    int64_t size() const override { return 4; }
    Example get(int64_t i) const override {
      return Values::list(
          {full({3}, static_cast<double>(i)), Values::list({scalar(i), full({2, 2}, 1)})});
    }
  };
  const Loader loader(Dataset(std::make_shared<Pairs>()), {.batch = 4});
  const Batch batch = *loader.epoch(0).begin();
  EXPECT_EQ(batch[0].tensor().shape(), Shape({4, 3}));
  EXPECT_EQ(batch[1][0].tensor().shape(), Shape({4}));
  EXPECT_EQ(batch[1][1].tensor().shape(), Shape({4, 2, 2}));
}

TEST(Collate, JoinsAndSplits) {
  const Dataset a(TensorDataset{zeros({3, 1}), arange(3)});
  const Dataset b(TensorDataset{zeros({2, 1}), arange(2)});
  const Dataset both = concat({a, b});
  EXPECT_EQ(both.size(), 5);
  EXPECT_EQ(both.get(3)[1].tensor().item(), 0);
  const auto parts = random_split(both, std::vector<double>{0.5, 0.5}, 3);
  EXPECT_EQ(parts[0].size(), 3);
  EXPECT_EQ(parts[1].size(), 2);
  expect_error<Error>("add up to 4, the set has 5",
                      [&] { random_split(both, std::vector<int64_t>{2, 2}); });
}

}  // namespace
}  // namespace mica::data
