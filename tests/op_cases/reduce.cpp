#include <fmt/core.h>

#include <cmath>

#include "tests/op_cases/op_case.h"

namespace mica::cases {
namespace {

using Values = std::vector<double>;
using Fold = std::function<double(const Values&)>;
using Oracle = std::function<std::vector<HostArray>(const HostArgs&)>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// `fold` of the elements of each result, in logical order.
HostArray reduced(const HostArray& in, const Dims& axes, bool keepdim, const Fold& fold) {
  const int rank = in.shape.rank();
  Shape kept = in.shape;
  Shape result;
  for (int i = 0; i < rank; ++i) {
    const bool gone = axes.empty() || axes.contains(i) || axes.contains(i - rank);
    if (gone) kept[i] = 1;
    if (!gone || keepdim) result.push_back(kept[i]);
  }
  std::vector<Values> groups(static_cast<size_t>(numel(result)));
  Dims index = Dims::filled(rank, 0);
  for (const double v : in.values) {
    int64_t at = 0;
    for (int i = 0; i < rank; ++i) at = at * kept[i] + (kept[i] == 1 ? 0 : index[i]);
    groups[static_cast<size_t>(at)].push_back(v);
    for (int i = rank - 1; i >= 0 && ++index[i] == in.shape[i]; --i) index[i] = 0;
  }
  HostArray out{result, {}};
  for (const Values& group : groups) out.values.push_back(fold(group));
  return out;
}

/// A reduction with its parameters fixed, and what it must give.
struct Reduction {
  std::function<Tensor(const Tensor&, const Dims&, bool)> call;
  Fold fold;

  Sample sample(const char* name, Input in, const Dims& axes, bool keepdim = false) const {
    const auto call_it = call;
    const auto fold_it = fold;
    return {
        .name = name,
        .in = {std::move(in)},
        .call = [=](const Args& a) -> Tensors { return {call_it(a[0], axes, keepdim)}; },
        .oracle =
            [=](const HostArgs& h) { return std::vector{reduced(h[0], axes, keepdim, fold_it)}; }};
  }

  /// What every reduction takes. `make` makes the elements.
  std::vector<Sample> samples(const std::function<Input(const Shape&)>& make = x) const {
    std::vector<Sample> list = {sample("all", make({3, 5}), {}),
                                sample("last", make({4, 70}), {1}),
                                sample("first", make({33, 4}), {0}),
                                sample("middle", make({2, 7, 3}), {1}),
                                sample("outer two", make({3, 4, 5}), {0, 2}),
                                sample("inner two", make({3, 4, 5}), {-1, 1}),
                                sample("kept", make({2, 3, 4}), {0, 2}, true),
                                sample("all kept", make({2, 3}), {}, true),
                                sample("channels", make({2, 6, 4, 5}), {0, 2, 3}),
                                sample("images", make({2, 6, 4, 5}), {0}),
                                sample("0-d", make({}), {}),
                                sample("one element", make({1}), {0}),
                                sample("empty result", make({0, 3}), {1})};
    // Past what one thread takes, and past a block or a tile of columns.
    for (Sample& s : threaded(make)) list.push_back(std::move(s));
    for (Sample& s :
         large({sample("many short runs", make({501, 2, 8, 9}), {0, 2, 3}),
                sample("short runs of two axes", make({5, 3, 40, 2, 6, 7}), {0, 2, 4, 5})}))
      list.push_back(std::move(s));
    return list;
  }
  std::vector<Sample> threaded(const std::function<Input(const Shape&)>& make) const {
    return large({sample("one long row", make({70001}), {0}),
                  sample("long rows", make({3, 40001}), {1}), sample("tall", make({9001, 9}), {0}),
                  sample("wide", make({33, 2100}), {0})});
  }
  static std::vector<Sample> large(std::vector<Sample> list) {
    for (Sample& s : list) {
      s.dtypes = {DType::f32};
      s.layouts = false;
      s.gradient = false;
    }
    return list;
  }
  Sample halves(const std::function<Input(const Shape&)>& make = x) const {
    Sample s = sample("halves in rows", make({5, 3000}), {0});
    s.dtypes = {DType::f16, DType::bf16};
    return s;
  }
  Sample integers(const std::vector<DType>& dtypes, double low, double high,
                  const Shape& shape = {40, 70}, const Dims& axes = {0}) const {
    Sample s = sample("integers", x(shape).in(low, high).constant(), axes);
    s.dtypes = dtypes;
    s.gradient = false;
    return s;
  }
  /// Rows of values with NaN, infinities and numbers at the ends of the range.
  Sample hostile() const {
    Values values = hostile_values();
    for (const double v : {2.0, -kInfinity, 1.0, 3.0, kInfinity, 1.0, 2.0, -1.0})
      values.push_back(v);
    Sample s = sample("hostile", x({6, 4}).of(values), {1});
    s.gradient = false;
    return s;
  }
};

void append(std::vector<Sample>& list, std::vector<Sample> more) {
  for (Sample& s : more) list.push_back(std::move(s));
}

/// Axes that do not exist or are named twice.
std::vector<BadCall> bad_axes(const std::string& op, const Reduction& r) {
  return {bad<IndexError>(op + ": axis must be in [-2, 2), got 2",
                          [r](Device d) { r.call(zeros({2, 3}, {.device = d}), {2}, false); }),
          bad<IndexError>(op + ": axis must be in [-2, 2), got -3",
                          [r](Device d) { r.call(zeros({2, 3}, {.device = d}), {0, -3}, false); }),
          bad<ShapeError>(op + ": axes [0, -2] name one twice",
                          [r](Device d) { r.call(zeros({2, 3}, {.device = d}), {0, -2}, false); })};
}
BadCall bad_dtype(const std::string& op, const Reduction& r) {
  return bad<DTypeError>(op + ": expected a floating dtype, got i64",
                         [r](Device d) { r.call(zeros({2, 3}, {DType::i64, d}), {}, false); });
}
BadCall bad_empty(const std::string& op, const Reduction& r) {
  return bad<ShapeError>(op + ": axis 0 of [0, 3] is empty",
                         [r](Device d) { r.call(zeros({0, 3}, {.device = d}), {0}, false); });
}
double total(const Values& v) {
  long double sum = 0;
  for (const double a : v) sum += a;
  return static_cast<double>(sum);
}

OpCase sum_case() {
  const Reduction r{
      [](const Tensor& t, const Dims& axes, bool keepdim) { return sum(t, axes, keepdim); }, total};
  OpCase c{.op = "sum", .samples = r.samples(), .bad = bad_axes("sum", r)};
  Sample truth = r.integers({DType::boolean}, 0, 2, {40, 70}, {1});
  truth.name = "counts true";
  Sample many = r.integers(kIntegers, 0, 200, {70001}, {});
  many.name = "many integers";
  Sample infinite =
      r.sample("infinity and NaN stay",
               x({3, 4}).of({1, INFINITY, 2, 3, NAN, 1, 1, 1, INFINITY, 1, -INFINITY, 1}), {1});
  infinite.gradient = false;
  append(c.samples, {r.sample("empty gives 0", x({0, 3}), {0}), r.halves(),
                     r.integers(kIntegers, 0, 200), many, truth, infinite});
  return c;
}

OpCase mean_case() {
  const Reduction r{
      [](const Tensor& t, const Dims& axes, bool keepdim) { return mean(t, axes, keepdim); },
      [](const Values& v) { return total(v) / static_cast<double>(v.size()); }};
  OpCase c{.op = "mean", .samples = r.samples(), .bad = bad_axes("mean", r)};
  Sample none = r.sample("empty gives NaN", x({0, 3}), {0});
  none.gradient = false;
  Sample large = r.sample("sum past f16", x({2, 200}).in(30000, 60000), {1});
  large.gradient = false;
  append(c.samples, {none, large});
  c.bad.push_back(
      bad<DTypeError>("mean: expected a floating or complex dtype, got i64",
                      [r](Device d) { r.call(zeros({2, 3}, {DType::i64, d}), {}, false); }));
  return c;
}

OpCase prod_case() {
  const Reduction r{
      [](const Tensor& t, const Dims& axes, bool keepdim) { return prod(t, axes, keepdim); },
      [](const Values& v) {
        double product = 1;
        for (const double a : v) product *= a;
        return product;
      }};
  const auto near_one = [](const Shape& shape) { return x(shape).in(0.7, 1.4); };
  OpCase c{.op = "prod", .samples = r.samples(near_one), .bad = bad_axes("prod", r)};
  std::erase_if(c.samples, [](const Sample& s) { return s.dtypes.size() == 1; });
  append(c.samples, r.threaded([](const Shape& shape) { return x(shape).in(0.9999, 1.0001); }));
  append(c.samples,
         {r.sample("empty gives 1", x({0, 3}), {0}),
          r.sample("one zero, two zeros", x({4, 3}).of({2, 0, 3, 0, 0, 5, 1, -2, 3, 0, 0, 0}), {1}),
          r.integers(kSigned, -3, 4, {11, 70}),
          r.integers(joined(kUnsigned, {DType::boolean}), 0, 3, {11, 70})});
  return c;
}

double largest(const Values& v) {
  double best = v[0];
  for (const double a : v)
    if (!std::isnan(best) && (std::isnan(a) || a > best)) best = a;
  return best;
}
double smallest(const Values& v) {
  Values minus = v;
  for (double& a : minus) a = -a;
  return -largest(minus);
}

OpCase extreme_case(const char* op, const Reduction& r) {
  OpCase c{.op = op,
           .samples = r.samples([](const Shape& shape) { return x(shape).spread(); }),
           .bad = bad_axes(op, r)};
  for (Sample& s : c.samples)
    if (s.dtypes.size() > 1) s.dtypes = {DType::f64, DType::f32, DType::f16};
  // Shared evenly: one-sided differences of a maximum see neither share.
  Sample ties = r.sample("ties", x({2, 4}).of({1, 3, 3, 1, 5, 5, 5, 5}), {1});
  ties.gradient = false;
  Sample integers = r.integers(kWhole, 0, 200);
  Sample negative = r.integers(kSigned, -200, -1);
  negative.name = "negative integers";
  append(c.samples, {ties, integers, negative, r.hostile(), r.halves()});
  c.samples.back().gradient = false;
  c.bad.push_back(bad_empty(op, r));
  return c;
}

OpCase max_case() {
  return extreme_case(
      "max", {[](const Tensor& t, const Dims& axes, bool keepdim) { return max(t, axes, keepdim); },
              largest});
}
OpCase min_case() {
  return extreme_case(
      "min", {[](const Tensor& t, const Dims& axes, bool keepdim) { return min(t, axes, keepdim); },
              smallest});
}

double variance(const Values& v, double correction) {
  const auto n = static_cast<double>(v.size());
  const double mean = total(v) / n;
  Values squares = v;
  for (double& a : squares) a = (a - mean) * (a - mean);
  return total(squares) / std::max(0.0, n - correction);
}

OpCase moment_case(const char* op, Tensor (*call)(const Tensor&, const Dims&, bool, double),
                   bool root) {
  const auto reduction = [=](double correction) {
    return Reduction{[=](const Tensor& t, const Dims& axes, bool keepdim) {
                       return call(t, axes, keepdim, correction);
                     },
                     [=](const Values& v) {
                       const double result = variance(v, correction);
                       return root ? std::sqrt(result) : result;
                     }};
  };
  const Reduction r = reduction(1);
  OpCase c{.op = op, .samples = r.samples(), .bad = bad_axes(op, r)};
  for (Sample& s : c.samples)
    if (numel(s.in[0].shape) <= 1) s.gradient = false;  // NaN
  Sample hostile = r.hostile();
  Sample none = r.sample("empty gives NaN", x({0, 3}), {0});
  none.gradient = false;
  Sample far = r.sample("far from zero", x({3, 5000}).in(1e4 - 1, 1e4 + 1), {1});
  Sample far_columns = r.sample("columns far from zero", x({5000, 3}).in(1e4 - 1, 1e4 + 1), {0});
  for (Sample* s : {&far, &far_columns}) {
    s->dtypes = {DType::f64, DType::f32};
    s->gradient = false;
  }
  append(c.samples, {hostile, none, far, far_columns, r.halves(),
                     reduction(0).sample("population", x({4, 6}), {1}),
                     reduction(0).sample("population of one", x({4, 1}), {1}),
                     reduction(2.5).sample("correction of 2.5", x({4, 6}), {0})});
  if (root) {  // no kink in the other
    for (Sample& s : c.samples)
      if (s.name == "population of one") s.gradient = false;
  }
  c.bad.push_back(bad_dtype(op, r));
  return c;
}

OpCase norm_case() {
  const auto reduction = [](double p) {
    return Reduction{
        [=](const Tensor& t, const Dims& axes, bool keepdim) { return norm(t, p, axes, keepdim); },
        [=](const Values& v) {
          Values sizes = v;
          for (double& a : sizes) a = std::abs(a);
          if (p == kInfinity) return largest(sizes);
          if (p == -kInfinity) return smallest(sizes);
          double sum = 0;
          for (const double a : sizes) sum += p == 0 ? (a != 0 ? 1.0 : 0.0) : std::pow(a, p);
          return p == 0 ? sum : std::pow(sum, 1 / p);
        }};
  };
  const auto off_zero = [](const Shape& shape) { return x(shape).away(0.3); };
  OpCase c{.op = "norm",
           .samples = reduction(2).samples(off_zero),
           .bad = bad_axes("norm", reduction(2))};
  for (const double p : {0.0, 0.5, 1.0, 1.5, 3.0, -1.0}) {
    Sample s = reduction(p).sample("", x({5, 40}).away(0.3), {0});
    s.name = fmt::format("p = {}", p);
    c.samples.push_back(s);
    s = reduction(p).sample("", x({3, 5000}).away(0.3), {1});
    s.name = fmt::format("p = {}, long rows", p);
    s.dtypes = {DType::f32};
    s.layouts = false;
    s.gradient = false;
    c.samples.push_back(s);
  }
  for (const double p : {kInfinity, -kInfinity}) {
    Sample s = reduction(p).sample("", x({5, 30}).in(0.5, 2).spread(), {0});
    s.name = fmt::format("p = {}", p);
    s.dtypes = {DType::f64, DType::f32, DType::f16};
    c.samples.push_back(s);
  }
  Sample hostile = reduction(2).hostile();
  append(c.samples, {hostile, reduction(2).sample("empty gives 0", x({0, 3}), {0}),
                     reduction(2).sample("squares past f16", x({2, 9}).in(300, 900), {1})});
  c.bad.push_back(bad_dtype("norm", reduction(2)));
  c.bad.push_back(bad_empty("norm", reduction(kInfinity)));
  c.bad.push_back(bad_empty("norm", reduction(-1)));
  c.bad.push_back(bad<Error>("norm: p must be a number",
                             [](Device d) { norm(zeros({3}, {.device = d}), NAN); }));
  return c;
}

OpCase logsumexp_case() {
  const Reduction r{
      [](const Tensor& t, const Dims& axes, bool keepdim) { return logsumexp(t, axes, keepdim); },
      [](const Values& v) {
        if (v.empty()) return -kInfinity;
        const double best = largest(v);
        if (!std::isfinite(best)) return best;
        double sum = 0;
        for (const double a : v) sum += std::exp(a - best);
        return best + std::log(sum);
      }};
  OpCase c{.op = "logsumexp", .samples = r.samples(), .bad = bad_axes("logsumexp", r)};
  append(c.samples, {r.hostile(), r.halves(), r.sample("empty gives -infinity", x({0, 3}), {0}),
                     r.sample("large", x({3, 20}).in(900, 1000), {1}),
                     r.sample("small", x({20, 3}).in(-1000, -900), {0})});
  Sample nothing =
      r.sample("-infinity", x({2, 3}).of({-INFINITY, -INFINITY, -INFINITY, 1, -INFINITY, 2}), {1});
  nothing.gradient = false;
  c.samples.push_back(nothing);
  c.bad.push_back(bad_dtype("logsumexp", r));
  return c;
}

OpCase count_case(const char* op, const Reduction& r) {
  OpCase c{.op = op, .samples = {}, .bad = bad_axes(op, r)};
  // Rows without zeros, with some, and with nothing else; -0 is a zero.
  const auto make = [](const Shape& shape) {
    Values values;
    for (int64_t i = 0; i < numel(shape); ++i)
      values.push_back(i % 5 == 0 ? 3.0 : i % 7 == 0 ? -0.0 : i % 3 == 0 ? 0.0 : 1.0);
    return x(shape).of(values);
  };
  c.samples = r.samples(make);
  for (Sample& s : c.samples) {
    s.gradient = false;
    if (s.dtypes.size() > 1) s.dtypes = kEveryDType;
  }
  const auto constant = [&](const char* name, double value) {
    Sample s = r.sample(name, x({2, 70}).of(Values(140, value)), {1});
    s.dtypes = kEveryDType;
    return s;
  };
  Sample many = r.integers({DType::boolean, DType::u8}, 0, 2, {70001}, {});
  many.name = "many bytes";
  append(c.samples, {constant("ones", 1), constant("zeros", 0), many, r.hostile(),
                     r.sample("of nothing", x({0, 3}), {0})});
  return c;
}

double nonzero(const Values& v) {
  return static_cast<double>(std::count_if(v.begin(), v.end(), [](double a) { return a != 0; }));
}

OpCase any_case() {
  return count_case(
      "any", {[](const Tensor& t, const Dims& axes, bool keepdim) { return any(t, axes, keepdim); },
              [](const Values& v) { return nonzero(v) > 0 ? 1.0 : 0.0; }});
}
OpCase all_case() {
  return count_case(
      "all",
      {[](const Tensor& t, const Dims& axes, bool keepdim) { return all(t, axes, keepdim); },
       [](const Values& v) { return nonzero(v) == static_cast<double>(v.size()) ? 1.0 : 0.0; }});
}
OpCase count_nonzero_case() {
  return count_case("count_nonzero", {[](const Tensor& t, const Dims& axes, bool keepdim) {
                                        return count_nonzero(t, axes, keepdim);
                                      },
                                      nonzero});
}

OpCase arg_case(const char* op, Tensor (*call)(const Tensor&, int64_t, bool),
                double (*extreme)(const Values&)) {
  const Reduction r{[=](const Tensor& t, const Dims& axes, bool keepdim) {
                      return call(t, axes.empty() ? -1 : axes[0], keepdim);
                    },
                    [=](const Values& v) {
                      const double best = extreme(v);
                      size_t at = 0;
                      while (v[at] != best && !(std::isnan(best) && std::isnan(v[at]))) ++at;
                      return static_cast<double>(at);
                    }};
  OpCase c{.op = op, .samples = {}};
  c.samples = {r.sample("last", x({4, 70}), {-1}),
               r.sample("first", x({33, 4}), {0}),
               r.sample("middle, kept", x({2, 5, 3}), {1}, true),
               r.sample("channels", x({2, 6, 4, 5}), {1}),
               r.sample("equal values", x({2, 4}).of({1, 3, 3, 2, 5, 5, 5, 5}), {1}),
               r.sample("all alike", x({300}).of(Values(300, 2.5)), {0}),
               r.sample("NaN wins",
                        x({2, 4}).of({1, NAN, INFINITY, NAN, -INFINITY, -INFINITY, -1, -2}), {1}),
               r.sample("infinities",
                        x({4, 2}).of({INFINITY, -INFINITY, INFINITY, -INFINITY, INFINITY, -INFINITY,
                                      INFINITY, -INFINITY}),
                        {0}),
               r.sample("one element", x({1}), {0}),
               r.sample("no rows", x({0, 3}), {1}),
               r.sample("long rows", x({2, 5000}), {1})};
  append(c.samples, r.threaded(x));
  Sample integers = r.integers(kWhole, 0, 99);
  Sample rows = r.integers(kWhole, 0, 200, {5, 700}, {1});
  rows.name = "integers in rows";
  append(c.samples, {integers, rows});
  const std::string name = op;
  c.bad = {bad_empty(name, r),
           bad<IndexError>(name + ": axis must be in [-1, 1), got -2",
                           [=](Device d) { call(zeros({}, {.device = d}), -2, false); }),
           bad<IndexError>(name + ": axis must be in [-1, 1), got 1",
                           [=](Device d) { call(zeros({3}, {.device = d}), 1, false); })};
  return c;
}

const Room kRoom([] {
  return std::vector<OpCase>{sum_case(),
                             mean_case(),
                             prod_case(),
                             max_case(),
                             min_case(),
                             moment_case("var", mica::var, false),
                             moment_case("std", mica::std, true),
                             norm_case(),
                             logsumexp_case(),
                             any_case(),
                             all_case(),
                             count_nonzero_case(),
                             arg_case("argmax", argmax, largest),
                             arg_case("argmin", argmin, smallest)};
});

}  // namespace
}  // namespace mica::cases
