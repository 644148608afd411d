#include "mica/ops/elementwise/elementwise.h"

#include <map>
#include <mutex>

#include "mica/op/dispatch.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/binary.h"
#include "mica/ops/elementwise/functors.h"
#include "mica/ops/elementwise/unary.h"
#include "mica/ops/reduce/reduce.h"

namespace mica {
namespace {

using Specs1 = std::span<const TensorSpec>;

void infer_add(const NoParams&, Specs1 in, OutSpecs& out) { binary::infer_as("add", in, out); }
void infer_sub(const NoParams&, Specs1 in, OutSpecs& out) { binary::infer_as("sub", in, out); }
void infer_mul(const NoParams&, Specs1 in, OutSpecs& out) { binary::infer_as("mul", in, out); }
void infer_relu_grad(const NoParams&, Specs1 in, OutSpecs& out) {
  binary::infer_as("relu_grad", in, out);
}
void infer_neg(const NoParams&, Specs1 in, OutSpecs& out) {
  unary::infer_as<Takes::numbers>("neg", in, out);
}
void infer_relu(const NoParams&, Specs1 in, OutSpecs& out) {
  unary::infer_as<Takes::numbers>("relu", in, out);
}
void infer_div(const NoParams&, Specs1 in, OutSpecs& out) {
  check<DTypeError>(is_floating(in[0].dtype), "div: expected a floating dtype, got {}",
                    in[0].dtype);
  binary::infer_as("div", in, out);
}

/// The gradient g of a broadcast operand, summed to its shape; undefined where nobody asks.
template <class F>
Tensor for_input(const VjpArgs& a, int i, F&& g) {
  return a.needs(i) ? sum_to(g(), a.in_specs[static_cast<size_t>(i)].shape) : Tensor();
}

Tensors vjp_add(const NoParams&, const VjpArgs& a) {
  return {for_input(a, 0, [&] { return a.grad[0]; }), for_input(a, 1, [&] { return a.grad[0]; })};
}
Tensors vjp_sub(const NoParams&, const VjpArgs& a) {
  return {for_input(a, 0, [&] { return a.grad[0]; }),
          for_input(a, 1, [&] { return neg(a.grad[0]); })};
}
Tensors vjp_mul(const NoParams&, const VjpArgs& a) {
  return {for_input(a, 0, [&] { return mul(a.grad[0], a.in[1]); }),
          for_input(a, 1, [&] { return mul(a.grad[0], a.in[0]); })};
}
Tensors vjp_div(const NoParams&, const VjpArgs& a) {
  return {for_input(a, 0, [&] { return div(a.grad[0], a.in[1]); }),
          for_input(a, 1, [&] { return neg(div(mul(a.grad[0], a.out[0]), a.in[1])); })};
}
Tensors vjp_neg(const NoParams&, const VjpArgs& a) { return {neg(a.grad[0])}; }
Tensors vjp_relu(const NoParams&, const VjpArgs& a) { return {relu_grad(a.grad[0], a.out[0])}; }
// The gradient is linear in dy; in y it is zero wherever it exists.
Tensors vjp_relu_grad(const NoParams&, const VjpArgs& a) {
  return {for_input(a, 0, [&] { return relu_grad(a.grad[0], a.in[1]); }), Tensor()};
}

/// A 0-d tensor of a number, made once: a loop that scales by 0.5 must not copy to the device each
/// time.
Tensor constant(double value, DType dtype, Device device) {
  static std::mutex mutex;
  static auto* const constants = new std::map<std::tuple<double, DType, DeviceKind, int>, Tensor>;
  constexpr size_t kMost = 256;
  const std::lock_guard lock(mutex);
  if (constants->size() > kMost) constants->clear();
  Tensor& t = (*constants)[{value, dtype, device.kind, device.index}];
  if (!t.defined()) t = scalar(value, {dtype, device});
  return t;
}

/// A number is weak: it takes the tensor's dtype, unless it has a fraction and the tensor is of
/// integers.
Tensor operand(double value, const Tensor& like) {
  const bool fits =
      is_floating(like.dtype()) || value == static_cast<double>(static_cast<int64_t>(value));
  return constant(value, fits ? like.dtype() : DType::f32, like.device());
}

Tensor binary_call(const OpDef& op, const Tensor& a, const Tensor& b) {
  if (a.dtype() == b.dtype()) return dispatch(op, NoParams{}, {a, b})[0];
  const DType t = promote(a.dtype(), b.dtype());
  return dispatch(op, NoParams{}, {cast(a, t), cast(b, t)})[0];
}

}  // namespace

const OpDef& add_op() {
  static OpDef def = Op<NoParams>("add")
                         .infer<infer_add>()
                         .vjp<vjp_add>({})
                         .elementwise(2)
                         .cpu(binary::cpu_kernels<functor::Add>())
                         .build();
  return def;
}

const OpDef& sub_op() {
  static OpDef def = Op<NoParams>("sub")
                         .infer<infer_sub>()
                         .vjp<vjp_sub>({})
                         .elementwise(2)
                         .cpu(binary::cpu_kernels<functor::Sub>())
                         .build();
  return def;
}

const OpDef& mul_op() {
  static OpDef def = Op<NoParams>("mul")
                         .infer<infer_mul>()
                         .vjp<vjp_mul>({.in = {0, 1}})
                         .elementwise(2)
                         .cpu(binary::cpu_kernels<functor::Mul>())
                         .build();
  return def;
}

const OpDef& div_op() {
  static OpDef def = Op<NoParams>("div")
                         .infer<infer_div>()
                         .vjp<vjp_div>({.in = {1}, .out = {0}})
                         .elementwise(2)
                         .cpu(binary::cpu_kernels<functor::Div>())
                         .build();
  return def;
}

const OpDef& neg_op() {
  static OpDef def = Op<NoParams>("neg")
                         .infer<infer_neg>()
                         .vjp<vjp_neg>({})
                         .elementwise(1)
                         .cpu(unary_cpu_kernels<functor::Neg, Takes::numbers>())
                         .build();
  return def;
}

const OpDef& relu_op() {
  static OpDef def = Op<NoParams>("relu")
                         .infer<infer_relu>()
                         .vjp<vjp_relu>({.out = {0}})
                         .elementwise(1)
                         .cpu(unary_cpu_kernels<functor::Relu, Takes::numbers>())
                         .build();
  return def;
}

const OpDef& relu_grad_op() {
  static OpDef def = Op<NoParams>("relu_grad")
                         .infer<infer_relu_grad>()
                         .vjp<vjp_relu_grad>({.in = {1}})
                         .elementwise(2)
                         .cpu(binary::cpu_kernels<functor::ReluGrad>())
                         .build();
  return def;
}

Tensor add(const Tensor& a, const Tensor& b) { return binary_call(add_op(), a, b); }
Tensor sub(const Tensor& a, const Tensor& b) { return binary_call(sub_op(), a, b); }
Tensor mul(const Tensor& a, const Tensor& b) { return binary_call(mul_op(), a, b); }
Tensor div(const Tensor& a, const Tensor& b) {
  const DType t = promote(a.dtype(), b.dtype());
  if (is_floating(t)) return binary_call(div_op(), a, b);
  return binary_call(div_op(), cast(a, DType::f32), cast(b, DType::f32));
}

Tensor add(const Tensor& a, double b) { return add(a, operand(b, a)); }
Tensor sub(const Tensor& a, double b) { return sub(a, operand(b, a)); }
Tensor mul(const Tensor& a, double b) { return mul(a, operand(b, a)); }
Tensor div(const Tensor& a, double b) { return div(a, operand(b, a)); }

Tensor neg(const Tensor& x) { return dispatch(neg_op(), NoParams{}, {x})[0]; }
Tensor relu(const Tensor& x) { return dispatch(relu_op(), NoParams{}, {x})[0]; }
Tensor relu_grad(const Tensor& dy, const Tensor& y) {
  return dispatch(relu_grad_op(), NoParams{}, {dy, y})[0];
}

}  // namespace mica
