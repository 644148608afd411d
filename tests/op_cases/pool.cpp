// Pooling over one and three axes, and Lp pooling.
#include "tests/op_cases/pool_oracle.h"

namespace mica::cases {
namespace {

Dims dims(int64_t s) { return {s}; }
Dims dims(Size2 s) { return {s.h, s.w}; }
Dims dims(Size3 s) { return {s.d, s.h, s.w}; }

template <class Size>
struct MaxSetup {
  const char* name;
  Shape x;
  MaxPoolOptions<Size> options = {};
};

template <class Size>
std::vector<HostWindows> max_axes(const MaxSetup<Size>& s) {
  const auto& o = s.options;
  std::vector<HostWindows> axes;
  for (int i = 0; i < s.x.rank() - 2; ++i)
    axes.push_back(
        HostWindows::plain(s.x[i + 2], {dims(o.kernel)[i], dims(o.stride)[i], dims(o.padding)[i],
                                        dims(o.dilation)[i], o.ceil_mode}));
  return axes;
}

template <class Size, auto function, auto with_indices>
OpCase max_case(const char* op, const std::vector<MaxSetup<Size>>& setups) {
  OpCase c{.op = op, .samples = {}};
  c.samples.reserve(2 * setups.size());
  for (const auto& s : setups) {
    c.samples.push_back({.name = std::string(s.name) + ", with indices",
                         .in = {x(s.x).spread()},
                         .call = [s](const Args& a) -> Tensors {
                           const PooledWithIndices pooled = with_indices(a[0], s.options);
                           return {pooled.values, pooled.indices};
                         },
                         .oracle =
                             [s](const HostArgs& in) {
                               const Pooled out = host_max(in[0], max_axes(s));
                               return std::vector{out.y, out.positions};
                             },
                         .dtypes = dtypes_for_distinct(s.x)});
    c.samples.push_back(
        {.name = s.name,
         .in = {x(s.x).spread()},
         .call = [s](const Args& a) -> Tensors { return {function(a[0], s.options)}; },
         .oracle = [s](const HostArgs& in) { return std::vector{host_max(in[0], max_axes(s)).y}; },
         .dtypes = dtypes_for_distinct(s.x)});
  }
  return c;
}

OpCase max_pool1d_case() {
  OpCase c = max_case<int64_t, max_pool1d, max_pool1d_with_indices>(
      "max_pool1d",
      {{"2", {2, 3, 8}},
       {"3 over 2", {2, 3, 11}, {.kernel = 3, .stride = 2, .padding = 1}},
       {"dilated", {1, 2, 12}, {.kernel = 3, .stride = 1, .padding = 2, .dilation = 2}},
       {"ceil_mode", {1, 2, 8}, {.kernel = 3, .stride = 2, .ceil_mode = true}},
       {"one element", {1, 1, 1}, {.kernel = 1}},
       {"no images", {0, 2, 4}}});
  c.bad = {
      bad<ShapeError>("max_pool1d: input must be [N, C, L] or [C, L], got [4]",
                      [](Device d) { max_pool1d(zeros({4}, {.device = d})); }),
      bad<ShapeError>("max_pool1d: kernel of 5 does not fit the padded input of 4",
                      [](Device d) { max_pool1d(zeros({1, 3, 4}, {.device = d}), {.kernel = 5}); }),
      bad<DTypeError>("max_pool1d: expected a floating dtype, got i32",
                      [](Device d) { max_pool1d(zeros({1, 3, 4}, {DType::i32, d})); })};
  return c;
}

OpCase max_pool3d_case() {
  OpCase c = max_case<Size3, max_pool3d, max_pool3d_with_indices>(
      "max_pool3d",
      {{"2x2x2", {1, 2, 4, 6, 4}},
       {"oblong",
        {1, 2, 5, 6, 7},
        {.kernel = {2, 3, 1}, .stride = {1, 2, 3}, .padding = {1, 1, 0}, .dilation = {1, 2, 1}}},
       {"ceil_mode",
        {1, 2, 3, 4, 6},
        {.kernel = {2, 2, 3}, .stride = {2, 3, 2}, .ceil_mode = true}},
       {"one element", {1, 1, 1, 1, 1}, {.kernel = 1}},
       {"no images", {0, 2, 4, 4, 4}}});
  // Of equals the first in the order of the volume has the gradient.
  c.samples.push_back(
      {.name = "equal values",
       .in = {x({1, 1, 2, 2, 2}).of({1, 3, 2, 3, 3, 1, 3, 0})},
       .call = [](const Args& a) -> Tensors {
         const Tensor leaf = a[0].detach();
         leaf.set_requires_grad();
         return {grad({max_pool3d(leaf)}, {leaf}, {ones({1, 1, 1, 1, 1}, {a.dtype, a.device})})[0]};
       },
       .oracle =
           [](const HostArgs& in) {
             return std::vector{HostArray{in[0].shape, {0, 1, 0, 0, 0, 0, 0, 0}}};
           },
       .gradient = false,
       .compiled = false});
  c.bad = {bad<ShapeError>("max_pool3d: input must be [N, C, D, H, W] or [C, D, H, W], got [3, 4]",
                           [](Device d) { max_pool3d(zeros({3, 4}, {.device = d})); }),
           bad<ShapeError>("max_pool3d: padding must be in [0, kernel / 2]", [](Device d) {
             max_pool3d(zeros({1, 1, 4, 4, 4}, {.device = d}), {.padding = {2, 0, 0}});
           })};
  return c;
}

template <class Size>
struct AvgSetup {
  const char* name;
  Shape x;
  AvgPoolOptions<Size> options = {};
};

template <class Size>
std::vector<HostWindows> average_axes(const Shape& x, const AvgPoolOptions<Size>& o) {
  std::vector<HostWindows> axes;
  for (int i = 0; i < x.rank() - 2; ++i)
    axes.push_back(
        HostWindows::plain(x[i + 2], {dims(o.kernel)[i], dims(o.stride)[i], dims(o.padding)[i], 1,
                                      o.ceil_mode, o.count_include_pad}));
  return axes;
}

template <class Size, auto function>
OpCase avg_case(const char* op, const std::vector<AvgSetup<Size>>& setups) {
  OpCase c{.op = op, .samples = {}};
  c.samples.reserve(setups.size());
  for (const auto& s : setups)
    c.samples.push_back(
        {.name = s.name,
         .in = {x(s.x)},
         .call = [s](const Args& a) -> Tensors { return {function(a[0], s.options)}; },
         .oracle =
             [s](const HostArgs& in) {
               return std::vector{
                   host_average(in[0], average_axes(s.x, s.options), s.options.divisor_override)};
             }});
  return c;
}

OpCase avg_pool1d_case() {
  OpCase c = avg_case<int64_t, avg_pool1d>(
      "avg_pool1d", {{"2", {2, 3, 8}},
                     {"3 over 2", {2, 3, 11}, {.kernel = 3, .stride = 2, .padding = 1}},
                     {"padding does not count",
                      {1, 2, 7},
                      {.kernel = 3, .padding = 1, .count_include_pad = false}},
                     {"ceil_mode", {1, 2, 8}, {.kernel = 3, .stride = 2, .ceil_mode = true}},
                     {"own divisor", {1, 2, 8}, {.divisor_override = 7}},
                     {"one element", {1, 1, 1}, {.kernel = 1}},
                     {"no images", {0, 2, 4}}});
  c.bad = {bad<ShapeError>("avg_pool1d: input must be [N, C, L] or [C, L], got [4]",
                           [](Device d) { avg_pool1d(zeros({4}, {.device = d})); }),
           bad<Error>("avg_pool1d: divisor_override must be positive, got -1", [](Device d) {
             avg_pool1d(zeros({1, 3, 4}, {.device = d}), {.divisor_override = -1});
           })};
  return c;
}

OpCase avg_pool3d_case() {
  OpCase c = avg_case<Size3, avg_pool3d>(
      "avg_pool3d", {{"2x2x2", {1, 2, 4, 6, 4}},
                     {"padded", {1, 2, 4, 5, 4}, {.kernel = 3, .stride = 2, .padding = 1}},
                     {"padding does not count",
                      {1, 2, 4, 5, 4},
                      {.kernel = 3, .stride = 2, .padding = 1, .count_include_pad = false}},
                     {"ceil_mode",
                      {1, 2, 4, 4, 6},
                      {.kernel = {3, 2, 3}, .stride = {2, 3, 2}, .padding = 1, .ceil_mode = true}},
                     {"own divisor", {1, 2, 2, 4, 4}, {.divisor_override = 7}},
                     {"one element", {1, 1, 1, 1, 1}, {.kernel = 1}},
                     {"no images", {0, 2, 4, 4, 4}}});
  c.bad = {bad<ShapeError>("avg_pool3d: input must be [N, C, D, H, W] or [C, D, H, W], got [3, 4]",
                           [](Device d) { avg_pool3d(zeros({3, 4}, {.device = d})); }),
           bad<DTypeError>("avg_pool3d: expected a floating dtype, got i32",
                           [](Device d) { avg_pool3d(zeros({1, 1, 4, 4, 4}, {DType::i32, d})); })};
  return c;
}

template <class Size>
struct AdaptiveSetup {
  const char* name;
  Shape x;
  Size output;

  std::vector<HostWindows> axes() const {
    std::vector<HostWindows> list;
    for (int i = 0; i < x.rank() - 2; ++i)
      list.push_back(HostWindows::adaptive(x[i + 2], dims(output)[i]));
    return list;
  }
};

template <class Size, auto function>
OpCase adaptive_case(const char* op, const std::vector<AdaptiveSetup<Size>>& setups, bool largest) {
  OpCase c{.op = op, .samples = {}};
  c.samples.reserve(setups.size());
  for (const auto& s : setups)
    c.samples.push_back(
        {.name = s.name,
         .in = {x(s.x).spread()},
         .call = [s](const Args& a) -> Tensors { return {function(a[0], s.output)}; },
         .oracle =
             [s, largest](const HostArgs& in) {
               return std::vector{largest ? host_max(in[0], s.axes()).y
                                          : host_average(in[0], s.axes())};
             },
         .dtypes = dtypes_for_distinct(s.x)});
  c.bad = {bad<ShapeError>(std::string(op) + ": output must be at least 1, got [0",
                           [](Device d) {
                             const Shape shape = std::is_same_v<Size, Size3> ? Shape{1, 1, 2, 2, 2}
                                                                             : Shape{1, 1, 2};
                             function(zeros(shape, {.device = d}), 0);
                           }),
           bad<ShapeError>(std::string(op) + ": input must be [N, C, ",
                           [](Device d) { function(zeros({2}, {.device = d}), 1); })};
  return c;
}

const std::vector<AdaptiveSetup<int64_t>> kAdaptive1 = {{"whole parts", {2, 3, 8}, 4},
                                                        {"unequal", {2, 3, 10}, 4},
                                                        {"one element", {1, 1, 1}, 1},
                                                        {"no images", {0, 2, 4}, 2}};
const std::vector<AdaptiveSetup<Size3>> kAdaptive3 = {{"whole parts", {1, 2, 4, 4, 6}, 2},
                                                      {"unequal", {1, 2, 5, 4, 5}, {2, 3, 4}},
                                                      {"one result", {1, 2, 3, 2, 4}, 1},
                                                      {"one element", {1, 1, 1, 1, 1}, 1},
                                                      {"no images", {0, 2, 4, 4, 4}, 2}};

template <class Size>
struct LpSetup {
  const char* name;
  Shape x;
  double p = 2;
  LpPoolOptions<Size> options = {};
};

template <class Size, auto function>
OpCase lp_case(const char* op, const std::vector<LpSetup<Size>>& setups) {
  OpCase c{.op = op, .samples = {}};
  c.samples.reserve(setups.size());
  for (const auto& s : setups)
    c.samples.push_back(
        {.name = s.name,
         .in = {x(s.x).in(0.5, 2)},
         .call = [s](const Args& a) -> Tensors { return {function(a[0], s.p, s.options)}; },
         .oracle =
             [s](const HostArgs& in) {
               HostArray y = in[0];
               double size = 1;
               for (const int64_t k : dims(s.options.kernel)) size *= static_cast<double>(k);
               for (double& v : y.values) v = std::pow(v, s.p);
               y = host_average(y, average_axes<Size>(s.x, {s.options.kernel, s.options.stride, 0,
                                                            s.options.ceil_mode}));
               for (double& v : y.values) v = std::pow(v * size, 1 / s.p);
               return std::vector{y};
             }});
  return c;
}

OpCase lp_pool1d_case() {
  OpCase c = lp_case<int64_t, lp_pool1d>("lp_pool1d",
                                         {{"2", {2, 3, 8}},
                                          {"norm 3", {1, 2, 9}, 3, {.kernel = 3, .stride = 2}},
                                          {"one element", {1, 1, 1}, 2, {.kernel = 1}},
                                          {"no images", {0, 2, 4}}});
  c.bad = {bad<Error>("lp_pool1d: the norm must be a positive number, got 0",
                      [](Device d) { lp_pool1d(zeros({1, 1, 4}, {.device = d}), 0); }),
           bad<ShapeError>("lp_pool1d: input must be [N, C, L] or [C, L], got [4]",
                           [](Device d) { lp_pool1d(zeros({4}, {.device = d}), 2); })};
  return c;
}

OpCase lp_pool2d_case() {
  OpCase c = lp_case<Size2, lp_pool2d>(
      "lp_pool2d", {{"2x2", {2, 3, 4, 6}},
                    {"norm 1", {1, 2, 4, 4}, 1},
                    {"norm 3.5", {1, 2, 5, 5}, 3.5, {.kernel = {3, 2}, .stride = 2}},
                    {"ceil_mode", {1, 2, 6, 6}, 2, {.kernel = 3, .stride = 2, .ceil_mode = true}},
                    {"one element", {1, 1, 1, 1}, 2, {.kernel = 1}},
                    {"no images", {0, 2, 4, 4}}});
  c.samples.push_back(
      {.name = "gradient of zeros",
       .in = {x({1, 1, 2, 2}).of({0, 0, 0, 0})},
       .call = [](const Args& a) -> Tensors {
         const Tensor leaf = a[0].detach();
         leaf.set_requires_grad();
         return {grad({lp_pool2d(leaf, 2)}, {leaf}, {ones({1, 1, 1, 1}, {a.dtype, a.device})})[0]};
       },
       .oracle = [](const HostArgs& in) { return std::vector{in[0]}; },
       .gradient = false,
       .compiled = false});
  c.bad = {bad<Error>("lp_pool2d: the norm must be a positive number, got inf",
                      [](Device d) { lp_pool2d(zeros({1, 1, 4, 4}, {.device = d}), INFINITY); }),
           bad<ShapeError>("lp_pool2d: kernel of 2 by 2 does not fit the padded input of 1 by 4",
                           [](Device d) { lp_pool2d(zeros({1, 1, 1, 4}, {.device = d}), 2); })};
  return c;
}

OpCase lp_pool3d_case() {
  OpCase c = lp_case<Size3, lp_pool3d>(
      "lp_pool3d", {{"2x2x2", {1, 2, 4, 4, 2}},
                    {"norm 3", {1, 1, 3, 4, 5}, 3, {.kernel = {1, 2, 3}, .stride = 2}},
                    {"one element", {1, 1, 1, 1, 1}, 2, {.kernel = 1}},
                    {"no images", {0, 2, 4, 4, 4}}});
  c.bad = {bad<Error>("lp_pool3d: the norm must be a positive number, got -1",
                      [](Device d) { lp_pool3d(zeros({1, 1, 2, 2, 2}, {.device = d}), -1); })};
  return c;
}

const Room kRoom([] {
  return std::vector<OpCase>{
      max_pool1d_case(),
      max_pool3d_case(),
      avg_pool1d_case(),
      avg_pool3d_case(),
      adaptive_case<int64_t, adaptive_max_pool1d>("adaptive_max_pool1d", kAdaptive1, true),
      adaptive_case<Size3, adaptive_max_pool3d>("adaptive_max_pool3d", kAdaptive3, true),
      adaptive_case<int64_t, adaptive_avg_pool1d>("adaptive_avg_pool1d", kAdaptive1, false),
      adaptive_case<Size3, adaptive_avg_pool3d>("adaptive_avg_pool3d", kAdaptive3, false),
      lp_pool1d_case(),
      lp_pool2d_case(),
      lp_pool3d_case()};
});

}  // namespace
}  // namespace mica::cases
