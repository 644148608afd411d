#include "mica/ops/cross_entropy/cross_entropy.h"

#include "mica/core/check.h"
#include "mica/op/dispatch.h"
#include "mica/ops/cross_entropy/targets.h"

namespace mica {
namespace {

DType result_dtype(DType logits) { return logits == DType::f64 ? DType::f64 : DType::f32; }

void check_arguments(const char* op, const CrossEntropyParams& params, const TensorSpec& logits,
                     const TensorSpec& target) {
  check<DTypeError>(is_floating(logits.dtype), "{}: expected floating logits, got {}", op,
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

Tensors vjp(const CrossEntropyParams& params, const VjpArgs& args) {
  return {cross_entropy_grad(args.grad[0], args.in[0], args.in[1], args.out[1], params), {}};
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

}  // namespace

const OpDef& cross_entropy_op() {
  static OpDef def = Op<CrossEntropyParams>("cross_entropy")
                         .infer<infer>()
                         .vjp<vjp>({.in = {0, 1}, .out = {1}})
                         .cpu({cross_entropy_vectorized_kernel(), cross_entropy_reference_kernel()})
                         .build();
  return def;
}

const OpDef& cross_entropy_grad_op() {
  static OpDef def =
      Op<CrossEntropyParams>("cross_entropy_grad")
          .infer<infer_grad>()
          .no_gradient("second order of cross entropy is not there yet")
          .cpu({cross_entropy_grad_vectorized_kernel(), cross_entropy_grad_reference_kernel()})
          .build();
  return def;
}

Tensor cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyParams& params) {
  return dispatch(cross_entropy_op(), params, {logits, target})[0];
}

Tensor cross_entropy_grad(const Tensor& dloss, const Tensor& logits, const Tensor& target,
                          const Tensor& logsumexp, const CrossEntropyParams& params) {
  return dispatch(cross_entropy_grad_op(), params, {dloss, logits, target, logsumexp})[0];
}

}  // namespace mica
