#include "tests/op_cases/pool_oracle.h"

namespace mica::cases {
namespace {

struct Setup {
  const char* name;
  Shape x;
  AvgPool2dParams params = {};
  std::vector<DType> dtypes = kFloats;

  std::vector<HostWindows> windows() const {
    const AvgPool2dParams& p = params;
    return {HostWindows::plain(
                x[2], {p.kernel.h, p.stride.h, p.padding.h, 1, p.ceil_mode, p.count_include_pad}),
            HostWindows::plain(
                x[3], {p.kernel.w, p.stride.w, p.padding.w, 1, p.ceil_mode, p.count_include_pad})};
  }
  Shape y() const {
    return each_window(x, windows(), [](const std::vector<int64_t>&, double) {});
  }
};

std::vector<Setup> setups() {
  return {
      {"2x2", {2, 3, 6, 8}},
      {"2x2, whole vectors", {2, 8, 4, 16}},
      {"2x2, own divisor", {1, 8, 4, 8}, {.divisor_override = 3}},
      {"2x2, remainder", {2, 3, 7, 5}},
      {"3x3 over 2", {2, 3, 8, 9}, {.kernel = 3, .stride = 2, .padding = 1}},
      {"padding does not count",
       {2, 3, 8, 9},
       {.kernel = 3, .stride = 2, .padding = 1, .count_include_pad = false}},
      {"overlapping", {1, 2, 6, 6}, {.kernel = 3, .stride = 1}},
      {"overlapping, padded", {1, 2, 6, 7}, {.kernel = {2, 5}, .stride = 1, .padding = {1, 2}}},
      {"oblong", {1, 2, 6, 9}, {.kernel = {1, 3}, .stride = {2, 1}, .padding = {0, 1}}},
      {"5 over 2", {1, 2, 9, 11}, {.kernel = 5, .stride = 2, .padding = 2}},
      {"over 3", {1, 2, 9, 11}, {.kernel = 4, .stride = 3, .padding = 1}},
      {"stride past the kernel", {1, 9, 9, 9}, {.kernel = 2, .stride = 3}},
      {"kernel 1 over 2", {1, 2, 5, 5}, {.kernel = 1, .stride = 2}},
      {"17 channels", {2, 17, 5, 6}, {.kernel = 3, .stride = 2, .padding = 1}},
      {"ceil_mode", {1, 3, 6, 6}, {.kernel = 3, .stride = 2, .ceil_mode = true}},
      {"ceil_mode, padded",
       {1, 9, 7, 8},
       {.kernel = {3, 2}, .stride = {3, 5}, .padding = 1, .ceil_mode = true}},
      {"ceil_mode, padding does not count",
       {1, 3, 6, 6},
       {.kernel = 3, .stride = 2, .padding = 1, .ceil_mode = true, .count_include_pad = false}},
      {"own divisor", {1, 3, 6, 6}, {.kernel = 3, .padding = 1, .divisor_override = 5}},
      {"two threads", {4, 16, 32, 32}, {.kernel = 3, .stride = 2, .padding = 1}, {DType::f32}},
      {"one element", {1, 1, 1, 1}, {.kernel = 1}},
      {"no images", {0, 3, 4, 4}},
  };
}

OpCase avg_pool2d_case() {
  OpCase c{.op = "avg_pool2d", .samples = {}};
  for (const Setup& s : setups())
    c.samples.push_back(
        {.name = s.name,
         .in = {x(s.x)},
         .call = [s](const Args& a) -> Tensors { return {avg_pool2d(a[0], s.params)}; },
         .oracle =
             [s](const HostArgs& in) {
               return std::vector{host_average(in[0], s.windows(), s.params.divisor_override)};
             },
         .dtypes = s.dtypes});
  c.samples.push_back(
      {.name = "hostile values",
       .in = {x({1, 1, 4, 4}).of(hostile_values())},
       .call = [](const Args& a) -> Tensors { return {avg_pool2d(a[0], {.kernel = 1})}; },
       .oracle = [](const HostArgs& in) { return std::vector{in[0]}; },
       .gradient = false});
  const auto call = [](Device d, const Shape& shape, const AvgPool2dParams& p) {
    avg_pool2d(zeros(shape, {.device = d}), p);
  };
  c.bad = {bad<ShapeError>("avg_pool2d: input must be [N, C, H, W] or [C, H, W], got [3, 4]",
                           [=](Device d) { call(d, {3, 4}, {}); }),
           bad<ShapeError>("avg_pool2d: kernel must be at least 1, got [0, 0]",
                           [=](Device d) { call(d, {1, 1, 4, 4}, {.kernel = 0}); }),
           bad<ShapeError>("avg_pool2d: stride must not be negative, got [-1, -1]",
                           [=](Device d) { call(d, {1, 1, 4, 4}, {.stride = -1}); }),
           bad<ShapeError>("avg_pool2d: padding must be in [0, kernel / 2] with kernel = [2, 2]",
                           [=](Device d) { call(d, {1, 1, 4, 4}, {.padding = 2}); }),
           bad<ShapeError>("avg_pool2d: kernel of 5 by 5 does not fit the padded input of 4 by 4",
                           [=](Device d) { call(d, {1, 1, 4, 4}, {.kernel = 5}); }),
           bad<ShapeError>("avg_pool2d: an image must have between 1 and 2^31 - 1 positions",
                           [=](Device d) { call(d, {1, 1, 0, 4}, {}); }),
           bad<Error>("avg_pool2d: divisor_override must be positive, got -1",
                      [=](Device d) { call(d, {1, 1, 4, 4}, {.divisor_override = -1}); }),
           bad<DTypeError>("avg_pool2d: expected a floating dtype, got i64",
                           [](Device d) { avg_pool2d(zeros({1, 1, 4, 4}, {DType::i64, d})); })};
  return c;
}

OpCase avg_pool2d_grad_case() {
  OpCase c{.op = "avg_pool2d_grad", .samples = {}};
  for (const Setup& s : setups())
    c.samples.push_back(
        {.name = s.name,
         .in = {x(s.y())},
         .call = [s](const Args& a) -> Tensors { return {avg_pool2d_grad(a[0], {s.params, s.x})}; },
         .oracle =
             [s](const HostArgs& in) {
               return std::vector{host_spread(in[0], s.x, s.windows(), s.params.divisor_override)};
             },
         .dtypes = s.dtypes});
  c.bad = {bad<ShapeError>("avg_pool2d_grad: dy must be [1, 1, 2, 2], got [1, 1, 3, 3]",
                           [](Device d) {
                             avg_pool2d_grad(zeros({1, 1, 3, 3}, {.device = d}),
                                             {{}, {1, 1, 4, 4}});
                           }),
           bad<DTypeError>("avg_pool2d_grad: expected a floating dtype, got i32", [](Device d) {
             avg_pool2d_grad(zeros({1, 1, 2, 2}, {DType::i32, d}), {{}, {1, 1, 4, 4}});
           })};
  return c;
}

struct Adaptive {
  const char* name;
  Shape x;
  Size2 output;

  std::vector<HostWindows> windows() const {
    return {HostWindows::adaptive(x[2], output.h), HostWindows::adaptive(x[3], output.w)};
  }
};

std::vector<Adaptive> adaptives() {
  return {{"whole parts", {2, 3, 6, 8}, {3, 4}},
          {"unequal", {2, 3, 7, 10}, {3, 4}},
          {"9 channels", {1, 9, 5, 7}, {2, 3}},
          {"larger", {1, 2, 3, 4}, {5, 4}},
          {"one result", {2, 3, 5, 5}, 1},
          {"large windows", {2, 4, 25, 27}, 2},
          {"one result of a large image", {2, 3, 30, 31}, 1},
          {"one element", {1, 1, 1, 1}, 1},
          {"no images", {0, 2, 4, 4}, 2}};
}

OpCase adaptive_case() {
  OpCase c{.op = "adaptive_avg_pool2d", .samples = {}};
  for (const Adaptive& s : adaptives())
    c.samples.push_back(
        {.name = s.name,
         .in = {x(s.x)},
         .call = [s](const Args& a) -> Tensors { return {adaptive_avg_pool2d(a[0], s.output)}; },
         .oracle =
             [s](const HostArgs& in) { return std::vector{host_average(in[0], s.windows())}; }});
  c.bad = {
      bad<ShapeError>("adaptive_avg_pool2d: input must be [N, C, H, W] or [C, H, W], got [3, 4]",
                      [](Device d) { adaptive_avg_pool2d(zeros({3, 4}, {.device = d}), 1); }),
      bad<ShapeError>(
          "adaptive_avg_pool2d: output must be at least 1, got [2, -1]",
          [](Device d) { adaptive_avg_pool2d(zeros({1, 1, 4, 4}, {.device = d}), {2, -1}); }),
      bad<DTypeError>("adaptive_avg_pool2d: expected a floating dtype, got i64", [](Device d) {
        adaptive_avg_pool2d(zeros({1, 1, 4, 4}, {DType::i64, d}), 1);
      })};
  return c;
}

OpCase adaptive_grad_case() {
  OpCase c{.op = "adaptive_avg_pool2d_grad", .samples = {}};
  for (const Adaptive& s : adaptives())
    c.samples.push_back(
        {.name = s.name,
         .in = {x({s.x[0], s.x[1], s.output.h, s.output.w})},
         .call = [s](const Args& a) -> Tensors { return {adaptive_avg_pool2d_grad(a[0], {s.x})}; },
         .oracle =
             [s](const HostArgs& in) {
               return std::vector{host_spread(in[0], s.x, s.windows())};
             }});
  c.bad = {bad<ShapeError>(
               "adaptive_avg_pool2d_grad: dy must be [N, C, H', W'] with N and C of [1, 2, 4, 4]",
               [](Device d) {
                 adaptive_avg_pool2d_grad(zeros({1, 1, 2, 2}, {.device = d}), {{1, 2, 4, 4}});
               }),
           bad<ShapeError>(
               "adaptive_avg_pool2d_grad: output must be at least 1, got [0, 2]", [](Device d) {
                 adaptive_avg_pool2d_grad(zeros({1, 1, 0, 2}, {.device = d}), {{1, 1, 4, 4}});
               })};
  return c;
}

const Room kRoom([] {
  return std::vector<OpCase>{avg_pool2d_case(), avg_pool2d_grad_case(), adaptive_case(),
                             adaptive_grad_case()};
});

}  // namespace
}  // namespace mica::cases
