#include "mica/ops/pixel_shuffle/pixel_shuffle.h"

#include "mica/core/check.h"
#include "mica/op/function.h"
#include "mica/ops/view/view.h"

namespace mica {
namespace {

constexpr int64_t kMostTile = 1 << 15;  // r * r stays a small number

void check_image(const char* op, const Tensor& x, int64_t r) {
  check<ShapeError>(x.rank() >= 3, "{}: input must be […, C, H, W], got {}", op, x.shape());
  check<ShapeError>(r >= 1 && r <= kMostTile, "{}: r must be between 1 and {}, got {}", op,
                    kMostTile, r);
}

// The axes before (C, H, W) as one.
Shape with_leading(const Tensor& x, std::initializer_list<int64_t> rest) {
  Shape shape = {1};
  for (int i = 0; i < x.rank() - 3; ++i) shape[0] *= x.shape()[i];
  for (const int64_t size : rest) shape.push_back(size);
  return shape;
}

Shape with_image(const Tensor& x, int64_t c, int64_t h, int64_t w) {
  Shape shape = x.shape();
  const int rank = shape.rank();
  shape[rank - 3] = c;
  shape[rank - 2] = h;
  shape[rank - 1] = w;
  return shape;
}

}  // namespace

Tensor pixel_shuffle(const Tensor& x, int64_t r) {
  check_image("pixel_shuffle", x, r);
  const int64_t c = x.size(-3);
  const int64_t h = x.size(-2);
  const int64_t w = x.size(-1);
  check<ShapeError>(c % (r * r) == 0, "pixel_shuffle: channels must divide by {}, got {}", r * r,
                    x.shape());
  const Tensor tiles = reshape(x, with_leading(x, {c / (r * r), r, r, h, w}));
  return reshape(permute(tiles, {0, 1, 4, 2, 5, 3}),
                 with_image(x, c / (r * r), numel({h, r}), numel({w, r})));
}

Tensor pixel_unshuffle(const Tensor& x, int64_t r) {
  check_image("pixel_unshuffle", x, r);
  const int64_t c = x.size(-3);
  const int64_t h = x.size(-2);
  const int64_t w = x.size(-1);
  check<ShapeError>(h % r == 0 && w % r == 0,
                    "pixel_unshuffle: height and width must divide by {}, got {}", r, x.shape());
  const Tensor tiles = reshape(x, with_leading(x, {c, h / r, r, w / r, r}));
  return reshape(permute(tiles, {0, 1, 3, 5, 2, 4}), with_image(x, numel({c, r, r}), h / r, w / r));
}

Tensor channel_shuffle(const Tensor& x, int64_t groups) {
  check<ShapeError>(x.rank() >= 3, "channel_shuffle: input must be [N, C, …], got {}", x.shape());
  check<ShapeError>(groups >= 1 && x.size(1) % groups == 0,
                    "channel_shuffle: groups must divide the {} channels, got {}", x.size(1),
                    groups);
  int64_t pixels = 1;
  for (int i = 2; i < x.rank(); ++i) pixels *= x.size(i);
  const Tensor grouped = reshape(x, {x.size(0), groups, x.size(1) / groups, pixels});
  return reshape(transpose(grouped, 1, 2), x.shape());
}

Functions pixel_shuffle_functions() {
  return {{.name = "pixel_shuffle",
           .doc = "(…, C * r^2, H, W) becomes (…, C, H * r, W * r) with r = upscale_factor: each "
                  "group of r^2 channels is a tile of r by r pixels.",
           .signatures = {{pixel_shuffle, {"input", "upscale_factor"}}},
           .offer = kFunctional},
          {.name = "pixel_unshuffle",
           .doc = "The way back of pixel_shuffle: (…, C, H * r, W * r) becomes (…, C * r^2, H, W) "
                  "with r = downscale_factor.",
           .signatures = {{pixel_unshuffle, {"input", "downscale_factor"}}},
           .offer = kFunctional},
          {.name = "channel_shuffle",
           .doc = "input (N, C, …) with its channels, seen as (groups, C / groups), transposed.",
           .signatures = {{channel_shuffle, {"input", "groups"}}},
           .offer = kFunctional}};
}

}  // namespace mica
