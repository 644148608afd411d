#include "mica/op/op_def.h"
#include "mica/ops/batch_norm/statistics.h"
#include "tests/op_cases/anchored.h"
#include "tests/op_cases/norm_oracle.h"

namespace mica::cases {
namespace {

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
                  .oracle = [p](const HostArgs& in) { return norm_gradients(in, p); }};
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

Sample end_sample(const ActSetup& s) {
  Sample sample = batch_norm_sample({s.name, s.x, {.training = s.training}, s.affine, true});
  sample.name = std::string("batch_norm, ") + s.name;
  if (s.residual) sample.in.push_back(x(s.x));
  Program program{s.residual ? 2 : 1, {}, {}};
  if (s.residual) program.instructions.push_back(elementwise("add", {1, 0}));
  if (s.relu) program.instructions.push_back(elementwise("relu", {s.residual ? 2 : 0}));
  program.outputs = {static_cast<int>(program.instructions.size()) - 1};
  const BatchNormParams p{.training = s.training};
  sample.call = [=](const Args& a) -> Tensors {
    Tensors in = a.in;
    in[3] = clone(a[3]);
    in[4] = clone(a[4]);
    const Tensor y = call_carrying("batch_norm", p, program, in)[0];
    return {y, in[3], in[4]};
  };
  sample.oracle = [=, relu = s.relu, residual = s.residual](const HostArgs& in) {
    std::vector<HostArray> out = normalised(in, p);
    for (size_t i = 0; i < out[0].values.size(); ++i) {
      double& y = out[0].values[i];
      if (residual) y += in[5].values[i];
      if (relu) y = std::max(y, 0.0);
    }
    return out;
  };
  return sample;
}

/// hardswish(batch norm · a tensor of its shape + a number for each channel), and the batch norm.
Sample program_sample(const char* name, const Shape& shape, bool training, bool affine) {
  Shape by_channel = Dims::filled(shape.rank() - 1, 1);
  by_channel[0] = shape[1];
  const Program program{
      3,
      {elementwise("mul", {0, 1}), elementwise("add", {3, 2}), elementwise("hardswish", {4})},
      {2}};
  Sample sample = end_sample({name, shape, true, false, affine, training});
  const BatchNormParams p{.training = training};
  sample.name = std::string("batch_norm, a program, ") + name;
  sample.in.push_back(x(by_channel));
  sample.call = [=](const Args& a) -> Tensors {
    Tensors in = a.in;
    in[3] = clone(a[3]);
    in[4] = clone(a[4]);
    const Tensors out = call_carrying("batch_norm", p, program, in, true);
    return {out[0], in[3], in[4], out[1]};
  };
  sample.oracle = [=](const HostArgs& in) {
    std::vector<HostArray> out = normalised(in, p);
    out.push_back(out[0]);
    each_value(shape, [&](size_t k, size_t i) {
      out[0].values[i] =
          activated(out[0].values[i] * in[5].values[i] + in[6].values[k], Activation::hardswish);
    });
    return out;
  };
  return sample;
}

/// As a tensor of that dtype keeps it.
double rounded(double value, DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return static_cast<float>(BFloat16(static_cast<float>(value)));
    case DType::f16:
      return static_cast<float>(Half(static_cast<float>(value)));
    case DType::f32:
      return static_cast<float>(value);
    default:
      return value;
  }
}

/// The gradient of relu before that of batch norm: by the result, which gives what it is masked to
/// as well, of a sum of two too, or by what x becomes.
Sample masked_sample(const char* name, const Shape& shape, bool given, bool training, bool affine,
                     bool sum = false, DType dtype = DType::f64) {
  const int64_t channels = shape[1];
  const BatchNormParams p{.training = training};
  Sample sample{.name = std::string("batch_norm_grad, ") + name,
                .in = {x(shape), x(shape), affine ? x({channels}).statistic() : absent(),
                       x({channels}).statistic(), x({channels}).in(0.5, 2).statistic(),
                       given    ? x(shape).away(0.1)
                       : affine ? x({channels}).statistic()
                                : absent()},
                .call = nullptr};
  if (sum) sample.in.push_back(x(shape));
  sample.call = [=](const Args& a) -> Tensors {
    Tensors in = {a[0], a[1], a[2], a[3], a[4]};
    Anchored whole{.op = &find_op("batch_norm_grad"), .params = AnyParams(ParamsRef::of(p))};
    if (given) {
      whole.before =
          sum ? intern(
                    Program{3, {elementwise("add", {0, 1}), elementwise("relu_grad", {3, 2})}, {1}})
              : intern(Program{2, {elementwise("relu_grad", {0, 1})}, {0}});
      whole.keeps_operand = true;
      if (sum) in.push_back(a[6]);
      in.push_back(a[5]);
    } else {
      whole = batch_norm_grad_of_relu(p, a.dtype, affine, affine);
      in.insert(in.end(), {a[1], a[3], a[4]});
      if (affine) in.insert(in.end(), {a[2], a[5]});
    }
    return call_op("anchored", AnchoredParams{intern(whole)}, in);
  };
  sample.oracle = [=](const HostArgs& in) {
    HostArray dz = in[0];
    each_value(dz.shape, [&](size_t k, size_t i) {
      const double y =
          given ? in[5].values[i]
                : (in[1].values[i] - in[3].values[k]) * in[4].values[k] * or_else(in[2], k, 1) +
                      or_else(in[5], k, 0);
      if (sum) dz.values[i] = rounded(dz.values[i] + in[6].values[i], dtype);
      if (y <= 0) dz.values[i] = 0;
    });
    std::vector<HostArray> out = norm_gradients({{dz, in[1], in[2], in[3], in[4]}}, p);
    if (given) out.push_back(dz);
    return out;
  };
  if (sum) sample.dtypes = {dtype};
  // In f16 and bf16 what is computed again in several steps may have the other sign near zero.
  if (!given) sample.dtypes = {DType::f64, DType::f32};
  return sample;
}

}  // namespace

std::vector<Sample> batch_norm_carrying_samples() {
  std::vector<Sample> samples;
  for (const ActSetup& s : std::vector<ActSetup>{
           {"relu", {4, 3, 5, 6}},
           {"sum, relu", {4, 3, 5, 6}, true},
           {"sum", {4, 3, 4, 4}, true, false},
           {"no weight", {3, 2, 4, 4}, true, true, false},
           {"matrix", {6, 8}, true},
           {"sequence", {3, 4, 7}},
           {"37 channels", {3, 37, 2, 3}, true},
           {"inference", {4, 3, 5, 6}, true, true, true, false},
           {"one element, inference", {1, 1, 1, 1}, true, true, true, false},
           {"no images", {0, 3, 4, 4}, true},
       })
    samples.push_back(end_sample(s));
  samples.push_back(program_sample("3 channels", {4, 3, 5, 6}, true, true));
  samples.push_back(program_sample("16 channels", {3, 16, 4, 8}, true, true));
  samples.push_back(program_sample("no weight", {6, 5}, true, false));
  samples.push_back(program_sample("inference", {4, 3, 7}, false, true));
  samples.push_back(masked_sample("recomputed", {4, 3, 5, 6}, false, true, true));
  samples.push_back(masked_sample("given", {4, 3, 5, 6}, true, true, true));
  samples.push_back(masked_sample("recomputed, no weight", {4, 3, 5}, false, true, false));
  samples.push_back(masked_sample("given, no weight", {4, 8}, true, true, false));
  samples.push_back(masked_sample("recomputed, 37 channels", {3, 37, 2, 3}, false, true, true));
  samples.push_back(masked_sample("given, 37 channels", {3, 37, 2, 4}, true, true, true));
  samples.push_back(masked_sample("recomputed, inference", {4, 3, 4, 4}, false, false, true));
  samples.push_back(masked_sample("given, inference", {4, 3, 4, 4}, true, false, true));
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    samples.push_back(masked_sample("given, sum", {4, 3, 5, 6}, true, true, true, true, dtype));
    samples.push_back(
        masked_sample("given, sum, 16 channels", {3, 16, 4, 8}, true, true, true, true, dtype));
    samples.push_back(
        masked_sample("given, sum, 37 channels", {3, 37, 2, 4}, true, true, false, true, dtype));
  }
  samples.push_back(masked_sample("recomputed, 16 channels", {5, 16, 7, 8}, false, true, true));
  samples.push_back(masked_sample("no images", {0, 3, 4, 4}, true, true, true));
  samples.push_back(masked_sample("one element, inference", {1, 1, 1, 1}, false, false, true));
  return samples;
}

namespace {

const Room kRoom([] { return std::vector<OpCase>{batch_norm_case(), batch_norm_grad_case()}; });

}  // namespace
}  // namespace mica::cases
