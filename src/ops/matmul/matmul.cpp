#include "mica/ops/matmul/matmul.h"

#include <algorithm>
#include <array>
#include <utility>

#include "mica/core/check.h"
#include "mica/op/dispatch.h"
#include "mica/op/function.h"
#include "mica/ops/anchored/anchored.h"
#include "mica/ops/complex/products.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/matmul/problem.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/view/view.h"

namespace mica {

const OpDef& matmul_op();
const OpDef& linear_wgrad_op();

namespace {

double wgrad_flops(const NoParams&, const Specs& s) {
  return product_flops(s.out[0].numel(), s.in[0].shape[0]);
}

Shape leading(const Shape& shape, int dropped) {
  return Shape(std::span(shape.begin(), static_cast<size_t>(shape.rank() - dropped)));
}

void check_dtypes(const char* op, DType a, DType b) {
  check<DTypeError>(a == b, "{}: operands must have one dtype, got {} and {}", op, a, b);
}

// The result is row-major whatever the format of a 4-d operand.
void add_row_major(OutSpecs& out, const Shape& shape, DType dtype) {
  out.add(shape, dtype);
  out[0].strides = contiguous_strides(shape);
}

void infer_matmul(const NoParams&, std::span<const TensorSpec> in, OutSpecs& out) {
  const Shape& a = in[0].shape;
  const Shape& b = in[1].shape;
  check_dtypes(out.op(), in[0].dtype, in[1].dtype);
  check<ShapeError>(a.rank() >= 2 && b.rank() >= 2 && a.back() == b[b.rank() - 2],
                    "{}: expected (…, M, K) and (…, K, N), got {} and {}", out.op(), a, b);
  Shape shape = broadcast_shapes(leading(a, 2), leading(b, 2), out.op());
  shape.push_back(a[a.rank() - 2]);
  shape.push_back(b.back());
  add_row_major(out, shape, in[0].dtype);
}

Tensors vjp_matmul(const NoParams&, const VjpArgs& args) {
  const Tensor& g = args.grad[0];
  Tensors grads(2);
  if (args.needs(0))
    grads[0] = sum_to(matmul(g, transpose(args.in[1], -1, -2)), args.in_specs[0].shape);
  if (args.needs(1))
    grads[1] = sum_to(matmul(transpose(args.in[0], -1, -2), g), args.in_specs[1].shape);
  return grads;
}

void infer_linear(const NoParams&, std::span<const TensorSpec> in, OutSpecs& out) {
  const Shape& x = in[0].shape;
  const Shape& w = in[1].shape;
  check_dtypes(out.op(), in[0].dtype, in[1].dtype);
  check<ShapeError>(w.rank() == 2, "{}: weight must be [out, in], got {}", out.op(), w);
  check<ShapeError>(x.rank() >= 1 && x.back() == w[1],
                    "{}: input must be […, in] with in = {}, got {}", out.op(), w[1], x);
  if (in[2].defined) {
    check_dtypes(out.op(), in[0].dtype, in[2].dtype);
    check<ShapeError>(in[2].shape == Shape{w[0]}, "{}: bias must be [out] with out = {}, got {}",
                      out.op(), w[0], in[2].shape);
  }
  Shape shape = leading(x, 1);
  shape.push_back(w[0]);
  add_row_major(out, shape, in[0].dtype);
}

// Gradients of x, weight and bias from that of their product.
Tensors linear_gradients(const Tensor& dy, const VjpArgs& args) {
  const Shape& w = args.in_specs[1].shape;
  const int64_t rows = numel(leading(args.in_specs[0].shape, 1));
  Tensors grads(3);
  // Of dy's own axes, so that an activation's gradient can follow in one kernel.
  if (args.needs(0) && dy.rank() > 1)
    grads[0] = dispatch(matmul_op(), NoParams{}, {dy, args.in[1]})[0];
  else if (args.needs(0))
    grads[0] = matmul(dy, args.in[1]);
  if (!args.needs(1) && !args.needs(2)) return grads;
  const Tensor g = reshape(dy, {rows, w[0]});
  if (args.needs(1) && args.needs(2)) {
    const Outputs both =
        dispatch(linear_wgrad_op(), NoParams{}, {g, reshape(args.in[0], {rows, w[1]})});
    grads[1] = both[0];
    grads[2] = both[1];
    return grads;
  }
  if (args.needs(1)) grads[1] = matmul(transpose(g, 0, 1), reshape(args.in[0], {rows, w[1]}));
  if (args.needs(2)) grads[2] = sum(g, {0});
  return grads;
}

void infer_linear_wgrad(const NoParams&, std::span<const TensorSpec> in, OutSpecs& out) {
  const Shape& dy = in[0].shape;
  const Shape& x = in[1].shape;
  check_dtypes(out.op(), in[0].dtype, in[1].dtype);
  check<ShapeError>(dy.rank() == 2 && x.rank() == 2 && dy[0] == x[0],
                    "{}: expected [rows, out] and [rows, in], got {} and {}", out.op(), dy, x);
  out.add({dy[1], x[1]}, in[0].dtype);
  out.add({dy[1]}, in[0].dtype);
}

// Both results are linear in dy, the first in x too.
Tensors vjp_linear_wgrad(const NoParams&, const VjpArgs& args) {
  const Tensor& weight = args.grad[0];
  const Tensor& bias = args.grad[1];
  Tensors grads(2);
  if (args.needs(0))
    grads[0] =
        weight.defined() ? linear(args.in[1], weight, bias) : expand(bias, args.in_specs[0].shape);
  if (args.needs(1) && weight.defined()) grads[1] = matmul(args.in[0], weight);
  return grads;
}

Tensors vjp_linear(const NoParams&, const VjpArgs& args) {
  return linear_gradients(args.grad[0], args);
}

// Leading dimensions of the left operand become rows where one right matrix serves them all.
void merge_batch(MatmulProblem& p) {
  Dims batch, a_batch, b_batch;
  bool merging = true;
  for (int d = p.batch.rank() - 1; d >= 0; --d) {
    if (p.batch[d] == 1) continue;
    merging = merging && p.b_batch[d] == 0 && (p.m == 1 || p.a_batch[d] == p.m * p.a_row);
    if (merging) {
      if (p.m == 1) p.a_row = p.a_batch[d];
      p.m *= p.batch[d];
    } else {
      batch.push_back(p.batch[d]);
      a_batch.push_back(p.a_batch[d]);
      b_batch.push_back(p.b_batch[d]);
    }
  }
  for (Dims* dims : {&batch, &a_batch, &b_batch}) std::reverse(dims->begin(), dims->end());
  p.batch = batch;
  p.a_batch = a_batch;
  p.b_batch = b_batch;
}

// Strides of an operand's leading dimensions, aligned to the right of `batch`.
Dims batch_strides(const TensorSpec& spec, int own, const Dims& batch) {
  Dims strides = Dims::filled(batch.rank(), 0);
  for (int d = 0; d < own; ++d)
    if (spec.shape[d] != 1) strides[batch.rank() - own + d] = spec.strides[d];
  return strides;
}

// A matrix with its axes swapped.
TensorSpec transposed(TensorSpec spec) {
  std::swap(spec.shape[0], spec.shape[1]);
  std::swap(spec.strides[0], spec.strides[1]);
  return spec;
}

}  // namespace

MatmulProblem matmul_problem(const TensorSpec& a, const TensorSpec& b) {
  const int ra = a.rank();
  const int rb = b.rank();
  MatmulProblem p;
  p.m = a.shape[ra - 2];
  p.k = a.shape[ra - 1];
  p.n = b.shape[rb - 1];
  p.a_row = a.strides[ra - 2];
  p.a_col = a.strides[ra - 1];
  p.b_row = b.strides[rb - 2];
  p.b_col = b.strides[rb - 1];
  p.batch = broadcast_shapes(leading(a.shape, 2), leading(b.shape, 2), "matmul");
  p.a_batch = batch_strides(a, ra - 2, p.batch);
  p.b_batch = batch_strides(b, rb - 2, p.batch);
  merge_batch(p);
  return p;
}

MatmulProblem linear_problem(const TensorSpec& x, const TensorSpec& weight) {
  const int r = x.rank();
  MatmulProblem p;
  p.m = r >= 2 ? x.shape[r - 2] : 1;
  p.k = weight.shape[1];
  p.n = weight.shape[0];
  p.a_row = r >= 2 ? x.strides[r - 2] : 0;
  p.a_col = x.strides[r - 1];
  p.b_row = weight.strides[1];
  p.b_col = weight.strides[0];
  if (r > 2) p.batch = leading(x.shape, 2);
  p.a_batch = batch_strides(x, p.batch.rank(), p.batch);
  p.b_batch = Dims::filled(p.batch.rank(), 0);
  merge_batch(p);
  return p;
}

MatmulProblem linear_wgrad_problem(const TensorSpec& dy, const TensorSpec& x) {
  return matmul_problem(transposed(dy), x);
}

const OpDef& matmul_op() {
  static OpDef def = Op<NoParams>("matmul")
                         .inputs({"a", "b"})
                         .flops<product_flops<NoParams>>()
                         .precision(Precision::low)
                         .carries({}, {0})
                         .dtypes(kFloatDTypes)
                         .infer<infer_matmul>()
                         .vjp<vjp_matmul>({.in = {{0, {1}}, {1, {0}}}})
                         .cpu({matmul_blocked_kernel(), matmul_reference_kernel()})
                         .build();
  return def;
}

const OpDef& linear_op() {
  static OpDef def = Op<NoParams>("linear")
                         .inputs({"x", "weight", "bias?"})
                         .flops<product_flops<NoParams>>()
                         .precision(Precision::low)
                         .contraction({.channel_axis = -1})
                         .carries({}, {0})
                         .in_bytes("quantized_linear")
                         .dtypes(kFloatDTypes)
                         .infer<infer_linear>()
                         .vjp<vjp_linear>({.in = {{0, {1}}, {1, {0}}}})
                         .cpu({linear_blocked_kernel(), linear_reference_kernel()})
                         .build();
  return def;
}

const OpDef& linear_wgrad_op() {
  static OpDef def = Op<NoParams>("linear_wgrad")
                         .inputs({"dy", "x"})
                         .outputs({"dweight", "dbias"})
                         .flops<wgrad_flops>()
                         .dtypes(kFloatDTypes)
                         .infer<infer_linear_wgrad>()
                         .vjp<vjp_linear_wgrad>({.in = {{0, {1}}, {1, {0}}}})
                         .cpu({linear_wgrad_composed_kernel(), linear_wgrad_reference_kernel()})
                         .build();
  return def;
}

Tensor matmul(const Tensor& a, const Tensor& b) {
  check<ShapeError>(a.rank() >= 1 && b.rank() >= 1,
                    "matmul: operands must have at least one dimension, got {} and {}", a.shape(),
                    b.shape());
  check<ShapeError>(a.shape().back() == b.size(b.rank() == 1 ? 0 : -2),
                    "matmul: expected (…, M, K) and (…, K, N), got {} and {}", a.shape(),
                    b.shape());
  if (a.rank() == 1) {  // a row, whose dimension the result does not keep
    const Tensor c =
        matmul(reshape(a, {1, a.size(0)}), b.rank() == 1 ? reshape(b, {b.size(0), 1}) : b);
    Shape shape = leading(c.shape(), 2);
    if (b.rank() > 1) shape.push_back(c.shape().back());
    return reshape(c, shape);
  }
  if (b.rank() == 1) {
    const Tensor c = matmul(a, reshape(b, {b.size(0), 1}));
    return reshape(c, leading(c.shape(), 1));
  }
  if (is_complex(a.dtype()) || is_complex(b.dtype())) return complex_matmul(a, b);
  if (a.rank() > 2 && b.rank() == 2 && (a.spec().is_contiguous() || b.requires_grad())) {
    // One product: its gradient for b is one product too, instead of a sum over the batch.
    const Shape rows = leading(a.shape(), 1);
    Shape shape = rows;
    shape.push_back(b.size(1));
    const Tensor flat = reshape(a, {numel(rows), a.shape().back()});
    return reshape(dispatch(matmul_op(), NoParams{}, {flat, b})[0], shape);
  }
  return dispatch(matmul_op(), NoParams{}, {a, b})[0];
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (is_complex(x.dtype()) || is_complex(weight.dtype())) {
    const Tensor product = matmul(x, transpose(weight, -2, -1));
    return bias.defined() ? add(product, bias) : product;
  }
  return dispatch(linear_op(), NoParams{}, {x, weight, bias})[0];
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const LinearParams& params) {
  if (params.activation == Activation::none) return linear(x, weight, bias);
  const Program program = program_of(params.activation);
  const Tensor in[] = {x, weight, bias};
  if (grad_wanted(in) || current_recorder()) {
    const Instruction& call = program.instructions[0];
    return dispatch(*call.op, call.params.ref(), std::array{linear(x, weight, bias)})[0];
  }
  Anchored whole{.op = &linear_op()};
  whole.after = intern(program);
  return dispatch(anchored_op(), AnchoredParams{intern(whole)}, {x, weight, bias})[0];
}

Tensor outer(const Tensor& a, const Tensor& b) {
  check<ShapeError>(a.rank() == 1 && b.rank() == 1, "outer: expected two vectors, got {} and {}",
                    a.shape(), b.shape());
  return mul(reshape(a, {a.size(0), 1}), b);
}

Tensor inner(const Tensor& a, const Tensor& b) {
  if (a.rank() == 0 || b.rank() == 0) return mul(a, b);
  check<ShapeError>(a.shape().back() == b.shape().back(),
                    "inner: the last axes must have one size, got {} and {}", a.shape(), b.shape());
  const Shape rows = leading(a.shape(), 1);
  Shape shape = rows;
  for (const int64_t size : leading(b.shape(), 1)) shape.push_back(size);
  const int64_t k = a.shape().back();
  const Tensor right = reshape(b, {numel(leading(b.shape(), 1)), k});
  return reshape(matmul(reshape(a, {numel(rows), k}), transpose(right, 0, 1)), shape);
}

Tensor dot(const Tensor& a, const Tensor& b) {
  check<ShapeError>(a.rank() == 1 && b.rank() == 1 && a.size(0) == b.size(0),
                    "dot: expected two vectors of one size, got {} and {}", a.shape(), b.shape());
  return matmul(a, b);
}

template <>
struct Words<Activation> {
  static constexpr std::pair<const char*, Activation> all[] = {
      {"none", Activation::none}, {"relu", Activation::relu},
      {"gelu", Activation::gelu}, {"gelu_tanh", Activation::gelu_tanh},
      {"silu", Activation::silu}, {"hardswish", Activation::hardswish},
      {"tanh", Activation::tanh}, {"sigmoid", Activation::sigmoid}};
};

Functions matmul_functions() {
  return {
      {.name = "matmul",
       .doc = "The matrix product of input (…, M, K) and other (…, K, N): (…, M, N). Leading axes "
              "broadcast; a vector (K) counts as one row or column, which the result has not. Both "
              "have one floating dtype.",
       .signatures = {{matmul, {"input", "other"}}}},
      {.name = "outer",
       .doc = "The products input[i] * vec2[j] of two vectors (M) and (N): (M, N). Dtypes promote.",
       .signatures = {{outer, {"input", "vec2"}}}},
      {.name = "inner",
       .doc = "The sum of products over the last axes of input (…, K) and other (…, K), the other "
              "axes of both beside each other; a 0-d tensor multiplies. Else both have one "
              "floating dtype.",
       .signatures = {{inner, {"input", "other"}}},
       .precision = Precision::low},
      {.name = "dot",
       .doc = "The sum of the products of two vectors (n) and (n) of one floating dtype: 0-d.",
       .signatures = {{dot, {"input", "tensor"}}},
       .precision = Precision::low},
      {.name = "linear",
       .doc = "input (…, in) times the transpose of weight (out, in), plus bias (out): (…, out). "
              "activation 'relu', 'gelu', 'gelu_tanh', 'silu', 'hardswish', 'tanh' or 'sigmoid' is "
              "applied to it.",
       .signatures = {{[](const Tensor& x, const Tensor& weight, const Tensor& bias,
                          Activation activation) {
                         return linear(x, weight, bias, {.activation = activation});
                       },
                       {"input", "weight", {"bias", kNone}, kKeywordOnly, {"activation", "none"}}}},
       .offer = kFunctional},
  };
}

}  // namespace mica
