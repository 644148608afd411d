#include "mica/data/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <thread>

#include "mica/core/error.h"
#include "mica/graph/compile.h"
#include "mica/op/settings.h"
#include "mica/ops/ops.h"
#include "mica/runtime/runtime.h"
#include "tests/unit/expect_error.h"

namespace mica::data {
namespace {

using testing::HasSubstr;
using Labels = std::vector<int64_t>;

/// Image i is filled with i and labelled i.
TensorDataset numbered(int64_t n) {
  const Tensor labels = arange(n);
  const Tensor column = reshape(cast(labels, DType::f32), {n, 1, 1, 1});
  return {contiguous(expand(column, {n, 1, 2, 2})), labels};
}

/// The same, made one by one; counts how many were.
class Counted : public DatasetImpl {
 public:
  explicit Counted(int64_t n, int64_t broken = -1) : set_(numbered(n)), broken_(broken) {}
  int64_t size() const override { return set_.size(); }
  Example get(int64_t i) const override {
    ++made_;
    if (i == broken_) throw IoError("picture 7 is torn");
    if (i % 3 == 0) std::this_thread::yield();
    return set_.get(i);
  }
  int64_t made() const { return made_; }

 private:
  Dataset set_;
  int64_t broken_;
  mutable std::atomic<int64_t> made_ = 0;
};

Labels labels_of(Epoch epoch) {
  Labels all;
  for (const auto& [x, y] : epoch) {
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

Labels count_to(int64_t n) {
  Labels all(static_cast<size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// All pixels of an epoch, and all labels.
std::pair<std::vector<float>, Labels> contents(const Loader& loader, int64_t epoch,
                                               int64_t first_batch = 0) {
  std::pair<std::vector<float>, Labels> all;
  for (const auto& [x, y] : loader.epoch(epoch, first_batch)) {
    for (const float v : x.to_vector<float>()) all.first.push_back(v);
    for (const int64_t v : y.to_vector<int64_t>()) all.second.push_back(v);
  }
  return all;
}

TensorDataset random_images(int64_t n, DType dtype = DType::f32) {
  manual_seed(3);
  const Tensor x = uniform({n, 3, 9, 7});
  return {dtype == DType::f32 ? x : cast(mul(x, 256), dtype), arange(n)};
}

std::vector<Transform> every_transform() {
  return {pad_crop(2),
          flip(),
          vertical_flip(0.3),
          rotate(20),
          color_jitter({.brightness = 0.4, .contrast = 0.3, .saturation = 0.2}),
          resize({8, 8}),
          normalize({0.4F, 0.5F, 0.6F}, {0.2F, 0.3F, 0.4F})};
}

TEST(Loader, GivesEveryExampleOnce) {
  for (const int64_t n : {0, 1, 7, 8, 9, 10000}) {
    const Loader plain(numbered(n), {.batch = 8});
    EXPECT_EQ(plain.size(), (n + 7) / 8);
    EXPECT_EQ(plain.examples(), n);
    EXPECT_EQ(labels_of(plain.epoch(0)), count_to(n));
    auto shuffled = labels_of(Loader(numbered(n), {.batch = 8, .shuffle = 1}).epoch(0));
    std::sort(shuffled.begin(), shuffled.end());
    EXPECT_EQ(shuffled, count_to(n));
  }
}

TEST(Loader, LastBatchIsSmaller) {
  Labels sizes;
  for (const auto& [x, y] : Loader(numbered(20), {.batch = 8}).epoch(0)) sizes.push_back(y.numel());
  EXPECT_EQ(sizes, (Labels{8, 8, 4}));
}

TEST(Loader, DropsTheLastBatchThatWouldBeSmaller) {
  for (const int64_t n : {0, 7, 8, 20, 10000}) {
    for (const bool resident : {false, true}) {
      LoaderOptions options = {.batch = 8, .shuffle = 9, .resident = resident};
      Labels expected = labels_of(Loader(numbered(n), options).epoch(1));
      expected.resize(static_cast<size_t>(n / 8 * 8));
      options.drop_last = true;
      const Loader dropping(numbered(n), options);
      EXPECT_EQ(dropping.size(), n / 8);
      EXPECT_EQ(dropping.examples(), n / 8 * 8);
      EXPECT_EQ(labels_of(dropping.epoch(1)), expected);
      options.workers = 2;
      EXPECT_EQ(labels_of(Loader(numbered(n), options).epoch(1)), expected);
    }
  }
  EXPECT_EQ(labels_of(Loader(numbered(20), {.batch = 8, .drop_last = true}).epoch(0)),
            count_to(16));
  const Loader augmented(
      random_images(50),
      {.batch = 8, .shuffle = 9, .drop_last = true, .augment = every_transform()});
  const Loader resident(random_images(50), {.batch = 8,
                                            .shuffle = 9,
                                            .drop_last = true,
                                            .augment = every_transform(),
                                            .resident = true});
  EXPECT_EQ(contents(augmented, 1), contents(resident, 1));
  Feed feed(resident);
  feed.start(1, 5);
  EXPECT_EQ(feed.next(8)[1].tensor().to_vector<int64_t>(), contents(augmented, 1, 5).second);
}

TEST(Loader, OrderDependsOnSeedAndEpochAlone) {
  const auto order = [](uint64_t seed, int64_t epoch, int64_t batch) {
    return labels_of(Loader(numbered(100), {.batch = batch, .shuffle = seed}).epoch(epoch));
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

TEST(Loader, RefusesWhatDoesNotFit) {
  EXPECT_THROW(Loader(numbered(4), {.batch = 0}), Error);
  EXPECT_THROW(Loader(numbered(4), {.workers = -1}), Error);
  EXPECT_THROW(Loader(numbered(4), {.prefetch = 0}), Error);
  EXPECT_THROW(Loader(TensorDataset{zeros({4, 1, 2, 2}), arange(3)}), ShapeError);
  EXPECT_THROW(Loader(TensorDataset{scalar(1), arange(3)}), ShapeError);
  EXPECT_THROW(Loader(numbered(4)).epoch(0, 2), Error);
  EXPECT_THROW(Loader(numbered(4)).epoch(-1), Error);
}

TEST(Loader, ResumesInTheMiddleOfAnEpoch) {
  for (const bool resident : {false, true})
    for (const int workers : {0, 2}) {
      const Loader loader(random_images(50), {.batch = 8,
                                              .shuffle = 4,
                                              .workers = workers,
                                              .augment = every_transform(),
                                              .resident = resident});
      const auto [pixels, labels] = contents(loader, 2);
      for (const int64_t first : {1, 5, 6, 7}) {
        const auto [some, few] = contents(loader, 2, first);
        const auto skipped = std::min<size_t>(8 * static_cast<size_t>(first), 50);
        EXPECT_EQ(few, Labels(labels.begin() + static_cast<int64_t>(skipped), labels.end()));
        EXPECT_EQ(some, std::vector<float>(pixels.begin() + static_cast<int64_t>(skipped) * 192,
                                           pixels.end()));
      }
    }
}

TEST(Loader, DoesNotMakeWhatIsSkipped) {
  const auto counted = std::make_shared<Counted>(40);
  const Loader loader(Dataset(counted), {.batch = 8});
  EXPECT_EQ(labels_of(loader.epoch(0, 4)), (Labels{32, 33, 34, 35, 36, 37, 38, 39}));
  EXPECT_EQ(counted->made(), 8);
  EXPECT_TRUE(labels_of(loader.epoch(0, 5)).empty());
}

TEST(Loader, BatchesOfChunksLieAlikeAfterResuming) {
  TensorDataset odd = {uniform({9000, 5}), arange(9000)};
  const Loader loader(odd, {.batch = 3});
  const auto offset = [&](int64_t first) {
    return (*loader.epoch(0, first).begin())[0].tensor().offset();
  };
  EXPECT_EQ(offset(1), 15);
  EXPECT_EQ(offset(1365), 0);
  EXPECT_EQ(offset(1366), 15);
}

TEST(Loader, ResidentBatchesAreTheSame) {
  for (const DType dtype : {DType::f32, DType::u8})
    for (const bool augmented : {false, true}) {
      LoaderOptions options = {.batch = 8, .shuffle = 9};
      if (augmented) options.augment = every_transform();
      const Loader plain(random_images(50, dtype), options);
      options.resident = true;
      const Loader resident(random_images(50, dtype), options);
      EXPECT_EQ(contents(plain, 1), contents(resident, 1));
    }
  const auto counted = std::make_shared<Counted>(20);
  const Loader loader(Dataset(counted), {.batch = 8, .resident = true});
  EXPECT_EQ(labels_of(loader.epoch(0)), count_to(20));
  EXPECT_EQ(labels_of(loader.epoch(1)), count_to(20));
  EXPECT_EQ(counted->made(), 20);
}

TEST(Feed, GivesTheLoadersBatchesFromACompiledFunction) {
  set_deterministic(true);  // sums are else taken in another order
  for (const DType dtype : {DType::f32, DType::u8}) {
    const Loader loader(random_images(50, dtype),
                        {.batch = 8, .shuffle = 9, .augment = every_transform(), .resident = true});
    Feed feed(loader);
    auto next = compile([&] {
      const auto [x, y] = feed.next(8);
      return Tensors{x, y};
    });
    for (const int64_t epoch : {2, 0}) {
      feed.start(epoch, 1);
      for (const auto& [x, y] : loader.epoch(epoch, 1)) {
        if (y.size(0) < 8) break;
        const Tensors batch = next();
        EXPECT_EQ(batch[0].to_vector<float>(), x.to_vector<float>());
        EXPECT_EQ(batch[1].to_vector<int64_t>(), y.to_vector<int64_t>());
      }
      const auto [x, y] = feed.next(2);
      EXPECT_EQ(y.to_vector<int64_t>(), contents(loader, epoch, 6).second);
    }
    EXPECT_EQ(next.function()->captures(), 1);
  }
  set_deterministic(false);
  EXPECT_THROW(Feed(Loader(random_images(50))), Error);
}

TEST(Loader, ResidentBatchesOnAGpuAreTheSame) {
  if (!cuda_available()) GTEST_SKIP() << "skipped: no CUDA device: " << cuda_unavailable_reason();
  for (const DType dtype : {DType::f32, DType::u8}) {
    LoaderOptions options = {.batch = 8, .shuffle = 9, .augment = {pad_crop(2), flip()}};
    const Loader plain(random_images(50, dtype), options);
    options.device = Device::cuda();
    options.resident = true;
    EXPECT_EQ(contents(plain, 1), contents(Loader(random_images(50, dtype), options), 1));
    options.augment = every_transform();
    const Loader turned(random_images(50, dtype), options);
    options.device = Device::cpu();
    const auto [expected, labels] = contents(Loader(random_images(50, dtype), options), 1);
    EXPECT_THAT(contents(turned, 1).first, testing::Pointwise(testing::FloatNear(1e-5F), expected));
  }
}

TEST(Loader, PixelsBecomeFloats) {
  const TensorDataset set = {tensor({uint8_t{0}, uint8_t{51}, uint8_t{255}}, {3, 1, 1, 1}),
                             arange(3)};
  for (const bool resident : {false, true})
    EXPECT_EQ(contents(Loader(set, {.resident = resident}), 0).first,
              (std::vector<float>{0, 51.0F / 255, 1}));
}

TEST(Loader, KeepsLabelsOfAnyKind) {
  const TensorDataset set = {uniform({5, 2}), uniform({5, 3})};
  for (const auto& [x, y] : Loader(set, {.batch = 5}).epoch(0))
    EXPECT_EQ(y.to_vector<float>(), set.y.to_vector<float>());
}

TEST(Threads, LoadersWorkersChangeNothing) {
  for (const auto& [batch, augmented] :
       {std::pair{8, true}, {8, false}, {1, true}, {50, true}, {3, false}}) {
    LoaderOptions options = {.batch = batch, .shuffle = 9};
    if (augmented) options.augment = every_transform();
    const auto expected = contents(Loader(random_images(50), options), 1);
    for (const int workers : {1, 2, 5})
      for (const int64_t prefetch : {1, 4, 100}) {
        options.workers = workers;
        options.prefetch = prefetch;
        EXPECT_EQ(contents(Loader(random_images(50), options), 1), expected);
        const Dataset one_by_one =
            Dataset(random_images(50)).map([](const Example& e) { return e; });
        EXPECT_EQ(contents(Loader(one_by_one, options), 1), expected);
      }
  }
}

TEST(Threads, LoadersWorkersHandOverErrors) {
  const Loader loader(Dataset(std::make_shared<Counted>(64, 21)),
                      {.batch = 8, .workers = 3, .prefetch = 4});
  for (int time = 0; time < 3; ++time) {
    int64_t batches = 0;
    Epoch epoch = loader.epoch(0);
    try {
      for (const auto& [x, y] : epoch) batches += y.size(0) / 8;
      ADD_FAILURE() << "a torn picture went through";
    } catch (const IoError& e) {
      EXPECT_THAT(e.what(), HasSubstr("picture 7 is torn"));
    }
    EXPECT_EQ(batches, 2);
    // The walk is past it.
    for (const auto& [x, y] : epoch) batches += y.size(0) / 8;
    EXPECT_EQ(batches, 7);
  }
}

TEST(Loader, GoesOnAfterABatchThatCannotBeMade) {
  const Loader loader(Dataset(std::make_shared<Counted>(64, 21)), {.batch = 8});
  Epoch epoch = loader.epoch(0);
  int64_t batches = 0;
  const auto walk = [&] {
    for (const Batch& batch : epoch) batches += batch[1].tensor().size(0) / 8;
  };
  EXPECT_THROW(walk(), IoError);
  walk();
  EXPECT_EQ(batches, 7);
}

TEST(Threads, LoadersEndInTheMiddle) {
  const auto counted = std::make_shared<Counted>(10000);
  const Loader loader(Dataset(counted), {.batch = 8, .workers = 3, .prefetch = 4});
  for (int time = 0; time < 20; ++time) {
    Epoch epoch = loader.epoch(time);
    if (time % 2 == 0) (void)epoch.begin();
  }
  EXPECT_LT(counted->made(), 10000);
  for (const auto& [x, y] : loader.epoch(0)) {
    EXPECT_EQ(y.size(0), 8);
    break;
  }
}

TEST(Threads, LoadersWorkersLeaveTheCallersThreadsAlone) {
  const int before = num_threads();
  const Loader loader(random_images(50), {.batch = 8, .workers = 2, .augment = every_transform()});
  (void)contents(loader, 0);
  EXPECT_EQ(num_threads(), before);
}

TEST(Dataset, Composes) {
  const Dataset set = TensorDataset{numbered(10).x, numbered(10).y, {"a", "b"}};
  EXPECT_EQ(set.get(3)[1].tensor().item(), 3);
  EXPECT_EQ(set.get(3)[0].tensor().shape(), Shape({1, 2, 2}));
  EXPECT_THROW(set.get(10), IndexError);
  EXPECT_THROW(set.get(-1), IndexError);
  const Dataset doubled =
      set.map([](const Example& e) { return Values::list({e[0], mul(e[1].tensor(), 2)}); });
  for (const Dataset& d : {set, doubled}) {
    const int64_t factor = &d == &set ? 1 : d.get(1)[1].tensor().item() == 2 ? 2 : 1;
    EXPECT_EQ(d.first(4).size(), 4);
    EXPECT_EQ(d.first(40).size(), 10);
    EXPECT_EQ(d.first(4).get(3)[1].tensor().item(), 3 * factor);
    EXPECT_EQ(d.subset({7, 2, 2}).size(), 3);
    EXPECT_EQ(d.subset({7, 2, 2}).get(0)[1].tensor().item(), 7 * factor);
    EXPECT_THROW(d.subset({10}), IndexError);
    EXPECT_EQ(d.subset({1}).class_names(), (std::vector<std::string>{"a", "b"}));
    const Labels order = seeded_randperm(10, 6).to_vector<int64_t>();
    EXPECT_EQ(d.shuffle(6).get(4)[1].tensor().item(), order[4] * factor);
  }
}

TEST(Dataset, RefusesExamplesThatDiffer) {
  const Dataset set = Dataset(numbered(4)).map([](const Example& e) {
    const auto [x, y] = e;
    return Values::list({y.item() == 2 ? zeros({1, 3, 2}) : x, y});
  });
  try {
    (void)contents(Loader(set), 0);
    ADD_FAILURE() << "images of two sizes made a batch";
  } catch (const ShapeError& e) {
    EXPECT_THAT(e.what(), HasSubstr("example[0] of example 2 is f32[1, 3, 2]"));
  }
  const Dataset odd = Dataset(numbered(4)).map([](const Example& e) {
    return e[1].tensor().item() == 3 ? Values::list({e[0]}) : e;
  });
  expect_error<ShapeError>(
      "example 3 is [f32[1, 2, 2]], others of its batch are [f32[1, 2, 2], i64",
      [&] { (void)contents(Loader(odd), 0); });
}

/// {"image": (1, 2, 2) u8, "more": [number, None]}
Dataset trees(int64_t n) {
  const Tensor pixels = expand(reshape(arange(n), {n, 1, 1, 1}), {n, 1, 2, 2});
  return Dataset(Values::dict({{"image", cast(pixels, DType::u8)},
                               {"more", Values::list({cast(arange(n), DType::u8), Values()})}}));
}

TEST(Loader, GivesExamplesOfAnyStructure) {
  const Dataset in_memory = trees(10);
  const Dataset one_by_one = in_memory.map([](const Example& e) { return e; });
  for (const Dataset& set : {in_memory, one_by_one})
    for (const bool resident : {false, true}) {
      const Loader loader(set,
                          {.batch = 4, .shuffle = 3, .augment = {flip()}, .resident = resident});
      const auto order = seeded_randperm(10, 3, 2).to_vector<int64_t>();
      size_t at = 0;
      for (const Batch& batch : loader.epoch(2)) {
        EXPECT_TRUE(batch["more"][1].is_nothing());
        EXPECT_EQ(batch["more"][0].tensor().dtype(), DType::u8);  // pixels are the first alone
        for (const uint8_t v : batch["more"][0].tensor().to_vector<uint8_t>())
          EXPECT_EQ(v, order[at++]);
        const auto image = batch["image"].tensor().to_vector<float>();
        EXPECT_EQ(image.back(), static_cast<float>(order[at - 1]) / 255);
      }
      EXPECT_EQ(at, 10);
    }
  EXPECT_EQ(in_memory.subset({7, 2}).get(0)["more"][0].tensor().item(), 7);
  EXPECT_EQ(in_memory.first(3).size(), 3);
  expect_error<ShapeError>("expected a row for each example in every tensor, got tensors[1]",
                           [] { Dataset(Values::list({zeros({3}), zeros({4})})); });
}

TEST(Feed, GivesTrees) {
  const Loader loader(trees(8), {.batch = 4, .shuffle = 3, .resident = true});
  Feed feed(loader);
  auto next = compile([&] { return feed.next(4); });
  feed.start(1);
  for (const Batch& batch : loader.epoch(1)) {
    const Values given = next();
    EXPECT_TRUE(same_structure(given, batch));
    EXPECT_EQ(given["more"][0].tensor().to_vector<uint8_t>(),
              batch["more"][0].tensor().to_vector<uint8_t>());
  }
}

}  // namespace
}  // namespace mica::data
