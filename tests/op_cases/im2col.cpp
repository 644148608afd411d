#include "tests/op_cases/op_case.h"

namespace mica::cases {
namespace {

struct Setup {
  const char* name;
  Shape x;
  Im2colParams params;
  std::vector<DType> dtypes = kFloats;

  int64_t windows(int axis) const {
    const Im2colParams& p = params;
    return axis == 2
               ? (x[2] + 2 * p.padding.h - p.dilation.h * (p.kernel.h - 1) - 1) / p.stride.h + 1
               : (x[3] + 2 * p.padding.w - p.dilation.w * (p.kernel.w - 1) - 1) / p.stride.w + 1;
  }
  Shape columns() const {
    return {x[0], x[1] * params.kernel.h * params.kernel.w, windows(2) * windows(3)};
  }
};

std::vector<Setup> setups() {
  return {{"3x3", {2, 3, 5, 6}, {.kernel = 3}},
          {"padded", {2, 2, 4, 5}, {.kernel = 3, .padding = 1}},
          {"padded far", {1, 2, 2, 3}, {.kernel = 2, .padding = {4, 5}}},
          {"tiles", {1, 3, 6, 4}, {.kernel = 2, .stride = 2}},
          {"oblong",
           {1, 2, 9, 8},
           {.kernel = {1, 3}, .stride = {2, 3}, .padding = {0, 2}, .dilation = {3, 2}}},
          {"gaps between windows", {1, 2, 7, 7}, {.kernel = 2, .stride = 3}},
          {"several threads", {2, 4, 40, 40}, {.kernel = 3, .padding = 1}, {DType::f32}},
          {"one element", {1, 1, 1, 1}, {}},
          {"no images", {0, 3, 4, 4}, {.kernel = 2}},
          {"padding alone", {1, 2, 0, 2}, {.kernel = 2, .padding = 1}}};
}

/// Index in x of what stands at (row, window) of the columns of image n; -1 for padding.
int64_t source(const Setup& s, int64_t n, int64_t row, int64_t window) {
  const Im2colParams& p = s.params;
  const int64_t j = row % p.kernel.w;
  const int64_t i = row / p.kernel.w % p.kernel.h;
  const int64_t c = row / p.kernel.w / p.kernel.h;
  const int64_t h = window / s.windows(3) * p.stride.h - p.padding.h + i * p.dilation.h;
  const int64_t w = window % s.windows(3) * p.stride.w - p.padding.w + j * p.dilation.w;
  if (h < 0 || w < 0 || h >= s.x[2] || w >= s.x[3]) return -1;
  return ((n * s.x[1] + c) * s.x[2] + h) * s.x[3] + w;
}

template <class F>
void each_entry(const Setup& s, F&& f) {
  const Shape columns = s.columns();
  size_t at = 0;
  for (int64_t n = 0; n < columns[0]; ++n)
    for (int64_t row = 0; row < columns[1]; ++row)
      for (int64_t window = 0; window < columns[2]; ++window) {
        const int64_t from = source(s, n, row, window);
        f(at++, from < 0 ? -1 : from);
      }
}

OpCase im2col_case() {
  OpCase c{.op = "im2col", .samples = {}};
  for (const Setup& s : setups())
    c.samples.push_back({.name = s.name,
                         .in = {x(s.x)},
                         .call = [s](const Args& a) -> Tensors { return {im2col(a[0], s.params)}; },
                         .oracle =
                             [s](const HostArgs& in) {
                               HostArray y{s.columns(), {}};
                               each_entry(s, [&](size_t, int64_t from) {
                                 y.values.push_back(
                                     from < 0 ? 0 : in[0].values[static_cast<size_t>(from)]);
                               });
                               return std::vector{y};
                             },
                         .dtypes = s.dtypes,
                         .exact = true});
  const auto call = [](Device d, const Shape& shape, const Im2colParams& p) {
    im2col(zeros(shape, {.device = d}), p);
  };
  constexpr int64_t kHuge = int64_t{1} << 31;
  c.bad = {
      bad<ShapeError>("im2col: input must be [N, C, H, W], got [3, 4]",
                      [=](Device d) { call(d, {3, 4}, {}); }),
      bad<ShapeError>("im2col: kernel must be between 1 and 2^31 - 1 each way, got {0, 2}",
                      [=](Device d) { call(d, {1, 1, 4, 4}, {.kernel = {0, 2}}); }),
      bad<ShapeError>("im2col: stride must be between 1 and 2^31 - 1 each way, got {0, 0}",
                      [=](Device d) { call(d, {1, 1, 4, 4}, {.stride = 0}); }),
      bad<ShapeError>("im2col: padding must be between 0 and 2^31 - 1 each way, got {-1, -1}",
                      [=](Device d) { call(d, {1, 1, 4, 4}, {.padding = -1}); }),
      bad<ShapeError>("im2col: dilation must be between 1 and 2^31 - 1 each way, got",
                      [=](Device d) { call(d, {1, 1, 4, 4}, {.dilation = kHuge}); }),
      bad<ShapeError>("im2col: a window of {3, 3} with dilation {2, 2} does not fit the padded "
                      "image of 4 by 4",
                      [=](Device d) { call(d, {1, 1, 4, 4}, {.kernel = 3, .dilation = 2}); }),
      bad<DTypeError>("im2col: expected a floating dtype, got i64",
                      [](Device d) { im2col(zeros({1, 1, 4, 4}, {DType::i64, d}), {}); })};
  return c;
}

OpCase col2im_case() {
  OpCase c{.op = "col2im", .samples = {}};
  for (const Setup& s : setups())
    c.samples.push_back({.name = s.name,
                         .in = {x(s.columns())},
                         .call = [s](const Args& a) -> Tensors {
                           return {col2im(a[0], {s.params, {s.x[2], s.x[3]}})};
                         },
                         .oracle =
                             [s](const HostArgs& in) {
                               HostArray y{s.x,
                                           std::vector<double>(static_cast<size_t>(numel(s.x)))};
                               each_entry(s, [&](size_t at, int64_t to) {
                                 if (to >= 0) y.values[static_cast<size_t>(to)] += in[0].values[at];
                               });
                               return std::vector{y};
                             },
                         .dtypes = s.dtypes});
  const auto call = [](Device d, const Shape& shape, const Col2imParams& p) {
    col2im(zeros(shape, {.device = d}), p);
  };
  c.bad = {bad<ShapeError>("col2im: columns must be [N, C * 4, 9], got [1, 6, 9]",
                           [=](Device d) { call(d, {1, 6, 9}, {{.kernel = 2}, 4}); }),
           bad<ShapeError>("col2im: columns must be [N, C * 4, 9], got [1, 4, 8]",
                           [=](Device d) { call(d, {1, 4, 8}, {{.kernel = 2}, 4}); }),
           bad<ShapeError>("col2im: columns must be [N, C * 4, 9], got [9]",
                           [=](Device d) { call(d, {9}, {{.kernel = 2}, 4}); }),
           bad<ShapeError>("col2im: an image must be between 0 and 2^31 - 1 each way, got {-1, 4}",
                           [=](Device d) { call(d, {1, 4, 9}, {{.kernel = 2}, {-1, 4}}); }),
           bad<DTypeError>("col2im: expected a floating dtype, got i64", [](Device d) {
             col2im(zeros({1, 4, 9}, {DType::i64, d}), {{.kernel = 2}, 4});
           })};
  return c;
}

const Room kRoom([] { return std::vector<OpCase>{im2col_case(), col2im_case()}; });

}  // namespace
}  // namespace mica::cases
