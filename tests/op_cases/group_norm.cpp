#include <cmath>

#include "tests/op_cases/op_case.h"

namespace mica::cases {
namespace {

double or_else(const HostArray& a, size_t i, double value) {
  return a.values.empty() ? value : a.values[i];
}

struct Geometry {
  size_t channels, width, count, groups, size;  ///< `groups` of all images together

  Geometry(const Shape& x, int64_t per_image)
      : channels(static_cast<size_t>(x[1])),
        width(channels / static_cast<size_t>(per_image)),
        groups(static_cast<size_t>(x[0] * per_image)),
        size(1) {
    for (int i = 2; i < x.rank(); ++i) size *= static_cast<size_t>(x[i]);
    count = width * size;
  }
  size_t channel(size_t i) const { return i / size % channels; }
};

/// y, mean, rstd.
std::vector<HostArray> normalised(const HostArray& x, const HostArray& weight,
                                  const HostArray& bias, const GroupNormParams& p) {
  const Geometry s(x.shape, p.groups);
  HostArray y = x;
  HostArray means{{x.shape[0], p.groups}, {}};
  HostArray rstds = means;
  for (size_t group = 0; group < s.groups; ++group) {
    double mean = 0;
    double variance = 0;
    for (size_t i = group * s.count; i < (group + 1) * s.count; ++i)
      mean += x.values[i] / static_cast<double>(s.count);
    for (size_t i = group * s.count; i < (group + 1) * s.count; ++i)
      variance += std::pow(x.values[i] - mean, 2) / static_cast<double>(s.count);
    const double rstd = 1 / std::sqrt(variance + p.eps);
    for (size_t i = group * s.count; i < (group + 1) * s.count; ++i)
      y.values[i] = (x.values[i] - mean) * rstd * or_else(weight, s.channel(i), 1) +
                    or_else(bias, s.channel(i), 0);
    means.values.push_back(mean);
    rstds.values.push_back(rstd);
  }
  return {y, means, rstds};
}

struct Setup {
  const char* name;
  Shape x;
  int64_t groups;
  bool weight = true;
  bool bias = true;
};

std::vector<Setup> setups() {
  return {{"two groups", {3, 4, 5}, 2},
          {"images", {2, 6, 3, 4}, 3},
          {"one group", {2, 4, 3, 3}, 1},
          {"a group per channel", {2, 3, 4, 5}, 3},
          {"matrix", {3, 12}, 3},
          {"volumes", {2, 4, 2, 3, 3}, 2},
          {"36 channels", {1, 36, 2, 5}, 4},
          {"large planes", {1, 2, 23, 29}, 2},
          {"no weight", {2, 4, 3, 3}, 2, false},
          {"no bias", {2, 4, 3, 3}, 2, true, false},
          {"neither", {2, 4, 3}, 2, false, false},
          {"no images", {0, 4, 3, 3}, 2}};
}

Sample forward_sample(const Setup& s) {
  const GroupNormParams p{.groups = s.groups};
  const Shape channels = {s.x[1]};
  return {.name = s.name,
          .in = {x(s.x), s.weight ? x(channels) : absent(), s.bias ? x(channels) : absent()},
          .call = [=](const Args& a) -> Tensors { return {group_norm(a[0], a[1], a[2], p)}; },
          .oracle = [=](const HostArgs& in) -> std::vector<HostArray> {
            return {normalised(in[0], in[1], in[2], p)[0]};
          }};
}

OpCase group_norm_case() {
  OpCase c{.op = "group_norm", .samples = {}};
  for (const Setup& s : setups()) c.samples.push_back(forward_sample(s));
  Sample single = forward_sample({"one element", {1, 1}, 1});
  single.gradient = false;  // nothing is left of it
  c.samples.push_back(single);
  Sample wide = forward_sample({"parameters of the statistics' dtype", {2, 4, 3, 3}, 2});
  for (size_t i = 1; i < 3; ++i) wide.in[i] = x({4}).statistic();
  c.samples.push_back(wide);
  Sample threads = forward_sample({"several threads", {4, 6, 41, 43}, 3});
  threads.dtypes = {DType::f32};
  threads.gradient = false;
  c.samples.push_back(threads);
  Sample large = forward_sample({"large groups", {1, 4, 80, 90}, 1});
  large.dtypes = {DType::f32, DType::bf16};
  large.gradient = false;
  c.samples.push_back(large);
  Sample all = forward_sample({"every output", {2, 6, 3, 4}, 3});
  all.call = [](const Args& a) { return call_op("group_norm", GroupNormParams{3, 1e-3}, a.in); };
  all.oracle = [](const HostArgs& in) { return normalised(in[0], in[1], in[2], {3, 1e-3}); };
  c.samples.push_back(all);
  const auto call = [](Device d, const Shape& shape, int64_t groups, const Shape& weight,
                       DType dtype = DType::f32) {
    group_norm(zeros(shape, {.device = d}), zeros(weight, {dtype, d}), {}, {.groups = groups});
  };
  c.bad = {bad<ShapeError>("group_norm: input must be [N, C, …], got [3]",
                           [=](Device d) { call(d, {3}, 1, {3}); }),
           bad<ShapeError>("group_norm: the channels must be a multiple of the groups, got [2, 5] "
                           "and 2 groups",
                           [=](Device d) { call(d, {2, 5}, 2, {5}); }),
           bad<ShapeError>("group_norm: the channels must be a multiple of the groups, got [2, 5] "
                           "and 0 groups",
                           [=](Device d) { call(d, {2, 5}, 0, {5}); }),
           bad<ShapeError>("group_norm: weight must be [4], got [3]",
                           [=](Device d) { call(d, {2, 4}, 2, {3}); }),
           bad<DTypeError>("group_norm: weight must be f32 or f32 for an input of f32, got f64",
                           [=](Device d) { call(d, {2, 4}, 2, {4}, DType::f64); }),
           bad<DTypeError>("group_norm: expected a floating dtype, got i32", [](Device d) {
             group_norm(zeros({2, 4}, {DType::i32, d}), {}, {}, {.groups = 2});
           })};
  return c;
}

std::vector<HostArray> gradients(const HostArgs& in, const GroupNormGradParams& p) {
  const Geometry s(in[0].shape, p.groups);
  HostArray dx = in[0];
  HostArray dw{{in[0].shape[1]}, std::vector<double>(s.channels)};
  HostArray db = dw;
  for (size_t group = 0; group < s.groups; ++group) {
    const auto normal = [&](size_t i) {
      return (in[1].values[i] - in[3].values[group]) * in[4].values[group];
    };
    double mean = 0;
    double product = 0;
    for (size_t i = group * s.count; i < (group + 1) * s.count; ++i) {
      const double g = in[0].values[i] * or_else(in[2], s.channel(i), 1);
      mean += g / static_cast<double>(s.count);
      product += g * normal(i) / static_cast<double>(s.count);
      dw.values[s.channel(i)] += in[0].values[i] * normal(i);
      db.values[s.channel(i)] += in[0].values[i];
    }
    for (size_t i = group * s.count; i < (group + 1) * s.count; ++i) {
      const double g = in[0].values[i] * or_else(in[2], s.channel(i), 1);
      dx.values[i] = (g - mean - normal(i) * product) * in[4].values[group];
    }
  }
  if (!p.parameters) return {dx};
  return {dx, dw, db};
}

OpCase group_norm_grad_case() {
  OpCase c{.op = "group_norm_grad", .samples = {}};
  const auto sample = [](const Setup& s, bool parameters = true) {
    const GroupNormGradParams p{s.groups, parameters};
    const Shape groups = {s.x[0], s.groups};
    return Sample{.name = s.name,
                  .in = {x(s.x), x(s.x), s.weight ? x({s.x[1]}) : absent(),
                         x(groups).in(-0.5, 0.5).statistic(), x(groups).in(0.5, 2).statistic()},
                  .call = [=](const Args& a) { return call_op("group_norm_grad", p, a.in); },
                  .oracle = [=](const HostArgs& in) { return gradients(in, p); }};
  };
  for (const Setup& s : setups())
    if (s.bias) c.samples.push_back(sample(s));
  c.samples.push_back(sample({"one element", {1, 1}, 1}));
  c.samples.push_back(sample({"no parameters", {2, 6, 3, 4}, 3}, false));
  Sample threads = sample({"several threads", {4, 6, 41, 43}, 3});
  threads.dtypes = {DType::f32};
  threads.gradient = false;
  c.samples.push_back(threads);
  Sample large = sample({"large groups", {1, 4, 80, 90}, 1});
  large.dtypes = {DType::f32, DType::bf16};
  large.gradient = false;
  c.samples.push_back(large);
  const auto call = [](Device d, const Shape& dy, const Shape& statistics, DType dtype) {
    const Tensor s = zeros(statistics, {dtype, d});
    group_norm_grad(zeros(dy, {.device = d}), zeros({2, 4}, {.device = d}), {}, s, s, {2, true});
  };
  c.bad = {bad<ShapeError>("group_norm_grad: dy must be [2, 4] as the input, got [4, 2]",
                           [=](Device d) { call(d, {4, 2}, {2, 2}, DType::f32); }),
           bad<ShapeError>("group_norm_grad: statistics must be [2, 2], got [2]",
                           [=](Device d) { call(d, {2, 4}, {2}, DType::f32); }),
           bad<DTypeError>("group_norm_grad: statistics must be f32, got f64",
                           [=](Device d) { call(d, {2, 4}, {2, 2}, DType::f64); })};
  return c;
}

/// y, then the running statistics where there are any. Inputs: x, weight, bias, mean, variance.
std::vector<HostArray> instance_normalised(const HostArgs& in, const InstanceNormOptions& o) {
  const Geometry s(in[0].shape, in[0].shape[1]);
  const bool running = !in[3].values.empty();
  if (!o.use_input_stats) {
    HostArray y = in[0];
    for (size_t i = 0; i < y.values.size(); ++i) {
      const size_t c = s.channel(i);
      y.values[i] = (y.values[i] - in[3].values[c]) / std::sqrt(in[4].values[c] + o.eps) *
                        or_else(in[1], c, 1) +
                    or_else(in[2], c, 0);
    }
    return {y, in[3], in[4]};
  }
  const auto out = normalised(in[0], in[1], in[2], {.groups = in[0].shape[1], .eps = o.eps});
  if (!running) return {out[0]};
  HostArray mean = in[3];
  HostArray variance = in[4];
  const auto images = static_cast<double>(in[0].shape[0]);
  const auto n = static_cast<double>(s.count);
  for (size_t c = 0; c < s.channels; ++c) {
    double m = 0;
    double v = 0;
    for (size_t group = c; group < s.groups; group += s.channels) {
      m += out[1].values[group] / images;
      v += (std::pow(out[2].values[group], -2) - o.eps) * n / (n - 1) / images;
    }
    mean.values[c] += o.momentum * (m - mean.values[c]);
    variance.values[c] += o.momentum * (v - variance.values[c]);
  }
  return {out[0], mean, variance};
}

OpCase instance_norm_case() {
  OpCase c{.op = "instance_norm", .samples = {}};
  const auto sample = [](const char* name, const Shape& shape, bool affine, bool running,
                         InstanceNormOptions o = {}) {
    const Shape channels = {shape[1]};
    return Sample{.name = name,
                  .in = {x(shape), affine ? x(channels).statistic() : absent(),
                         affine ? x(channels).statistic() : absent(),
                         running ? x(channels).statistic().constant() : absent(),
                         running ? x(channels).in(0.5, 2).statistic().constant() : absent()},
                  .call = [=](const Args& a) -> Tensors {
                    if (!running) return {instance_norm(a[0], {}, {}, a[1], a[2], o)};
                    const Tensor mean = clone(a[3]);
                    const Tensor variance = clone(a[4]);
                    const Tensor y = instance_norm(a[0], mean, variance, a[1], a[2], o);
                    return {y, mean, variance};
                  },
                  .oracle = [=](const HostArgs& in) { return instance_normalised(in, o); }};
  };
  c.samples = {
      sample("images", {2, 3, 4, 5}, true, false),
      sample("sequences", {3, 2, 9}, true, false),
      sample("plain", {2, 3, 4, 4}, false, false),
      sample("running statistics", {3, 2, 4, 5}, true, true),
      sample("running statistics alone", {2, 3, 7}, false, true, {.momentum = 0.3}),
      sample("by the running statistics", {2, 3, 4}, true, true, {.use_input_stats = false}),
      sample("one element, by the running statistics", {1, 1, 1}, true, true,
             {.use_input_stats = false}),
      sample("no images", {0, 3, 4, 4}, true, false)};
  const auto call = [](Device d, const Shape& shape, const Tensor& mean, const Tensor& variance,
                       InstanceNormOptions o = {}) {
    instance_norm(zeros(shape, {.device = d}), mean, variance, {}, {}, o);
  };
  c.bad = {bad<ShapeError>("instance_norm: input must be [N, C, …] with an image, got [2, 3]",
                           [=](Device d) { call(d, {2, 3}, {}, {}); }),
           bad<ShapeError>("instance_norm: expected more than one value per channel, got [2, 3, 1]",
                           [=](Device d) { call(d, {2, 3, 1}, {}, {}); }),
           bad<Error>("instance_norm: running_mean and running_var must both be given",
                      [=](Device d) { call(d, {2, 3, 4}, zeros({3}, {.device = d}), {}); }),
           bad<Error>("instance_norm: expected running statistics where the input's are not used",
                      [=](Device d) { call(d, {2, 3, 4}, {}, {}, {.use_input_stats = false}); }),
           bad<ShapeError>("instance_norm: parameters and statistics must be [C] with C = 3, got "
                           "[4]",
                           [=](Device d) {
                             call(d, {2, 3, 4}, zeros({4}, {.device = d}),
                                  ones({4}, {.device = d}));
                           })};
  return c;
}

const Room kRoom([] {
  return std::vector<OpCase>{group_norm_case(), group_norm_grad_case(), instance_norm_case()};
});

}  // namespace
}  // namespace mica::cases
