#include "mica/ops/batch_norm/batch_norm.h"

#include <algorithm>

#include "mica/core/check.h"
#include "mica/op/composition.h"
#include "mica/op/dispatch.h"
#include "mica/op/function.h"
#include "mica/ops/batch_norm/statistics.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/view/view.h"

namespace mica {
namespace {

void check_input(const char* op, const BatchNormParams& params, const TensorSpec& x) {
  check<ShapeError>(x.rank() >= 2, "{}: input must be [N, C, …], got {}", op, x.shape);
  check<ShapeError>(!params.training || x.shape[1] == 0 || x.numel() / x.shape[1] != 1,
                    "{}: training needs more than one value per channel, got {}", op, x.shape);
}

void check_channels(const char* op, const char* what, const TensorSpec& spec, const TensorSpec& x) {
  if (!spec.defined) return;
  const DType dtype = batch_norm_statistics_dtype(x.dtype);
  check<DTypeError>(spec.dtype == dtype, "{}: {} must be {} for an input of {}, got {}", op, what,
                    dtype, x.dtype, spec.dtype);
  check<ShapeError>(spec.shape == Shape{x.shape[1]}, "{}: {} must be [C] with C = {}, got {}", op,
                    what, x.shape[1], spec.shape);
}

/// An input that must look like x.
void check_like(const char* op, const char* what, const TensorSpec& spec, const TensorSpec& x) {
  check<DTypeError>(spec.dtype == x.dtype, "{}: {} must be {} as the input, got {}", op, what,
                    x.dtype, spec.dtype);
  check<ShapeError>(spec.shape == x.shape, "{}: {} must be {} as the input, got {}", op, what,
                    x.shape, spec.shape);
}

void infer(const BatchNormParams& params, std::span<const TensorSpec> in, OutSpecs& out) {
  const TensorSpec& x = in[0];
  check_input(out.op(), params, x);
  check_channels(out.op(), "weight", in[1], x);
  check_channels(out.op(), "bias", in[2], x);
  check_channels(out.op(), "running_mean", in[3], x);
  check_channels(out.op(), "running_var", in[4], x);
  check(in[3].defined == in[4].defined,
        "{}: running_mean and running_var must both be given or both be left out", out.op());
  check(params.training || in[3].defined, "{}: inference needs running statistics", out.op());
  const DType statistics = batch_norm_statistics_dtype(x.dtype);
  out.add(x.shape, x.dtype);
  out.add({x.shape[1]}, statistics);
  out.add({x.shape[1]}, statistics);
}

/// A number per channel, (C), against (N, C, …).
Tensor per_channel(const Tensor& t, int rank) {
  Shape shape = Dims::filled(rank, 1);
  shape[1] = t.numel();
  return reshape(t, shape);
}

double values_per_channel(const Shape& x) {
  return static_cast<double>(numel(x)) / static_cast<double>(std::max<int64_t>(1, x[1]));
}

/// Second order asks for the gradients of the statistics too: adds what x gets from them.
void add_statistics(const BatchNormParams& params, const VjpArgs& args, Tensor& dx) {
  if (!params.training || !args.needs(0)) return;
  const TensorSpec& x = args.in_specs[0];
  const double count = values_per_channel(x.shape);
  const auto include = [&](const Tensor& part) {
    const Tensor more = cast(part, x.dtype);
    dx = dx.defined() ? dx + more : more;
  };
  const Tensor& mean = args.out[1];
  const Tensor& invstd = args.out[2];
  if (args.grad[1].defined()) include(expand(per_channel(args.grad[1] / count, x.rank()), x.shape));
  if (args.grad[2].defined())
    include((args.in[0] - per_channel(mean, x.rank())) *
            per_channel(invstd * invstd * invstd * args.grad[2] / -count, x.rank()));
}

Tensors vjp(const BatchNormParams& params, const VjpArgs& args) {
  Tensors grads(5);
  if (args.grad[0].defined() && !args.needs(0) && !args.needs(1)) {
    Dims axes = {0};
    for (int i = 2; i < args.in_specs[0].rank(); ++i) axes.push_back(i);
    grads[2] = sum(cast(args.grad[0], args.in_specs[2].dtype), axes);
  } else if (args.grad[0].defined()) {
    const BatchNormGrads g =
        batch_norm_grad(args.grad[0], args.in[0], args.in[1], args.out[1], args.out[2], params);
    grads[0] = g.dx;
    if (args.needs(1)) grads[1] = g.dweight;
    if (args.needs(2)) grads[2] = g.dbias;
  }
  add_statistics(params, args, grads[0]);
  return grads;
}

/// What batch_norm_grad computes, with other ops: its own gradient follows from it.
Tensors compose_grad(const BatchNormParams& params, std::span<const Tensor> in) {
  const Tensor& x = in[1];
  const Tensor& weight = in[2];
  const Tensor& invstd = in[4];
  const int rank = x.rank();
  Dims axes = {0};
  for (int i = 2; i < rank; ++i) axes.push_back(i);
  const Tensor dy = cast(in[0], invstd.dtype());
  const Tensor normal = (x - per_channel(in[3], rank)) * per_channel(invstd, rank);
  const Tensor dweight = sum(dy * normal, axes);
  const Tensor dbias = sum(dy, axes);
  Tensor d = dy;
  if (params.training)
    d = d - (per_channel(dbias, rank) + normal * per_channel(dweight, rank)) /
                values_per_channel(x.shape());
  const Tensor scale = weight.defined() ? weight * invstd : invstd;
  return {cast(d * per_channel(scale, rank), x.dtype()), dweight, dbias};
}

bool mutates(const BatchNormParams& params, int input, int) {
  return params.training && (input == 3 || input == 4);
}

bool infers(const BatchNormParams& params) { return !params.training; }

Tensors channel_numbers(const BatchNormParams& params, std::span<const Tensor> in) {
  const Tensor deviation = sqrt(add(in[4], params.eps));
  return {in[3], in[1].defined() ? div(in[1], deviation) : reciprocal(deviation), in[2]};
}

void infer_grad(const BatchNormParams& params, std::span<const TensorSpec> in, OutSpecs& out) {
  const TensorSpec& x = in[1];
  check_input(out.op(), params, x);
  check_like(out.op(), "dy", in[0], x);
  check_channels(out.op(), "weight", in[2], x);
  check_channels(out.op(), "mean", in[3], x);
  check_channels(out.op(), "invstd", in[4], x);
  const DType statistics = batch_norm_statistics_dtype(x.dtype);
  out.add(x.shape, x.dtype);
  out.add({x.shape[1]}, statistics);
  out.add({x.shape[1]}, statistics);
}

}  // namespace

const OpDef& batch_norm_op() {
  static OpDef def =
      Op<BatchNormParams>("batch_norm")
          .inputs({"x", "weight?", "bias?", "running_mean?", "running_var?"})
          .outputs({"y", "mean", "invstd"})
          .formats({Format::images}, {Format::images})
          .carries({}, {0})
          .dtypes(kFloatDTypes)
          .infer<infer>()
          .vjp<vjp>({.in = {{0, {0, 1}}, {1, {0}}}, .out = {{1, {0, 1}}, {2, {0, 1}}}})
          .mutates<mutates>()
          .channel_scale<infers, channel_numbers>()
          .cpu({batch_norm_vectorized_kernel(), batch_norm_reference_kernel()})
          .build();
  return def;
}

const OpDef& batch_norm_grad_op() {
  static OpDef def =
      Op<BatchNormParams>("batch_norm_grad")
          .inputs({"dy", "x", "weight?", "mean", "invstd"})
          .outputs({"dx", "dweight", "dbias"})
          .formats({Format::images, Format::images}, {Format::images})
          .carries({0}, {})
          .dtypes(kFloatDTypes)
          .infer<infer_grad>()
          .vjp<vjp_by<compose_grad, BatchNormParams>>({.in = {0, 1, 2, 3, 4}})
          .cpu({batch_norm_grad_vectorized_kernel(), batch_norm_grad_reference_kernel()})
          .build();
  return def;
}

Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Tensor& running_mean, const Tensor& running_var,
                  const BatchNormParams& params) {
  return dispatch(batch_norm_op(), params, {x, weight, bias, running_mean, running_var})[0];
}

BatchNormGrads batch_norm_grad(const Tensor& dy, const Tensor& x, const Tensor& weight,
                               const Tensor& mean, const Tensor& invstd,
                               const BatchNormParams& params) {
  const Outputs out = dispatch(batch_norm_grad_op(), params, {dy, x, weight, mean, invstd});
  return {out[0], out[1], out[2]};
}

Functions batch_norm_functions() {
  const auto norm = [](const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                       const Tensor& weight, const Tensor& bias, bool training, double momentum,
                       double eps) {
    return batch_norm(x, weight, bias, running_mean, running_var,
                      {.eps = eps, .momentum = momentum, .training = training});
  };
  return {{.name = "batch_norm",
           .doc = "input (N, C, …) normalised over every axis but the second, times weight (C), "
                  "plus bias (C). training: by the batch's statistics, and running_mean and "
                  "running_var (C) move towards them by momentum; else by the running ones. All "
                  "but input are float32 for float16 and bfloat16, else of input's dtype.",
           .signatures = {{norm,
                           {"input",
                            {"running_mean", kNone},
                            {"running_var", kNone},
                            {"weight", kNone},
                            {"bias", kNone},
                            {"training", false},
                            {"momentum", 0.1},
                            {"eps", 1e-5}}}},
           .offer = kFunctional}};
}

}  // namespace mica
