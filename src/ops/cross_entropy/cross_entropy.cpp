#include "mica/ops/cross_entropy/cross_entropy.h"

#include "mica/core/check.h"
#include "mica/op/composed.h"
#include "mica/op/composition.h"
#include "mica/op/dispatch.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/cross_entropy/composed.h"
#include "mica/ops/cross_entropy/targets.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/gather/gather.h"
#include "mica/ops/loss/functions.h"
#include "mica/ops/loss/loss.h"
#include "mica/ops/loss/targets.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/matmul/matmul.h"
#include "mica/ops/matmul/problem.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/softmax/softmax.h"
#include "mica/ops/view/view.h"
#include "mica/ops/where/where.h"

namespace mica {

const OpDef& cross_entropy_op();

namespace {

DType result_dtype(DType logits) { return logits == DType::f64 ? DType::f64 : DType::f32; }

void check_arguments(const char* op, const CrossEntropyParams& params, const TensorSpec& logits,
                     const TensorSpec& target) {
  check<DTypeError>(is_floating(logits.dtype), "{}: logits must be floating, got {}", op,
                    logits.dtype);
  check<ShapeError>(logits.rank() == 2 && logits.shape[1] >= 1,
                    "{}: logits must be [N, C] with at least one class, got {}", op, logits.shape);
  check<DTypeError>(
      target.dtype == DType::i64 || target.dtype == DType::i32 || target.dtype == DType::u8,
      "{}: targets must be i64, i32 or u8, got {}", op, target.dtype);
  check<ShapeError>(target.shape == Shape{logits.shape[0]},
                    "{}: targets must be [N] with N = {}, got {}", op, logits.shape[0],
                    target.shape);
  check(params.label_smoothing >= 0 && params.label_smoothing < 1,
        "{}: label_smoothing must be in [0, 1), got {}", op, params.label_smoothing);
}

void infer(const CrossEntropyParams& params, std::span<const TensorSpec> in, OutSpecs& out) {
  check_arguments("cross_entropy", params, in[0], in[1]);
  out.add({}, result_dtype(in[0].dtype));
  out.add({in[0].shape[0]}, result_dtype(in[0].dtype));
}

/// A number per row, (N), against (N, C).
Tensor per_row(const Tensor& t) { return reshape(t, {t.numel(), 1}); }

Tensors vjp(const CrossEntropyParams& params, const VjpArgs& args) {
  const Tensor& logits = args.in[0];
  const Tensor& logsumexp = args.out[1];
  Tensors grads(2);
  if (args.grad[0].defined())
    grads[0] = cross_entropy_grad(args.grad[0], logits, args.in[1], logsumexp, params);
  // Second order asks for the gradient of the logsumexp too.
  if (args.grad[1].defined()) {
    const Tensor softmax = exp(logits - per_row(logsumexp));
    const Tensor more = cast(softmax * per_row(args.grad[1]), logits.dtype());
    grads[0] = grads[0].defined() ? grads[0] + more : more;
  }
  return grads;
}

/// What cross_entropy_grad computes, with other ops: its own gradient follows from it.
Tensors compose_grad(const CrossEntropyParams& params, std::span<const Tensor> in) {
  const Tensor& dloss = in[0];
  const Tensor& logits = in[1];
  const DType dtype = dloss.dtype();
  const int64_t classes = logits.shape()[1];
  const Tensor target = per_row(cast(in[2], DType::i64));
  const Tensor counted = cast(ne(target, params.ignore_index), dtype);
  const Tensor is_target = cast(eq(target, arange(classes, {DType::i64, target.device()})), dtype);
  const Tensor wanted = is_target * (1 - params.label_smoothing) +
                        params.label_smoothing / static_cast<double>(classes);
  const Tensor softmax = exp(logits - per_row(in[3]));
  const Tensor share = counted / maximum(sum(counted), 1.0);
  return {cast((softmax - wanted) * share * dloss, logits.dtype())};
}

void infer_grad(const CrossEntropyParams& params, std::span<const TensorSpec> in, OutSpecs& out) {
  check_arguments("cross_entropy_grad", params, in[1], in[2]);
  const DType dtype = result_dtype(in[1].dtype);
  check<DTypeError>(in[0].dtype == dtype && in[3].dtype == dtype,
                    "cross_entropy_grad: dloss and logsumexp must be {}, got {} and {}", dtype,
                    in[0].dtype, in[3].dtype);
  check<ShapeError>(
      in[0].shape == Shape{} && in[3].shape == in[2].shape,
      "cross_entropy_grad: dloss must be [] and logsumexp [N] with N = {}, got {} and {}",
      in[1].shape[0], in[0].shape, in[3].shape);
  out.add(in[1].shape, in[1].dtype);
}

// cross_entropy_with_grad: the loss (0-d) of logits (N, C) and classes (N), and its gradient for
// the logits.
void infer_with_grad(const CrossEntropyParams& params, std::span<const TensorSpec> in,
                     OutSpecs& out) {
  check_arguments("cross_entropy_with_grad", params, in[0], in[1]);
  out.add({}, result_dtype(in[0].dtype));
  out.add(in[0].shape, in[0].dtype);
}

Tensors compose_with_grad(const CrossEntropyParams& params, std::span<const Tensor> in) {
  const Outputs loss = dispatch(cross_entropy_op(), params, {in[0], in[1]});
  const Tensor one = full({}, 1.0, {loss[0].dtype(), loss[0].device()});
  return {loss[0], cross_entropy_grad(one, in[0], in[1], loss[1], params)};
}

// linear_cross_entropy: the same of logits that are a linear layer's result, from x (N, K), weight
// (C, K), bias (C) where there is one, and classes (N). Halves would be rounded on the way or not,
// as the kernel has it: they are not taken.
constexpr DTypeSet kWideDTypes{{DType::f64, DType::f32}, "f32 or f64"};

void infer_linear_cross_entropy(const CrossEntropyParams& params, std::span<const TensorSpec> in,
                                OutSpecs& out) {
  const TensorSpec& x = in[0];
  const TensorSpec& weight = in[1];
  const TensorSpec& bias = in[2];
  check<ShapeError>(x.rank() == 2 && weight.rank() == 2 && x.shape[1] == weight.shape[1],
                    "{}: input and weight must be [N, K] and [C, K], got {} and {}", out.op(),
                    x.shape, weight.shape);
  const int64_t classes = weight.shape[0];
  check<ShapeError>(!bias.defined || bias.shape == Shape{classes},
                    "{}: bias must be [C] with C = {}, got {}", out.op(), classes, bias.shape);
  check<DTypeError>(weight.dtype == x.dtype && (!bias.defined || bias.dtype == x.dtype),
                    "{}: weight and bias must be {} as the input is", out.op(), x.dtype);
  const TensorSpec logits = TensorSpec::contiguous({x.shape[0], classes}, x.dtype, x.device);
  check_arguments("linear_cross_entropy", params, logits, in[3]);
  out.add({}, x.dtype);
  out.add(logits.shape, x.dtype);
}

Tensors compose_linear_cross_entropy(const CrossEntropyParams& params, std::span<const Tensor> in) {
  const Tensor logits[] = {linear(in[0], in[1], in[2]), in[3]};
  return compose_with_grad(params, logits);
}

std::shared_ptr<ComposedState> prepare_linear_cross_entropy(const CrossEntropyParams& params,
                                                            const Specs& s) {
  auto state = std::make_shared<ComposedState>(s);
  const int logits = state->temporary(s.out[1].shape, s.out[1].dtype, s.out[1]);
  state->add(find_op("linear"), NoParams{}, {state->in(0), state->in(1), state->in(2)}, {logits});
  state->add(find_op("cross_entropy_with_grad"), params, {logits, state->in(3)},
             {state->out(0), state->out(1)});
  return state;
}

template <class P>
void run_composed(const P&, const ComposedState& state, const Call& call) {
  state.run(call);
}

// linear_cross_entropy_dgrad: the same and dx (N, K), the gradient for x; where an activation made
// x, the gradient for what it was made of, from `saved` (N, K), which the activation's gradient
// reads.
void infer_dgrad(const LinearCrossEntropyParams& params, std::span<const TensorSpec> in,
                 OutSpecs& out) {
  infer_linear_cross_entropy(params.loss, in.first(4), out);
  const TensorSpec& x = in[0];
  const TensorSpec& saved = in[4];
  check(params.activation <= Activation::gelu, "{}: the activation must be relu or gelu, not {}",
        out.op(), print_field(params.activation));
  check(saved.defined == (params.activation != Activation::none),
        "{}: something must be saved where there is an activation, and only there", out.op());
  check<ShapeError>(!saved.defined || saved.shape == x.shape,
                    "{}: what is saved must be {} as the input, got {}", out.op(), x.shape,
                    saved.shape);
  check<DTypeError>(!saved.defined || saved.dtype == x.dtype,
                    "{}: what is saved must be {} as the input is", out.op(), x.dtype);
  out.add(x.shape, x.dtype);
  out[2].strides = contiguous_strides(x.shape);
}

const char* gradient_op(Activation activation) {
  return activation == Activation::relu ? "relu_grad" : "gelu_grad";
}

Tensors compose_dgrad(const LinearCrossEntropyParams& params, std::span<const Tensor> in) {
  Tensors out = compose_linear_cross_entropy(params.loss, in);
  Tensor dx = matmul(out[1], in[1]);
  if (params.activation != Activation::none)
    dx = dispatch(find_op(gradient_op(params.activation)), NoParams{}, {dx, in[4]})[0];
  out.push_back(dx);
  return out;
}

std::shared_ptr<ComposedState> prepare_dgrad(const LinearCrossEntropyParams& params,
                                             const Specs& s) {
  auto state = std::make_shared<ComposedState>(s);
  const int dlogits = state->out(1);
  const int dx = state->out(2);
  state->add(find_op("linear_cross_entropy"), params.loss,
             {state->in(0), state->in(1), state->in(2), state->in(3)}, {state->out(0), dlogits});
  state->add(find_op("matmul"), NoParams{}, {dlogits, state->in(1)}, {dx});
  if (params.activation != Activation::none)
    state->add(find_op(gradient_op(params.activation)), NoParams{}, {dx, state->in(4)}, {dx});
  return state;
}

double linear_flops(const CrossEntropyParams&, const Specs& s) {
  return product_flops(s.out[1].numel(), s.in[0].shape[1]);
}
double dgrad_flops(const LinearCrossEntropyParams& p, const Specs& s) {
  return 2 * linear_flops(p.loss, s);
}

}  // namespace

Kernel linear_cross_entropy_composed_kernel() {
  return kernel<supports_all<CrossEntropyParams>, prepare_linear_cross_entropy,
                run_composed<CrossEntropyParams>>("composed");
}

Kernel linear_cross_entropy_dgrad_composed_kernel() {
  return kernel<supports_all<LinearCrossEntropyParams>, prepare_dgrad,
                run_composed<LinearCrossEntropyParams>>("composed");
}

const OpDef& cross_entropy_op() {
  // Under autocast low logits are read as they are: it computes in f32 and gives f32 anyway, and a
  // copy of the logits of a large vocabulary takes longer than the loss.
  static OpDef def = Op<CrossEntropyParams>("cross_entropy")
                         .inputs({"logits", "target"})
                         .outputs({"loss", "logsumexp"})
                         .dtypes(kFloatDTypes)
                         .infer<infer>()
                         .vjp<vjp>({.in = {0, 1}, .out = {1}})
                         .cpu({cross_entropy_vectorized_kernel(), cross_entropy_reference_kernel()})
                         .build();
  return def;
}

const OpDef& cross_entropy_grad_op() {
  static OpDef def =
      Op<CrossEntropyParams>("cross_entropy_grad")
          .inputs({"dloss", "logits", "target", "logsumexp"})
          .outputs({"dlogits"})
          .dtypes(kFloatDTypes)
          .infer<infer_grad>()
          .vjp<vjp_by<compose_grad, CrossEntropyParams>>({.in = {0, 1, 2, 3}})
          .cpu({cross_entropy_grad_vectorized_kernel(), cross_entropy_grad_reference_kernel()})
          .build();
  return def;
}

const OpDef& cross_entropy_with_grad_op() {
  static OpDef def = Op<CrossEntropyParams>("cross_entropy_with_grad")
                         .inputs({"logits", "target"})
                         .outputs({"loss", "dlogits"})
                         .dtypes(kFloatDTypes)
                         .infer<infer_with_grad>()
                         .vjp<vjp_by<compose_with_grad, CrossEntropyParams>>({.in = {0, 1}})
                         .cpu({cross_entropy_with_grad_composed_kernel()})
                         .build();
  return def;
}

const OpDef& linear_cross_entropy_op() {
  static OpDef def =
      Op<CrossEntropyParams>("linear_cross_entropy")
          .inputs({"x", "weight", "bias?", "target"})
          .outputs({"loss", "dlogits"})
          .flops<linear_flops>()
          .dtypes(kWideDTypes)
          .infer<infer_linear_cross_entropy>()
          .vjp<vjp_by<compose_linear_cross_entropy, CrossEntropyParams>>({.in = {0, 1, 2, 3}})
          .cpu({linear_cross_entropy_composed_kernel()})
          .build();
  return def;
}

const OpDef& linear_cross_entropy_dgrad_op() {
  static OpDef def =
      Op<LinearCrossEntropyParams>("linear_cross_entropy_dgrad")
          .inputs({"x", "weight", "bias?", "target", "y?"})
          .outputs({"loss", "dlogits", "dx"})
          .flops<dgrad_flops>()
          .dtypes(kWideDTypes)
          .infer<infer_dgrad>()
          .vjp<vjp_by<compose_dgrad, LinearCrossEntropyParams>>({.in = {0, 1, 2, 3, 4}})
          .cpu({linear_cross_entropy_dgrad_composed_kernel()})
          .build();
  return def;
}

namespace {

/// (N, C, …) or (C) as (rows, C), in the order of the targets.
Tensor as_rows(const Tensor& logits) {
  const int axis = logits.rank() == 1 ? 0 : 1;
  const int64_t classes = logits.shape()[axis];
  return reshape(movedim(logits, {axis}, {-1}), {logits.numel() / classes, classes});
}

/// Numbers of the classes, (C), against (N, C, …).
Tensor per_class(const Tensor& t, int rank) {
  Shape shape = Dims::filled(rank, 1);
  shape[rank == 1 ? 0 : 1] = t.numel();
  return reshape(t, shape);
}

Tensor with_classes(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& o) {
  const int64_t axis = logits.rank() == 1 ? 0 : 1;
  const Tensor log_p = log_softmax(cast(logits, result_dtype(logits.dtype())), axis);
  if (o.label_smoothing == 0)
    return nll_loss(log_p, target, {o.weight, o.ignore_index, o.reduction});
  const ClassTargets t = class_targets(target, o.ignore_index, o.weight, log_p.dtype());
  const Tensor picked = squeeze(gather(log_p, axis, unsqueeze(t.classes, axis)), {axis});
  const Tensor weighted = o.weight.defined() ? log_p * per_class(o.weight, logits.rank()) : log_p;
  const double share =
      o.label_smoothing / static_cast<double>(logits.shape()[static_cast<int>(axis)]);
  const Tensor likelihood =
      picked * t.weights * (1 - o.label_smoothing) + sum(weighted, {axis}) * share;
  const Tensor losses = where(t.counts, -likelihood, 0.0);
  if (o.reduction != Reduction::mean) return reduce_loss(losses, o.reduction);
  return sum(losses) / sum(t.weights);
}

Tensor with_probabilities(const Tensor& logits, const Tensor& target,
                          const CrossEntropyOptions& o) {
  check<DTypeError>(is_floating(logits.dtype()), "cross_entropy: expected a floating dtype, got {}",
                    logits.dtype());
  check<ShapeError>(logits.rank() >= 1, "cross_entropy: input must be [N, C, …] or [C], got {}",
                    logits.shape());
  const int64_t axis = logits.rank() == 1 ? 0 : 1;
  const int64_t classes = logits.shape()[static_cast<int>(axis)];
  check<ShapeError>(classes >= 1, "cross_entropy: expected at least one class, got {}",
                    logits.shape());
  check<ShapeError>(target.shape() == logits.shape(),
                    "cross_entropy: probabilities must be {} as the logits, got {}", logits.shape(),
                    target.shape());
  check<ShapeError>(!o.weight.defined() || o.weight.shape() == Shape{classes},
                    "cross_entropy: weight must be [C] with C = {}, got {}", classes,
                    o.weight.defined() ? o.weight.shape() : Shape());
  Tensor wanted = cast(target, result_dtype(logits.dtype()));
  if (o.label_smoothing > 0)
    wanted = wanted * (1 - o.label_smoothing) + o.label_smoothing / static_cast<double>(classes);
  if (o.weight.defined()) wanted = wanted * per_class(o.weight, logits.rank());
  const Tensor log_p = log_softmax(cast(logits, result_dtype(logits.dtype())), axis);
  return reduce_loss(-sum(log_p * wanted, {axis}), o.reduction);
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& target,
                     const CrossEntropyOptions& options) {
  check(options.label_smoothing >= 0 && options.label_smoothing < 1,
        "cross_entropy: label_smoothing must be in [0, 1), got {}", options.label_smoothing);
  if (is_floating(target.dtype())) return with_probabilities(logits, target, options);
  check_classes("cross_entropy", logits, target, options.weight);
  if (options.weight.defined() || options.reduction != Reduction::mean)
    return with_classes(logits, target, options);
  const CrossEntropyParams params{options.ignore_index, options.label_smoothing};
  return dispatch(cross_entropy_op(), params,
                  {as_rows(logits), reshape(target, {target.numel()})})[0];
}

Tensor cross_entropy_grad(const Tensor& dloss, const Tensor& logits, const Tensor& target,
                          const Tensor& logsumexp, const CrossEntropyParams& params) {
  return dispatch(cross_entropy_grad_op(), params, {dloss, logits, target, logsumexp})[0];
}

Functions cross_entropy_functions() {
  const auto loss = [](const Tensor& x, const Tensor& target, const Tensor& weight,
                       int64_t ignore_index, Reduction reduction, double label_smoothing) {
    return cross_entropy(x, target,
                         {.weight = weight,
                          .ignore_index = ignore_index,
                          .label_smoothing = label_smoothing,
                          .reduction = reduction});
  };
  return {{.name = "cross_entropy",
           .doc = "-log softmax(input)[target] of logits (N, C, …) or (C). target: classes (N, …) "
                  "or 0-d of integers, of which ignore_index counts for nothing, or probabilities "
                  "of input's shape; weight (C) is of each class and weights the mean. reduction "
                  "'mean' and 'sum' give 0-d, 'none' (N, …); float16 and bfloat16 give float32.",
           .signatures = {{loss,
                           {"input",
                            "target",
                            {"weight", kNone},
                            kKeywordOnly,
                            {"ignore_index", -100},
                            {"reduction", "mean"},
                            {"label_smoothing", 0.0}}}},
           .offer = kFunctional}};
}

}  // namespace mica
