#include "tests/op_cases/op_case.h"

namespace mica::cases {
namespace {

/// (…, C, H, W) as images with one leading axis.
struct Image {
  int64_t n = 1, c, h, w;

  explicit Image(const Shape& s) : c(s[s.rank() - 3]), h(s[s.rank() - 2]), w(s[s.rank() - 1]) {
    for (int i = 0; i < s.rank() - 3; ++i) n *= s[i];
  }
  size_t at(int64_t image, int64_t channel, int64_t row, int64_t col) const {
    return static_cast<size_t>(((image * c + channel) * h + row) * w + col);
  }
};

Shape with_image(Shape s, int64_t c, int64_t h, int64_t w) {
  const int r = s.rank();
  s[r - 3] = c;
  s[r - 2] = h;
  s[r - 1] = w;
  return s;
}

/// From tiles of pixels to groups of channels where `back`, else the other way.
HostArray shuffled(const HostArray& x, int64_t r, bool back) {
  const Image from(x.shape);
  HostArray y{back ? with_image(x.shape, from.c * r * r, from.h / r, from.w / r)
                   : with_image(x.shape, from.c / (r * r), from.h * r, from.w * r),
              std::vector<double>(x.values.size())};
  const Image deep(back ? y.shape : x.shape);
  const Image wide(back ? x.shape : y.shape);
  for (int64_t n = 0; n < from.n; ++n)
    for (int64_t c = 0; c < wide.c; ++c)
      for (int64_t h = 0; h < wide.h; ++h)
        for (int64_t w = 0; w < wide.w; ++w) {
          const size_t a = wide.at(n, c, h, w);
          const size_t b = deep.at(n, c * r * r + h % r * r + w % r, h / r, w / r);
          y.values[back ? b : a] = x.values[back ? a : b];
        }
  return y;
}

Sample sample(const char* name, const Shape& shape, int64_t r, bool back) {
  return {.name = name,
          .in = {x(shape)},
          .call = [=](const Args& a) -> Tensors {
            return {back ? pixel_unshuffle(a[0], r) : pixel_shuffle(a[0], r)};
          },
          .oracle = [=](const HostArgs& in) { return std::vector{shuffled(in[0], r, back)}; },
          .exact = true};
}

OpCase pixel_shuffle_case() {
  return {
      .op = "pixel_shuffle",
      .samples = {sample("by 2", {2, 8, 3, 4}, 2, false),
                  sample("by 3, one image", {9, 2, 2}, 3, false),
                  sample("five axes", {2, 1, 4, 2, 3}, 2, false),
                  sample("one element", {1, 1, 1, 1}, 1, false),
                  sample("empty", {0, 4, 2, 2}, 2, false)},
      .bad = {
          bad<ShapeError>("pixel_shuffle: input must be […, C, H, W], got [4, 4]",
                          [](Device d) { pixel_shuffle(zeros({4, 4}, {.device = d}), 2); }),
          bad<ShapeError>("pixel_shuffle: channels must divide by 4, got [1, 6, 2, 2]",
                          [](Device d) { pixel_shuffle(zeros({1, 6, 2, 2}, {.device = d}), 2); }),
          bad<ShapeError>("pixel_shuffle: r must be between 1 and 32768, got 0",
                          [](Device d) { pixel_shuffle(zeros({1, 4, 2, 2}, {.device = d}), 0); })}};
}

OpCase pixel_unshuffle_case() {
  return {
      .op = "pixel_unshuffle",
      .samples = {sample("by 2", {2, 3, 4, 6}, 2, true),
                  sample("by 3, one image", {1, 6, 3}, 3, true),
                  sample("one element", {1, 1, 1, 1}, 1, true),
                  sample("empty", {0, 4, 2, 2}, 2, true)},
      .bad = {
          bad<ShapeError>("pixel_unshuffle: input must be […, C, H, W], got [4, 4]",
                          [](Device d) { pixel_unshuffle(zeros({4, 4}, {.device = d}), 2); }),
          bad<ShapeError>("pixel_unshuffle: height and width must divide by 2, got [1, 6, 2, 3]",
                          [](Device d) { pixel_unshuffle(zeros({1, 6, 2, 3}, {.device = d}), 2); }),
          bad<ShapeError>("pixel_unshuffle: r must be between 1 and 32768, got -1", [](Device d) {
            pixel_unshuffle(zeros({1, 4, 2, 2}, {.device = d}), -1);
          })}};
}

OpCase channel_shuffle_case() {
  const auto shuffle = [](const char* name, const Shape& shape, int64_t groups) -> Sample {
    return {.name = name,
            .in = {x(shape)},
            .call = [=](const Args& a) -> Tensors { return {channel_shuffle(a[0], groups)}; },
            .oracle =
                [=](const HostArgs& in) {
                  HostArray y{shape, std::vector<double>(in[0].values.size())};
                  const int64_t pixels = numel(shape) / std::max<int64_t>(1, shape[0] * shape[1]);
                  for (int64_t n = 0; n < shape[0]; ++n)
                    for (int64_t c = 0; c < shape[1]; ++c)
                      for (int64_t i = 0; i < pixels; ++i) {
                        const int64_t each = shape[1] / groups;
                        const int64_t to = c % each * groups + c / each;
                        y.values[static_cast<size_t>((n * shape[1] + to) * pixels + i)] =
                            in[0].values[static_cast<size_t>((n * shape[1] + c) * pixels + i)];
                      }
                  return std::vector{y};
                },
            .exact = true};
  };
  return {
      .op = "channel_shuffle",
      .samples = {shuffle("images", {2, 6, 2, 3}, 3), shuffle("lines", {2, 4, 5}, 2),
                  shuffle("one element", {1, 1, 1}, 1), shuffle("empty", {0, 4, 2, 2}, 2)},
      .bad = {
          bad<ShapeError>("channel_shuffle: input must be [N, C, …], got [4, 4]",
                          [](Device d) { channel_shuffle(zeros({4, 4}, {.device = d}), 2); }),
          bad<ShapeError>("channel_shuffle: groups must divide the 6 channels, got 4",
                          [](Device d) { channel_shuffle(zeros({1, 6, 2, 2}, {.device = d}), 4); }),
          bad<ShapeError>(
              "channel_shuffle: groups must divide the 6 channels, got 0",
              [](Device d) { channel_shuffle(zeros({1, 6, 2, 2}, {.device = d}), 0); })}};
}

const Room kRoom([] {
  return std::vector<OpCase>{pixel_shuffle_case(), pixel_unshuffle_case(), channel_shuffle_case()};
});

}  // namespace
}  // namespace mica::cases
