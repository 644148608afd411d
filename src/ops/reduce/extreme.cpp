#include "mica/ops/reduce/extreme.h"
#include "mica/op/dispatch.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/reduce/axes.h"
#include "mica/ops/reduce/cpu_reference.h"

namespace mica {
namespace {

void infer(const ReduceParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check_not_empty(out.op(), in[0].shape, p.axes);
  add_reduced(out, in[0].shape, p.axes, p.keepdim, in[0].dtype);
}

/// Elements that are equal to the result share its cotangent evenly.
Tensors vjp(const ReduceParams& p, const VjpArgs& a) {
  const Tensor& x = a.in[0];
  const Tensor ties = eq(x, with_axes(a.out[0], x.shape(), p.axes));
  const Tensor share =
      div(with_axes(a.grad[0], x.shape(), p.axes), cast(sum(ties, p.axes, true), x.dtype()));
  return {mul(cast(ties, share.dtype()), share)};
}

std::shared_ptr<reduction::Plan> prepare(const ReduceParams& p, const Specs& s) {
  return std::make_shared<reduction::Plan>(s.in[0], s.out[0], p.axes, size_of(DType::f64));
}

template <class Order>
void run_vectorized(const ReduceParams&, const reduction::Plan& plan, const Call& c) {
  reduction::switch_value(c.in[0].dtype(), [&]<class T>() {
    reduction::reduce(plan, reduction::Fold<Extreme<T, Order>>(), c);
  });
}

template <class Order>
void run_reference(const ReduceParams& p, const Call& c) {
  reduction::reduce_reference_any(p.axes, c, []<class W>(const reduction::Elements<W>& x) {
    W best = x[0];
    for (int64_t i = 1; i < x.size(); ++i)
      if (Order::replaces(x[i], best)) best = x[i];
    return best;
  });
}

template <class Order>
OpDef define(const char* name) {
  return Op<ReduceParams>(name)
      .inputs({"x"})
      .reduction()
      .infer<infer>()
      .vjp<vjp>({.in = {0}, .out = {0}})
      .cpu({kernel<supports_all<ReduceParams>, prepare, run_vectorized<Order>>("vectorized"),
            kernel<supports_all<ReduceParams>, run_reference<Order>>("reference")})
      .build();
}

}  // namespace

const OpDef& max_op() {
  static OpDef def = define<Largest>("max");
  return def;
}

const OpDef& min_op() {
  static OpDef def = define<Smallest>("min");
  return def;
}

Tensor max(const Tensor& x, const Dims& axes, bool keepdim) {
  return dispatch(max_op(), ReduceParams{reduced_axes("max", axes, x.rank()), keepdim}, {x})[0];
}

Tensor min(const Tensor& x, const Dims& axes, bool keepdim) {
  return dispatch(min_op(), ReduceParams{reduced_axes("min", axes, x.rank()), keepdim}, {x})[0];
}

}  // namespace mica
