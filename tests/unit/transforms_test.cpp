#include "mica/data/transforms.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <numeric>

#include "mica/core/error.h"
#include "mica/ops/ops.h"

namespace mica::data {
namespace {

using Floats = std::vector<float>;
using Indices = std::vector<int64_t>;

Indices count_to(int64_t n) {
  Indices all(static_cast<size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

Tensor image(int64_t h, int64_t w) { return reshape(arange(1, 1.0 + h * w, 1), {1, 1, h, w}); }
Tensor copies(const Tensor& x, int64_t n) {
  return contiguous(expand(x, {n, x.size(1), x.size(2), x.size(3)}));
}

std::vector<Transform> random_transforms() {
  return {pad_crop(1), flip(), vertical_flip(), rotate(90),
          color_jitter({.brightness = 0.5, .contrast = 0.5, .saturation = 0.5, .hue = 0.1})};
}

TEST(Transforms, DependOnTheImagesNumberAlone) {
  manual_seed(1);
  const Tensor x = uniform({6, 3, 5, 4});
  for (const Transform& t : random_transforms()) {
    const Floats all = t(x, count_to(6), {.seed = 5, .epoch = 2}).to_vector<float>();
    EXPECT_EQ(t(x, count_to(6), {.seed = 5, .epoch = 2}).to_vector<float>(), all);
    for (const Indices& some : {Indices{4}, Indices{5, 0, 3}}) {
      const Tensor part = index_select(x, 0, tensor(some, {static_cast<int64_t>(some.size())}));
      const Floats changed = t(part, some, {.seed = 5, .epoch = 2}).to_vector<float>();
      for (size_t i = 0; i < some.size(); ++i)
        EXPECT_EQ(Floats(changed.begin() + static_cast<int64_t>(60 * i),
                         changed.begin() + static_cast<int64_t>(60 * i + 60)),
                  Floats(all.begin() + 60 * some[i], all.begin() + 60 * some[i] + 60));
    }
  }
}

TEST(Transforms, DrawOtherNumbersForEachSeedEpochAndPosition) {
  const Indices indices = count_to(64);
  const auto draw = [&](const RandomStream& stream) {
    return flip().draw(indices, stream).to_vector<float>();
  };
  const Floats first = draw({});
  EXPECT_NE(draw({.seed = 1}), first);
  EXPECT_NE(draw({.epoch = 1}), first);
  EXPECT_NE(draw({.position = 1}), first);
  const double flipped = std::accumulate(first.begin(), first.end(), 0.0);
  EXPECT_GT(flipped, 16);
  EXPECT_LT(flipped, 48);
}

TEST(Transforms, Normalize) {
  const Tensor x = tensor({1.0F, 2.0F, 3.0F, 4.0F}, {1, 2, 1, 2});
  EXPECT_EQ(normalize({1, 2}, {2, 4})(x, Indices{0}).to_vector<float>(),
            (Floats{0, 0.5, 0.25, 0.5}));
  EXPECT_EQ(normalize({1}, {1})(x, Indices{0}).to_vector<float>(), (Floats{0, 1, 2, 3}));
  EXPECT_THROW(normalize({1, 2, 3}, {1, 1, 1})(x, Indices{0}), ShapeError);
  EXPECT_THROW(normalize({1}, {0}), Error);
  EXPECT_THROW(normalize({1, 2}, {1}), Error);
}

TEST(Transforms, FlipsWhatItSays) {
  const Tensor x = image(2, 3);
  EXPECT_EQ(flip(1)(x, Indices{0}).to_vector<float>(), (Floats{3, 2, 1, 6, 5, 4}));
  EXPECT_EQ(flip(0)(x, Indices{0}).to_vector<float>(), (Floats{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(vertical_flip(1)(x, Indices{0}).to_vector<float>(), (Floats{4, 5, 6, 1, 2, 3}));
  EXPECT_THROW(flip(1.5), Error);
}

TEST(Transforms, PadCropMovesTheImage) {
  const Tensor x = image(3, 4);
  const int64_t n = 300;
  const Transform t = pad_crop(2);
  const Tensor at = t.draw(count_to(n), {});
  const Tensor y = t(copies(x, n), count_to(n));
  std::vector<int> seen(25);
  for (int64_t i = 0; i < n; ++i) {
    const auto dy = static_cast<int64_t>(at.data_as<float>()[2 * i]);
    const auto dx = static_cast<int64_t>(at.data_as<float>()[2 * i + 1]);
    ++seen[static_cast<size_t>(5 * dy + dx)];
    for (int64_t r = 0; r < 3; ++r)
      for (int64_t c = 0; c < 4; ++c) {
        const int64_t row = r + dy - 2;
        const int64_t column = c + dx - 2;
        const bool inside = row >= 0 && row < 3 && column >= 0 && column < 4;
        EXPECT_EQ(y.data_as<float>()[12 * i + 4 * r + c],
                  inside ? static_cast<float>(4 * row + column + 1) : 0);
      }
  }
  for (const int count : seen) EXPECT_GT(count, 0);
}

TEST(Transforms, RotatesAboutTheMiddle) {
  EXPECT_EQ(rotate(0)(image(3, 4), Indices{0}).to_vector<float>(), image(3, 4).to_vector<float>());
  // A quarter turn of a square and half a turn of any image move pixels to pixels.
  const auto turned = [](const Tensor& x, float cosine, float sine) {
    return rotate(180).apply(x, tensor({cosine, sine}, {1, 2})).to_vector<float>();
  };
  const Floats quarter = turned(image(2, 2), 0, 1);
  EXPECT_TRUE((quarter == Floats{3, 1, 4, 2} || quarter == Floats{2, 4, 1, 3}));
  EXPECT_EQ(turned(image(2, 3), -1, 0), (Floats{6, 5, 4, 3, 2, 1}));
  // In an image that is wider than high the turned row is a column.
  const Tensor bar = tensor(Floats{0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0}, {1, 1, 3, 5});
  const Floats upright = turned(bar, 0, 1);
  for (size_t i = 0; i < upright.size(); ++i) EXPECT_NEAR(upright[i], i % 5 == 2 ? 1 : 0, 1e-5);
}

TEST(Transforms, Resizes) {
  EXPECT_EQ(resize({2, 4})(image(4, 8), Indices{0}).shape(), Shape({1, 1, 2, 4}));
  EXPECT_EQ(resize({4, 8})(image(4, 8), Indices{0}).to_vector<float>(),
            image(4, 8).to_vector<float>());
}

TEST(Transforms, ColorJitterKeepsItsRanges) {
  const Tensor grey = full({200, 1, 2, 2}, 0.5);
  const Tensor y = color_jitter({.brightness = 0.4})(grey, count_to(200));
  EXPECT_GE(min(y).item(), 0.3 - 1e-6);
  EXPECT_LE(max(y).item(), 0.7 + 1e-6);
  EXPECT_LT(min(y).item(), 0.33);
  EXPECT_GT(max(y).item(), 0.67);
  // A grey image has nothing to contrast with, and no colours.
  const Tensor colours = full({50, 3, 2, 2}, 0.25);
  const Tensor same = color_jitter({.contrast = 0.9, .saturation = 0.9})(colours, count_to(50));
  for (const float v : same.to_vector<float>()) EXPECT_NEAR(v, 0.25, 1e-6);
  EXPECT_THROW(color_jitter({.contrast = 1})(zeros({1, 2, 2, 2}), Indices{0}), ShapeError);
}

TEST(Transforms, ColorJitterTurnsColours) {
  const Transform t = color_jitter({.hue = 0.5});
  const auto turned = [&](const Tensor& x, double turns) {
    const double angle = 2 * std::numbers::pi * turns;
    const Floats parameters = {1, 1, 1, static_cast<float>(std::cos(angle)),
                               static_cast<float>(std::sin(angle))};
    return t.apply(x, tensor(parameters, {1, 5})).to_vector<float>();
  };
  const Tensor red = tensor({0.75F, 0.25F, 0.25F}, {1, 3, 1, 1});
  const std::vector<Floats> expected = {{0.75, 0.25, 0.25}, {0.25, 0.75, 0.25}, {0.25, 0.25, 0.75}};
  for (size_t third = 0; third < 3; ++third) {
    const Floats y = turned(red, static_cast<double>(third) / 3);
    for (size_t c = 0; c < 3; ++c) EXPECT_NEAR(y[c], expected[third][c], 1e-6) << third;
  }
  const Tensor y = t(copies(red, 100), count_to(100));
  for (const float s : sum(y, {1}).to_vector<float>()) EXPECT_NEAR(s, 1.25, 1e-5);
  EXPECT_GT(max(narrow(y, 1, 2, 1)).item(), 0.7);
  EXPECT_THROW(color_jitter({.hue = 0.6}), Error);
}

TEST(Transforms, RefuseWhatIsNoImage) {
  EXPECT_THROW(flip()(zeros({3, 4, 4}), Indices{0}), ShapeError);
  EXPECT_THROW(flip()(zeros({2, 1, 4, 4}), Indices{0}), ShapeError);
  EXPECT_THROW(flip()(zeros({1, 1, 4, 4}, {.dtype = DType::u8}), Indices{0}), ShapeError);
}

}  // namespace
}  // namespace mica::data
