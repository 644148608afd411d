#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/op_cases/op_case.h"

namespace mica::cases {
namespace {

using Values = std::vector<double>;

bool before(double a, double b) { return a < b || (std::isnan(b) && !std::isnan(a)); }

struct Order {
  HostArray values, indices;
};

/// The first k of each row along an axis, in order.
Order ordered(const HostArray& in, int64_t axis, int64_t k, bool descending) {
  const auto a = static_cast<int>((axis + in.shape.rank()) % in.shape.rank());
  const int64_t n = in.shape[a];
  int64_t inner = 1;
  for (int i = a + 1; i < in.shape.rank(); ++i) inner *= in.shape[i];
  Shape shape = in.shape;
  shape[a] = k;
  Order out{{shape, Values(static_cast<size_t>(numel(shape)))},
            {shape, Values(static_cast<size_t>(numel(shape)))}};
  for (int64_t row = 0; n > 0 && row < numel(in.shape) / n; ++row) {
    const auto at = [&](int64_t i, int64_t length) {
      return static_cast<size_t>((row / inner * length + i) * inner + row % inner);
    };
    std::vector<int64_t> order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
      const double first = in.values[at(i, n)];
      const double second = in.values[at(j, n)];
      return descending ? before(second, first) : before(first, second);
    });
    for (int64_t i = 0; i < k; ++i) {
      const int64_t from = order[static_cast<size_t>(i)];
      out.values.values[at(i, k)] = in.values[at(from, n)];
      out.indices.values[at(i, k)] = static_cast<double>(from);
    }
  }
  return out;
}

Tensors both(const Sorted& s) { return {s.values, s.indices}; }

Sample sort_sample(const char* name, Input in, int64_t axis, bool descending = false) {
  const int rank = in.shape.rank();
  const int64_t n = in.shape[static_cast<int>((axis + rank) % rank)];
  return {.name = name,
          .in = {std::move(in)},
          .call = [=](const Args& a) { return both(sort(a[0], axis, descending)); },
          .oracle =
              [=](const HostArgs& h) {
                const Order o = ordered(h[0], axis, n, descending);
                return std::vector{o.values, o.indices};
              },
          .exact = true};
}

/// Shapes and values that sort and its relatives are tested with; distinct where a gradient is
/// taken.
std::vector<Sample> sort_samples() {
  std::vector<Sample> list = {sort_sample("last", x({4, 33}).spread(), -1),
                              sort_sample("descending", x({4, 33}).spread(), 1, true),
                              sort_sample("first", x({9, 5}).spread(), 0),
                              sort_sample("middle", x({2, 7, 3}).spread(), 1, true),
                              sort_sample("channels", x({2, 6, 3, 2}).spread(), 1),
                              sort_sample("one element", x({1}), 0),
                              sort_sample("no rows", x({0, 3}), 1),
                              sort_sample("empty rows", x({3, 0}), 1)};
  for (Sample& s : list)
    if (numel(s.in[0].shape) > 1) s.dtypes = {DType::f64, DType::f32, DType::f16};
  for (const bool descending : {false, true}) {
    const std::string way = descending ? ", descending" : "";
    Sample equal = sort_sample("", x({2, 700}).in(0, 6), 1, descending);
    equal.name = "equal values stay in order" + way;
    equal.dtypes = kWhole;
    Sample whole = sort_sample("", x({3, 1500}).in(-1e6, 1e6), 1, descending);
    whole.name = "integers" + way;
    whole.dtypes = kSigned;
    Sample hostile = sort_sample("", x({16}).of(hostile_values()), 0, descending);
    hostile.name = "hostile" + way;
    Values zeros_and_nan;
    for (int i = 0; i < 300; ++i)
      zeros_and_nan.push_back(i % 7 == 0 ? NAN : i % 3 == 0 ? -0.0 : i % 2 == 0 ? 0.0 : i % 11 - 5);
    Sample signs = sort_sample("", x({300}).of(zeros_and_nan), 0, descending);
    signs.name = "zeros of both signs, NaN" + way;
    Sample long_row = sort_sample("", x({70001}), 0, descending);
    long_row.name = "one long row" + way;
    Sample rows = sort_sample("", x({9, 9001}), 1, descending);
    rows.name = "rows" + way;
    for (Sample* s : {&long_row, &rows}) {
      s->dtypes = {DType::f32};
      s->layouts = false;
    }
    Sample columns = sort_sample("", x({300, 7}), 0, descending);
    columns.name = "columns" + way;
    for (Sample* s : {&equal, &whole, &hostile, &signs, &long_row, &rows, &columns}) {
      s->gradient = false;
      list.push_back(std::move(*s));
    }
  }
  return list;
}

std::vector<BadCall> bad_axes(const std::string& op,
                              const std::function<void(const Tensor&, int64_t)>& call) {
  return {bad<IndexError>(op + ": axis must be in [-2, 2), got 2",
                          [=](Device d) { call(zeros({2, 3}, {.device = d}), 2); }),
          bad<IndexError>(op + ": axis must be in [-1, 1), got 1",
                          [=](Device d) { call(zeros({}, {.device = d}), 1); })};
}

OpCase sort_case() {
  return {.op = "sort",
          .samples = sort_samples(),
          .bad = bad_axes("sort", [](const Tensor& t, int64_t axis) { sort(t, axis); })};
}

OpCase argsort_case() {
  const auto sample = [](const char* name, Input in, int64_t axis, bool descending) {
    const int64_t n = in.shape[static_cast<int>(axis)];
    return Sample{
        .name = name,
        .in = {std::move(in)},
        .call = [=](const Args& a) -> Tensors { return {argsort(a[0], axis, descending)}; },
        .oracle =
            [=](const HostArgs& h) {
              return std::vector{ordered(h[0], axis, n, descending).indices};
            },
        .gradient = false};
  };
  return {
      .op = "argsort",
      .samples = {sample("rows", x({3, 9}), 1, false), sample("columns", x({9, 3}), 0, true),
                  sample("one element", x({1}), 0, false), sample("empty", x({0, 3}), 1, false)},
      .bad = bad_axes("argsort", [](const Tensor& t, int64_t axis) { argsort(t, axis); })};
}

Sample topk_sample(const char* name, Input in, int64_t k, int64_t axis, bool largest = true) {
  return {.name = name,
          .in = {std::move(in)},
          .call = [=](const Args& a) { return both(topk(a[0], k, axis, largest)); },
          .oracle =
              [=](const HostArgs& h) {
                const Order o = ordered(h[0], axis, k, largest);
                return std::vector{o.values, o.indices};
              },
          .exact = true};
}

OpCase topk_case() {
  OpCase c{
      .op = "topk",
      .samples = {topk_sample("largest", x({4, 33}).spread(), 5, -1),
                  topk_sample("smallest", x({4, 33}).spread(), 5, 1, false),
                  topk_sample("first", x({9, 5}).spread(), 3, 0),
                  topk_sample("middle", x({2, 7, 3}).spread(), 7, 1),
                  topk_sample("channels", x({2, 6, 3, 2}).spread(), 2, 1, false),
                  topk_sample("one element", x({1}), 1, 0), topk_sample("none", x({3, 4}), 0, 1),
                  topk_sample("no rows", x({0, 3}), 2, 1)},
      .bad = bad_axes("topk", [](const Tensor& t, int64_t axis) { topk(t, 1, axis); })};
  for (Sample& s : c.samples)
    if (numel(s.in[0].shape) > 1) s.dtypes = {DType::f64, DType::f32, DType::f16};
  Values rising(6000);
  std::iota(rising.begin(), rising.end(), 0.0);
  std::vector<Sample> others = {topk_sample("equal values: the first", x({2, 400}).in(0, 4), 90, 1),
                                topk_sample("ever better", x({6000}).of(rising), 40, 0),
                                topk_sample("ever worse", x({6000}).of(rising), 40, 0, false),
                                topk_sample("many", x({2, 20000}), 9000, 1),
                                topk_sample("few", x({5, 20000}), 3, 1)};
  others[0].dtypes = kWhole;
  for (size_t i = 1; i < others.size(); ++i) others[i].dtypes = {DType::f32};
  others.push_back(topk_sample("hostile", x({16}).of(hostile_values()), 9, 0));
  others.push_back(topk_sample("hostile, smallest", x({16}).of(hostile_values()), 16, 0, false));
  // Any order is right: sorted, it must be the sorted one.
  Sample unsorted = topk_sample("unsorted", x({3, 50}).spread(), 7, 1);
  unsorted.call = [](const Args& a) {
    const Sorted some = topk(a[0], 7, 1, true, false);
    const Sorted best = sort(some.values, 1, true);
    return Tensors{best.values, gather(some.indices, 1, best.indices)};
  };
  unsorted.dtypes = {DType::f64, DType::f32, DType::f16};
  for (Sample& s : others) {
    s.gradient = false;
    c.samples.push_back(std::move(s));
  }
  c.samples.push_back(unsorted);
  c.bad.push_back(bad<ShapeError>("topk: k must be in [0, 3] for axis 1 of [2, 3], got 4",
                                  [](Device d) { topk(zeros({2, 3}, {.device = d}), 4, 1); }));
  c.bad.push_back(bad<ShapeError>("topk: k must be in [0, 3] for axis 1 of [2, 3], got -1",
                                  [](Device d) { topk(zeros({2, 3}, {.device = d}), -1, 1); }));
  return c;
}

std::vector<HostArray> distinct(const HostArray& in) {
  std::vector<size_t> order(in.values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t i, size_t j) { return before(in.values[i], in.values[j]); });
  HostArray values, counts;
  HostArray inverse{in.shape, Values(in.values.size())};
  for (const size_t i : order) {
    const double v = in.values[i];
    if (values.values.empty() || values.values.back() != v) {
      values.values.push_back(v);
      counts.values.push_back(0);
    }
    counts.values.back() += 1;
    inverse.values[i] = static_cast<double>(values.values.size() - 1);
  }
  values.shape = counts.shape = {static_cast<int64_t>(values.values.size())};
  return {values, inverse, counts};
}

OpCase unique_case() {
  const auto sample = [](const char* name, Input in, const std::vector<DType>& dtypes) {
    return Sample{.name = name,
                  .in = {std::move(in)},
                  .call = [](const Args& a) -> Tensors {
                    const Unique u = unique(a[0]);
                    return {u.values, u.inverse, u.counts};
                  },
                  .oracle = [](const HostArgs& h) { return distinct(h[0]); },
                  .dtypes = dtypes,
                  .compiled = false,  // how many there are is not known before
                  .exact = true};
  };
  return {
      .op = "unique",
      .samples = {sample("all different", x({4, 5}).spread(), kFloats),
                  sample("a few values", x({2, 3, 50}).in(0, 4), kWhole),
                  sample("some twice", x({2, 3, 2, 2}).of({3,  1,  2, 3, 1, 1, 5, 4, 3, 2, 1, 0,
                                                           -1, -1, 2, 7, 7, 7, 2, 1, 0, 0, 0, 9}),
                         kFloats),
                  sample("every NaN is another",
                         x({8}).of({NAN, 1, NAN, INFINITY, 1, -INFINITY, NAN, -INFINITY}), kFloats),
                  sample("long", x({50000}).in(-3000, 3000), {DType::i32}),
                  sample("0-d", x({}), kFloats), sample("one element", x({1}), kFloats),
                  sample("empty", x({0, 3}), kFloats)},
      .bad = {bad<Unsupported>("unique: has no gradient", [](Device d) {
        unique(zeros({3}, {.device = d}).set_requires_grad());
      })}};
}

Sample search_sample(const char* name, Input sorted, Input values, bool right) {
  return {.name = name,
          .in = {std::move(sorted), std::move(values)},
          .call = [=](const Args& a) -> Tensors { return {searchsorted(a[0], a[1], right)}; },
          .oracle =
              [=](const HostArgs& h) {
                const int64_t n = h[0].shape.back();
                const int64_t each = h[0].shape.rank() == 1
                                         ? numel(h[1].shape)
                                         : std::max<int64_t>(1, h[1].shape.back());
                HostArray out{h[1].shape, {}};
                for (int64_t i = 0; i < numel(h[1].shape); ++i) {
                  const double v = h[1].values[static_cast<size_t>(i)];
                  double place = 0;
                  for (int64_t k = 0; k < n; ++k) {
                    const double s = h[0].values[static_cast<size_t>(i / each * n + k)];
                    if (right ? !before(v, s) : before(s, v)) place += 1;
                  }
                  out.values.push_back(place);
                }
                return std::vector{out};
              }};
}

OpCase searchsorted_case() {
  OpCase c{.op = "searchsorted", .samples = {}};
  for (const bool right : {false, true}) {
    const std::string side = right ? ", right" : "";
    const auto add = [&](const char* name, Input sorted, Input values,
                         const std::vector<DType>& dtypes = kFloats) {
      Sample s = search_sample("", std::move(sorted), std::move(values), right);
      s.name = name + side;
      s.dtypes = dtypes;
      c.samples.push_back(std::move(s));
    };
    const Values ascending = {-2, -1, -1, 0, 0.5, 0.5, 0.5, 3};
    add("one sequence", x({8}).of(ascending), x({2, 3, 2}).in(-3, 4));
    add("equals", x({8}).of(ascending), x({6}).of({-2, -1, 0.5, 3, -3, 4}));
    add("batched", x({2, 1, 4}).of(ascending), x({2, 1, 5}).in(-3, 4));
    add("infinity and NaN", x({5}).of({-INFINITY, 0, 2, INFINITY, NAN}),
        x({5}).of({NAN, INFINITY, -INFINITY, 2, 1}));
    add("integers", x({6}).of({0, 1, 1, 4, 9, 100}), x({9}).in(0, 10), kIntegers);
    add("one element", x({1}), x({1}));
    add("0-d value", x({8}).of(ascending), x({}));
    add("empty sequence", x({0}), x({3}));
    add("no values", x({3}).of({0, 1, 2}), x({0, 2}));
    Sample mixed =
        search_sample("", x({4}).of({0, 1, 2, 3}).as<DType::i64>(), x({3}).of({0.5, 2, 7}), right);
    mixed.name = "integers, searched for fractions" + side;
    c.samples.push_back(mixed);
  }
  c.bad = {bad<ShapeError>("searchsorted: sorted must be 1-d or agree with values but for the last "
                           "size, got [2, 3] and [3, 3]",
                           [](Device d) {
                             searchsorted(zeros({2, 3}, {.device = d}),
                                          zeros({3, 3}, {.device = d}));
                           }),
           bad<ShapeError>("searchsorted: sorted must have at least one dimension", [](Device d) {
             searchsorted(zeros({}, {.device = d}), zeros({3}, {.device = d}));
           })};
  return c;
}

const Room kRoom([] {
  return std::vector<OpCase>{sort_case(), argsort_case(), topk_case(), unique_case(),
                             searchsorted_case()};
});

}  // namespace
}  // namespace mica::cases
