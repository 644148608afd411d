#include "mica/ops/reduce/reduce.h"

#include <algorithm>
#include <numeric>

#include "mica/core/check.h"
#include "mica/op/dispatch.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/reduce/cpu.h"
#include "mica/ops/view/view.h"

namespace mica {
namespace {

/// Shape without the reduced axes, or with sizes of 1 in their place.
Shape reduced_shape(const Shape& shape, const Dims& axes, bool keepdim) {
  Shape out;
  for (int i = 0; i < shape.rank(); ++i) {
    if (!axes.contains(i)) {
      out.push_back(shape[i]);
    } else if (keepdim) {
      out.push_back(1);
    }
  }
  return out;
}

void infer_sum(const ReduceParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  const DType t = in[0].dtype;
  out.add(reduced_shape(in[0].shape, p.axes, p.keepdim), is_floating(t) ? t : DType::i64);
  out[0].strides = contiguous_strides(out[0].shape);
}

Tensors vjp_sum(const ReduceParams& p, const VjpArgs& a) {
  const Shape& shape = a.in_specs[0].shape;
  return {expand(reshape(a.grad[0], reduced_shape(shape, p.axes, true)), shape)};
}

void infer_argmax(const ArgmaxParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  const auto axis = static_cast<int>(p.axis);
  check<ShapeError>(in[0].shape[axis] > 0, "argmax: axis {} of {} is empty", axis, in[0].shape);
  out.add(reduced_shape(in[0].shape, {p.axis}, p.keepdim), DType::i64);
  out[0].strides = contiguous_strides(out[0].shape);
}

}  // namespace

const OpDef& sum_op() {
  static OpDef def = Op<ReduceParams>("sum")
                         .inputs(1)
                         .infer<infer_sum>()
                         .vjp<vjp_sum>({})
                         .cpu(sum_cpu_kernels())
                         .build();
  return def;
}

const OpDef& argmax_op() {
  static OpDef def = Op<ArgmaxParams>("argmax")
                         .inputs(1)
                         .infer<infer_argmax>()
                         .no_gradient("an index does not change smoothly")
                         .cpu(argmax_cpu_kernels())
                         .build();
  return def;
}

Tensor sum(const Tensor& x, const Dims& axes, bool keepdim) {
  Dims sorted = axes;
  if (axes.empty()) {
    sorted = Dims::filled(x.rank(), 0);
    std::iota(sorted.begin(), sorted.end(), 0);
  }
  for (int64_t& a : sorted) a = normalize_axis(a, x.rank(), "sum");
  std::sort(sorted.begin(), sorted.end());
  check<ShapeError>(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(),
                    "sum: axes {} name one twice", axes);
  return dispatch(sum_op(), ReduceParams{sorted, keepdim}, {x})[0];
}

Tensor mean(const Tensor& x, const Dims& axes, bool keepdim) {
  check<DTypeError>(is_floating(x.dtype()), "mean: expected a floating dtype, got {}", x.dtype());
  const Tensor s = sum(x, axes, keepdim);
  const double n =
      static_cast<double>(x.numel()) / static_cast<double>(std::max<int64_t>(s.numel(), 1));
  return mul(s, 1.0 / n);
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  const int shift = x.rank() - shape.rank();
  Dims axes;
  for (int i = 0; i < x.rank(); ++i)
    if (i < shift || (shape[i - shift] == 1 && x.shape()[i] != 1)) axes.push_back(i);
  return reshape(sum(x, axes), shape);
}

Tensor argmax(const Tensor& x, int64_t axis, bool keepdim) {
  check<ShapeError>(x.rank() > 0, "argmax: expected at least one dimension");
  return dispatch(argmax_op(), ArgmaxParams{normalize_axis(axis, x.rank(), "argmax"), keepdim},
                  {x})[0];
}

}  // namespace mica
