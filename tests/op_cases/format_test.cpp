// Which memory format results have, where shapes alone do not tell it.
#include <gtest/gtest.h>

#include "mica/mica.h"

namespace mica::cases {
namespace {

Tensor gradient(Tensor (*f)(const Tensor&), const Tensor& x) {
  x.set_requires_grad();
  const Tensor y = f(x);
  return grad({y}, {x}, {ones(y.shape())})[0];
}

TEST(Format, AnImageOfOnePixelDoesNotEndChannelsLast) {
  const Tensor x = contiguous(uniform({2, 3, 4, 5}), MemoryFormat::channels_last);
  for (const auto f : {+[](const Tensor& t) { return adaptive_avg_pool2d(t, 1); },
                       +[](const Tensor& t) { return adaptive_max_pool2d(t, 1); },
                       +[](const Tensor& t) { return avg_pool2d(t, {.kernel = {4, 5}}); },
                       +[](const Tensor& t) { return max_pool2d(t, {.kernel = {4, 5}}); },
                       +[](const Tensor& t) { return conv2d(t, ones({2, 3, 4, 5})); }})
    EXPECT_TRUE(gradient(f, x.detach()).spec().is_channels_last());
}

TEST(Format, RowMajorStaysRowMajor) {
  const Tensor x = uniform({2, 3, 4, 5});
  for (const auto f : {+[](const Tensor& t) { return adaptive_avg_pool2d(t, 1); },
                       +[](const Tensor& t) { return conv2d(t, ones({2, 3, 4, 5})); }})
    EXPECT_TRUE(gradient(f, x.detach()).spec().is_contiguous());
}

}  // namespace
}  // namespace mica::cases
