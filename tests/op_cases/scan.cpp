#include <cmath>

#include "tests/op_cases/op_case.h"

namespace mica::cases {
namespace {

using Values = std::vector<double>;
/// Results of one row from its elements, already in the scan's direction.
using RowScan = std::function<Values(const std::vector<Values>& rows)>;

/// Applies `scan` to the rows of the inputs along an axis.
HostArray scanned(const HostArgs& in, const ScanParams& p, const RowScan& scan) {
  const Shape& shape = in[0].shape;
  const auto axis = static_cast<int>((p.axis + shape.rank()) % shape.rank());
  int64_t inner = 1;
  for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  const int64_t n = shape[axis];
  HostArray out{shape, Values(in[0].values.size())};
  if (n == 0) return out;
  for (int64_t row = 0; row < numel(shape) / n; ++row) {
    const auto at = [&](int64_t i) {
      const int64_t k = p.reverse ? n - 1 - i : i;
      return static_cast<size_t>((row / inner * n + k) * inner + row % inner);
    };
    std::vector<Values> rows;
    for (const HostArray& array : in.in) {
      rows.emplace_back();
      for (int64_t i = 0; i < n; ++i) rows.back().push_back(array.values[at(i)]);
    }
    const Values result = scan(rows);  // result[i] is before element i
    for (int64_t i = 0; i < n; ++i)
      out.values[at(i)] = result[static_cast<size_t>(p.exclusive ? i : i + 1)];
  }
  return out;
}

Values sums(const std::vector<Values>& rows) {
  Values result = {0};
  for (const double v : rows[0]) result.push_back(result.back() + v);
  return result;
}
Values products(const std::vector<Values>& rows) {
  Values result = {1};
  for (const double v : rows[0]) result.push_back(result.back() * v);
  return result;
}
Values recurrence(const std::vector<Values>& rows) {
  Values result = {0};
  for (size_t i = 0; i < rows[0].size(); ++i)
    result.push_back(rows[0][i] * result.back() + rows[1][i]);
  return result;
}

struct Scan {
  std::function<Tensor(const Tensors&, const ScanParams&)> call;
  RowScan scan;
  int inputs = 1;
  double low = -2;
  double high = 2;

  Sample sample(const char* name, const Shape& shape, const ScanParams& p) const {
    std::vector<Input> in;
    for (int i = 0; i < inputs; ++i) in.push_back(x(shape).in(low, high));
    const auto call_it = call;
    const auto scan_it = scan;
    return {.name = name,
            .in = std::move(in),
            .call = [=](const Args& a) -> Tensors { return {call_it(a.in, p)}; },
            .oracle = [=](const HostArgs& h) { return std::vector{scanned(h, p, scan_it)}; }};
  }

  std::vector<Sample> samples() const {
    std::vector<Sample> list = {
        sample("row", {7}, {.axis = 0}),
        sample("last", {3, 11}, {.axis = -1}),
        sample("first", {5, 20}, {.axis = 0}),
        sample("middle", {2, 5, 3}, {.axis = 1}),
        sample("channels", {2, 5, 3, 4}, {.axis = 1}),
        sample("exclusive", {3, 6}, {.axis = 1, .exclusive = true}),
        sample("exclusive, first", {3, 20}, {.axis = 0, .exclusive = true}),
        sample("reverse", {3, 6}, {.axis = 1, .reverse = true}),
        sample("reverse, first", {3, 20}, {.axis = 0, .reverse = true}),
        sample("exclusive, reverse", {3, 6}, {.axis = 1, .exclusive = true, .reverse = true}),
        sample("one element", {1}, {.axis = 0}),
        sample("empty rows", {3, 0}, {.axis = 1}),
        sample("no rows", {0, 3}, {.axis = 1})};
    return list;
  }
  /// Past what one thread takes, and past a block or a tile of columns.
  std::vector<Sample> threaded() const {
    std::vector<Sample> list = {
        sample("one long row", {70001}, {.axis = 0}),
        sample("one long row, reverse", {70001}, {.axis = 0, .exclusive = true, .reverse = true}),
        sample("long rows", {3, 40001}, {.axis = 1}), sample("wide", {40, 2100}, {.axis = 0}),
        sample("a few columns", {9001, 9}, {.axis = 0})};
    for (Sample& s : list) {
      s.dtypes = {DType::f32};
      s.layouts = false;
      s.gradient = false;
    }
    return list;
  }
  Sample integers(const std::vector<DType>& dtypes, double least, double most) const {
    Sample s = sample("integers", {9, 30}, {.axis = 1});
    s.in = {x({9, 30}).in(least, most).constant()};
    s.dtypes = dtypes;
    s.gradient = false;
    return s;
  }
};

void append(std::vector<Sample>& list, std::vector<Sample> more) {
  for (Sample& s : more) list.push_back(std::move(s));
}

std::vector<BadCall> bad_calls(const std::string& op, const Scan& scan) {
  const auto call = [scan](Device d, const Shape& shape, int64_t axis) {
    scan.call(Tensors(static_cast<size_t>(scan.inputs), zeros(shape, {.device = d})),
              {.axis = axis});
  };
  return {bad<IndexError>(op + ": axis must be in [-2, 2), got 2",
                          [=](Device d) { call(d, {2, 3}, 2); })};
}

OpCase cumsum_case() {
  const Scan scan{[](const Tensors& in, const ScanParams& p) { return cumsum(in[0], p); }, sums};
  OpCase c{.op = "cumsum", .samples = scan.samples(), .bad = bad_calls("cumsum", scan)};
  append(c.samples, scan.threaded());
  Sample many = scan.integers(kIntegers, 0, 200);
  many.name = "many integers";
  many.in = {x({70001}).in(0, 200).constant()};
  many.call = [](const Args& a) -> Tensors { return {cumsum(a[0], 0)}; };
  many.oracle = [](const HostArgs& h) { return std::vector{scanned(h, {.axis = 0}, sums)}; };
  Sample hostile = scan.sample("infinity and NaN stay", {3, 5}, {.axis = 1});
  hostile.in = {
      x({3, 5}).of({1, INFINITY, 2, -INFINITY, 3, NAN, 1, 1, 1, 1, 1, -1, NAN, 1, INFINITY})};
  hostile.gradient = false;
  append(c.samples, {scan.integers(kWhole, 0, 2), many, hostile});
  return c;
}

OpCase cumprod_case() {
  Scan scan{[](const Tensors& in, const ScanParams& p) { return cumprod(in[0], p); }, products};
  scan.low = 0.7;
  scan.high = 1.4;
  OpCase c{.op = "cumprod", .samples = scan.samples(), .bad = bad_calls("cumprod", scan)};
  Scan near_one = scan;
  near_one.low = 0.9999;
  near_one.high = 1.0001;
  append(c.samples, near_one.threaded());
  Sample zeros_too = scan.sample("zeros", {4, 5}, {.axis = 1});
  zeros_too.in = {x({4, 5}).of({1, 2, 0, 3, -1, 0, 2, 3, 1, 2, 2, 0, 1, 0, 3, 1, -2, 3, 1, 0})};
  append(c.samples, {zeros_too, scan.integers(kSigned, -2, 3),
                     scan.integers(joined(kUnsigned, {DType::boolean}), 0, 2)});
  c.samples.back().name = "bytes";
  return c;
}

OpCase linear_scan_case() {
  Scan scan{[](const Tensors& in, const ScanParams& p) { return linear_scan(in[0], in[1], p); },
            recurrence, 2, -0.9, 0.9};
  OpCase c{.op = "linear_scan", .samples = scan.samples(), .bad = bad_calls("linear_scan", scan)};
  append(c.samples, scan.threaded());
  c.bad.push_back(
      bad<ShapeError>("linear_scan: a and b must have one shape, got [2] and [3]", [](Device d) {
        linear_scan(zeros({2}, {.device = d}), zeros({3}, {.device = d}), {.axis = 0});
      }));
  c.bad.push_back(
      bad<DTypeError>("linear_scan: a and b must have one dtype, got f32 and f64", [](Device d) {
        linear_scan(zeros({2}, {.device = d}), zeros({2}, {DType::f64, d}), {.axis = 0});
      }));
  c.bad.push_back(bad<DTypeError>("linear_scan: expected a floating dtype, got i64", [](Device d) {
    linear_scan(zeros({2}, {DType::i64, d}), zeros({2}, {DType::i64, d}), {.axis = 0});
  }));
  return c;
}

const Room kRoom([] {
  return std::vector<OpCase>{cumsum_case(), cumprod_case(), linear_scan_case()};
});

}  // namespace
}  // namespace mica::cases
