#include "mica/data/stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <set>

#include "mica/data/loader.h"
#include "mica/data/worker_info.h"
#include "mica/ops/ops.h"
#include "tests/unit/expect_error.h"

namespace mica::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Labels = std::vector<int64_t>;

Tensor label(int64_t i) { return full({}, static_cast<double>(i), {.dtype = DType::i64}); }

Example numbered(int64_t i) { return Values::list({full({2}, static_cast<double>(i)), label(i)}); }

/// Examples 0 … n - 1 of which each reader of several takes every so many; counts what was read.
class Counting : public StreamImpl {
 public:
  explicit Counting(int64_t n, bool splits = true) : n_(n), splits_(splits) {}
  std::unique_ptr<StreamReader> open(const StreamPart& part) const override {
    class Reader : public StreamReader {
     public:
      Reader(const Counting& of, StreamPart part) : of_(of), part_(part), at_(part.index) {}
      std::optional<Example> next() override {
        if (at_ >= of_.n_) return {};
        ++of_.read_;
        return numbered(std::exchange(at_, at_ + part_.count));
      }
      int64_t parts() const override { return part_.count; }

     private:
      const Counting& of_;
      StreamPart part_;
      int64_t at_;
    };
    ++opened_;
    return std::make_unique<Reader>(*this, splits_ ? part : StreamPart{.epoch = part.epoch});
  }
  int64_t read() const { return read_; }
  int64_t opened() const { return opened_; }

 private:
  int64_t n_;
  bool splits_;
  mutable std::atomic<int64_t> read_ = 0;
  mutable std::atomic<int64_t> opened_ = 0;
};

Stream counting(int64_t n, bool splits = true) {
  return Stream(std::make_shared<Counting>(n, splits));
}

std::vector<Labels> batches_of(Epoch epoch) {
  std::vector<Labels> all;
  while (const std::optional<Batch> batch = epoch.next()) {
    const Tensor y = (*batch)[1].tensor();
    EXPECT_EQ((*batch)[0].tensor().shape(), Shape({y.size(0), 2}));
    all.push_back(y.to_vector<int64_t>());
  }
  return all;
}

Labels sorted(const std::vector<Labels>& batches) {
  Labels all;
  for (const Labels& batch : batches) all.insert(all.end(), batch.begin(), batch.end());
  std::ranges::sort(all);
  return all;
}

Labels count_to(int64_t n) { return arange(n).to_vector<int64_t>(); }

TEST(Stream, ComesInBatches) {
  for (const int workers : {0, 1}) {
    const Loader loader(counting(7), {.batch = 3, .workers = workers});
    EXPECT_EQ(loader.size(), kUnknownSize);
    EXPECT_TRUE(loader.is_stream());
    EXPECT_THAT(batches_of(loader.epoch(0)),
                ElementsAre(Labels{0, 1, 2}, Labels{3, 4, 5}, Labels{6}));
    EXPECT_THAT(batches_of(loader.epoch(0, 2)), ElementsAre(Labels{6}));
    EXPECT_TRUE(batches_of(loader.epoch(0, 9)).empty());
    const Loader dropping(counting(7), {.batch = 3, .drop_last = true, .workers = workers});
    EXPECT_EQ(batches_of(dropping.epoch(0)).size(), 2U);
    EXPECT_TRUE(batches_of(Loader(counting(0), {.workers = workers}).epoch(0)).empty());
  }
  // By iterators as well.
  Labels all;
  for (const auto& [x, y] : Loader(counting(5), {.batch = 2}).epoch(0))
    for (const int64_t i : y.to_vector<int64_t>()) all.push_back(i);
  EXPECT_EQ(all, count_to(5));
}

TEST(Stream, WorkersReadPartsInTurn) {
  const Loader loader(counting(11), {.batch = 2, .workers = 3});
  const std::vector<Labels> expected = {{0, 3}, {1, 4}, {2, 5}, {6, 9}, {7, 10}, {8}};
  for (int repeat = 0; repeat < 20; ++repeat) EXPECT_EQ(batches_of(loader.epoch(0)), expected);
  EXPECT_THAT(batches_of(loader.epoch(0, 4)), ElementsAre(Labels{7, 10}, Labels{8}));
  // One that is not split is read by one, once.
  const auto whole = std::make_shared<Counting>(9, false);
  EXPECT_EQ(sorted(batches_of(Loader(Stream(whole), {.batch = 2, .workers = 3}).epoch(0))),
            count_to(9));
  EXPECT_EQ(whole->opened(), 1);
  EXPECT_EQ(whole->read(), 9);
}

TEST(Stream, IsReadNotFurtherThanIsAskedFor) {
  const auto endless = std::make_shared<Counting>(int64_t{1} << 40);
  {
    const Loader loader(Stream(endless), {.batch = 4, .workers = 2, .prefetch = 2});
    Epoch epoch = loader.epoch(0);
    EXPECT_TRUE(epoch.next());
    EXPECT_TRUE(epoch.next());
  }
  EXPECT_LE(endless->read(), 4 * (2 + 2 + 2));
}

TEST(Stream, ShufflesWithinABuffer) {
  const Stream shuffled = counting(100).shuffle(10, 5);
  const auto order = [](const Stream& stream, int64_t epoch) {
    Labels all;
    const auto reader = stream.open({.epoch = epoch});
    while (const auto example = reader->next())
      all.push_back(static_cast<int64_t>((*example)[1].tensor().item()));
    return all;
  };
  const Labels first = order(shuffled, 0);
  EXPECT_EQ(first, order(shuffled, 0));
  EXPECT_NE(first, order(shuffled, 1));
  EXPECT_NE(first, order(counting(100).shuffle(10, 6), 0));
  EXPECT_NE(first, count_to(100));
  for (size_t i = 0; i < first.size(); ++i) EXPECT_LT(first[i], static_cast<int64_t>(i) + 10);
  Labels all = first;
  std::ranges::sort(all);
  EXPECT_EQ(all, count_to(100));
  EXPECT_EQ(order(counting(20).shuffle(1), 0), count_to(20));
  for (const int workers : {0, 1, 3})
    EXPECT_EQ(sorted(batches_of(Loader(shuffled, {.batch = 8, .workers = workers}).epoch(1))),
              count_to(100));
  expect_error<Error>("at least 1 example", [] { counting(3).shuffle(0); });
}

TEST(Stream, IsMappedChainedAndCollated) {
  const Stream doubled =
      counting(3).map([](const Example& e) { return Values::list({e[0], mul(e[1].tensor(), 2)}); });
  const Stream both = chain({doubled, counting(2, false)});
  EXPECT_EQ(sorted(batches_of(Loader(both, {.batch = 2}).epoch(0))), (Labels{0, 0, 1, 2, 4}));
  EXPECT_EQ(sorted(batches_of(Loader(both, {.batch = 2, .workers = 3}).epoch(0))),
            (Labels{0, 0, 1, 2, 4}));
  const Stream summed = collated(counting(4), [](const std::vector<Example>& examples) {
    return Values(full({1}, static_cast<double>(examples.size())));
  });
  Epoch epoch = Loader(summed, {.batch = 3}).epoch(0);
  EXPECT_EQ(epoch.next()->tensor().item(), 3);
  EXPECT_EQ(epoch.next()->tensor().item(), 1);
}

TEST(Stream, OfAFunctionThatKnowsTheEpoch) {
  const Stream stream([](int64_t epoch) -> Stream::Next {
    return [epoch, i = int64_t{0}]() mutable -> std::optional<Example> {
      if (i == 2) return {};
      return numbered(10 * epoch + i++);
    };
  });
  const Loader loader(stream, {.batch = 5});
  EXPECT_THAT(batches_of(loader.epoch(0)), ElementsAre(Labels{0, 1}));
  EXPECT_THAT(batches_of(loader.epoch(3)), ElementsAre(Labels{30, 31}));
}

TEST(Stream, ErrorsNameTheExampleAndTheLeaf) {
  const Stream odd([](int64_t) -> Stream::Next {
    return [i = int64_t{0}]() mutable -> std::optional<Example> {
      if (i == 8) return {};
      if (i++ == 3) return Values::list({zeros({3}), label(3)});
      return numbered(i - 1);
    };
  });
  for (const int workers : {0, 2}) {
    Epoch epoch = Loader(odd, {.batch = 2, .workers = workers}).epoch(0);
    EXPECT_TRUE(epoch.next());
    expect_error<ShapeError>("example[0] of example 3 is f32[3], others of its batch are f32[2]",
                             [&] { epoch.next(); });
    // The walk goes on after it.
    EXPECT_THAT(batches_of(std::move(epoch)), ElementsAre(Labels{4, 5}, Labels{6, 7}));
  }
  const Stream torn([](int64_t) -> Stream::Next {
    return []() -> std::optional<Example> { throw IoError("the pipe is torn"); };
  });
  for (const int workers : {0, 2})
    expect_error<IoError>("the pipe is torn",
                          [&] { Loader(torn, {.workers = workers}).epoch(0).next(); });
  expect_error<Unsupported>("a stream cannot be resident",
                            [] { Loader(counting(3), {.resident = true}); });
  expect_error<Error>("a stream has its own order", [] { Loader(counting(3), {.shuffle = 1}); });
  expect_error<Unsupported>("has no data set", [] { Loader(counting(3)).dataset(); });
}

TEST(Stream, PixelsAreTransformedByRunningNumber) {
  const Stream images([](int64_t) -> Stream::Next {
    return [i = int64_t{0}]() mutable -> std::optional<Example> {
      if (i == 6) return {};
      return Values::list({cast(reshape(arange(16), {1, 4, 4}), DType::u8), label(i++)});
    };
  });
  const auto pixels = [&](int64_t batch) {
    std::vector<float> all;
    for (const auto& [x, y] : Loader(images, {.batch = batch, .augment = {flip()}}).epoch(2))
      for (const float v : x.to_vector<float>()) all.push_back(v);
    return all;
  };
  EXPECT_EQ(pixels(2), pixels(6));
  EXPECT_LE(std::ranges::max(pixels(3)), 1.0F);
}

TEST(Stream, WorkersKnowWhichTheyAre) {
  EXPECT_EQ(worker_info(), nullptr);
  std::atomic<int64_t> sum = 0;
  const Stream asking = counting(6).map([&](const Example& e) {
    const WorkerInfo* info = worker_info();
    sum += info ? 10 * info->count + info->index : -100;
    return e;
  });
  batches_of(Loader(asking, {.batch = 1, .workers = 2}).epoch(0));
  EXPECT_EQ(sum, 6 * 20 + 3);
}

}  // namespace
}  // namespace mica::data
