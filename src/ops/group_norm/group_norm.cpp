#include "mica/ops/group_norm/group_norm.h"

#include "mica/core/check.h"
#include "mica/op/composition.h"
#include "mica/op/dispatch.h"
#include "mica/op/function.h"
#include "mica/ops/batch_norm/batch_norm.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/group_norm/cpu.h"
#include "mica/ops/layer_norm/parameter.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/view/view.h"

namespace mica {
namespace {

void check_input(const char* op, const TensorSpec& x, int64_t groups) {
  check<ShapeError>(x.rank() >= 2, "{}: input must be [N, C, …], got {}", op, x.shape);
  check<ShapeError>(groups >= 1 && x.shape[1] % groups == 0,
                    "{}: the channels must be a multiple of the groups, got {} and {} groups", op,
                    x.shape, groups);
}

void infer(const GroupNormParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  const TensorSpec& x = in[0];
  check_input(out.op(), x, p.groups);
  check_parameter(out.op(), "weight", in[1], x.dtype, {x.shape[1]});
  check_parameter(out.op(), "bias", in[2], x.dtype, {x.shape[1]});
  out.add(x.shape, x.dtype);
  out.add({x.shape[0], p.groups}, statistics_dtype(x.dtype));
  out.add({x.shape[0], p.groups}, statistics_dtype(x.dtype));
}

void infer_grad(const GroupNormGradParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  const TensorSpec& x = in[1];
  check_input(out.op(), x, p.groups);
  check_grad_inputs(out.op(), in, {x.shape[1]}, {x.shape[0], p.groups});
  out.add(x.shape, x.dtype);
  for (int i = 0; p.parameters && i < 2; ++i) out.add({x.shape[1]}, statistics_dtype(x.dtype));
}

/// (N, C, …) as (N, groups, values), and a number per group, (N, groups), against it.
Tensor grouped(const Tensor& x, int64_t groups) {
  const GroupShape s(x.shape(), groups);
  return reshape(x, {s.n, s.groups, s.count()});
}
Tensor per_group(const Tensor& t) { return reshape(t, {t.shape()[0], t.shape()[1], 1}); }

Tensors vjp(const GroupNormParams& p, const VjpArgs& a) {
  const TensorSpec& x = a.in_specs[0];
  const auto count = static_cast<double>(GroupShape(x.shape, p.groups).count());
  const Tensor& rstd = a.out[2];
  Tensors grads(3);
  if (a.grad[0].defined() && !a.needs(0) && !a.needs(1)) {
    Dims axes = {0};
    for (int i = 2; i < x.rank(); ++i) axes.push_back(i);
    const Tensor dy = cast(a.grad[0], statistics_dtype(x.dtype));
    grads[2] = cast(sum(dy, axes), a.in_specs[2].dtype);
  } else if (a.grad[0].defined()) {
    const GroupNormGrads g = group_norm_grad(a.grad[0], a.in[0], a.in[1], a.out[1], rstd,
                                             {p.groups, a.needs(1) || a.needs(2)});
    grads[0] = g.dx;
    if (a.needs(1)) grads[1] = cast(g.dweight, a.in_specs[1].dtype);
    if (a.needs(2)) grads[2] = cast(g.dbias, a.in_specs[2].dtype);
  }
  // Second order asks for the statistics' gradients too.
  const auto include = [&](const Tensor& dx) {
    const Tensor more = cast(reshape(dx, x.shape), x.dtype);
    grads[0] = grads[0].defined() ? grads[0] + more : more;
  };
  if (!a.needs(0)) return grads;
  const Tensor values = grouped(a.in[0], p.groups);
  if (a.grad[1].defined()) include(expand(per_group(a.grad[1] / count), values.shape()));
  if (a.grad[2].defined())
    include((values - per_group(a.out[1])) * per_group(rstd * rstd * rstd * a.grad[2] / -count));
  return grads;
}

/// What group_norm_grad computes, with other ops: its own gradient follows from it.
Tensors compose_grad(const GroupNormGradParams& p, std::span<const Tensor> in) {
  const Tensor& x = in[1];
  const Tensor& weight = in[2];
  const Tensor& rstd = in[4];
  const GroupShape s(x.shape(), p.groups);
  const Shape by_channel = {s.n, s.channels(), s.size};
  const Tensor dy = reshape(cast(in[0], rstd.dtype()), by_channel);
  const Tensor normal = (grouped(x, p.groups) - per_group(in[3])) * per_group(rstd);
  const Tensor weighted = weight.defined() ? dy * reshape(weight, {s.channels(), 1}) : dy;
  const Tensor g = reshape(weighted, normal.shape());
  const Tensor shift = sum(g, {2}, true) + normal * sum(g * normal, {2}, true);
  const Tensor dx = (g - shift / static_cast<double>(s.count())) * per_group(rstd);
  Tensors out = {cast(reshape(dx, x.shape()), x.dtype())};
  if (p.parameters) {
    out.push_back(sum(dy * reshape(normal, by_channel), {0, 2}));
    out.push_back(sum(dy, {0, 2}));
  }
  return out;
}

}  // namespace

const OpDef& group_norm_op() {
  static OpDef def =
      Op<GroupNormParams>("group_norm")
          .inputs({"x", "weight?", "bias?"})
          .outputs({"y", "mean", "rstd"})
          .precision(Precision::f32)
          .formats({Format::images}, {Format::images})
          .carries({0}, {0})
          .dtypes(kFloatDTypes)
          .infer<infer>()
          .vjp<vjp>({.in = {{0, {0, 1}}, {1, {0}}}, .out = {{1, {0, 1}}, {2, {0, 1}}}})
          .cpu({group_norm_vectorized_kernel(), group_norm_reference_kernel()})
          .build();
  return def;
}

const OpDef& group_norm_grad_op() {
  static OpDef def =
      Op<GroupNormGradParams>("group_norm_grad")
          .inputs({"dy", "x", "weight?", "mean", "rstd"})
          .outputs({"dx", "dweight?", "dbias?"})
          .formats({Format::images, Format::images}, {Format::images})
          .dtypes(kFloatDTypes)
          .infer<infer_grad>()
          .vjp<vjp_by<compose_grad, GroupNormGradParams>>({.in = {0, 1, 2, 3, 4}})
          .cpu({group_norm_grad_vectorized_kernel(), group_norm_grad_reference_kernel()})
          .build();
  return def;
}

Tensor group_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const GroupNormParams& params) {
  return dispatch(group_norm_op(), params, {x, weight, bias})[0];
}

GroupNormGrads group_norm_grad(const Tensor& dy, const Tensor& x, const Tensor& weight,
                               const Tensor& mean, const Tensor& rstd,
                               const GroupNormGradParams& params) {
  const Outputs out = dispatch(group_norm_grad_op(), params, {dy, x, weight, mean, rstd});
  return {out[0], params.parameters ? out[1] : Tensor(), params.parameters ? out[2] : Tensor()};
}

Tensor instance_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                     const Tensor& weight, const Tensor& bias, const InstanceNormOptions& options) {
  check<ShapeError>(x.rank() >= 3, "instance_norm: input must be [N, C, …] with an image, got {}",
                    x.shape());
  check(running_mean.defined() == running_var.defined(),
        "instance_norm: running_mean and running_var must both be given or both be left out");
  check(options.use_input_stats || running_mean.defined(),
        "instance_norm: expected running statistics where the input's are not used");
  const int64_t images = x.shape()[0];
  const int64_t channels = x.shape()[1];
  const BatchNormParams params{options.eps, options.momentum, options.use_input_stats};
  check<ShapeError>(!options.use_input_stats || x.numel() != images * channels || x.numel() == 0,
                    "instance_norm: expected more than one value per channel, got {}", x.shape());
  if (!options.use_input_stats)
    return batch_norm(x, weight, bias, running_mean, running_var, params);
  if (!running_mean.defined())
    return group_norm(x, weight, bias, {std::max<int64_t>(channels, 1), options.eps});
  // Each image's channels as channels of one image, with running statistics of their own.
  const auto repeated = [&](const Tensor& t) {
    if (!t.defined()) return t;
    check<ShapeError>(t.shape() == Shape{channels},
                      "instance_norm: parameters and statistics must be [C] with C = {}, got {}",
                      channels, t.shape());
    return reshape(expand(t, {images, channels}), {images * channels});
  };
  // Copies first: what has views cannot be written to while a graph is captured.
  const Tensor mean = clone(repeated(clone(running_mean)));
  const Tensor variance = clone(repeated(clone(running_var)));
  Shape shape = x.shape();
  shape[0] = 1;
  shape[1] = images * channels;
  const Tensor y =
      batch_norm(reshape(x, shape), repeated(weight), repeated(bias), mean, variance, params);
  if (images > 0) {
    copy_(running_mean, mica::mean(reshape(mean, {images, channels}), {0}));
    copy_(running_var, mica::mean(reshape(variance, {images, channels}), {0}));
  }
  return reshape(y, x.shape());
}

Functions group_norm_functions() {
  const auto norm = [](const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias,
                       double eps) {
    return group_norm(x, weight, bias, {.groups = groups, .eps = eps});
  };
  return {
      {.name = "group_norm",
       .doc = "Each image of input (N, C, …) normalised over num_groups groups of neighbouring "
              "channels, times weight (C), plus bias (C). Statistics are float64 for float64, else "
              "float32.",
       .signatures = {{norm,
                       {"input", "num_groups", {"weight", kNone}, {"bias", kNone}, {"eps", 1e-5}}}},
       .offer = kFunctional}};
}

Functions instance_norm_functions() {
  const auto norm = [](const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                       const Tensor& weight, const Tensor& bias, bool use_input_stats,
                       double momentum, double eps) {
    return instance_norm(x, running_mean, running_var, weight, bias,
                         {.eps = eps, .momentum = momentum, .use_input_stats = use_input_stats});
  };
  return {{.name = "instance_norm",
           .doc = "Each channel of each image of input (N, C, …) normalised, times weight (C), "
                  "plus bias (C). use_input_stats: by its own statistics, and running_mean and "
                  "running_var (C), where given, move towards their mean over the images by "
                  "momentum; else by the running ones.",
           .signatures = {{norm,
                           {"input",
                            {"running_mean", kNone},
                            {"running_var", kNone},
                            {"weight", kNone},
                            {"bias", kNone},
                            {"use_input_stats", true},
                            {"momentum", 0.1},
                            {"eps", 1e-5}}}},
           .offer = kFunctional}};
}

}  // namespace mica
