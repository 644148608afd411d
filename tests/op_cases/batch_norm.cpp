#include <cmath>

#include "tests/op_cases/op_case.h"

namespace mica::cases {
namespace {

/// Values in each channel of (N, C, …).
double count_of(const HostArray& x) {
  const auto channels = static_cast<double>(x.shape[1]);
  return channels > 0 ? static_cast<double>(x.values.size()) / channels : 0;
}

/// The values of each channel of (N, C, …): calls f(channel, index).
template <class F>
void each_value(const Shape& shape, F&& f) {
  int64_t inner = 1;
  for (int i = 2; i < shape.rank(); ++i) inner *= shape[i];
  for (int64_t i = 0; i < numel(shape); ++i)
    f(static_cast<size_t>(i / inner % shape[1]), static_cast<size_t>(i));
}

struct Statistics {
  std::vector<double> mean, variance;
};

Statistics statistics_of(const HostArray& x) {
  const auto channels = static_cast<size_t>(x.shape[1]);
  const double count = count_of(x);
  Statistics s{std::vector<double>(channels), std::vector<double>(channels)};
  each_value(x.shape, [&](size_t c, size_t i) { s.mean[c] += x.values[i] / count; });
  each_value(x.shape, [&](size_t c, size_t i) {
    s.variance[c] += std::pow(x.values[i] - s.mean[c], 2) / count;
  });
  return s;
}

double or_else(const HostArray& a, size_t c, double value) {
  return a.values.empty() ? value : a.values[c];
}

/// y, then the running statistics where there are any.
std::vector<HostArray> normalised(const HostArgs& in, const BatchNormParams& p) {
  const auto channels = static_cast<size_t>(in[0].shape[1]);
  const bool running = !in[3].values.empty();
  Statistics s = p.training ? statistics_of(in[0]) : Statistics{in[3].values, in[4].values};
  HostArray y = in[0];
  each_value(y.shape, [&](size_t c, size_t i) {
    y.values[i] =
        (y.values[i] - s.mean[c]) / std::sqrt(s.variance[c] + p.eps) * or_else(in[1], c, 1) +
        or_else(in[2], c, 0);
  });
  if (!running) return {y};
  HostArray mean = in[3];
  HostArray variance = in[4];
  const double count = count_of(in[0]);
  for (size_t c = 0; c < channels && p.training && count > 0; ++c) {
    mean.values[c] = (1 - p.momentum) * mean.values[c] + p.momentum * s.mean[c];
    variance.values[c] =
        (1 - p.momentum) * variance.values[c] + p.momentum * s.variance[c] * count / (count - 1);
  }
  return {y, mean, variance};
}

struct Setup {
  const char* name;
  Shape x;
  BatchNormParams params;
  bool affine = true;
  bool running = true;
};

Sample batch_norm_sample(const Setup& s) {
  const int64_t c = s.x[1];
  return {.name = s.name,
          .in = {x(s.x), s.affine ? x({c}).statistic() : absent(),
                 s.affine ? x({c}).statistic() : absent(),
                 s.running ? x({c}).statistic().constant() : absent(),
                 s.running ? x({c}).in(0.5, 2).statistic().constant() : absent()},
          .call = [p = s.params](const Args& a) -> Tensors {
            if (!a[3].defined()) return {batch_norm(a[0], a[1], a[2], {}, {}, p)};
            const Tensor mean = clone(a[3]);
            const Tensor variance = clone(a[4]);
            const Tensor y = batch_norm(a[0], a[1], a[2], mean, variance, p);
            return {y, mean, variance};
          },
          .oracle = [p = s.params](const HostArgs& in) { return normalised(in, p); }};
}

OpCase batch_norm_case() {
  OpCase c{.op = "batch_norm", .samples = {}};
  for (const Setup& s : std::vector<Setup>{
           {"training", {4, 3, 5, 6}, {}},
           {"inference", {4, 3, 5, 6}, {.training = false}},
           {"no weight", {3, 2, 4, 4}, {}, false},
           {"no running statistics", {3, 2, 4, 4}, {}, true, false},
           {"matrix", {6, 5}, {}},
           {"sequence", {3, 4, 7}, {.eps = 1e-3, .momentum = 0.3}},
           {"37 channels", {3, 37, 2, 3}, {}},
           {"two values a channel", {2, 3}, {}},
           {"inference of one element", {1, 1, 1, 1}, {.training = false}},
           {"no images", {0, 3, 4, 4}, {}},
           {"inference of no images", {0, 3, 4, 4}, {.training = false}},
       })
    c.samples.push_back(batch_norm_sample(s));
  // Two values become -1 and 1 whatever they are: the gradient is a difference that rounding eats.
  c.samples[7].gradient = false;
  // A large mean: the variance must not be taken from the difference of two large numbers.
  Sample far = batch_norm_sample({"large mean", {4, 3, 8, 8}, {}});
  far.in[0] = x({4, 3, 8, 8}).in(30, 31);
  far.dtypes = {DType::f64};
  c.samples.push_back(far);
  c.samples.push_back({.name = "saved statistics",
                       .in = {x({4, 3, 5, 6})},
                       .call =
                           [](const Args& a) {
                             return call_op("batch_norm", BatchNormParams{},
                                            {a[0], {}, {}, {}, {}});
                           },
                       .oracle =
                           [](const HostArgs& in) {
                             const Statistics s = statistics_of(in[0]);
                             HostArray y = in[0];
                             HostArray invstd{{3}, {}};
                             for (const double v : s.variance)
                               invstd.values.push_back(1 / std::sqrt(v + 1e-5));
                             each_value(y.shape, [&](size_t k, size_t i) {
                               y.values[i] = (y.values[i] - s.mean[k]) * invstd.values[k];
                             });
                             return std::vector{y, HostArray{{3}, s.mean}, invstd};
                           },
                       .gradient = false});
  const auto call = [](Device d, const Shape& shape, const Shape& weight, DType weight_dtype,
                       const BatchNormParams& p) {
    batch_norm(zeros(shape, {.device = d}), zeros(weight, {weight_dtype, d}), {}, {}, {}, p);
  };
  c.bad = {
      bad<ShapeError>("batch_norm: weight must be [C] with C = 3, got [4]",
                      [=](Device d) { call(d, {2, 3, 4, 4}, {4}, DType::f32, {}); }),
      bad<DTypeError>("batch_norm: weight must be f32 for an input of f32, got f64",
                      [=](Device d) { call(d, {2, 3, 4, 4}, {3}, DType::f64, {}); }),
      bad<ShapeError>("batch_norm: input must be [N, C, …], got [3]",
                      [=](Device d) { call(d, {3}, {3}, DType::f32, {}); }),
      bad<ShapeError>("batch_norm: training needs more than one value per channel, got [1, 3]",
                      [=](Device d) { call(d, {1, 3}, {3}, DType::f32, {}); }),
      bad<Error>("batch_norm: inference needs running statistics",
                 [=](Device d) { call(d, {2, 3, 4, 4}, {3}, DType::f32, {.training = false}); }),
      bad<Error>("batch_norm: running_mean and running_var must both be given", [](Device d) {
        batch_norm(zeros({2, 3}, {.device = d}), {}, {}, zeros({3}, {.device = d}), {});
      })};
  return c;
}

/// Of dy, x, weight, mean, 1/std: dx, dweight, dbias.
std::vector<HostArray> gradients(const HostArgs& in, const BatchNormParams& p) {
  const auto n = static_cast<size_t>(in[0].shape[1]);
  const double count = count_of(in[0]);
  HostArray dx = in[0];
  HostArray dw{{static_cast<int64_t>(n)}, std::vector<double>(n)};
  HostArray db = dw;
  const auto normal = [&](size_t k, size_t i) {
    return (in[1].values[i] - in[3].values[k]) * in[4].values[k];
  };
  each_value(dx.shape, [&](size_t k, size_t i) {
    db.values[k] += in[0].values[i];
    dw.values[k] += in[0].values[i] * normal(k, i);
  });
  each_value(dx.shape, [&](size_t k, size_t i) {
    double d = in[0].values[i];
    if (p.training) d -= (db.values[k] + normal(k, i) * dw.values[k]) / count;
    dx.values[i] = d * or_else(in[2], k, 1) * in[4].values[k];
  });
  return std::vector{dx, dw, db};
}

OpCase batch_norm_grad_case() {
  OpCase c{.op = "batch_norm_grad", .samples = {}};
  const auto sample = [](const char* name, const Shape& shape, bool training, bool weight) {
    const int64_t channels = shape[1];
    const BatchNormParams p{.training = training};
    return Sample{.name = name,
                  .in = {x(shape), x(shape), weight ? x({channels}).statistic() : absent(),
                         x({channels}).statistic(), x({channels}).in(0.5, 2).statistic()},
                  .call = [p](const Args& a) -> Tensors {
                    const BatchNormGrads g = batch_norm_grad(a[0], a[1], a[2], a[3], a[4], p);
                    return {g.dx, g.dweight, g.dbias};
                  },
                  .oracle = [p](const HostArgs& in) { return gradients(in, p); }};
  };
  c.samples = {sample("training", {4, 3, 5, 6}, true, true),
               sample("inference", {4, 3, 5, 6}, false, true),
               sample("no weight", {4, 3, 5}, true, false),
               sample("37 channels", {3, 37, 2, 3}, true, true),
               sample("no images", {0, 3, 4, 4}, true, true),
               sample("one element, inference", {1, 1, 1, 1}, false, true)};
  c.bad = {bad<ShapeError>("batch_norm_grad: dy must be [2, 3] as the input, got [2, 4]",
                           [](Device d) {
                             const TensorOptions o{.device = d};
                             batch_norm_grad(zeros({2, 4}, o), zeros({2, 3}, o), {}, zeros({3}, o),
                                             zeros({3}, o), {});
                           }),
           bad<ShapeError>("batch_norm_grad: mean must be [C] with C = 3, got [4]", [](Device d) {
             const TensorOptions o{.device = d};
             batch_norm_grad(zeros({2, 3}, o), zeros({2, 3}, o), {}, zeros({4}, o), zeros({3}, o),
                             {});
           })};
  return c;
}

struct ActSetup {
  const char* name;
  Shape x;
  bool residual = false;
  bool relu = true;
  bool affine = true;
  bool training = true;
};

Sample act_sample(const ActSetup& s) {
  Sample sample = batch_norm_sample({s.name, s.x, {.training = s.training}, s.affine, true});
  sample.in.push_back(s.residual ? x(s.x) : absent());
  const BatchNormActParams p{{.training = s.training}, s.relu};
  sample.call = [p](const Args& a) -> Tensors {
    const Tensor mean = clone(a[3]);
    const Tensor variance = clone(a[4]);
    const Tensor y = batch_norm_act(a[0], a[1], a[2], mean, variance, a[5], p);
    return {y, mean, variance};
  };
  sample.oracle = [p](const HostArgs& in) {
    std::vector<HostArray> out = normalised(in, p.norm);
    for (size_t i = 0; i < out[0].values.size(); ++i) {
      double& y = out[0].values[i];
      y += or_else(in[5], i, 0);
      if (p.relu) y = std::max(y, 0.0);
    }
    return out;
  };
  return sample;
}

OpCase batch_norm_act_case() {
  OpCase c{.op = "batch_norm_act", .samples = {}};
  for (const ActSetup& s : std::vector<ActSetup>{
           {"relu", {4, 3, 5, 6}},
           {"residual, relu", {4, 3, 5, 6}, true},
           {"residual", {4, 3, 4, 4}, true, false},
           {"neither", {4, 3, 4, 4}, false, false},
           {"no weight", {3, 2, 4, 4}, true, true, false},
           {"matrix", {6, 8}, true},
           {"sequence", {3, 4, 7}},
           {"37 channels", {3, 37, 2, 3}, true},
           {"inference", {4, 3, 5, 6}, true, true, true, false},
           {"one element, inference", {1, 1, 1, 1}, true, true, true, false},
           {"no images", {0, 3, 4, 4}, true},
       })
    c.samples.push_back(act_sample(s));
  c.bad = {bad<ShapeError>("batch_norm_act: residual must be [2, 3] as the input, got [2, 4]",
                           [](Device d) {
                             const TensorOptions o{.device = d};
                             batch_norm_act(zeros({2, 3}, o), {}, {}, {}, {}, zeros({2, 4}, o));
                           }),
           bad<DTypeError>("batch_norm_act: residual must be f32 as the input, got f64",
                           [](Device d) {
                             batch_norm_act(zeros({2, 3}, {.device = d}), {}, {}, {}, {},
                                            zeros({2, 3}, {DType::f64, d}));
                           }),
           bad<ShapeError>("batch_norm_act: weight must be [C] with C = 3, got [4]", [](Device d) {
             const TensorOptions o{.device = d};
             batch_norm_act(zeros({2, 3}, o), zeros({4}, o), {}, {}, {}, {});
           })};
  return c;
}

OpCase batch_norm_act_grad_case() {
  OpCase c{.op = "batch_norm_act_grad", .samples = {}};
  const auto sample = [](const char* name, const Shape& shape, bool given, bool training,
                         bool affine) {
    const int64_t channels = shape[1];
    const BatchNormParams p{.training = training};
    return Sample{.name = name,
                  .in = {x(shape), x(shape), affine ? x({channels}).statistic() : absent(),
                         x({channels}).statistic(), x({channels}).in(0.5, 2).statistic(),
                         affine ? x({channels}).statistic() : absent(),
                         given ? x(shape).away(0.1) : absent()},
                  .call = [p](const Args& a) -> Tensors {
                    const BatchNormActGrads g =
                        batch_norm_act_grad(a[0], a[1], a[2], a[3], a[4], a[5], a[6], p);
                    if (!g.dresidual.defined()) return {g.dx, g.dweight, g.dbias};
                    return {g.dx, g.dweight, g.dbias, g.dresidual};
                  },
                  .oracle =
                      [p](const HostArgs& in) {
                        HostArray dz = in[0];
                        each_value(dz.shape, [&](size_t k, size_t i) {
                          const double y = in[6].values.empty()
                                               ? (in[1].values[i] - in[3].values[k]) *
                                                         in[4].values[k] * or_else(in[2], k, 1) +
                                                     or_else(in[5], k, 0)
                                               : in[6].values[i];
                          if (y <= 0) dz.values[i] = 0;
                        });
                        std::vector<HostArray> out =
                            gradients({{dz, in[1], in[2], in[3], in[4]}}, p);
                        if (in[6].shape == in[0].shape) out.push_back(dz);
                        return out;
                      }};
  };
  c.samples = {sample("recomputed", {4, 3, 5, 6}, false, true, true),
               sample("given", {4, 3, 5, 6}, true, true, true),
               sample("recomputed, no weight", {4, 3, 5}, false, true, false),
               sample("given, no weight", {4, 8}, true, true, false),
               sample("recomputed, 37 channels", {3, 37, 2, 3}, false, true, true),
               sample("given, 37 channels", {3, 37, 2, 4}, true, true, true),
               sample("recomputed, inference", {4, 3, 4, 4}, false, false, true),
               sample("given, inference", {4, 3, 4, 4}, true, false, true),
               sample("no images", {0, 3, 4, 4}, true, true, true),
               sample("one element, inference", {1, 1, 1, 1}, false, false, true)};
  c.bad = {
      bad<ShapeError>("batch_norm_act_grad: y must be [2, 3] as the input, got [2, 4]",
                      [](Device d) {
                        const TensorOptions o{.device = d};
                        batch_norm_act_grad(zeros({2, 3}, o), zeros({2, 3}, o), {}, zeros({3}, o),
                                            zeros({3}, o), {}, zeros({2, 4}, o), {});
                      }),
      bad<ShapeError>("batch_norm_act_grad: bias must be [C] with C = 3, got [4]", [](Device d) {
        const TensorOptions o{.device = d};
        batch_norm_act_grad(zeros({2, 3}, o), zeros({2, 3}, o), {}, zeros({3}, o), zeros({3}, o),
                            zeros({4}, o), {}, {});
      })};
  return c;
}

const Room kRoom([] {
  return std::vector<OpCase>{batch_norm_case(), batch_norm_grad_case(), batch_norm_act_case(),
                             batch_norm_act_grad_case()};
});

}  // namespace
}  // namespace mica::cases
