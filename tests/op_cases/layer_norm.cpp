#include <cmath>

#include "tests/op_cases/op_case.h"

namespace mica::cases {
namespace {

double or_else(const HostArray& a, size_t i, double value) {
  return a.values.empty() ? value : a.values[i];
}

Shape statistics_shape(const Shape& x, const Shape& normalized) {
  Shape shape = x;
  for (int i = x.rank() - normalized.rank(); i < x.rank(); ++i) shape[i] = 1;
  return shape;
}

/// y, mean, rstd; without the mean where not `centred`.
std::vector<HostArray> normalised(const HostArgs& in, const LayerNormParams& p, bool centred) {
  const auto n = static_cast<size_t>(numel(p.normalized_shape));
  const Shape rows = statistics_shape(in[0].shape, p.normalized_shape);
  HostArray y = in[0];
  HostArray means{rows, {}};
  HostArray rstds{rows, {}};
  for (size_t row = 0; row < static_cast<size_t>(numel(rows)); ++row) {
    double* line = y.values.data() + row * n;
    double mean = 0;
    for (size_t i = 0; i < n && centred; ++i) mean += line[i] / static_cast<double>(n);
    double variance = 0;
    for (size_t i = 0; i < n; ++i) variance += std::pow(line[i] - mean, 2) / static_cast<double>(n);
    const double rstd = 1 / std::sqrt(variance + p.eps);
    for (size_t i = 0; i < n; ++i)
      line[i] =
          (line[i] - mean) * rstd * or_else(in[1], i, 1) + (centred ? or_else(in[2], i, 0) : 0);
    means.values.push_back(mean);
    rstds.values.push_back(rstd);
  }
  if (centred) return {y, means, rstds};
  return {y, rstds};
}

struct Setup {
  const char* name;
  Shape x, normalized;
  bool weight = true;
  bool bias = true;
  double eps = 1e-5;
};

std::vector<Setup> setups() {
  return {{"matrix", {5, 7}, {7}},
          {"two axes", {3, 4, 5}, {4, 5}},
          {"every axis", {3, 5}, {3, 5}},
          {"images", {2, 3, 4, 5}, {5}},
          {"channels of images", {2, 3, 4, 5}, {3, 4, 5}},
          {"long rows", {2, 1037}, {1037}},
          {"many rows", {150, 6}, {6}},
          {"no weight", {4, 9}, {9}, false},
          {"no bias", {4, 9}, {9}, true, false},
          {"neither", {4, 9}, {9}, false, false},
          {"large eps", {4, 8}, {8}, true, true, 0.5},
          {"one element", {1}, {1}, true, true, 0.5},
          {"no rows", {0, 3}, {3}},
          {"empty rows", {3, 0}, {0}}};
}

/// Rows that more threads share, and more than can hold all of one.
std::vector<Setup> large_setups() {
  return {{"rows of a block", {5, 1536}, {1536}}, {"very long rows", {3, 20004}, {20004}}};
}
Sample large(Sample sample) {
  sample.dtypes = {DType::f32, DType::bf16};
  sample.gradient = false;
  return sample;
}

Tensors public_call(const Args& a, const Setup& s, bool centred) {
  return {centred ? layer_norm(a[0], s.normalized, a[1], a[2], s.eps)
                  : rms_norm(a[0], s.normalized, a[1], s.eps)};
}

Sample forward_sample(const Setup& s, bool centred) {
  Sample sample{.name = s.name,
                .in = {x(s.x), s.weight ? x(s.normalized) : absent()},
                .call = [=](const Args& a) { return public_call(a, s, centred); },
                .oracle = [=](const HostArgs& in) -> std::vector<HostArray> {
                  return {normalised(in, {s.normalized, s.eps}, centred)[0]};
                }};
  if (centred) sample.in.push_back(s.bias ? x(s.normalized) : absent());
  return sample;
}

OpCase forward_case(bool centred) {
  OpCase c{.op = centred ? "layer_norm" : "rms_norm", .samples = {}};
  for (const Setup& s : setups()) c.samples.push_back(forward_sample(s, centred));
  for (const Setup& s : large_setups()) c.samples.push_back(large(forward_sample(s, centred)));
  Sample wide = forward_sample({"parameters of the statistics' dtype", {5, 7}, {7}}, centred);
  for (size_t i = 1; i < wide.in.size(); ++i) wide.in[i] = x({7}).statistic();
  c.samples.push_back(wide);
  Sample threads = forward_sample({"several threads", {70, 701}, {701}}, centred);
  threads.dtypes = {DType::f32};
  threads.gradient = false;
  c.samples.push_back(threads);
  Sample all = forward_sample({"every output", {3, 4, 5}, {4, 5}}, centred);
  all.call = [=](const Args& a) { return call_op(c.op, LayerNormParams{{4, 5}, 1e-5}, a.in); };
  all.oracle = [=](const HostArgs& in) { return normalised(in, {{4, 5}, 1e-5}, centred); };
  c.samples.push_back(all);
  if (centred) {
    // A large mean: the variance must not be taken from the difference of two large numbers.
    Sample far = forward_sample({"large mean", {4, 300}, {300}}, centred);
    far.in[0] = x({4, 300}).in(30, 31);
    far.dtypes = {DType::f64};
    far.gradient = false;
    c.samples.push_back(far);
  }
  Sample hostile = forward_sample({"hostile values", {16, 3}, {3}, false, false}, centred);
  std::vector<double> values;
  for (const double v : hostile_values())
    for (const double each : {1.0, v, -2.0}) values.push_back(std::abs(v) < 1e20 ? each : 1.0 / v);
  hostile.in[0] = x({16, 3}).of(values);
  hostile.gradient = false;
  c.samples.push_back(hostile);

  const std::string op = c.op;
  const auto call = [=](Device d, const Shape& shape, const Shape& normalized,
                        const Shape& weight_shape, DType weight, DType dtype = DType::f32) {
    const Tensor w = zeros(weight_shape, {weight, d});
    if (centred) {
      layer_norm(zeros(shape, {dtype, d}), normalized, w);
    } else {
      rms_norm(zeros(shape, {dtype, d}), normalized, w);
    }
  };
  c.bad = {bad<ShapeError>(op + ": the input's last axes must be [4], got [2, 3]",
                           [=](Device d) { call(d, {2, 3}, {4}, {4}, DType::f32); }),
           bad<ShapeError>(op + ": the input's last axes must be [2, 3], got [3]",
                           [=](Device d) { call(d, {3}, {2, 3}, {2, 3}, DType::f32); }),
           bad<ShapeError>(op + ": the input's last axes must be [], got [2, 3]",
                           [=](Device d) { call(d, {2, 3}, {}, {}, DType::f32); }),
           bad<ShapeError>(op + ": weight must be [3], got [2]",
                           [=](Device d) { call(d, {2, 3}, {3}, {2}, DType::f32); }),
           bad<DTypeError>(op + ": weight must be f32 or f32 for an input of f32, got f16",
                           [=](Device d) { call(d, {2, 3}, {3}, {3}, DType::f16); }),
           bad<DTypeError>(op + ": expected a floating dtype, got i64",
                           [=](Device d) { call(d, {2, 3}, {3}, {3}, DType::f32, DType::i64); })};
  return c;
}

std::vector<HostArray> gradients(const HostArgs& in, const LayerNormGradParams& p, bool centred) {
  const auto n = static_cast<size_t>(numel(p.normalized_shape));
  HostArray dx = in[0];
  HostArray dw{p.normalized_shape, std::vector<double>(n)};
  HostArray db = dw;
  for (size_t row = 0; n > 0 && row < in[0].values.size() / n; ++row) {
    const double mean = centred ? in[3].values[row] : 0;
    const double rstd = in[centred ? 4 : 3].values[row];
    double sum = 0;
    double product = 0;
    for (size_t i = 0; i < n; ++i) {
      const double dy = in[0].values[row * n + i];
      const double normal = (in[1].values[row * n + i] - mean) * rstd;
      sum += dy * or_else(in[2], i, 1);
      product += dy * or_else(in[2], i, 1) * normal;
      dw.values[i] += dy * normal;
      db.values[i] += dy;
    }
    for (size_t i = 0; i < n; ++i) {
      double d = in[0].values[row * n + i] * or_else(in[2], i, 1);
      d -= (in[1].values[row * n + i] - mean) * rstd * product / static_cast<double>(n);
      if (centred) d -= sum / static_cast<double>(n);
      dx.values[row * n + i] = d * rstd;
    }
  }
  std::vector<HostArray> out = {dx};
  if (p.parameters) out.push_back(dw);
  if (p.parameters && centred) out.push_back(db);
  return out;
}

OpCase backward_case(bool centred) {
  OpCase c{.op = centred ? "layer_norm_grad" : "rms_norm_grad", .samples = {}};
  const auto sample = [&](const Setup& s, bool parameters = true) {
    const LayerNormGradParams p{s.normalized, parameters};
    const Shape rows = statistics_shape(s.x, s.normalized);
    Sample made{.name = s.name,
                .in = {x(s.x), x(s.x), s.weight ? x(s.normalized) : absent()},
                .call = [=](const Args& a) { return call_op(c.op, p, a.in); },
                .oracle = [=](const HostArgs& in) { return gradients(in, p, centred); }};
    if (centred) made.in.push_back(x(rows).in(-0.5, 0.5).statistic());
    made.in.push_back(x(rows).in(0.5, 2).statistic());
    return made;
  };
  for (const Setup& s : setups())
    if (s.bias) c.samples.push_back(sample(s));
  for (const Setup& s : large_setups()) c.samples.push_back(large(sample(s)));
  c.samples.push_back(sample({"no parameters", {5, 7}, {7}}, false));
  Sample wide = sample({"weight of the statistics' dtype", {5, 7}, {7}});
  wide.in[2] = x({7}).statistic();
  c.samples.push_back(wide);
  Sample threads = sample({"several threads", {200, 701}, {701}});
  threads.dtypes = {DType::f32};
  threads.gradient = false;
  c.samples.push_back(threads);

  const auto call = [op = c.op, centred](Device d, const Shape& dy, const Shape& statistics,
                                         DType dtype) {
    Tensors in = {
        zeros(dy, {.device = d}), zeros({2, 3}, {.device = d}), {}, zeros(statistics, {dtype, d})};
    if (centred) in.push_back(zeros(statistics, {dtype, d}));
    call_op(op, LayerNormGradParams{{3}, true}, in);
  };
  const std::string op = c.op;
  c.bad = {bad<ShapeError>(op + ": dy must be [2, 3] as the input, got [3, 2]",
                           [=](Device d) { call(d, {3, 2}, {2, 1}, DType::f32); }),
           bad<ShapeError>(op + ": statistics must be [2, 1], got [2]",
                           [=](Device d) { call(d, {2, 3}, {2}, DType::f32); }),
           bad<DTypeError>(op + ": statistics must be f32, got f64",
                           [=](Device d) { call(d, {2, 3}, {2, 1}, DType::f64); })};
  return c;
}

const Room kRoom([] {
  return std::vector<OpCase>{forward_case(true), forward_case(false), backward_case(true),
                             backward_case(false)};
});

}  // namespace
}  // namespace mica::cases
