#include "mica/op/dispatch.h"
#include "mica/ops/complex/products.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/reduce/axes.h"
#include "mica/ops/reduce/cpu_engine.h"
#include "mica/ops/reduce/cpu_reference.h"
#include "mica/ops/scan/scan.h"
#include "mica/ops/view/view.h"

namespace mica {
namespace {

void infer(const ReduceParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  add_reduced(out, in[0].shape, p.axes, p.keepdim, total_dtype(in[0].dtype));
}

/// Each element's factor is the product of those before it times the product of those after it,
/// which is right for zeros too.
Tensors vjp(const ReduceParams& p, const VjpArgs& a) {
  const Tensor& x = a.in[0];
  Dims order;  // the reduced axes last
  Shape rows;
  for (int i = 0; i < x.rank(); ++i) {
    if (p.axes.contains(i)) continue;
    order.push_back(i);
    rows.push_back(x.shape()[i]);
  }
  const int64_t last = order.rank();
  for (const int64_t axis : p.axes) order.push_back(axis);
  rows.push_back(reduced_count(x.shape(), p.axes));
  const Tensor moved = permute(x, order);
  const Tensor flat = reshape(moved, rows);
  const ScanParams before{.axis = last, .exclusive = true};
  const ScanParams after{.axis = last, .exclusive = true, .reverse = true};
  const Tensor others = reshape(mul(cumprod(flat, before), cumprod(flat, after)), moved.shape());
  Dims back = order;
  for (int i = 0; i < order.rank(); ++i) back[static_cast<int>(order[i])] = i;
  return {mul(with_axes(a.grad[0], x.shape(), p.axes), permute(others, back))};
}

template <class T>
struct Product {
  using Value = T;
  using Lane = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;
  using Acc = Lane;
  static Acc start() { return 1; }
  static Lane map(Value x) { return static_cast<Lane>(x); }
  static Acc join(Acc a, Acc b) { return a * b; }
  static void put(const Arg& out, int64_t at, Acc acc) {
    if constexpr (std::is_floating_point_v<T>) {
      reduction::put_float(out, at, acc);
    } else {
      out.as<uint64_t>()[at] = acc;
    }
  }
};

std::shared_ptr<reduction::Plan> prepare(const ReduceParams& p, const Specs& s) {
  return std::make_shared<reduction::Plan>(s.in[0], s.out[0], p.axes, sizeof(double));
}

void run_vectorized(const ReduceParams&, const reduction::Plan& plan, const Call& c) {
  reduction::switch_value(c.in[0].dtype(), [&]<class T>() {
    reduction::reduce(plan, reduction::Fold<Product<T>>(), c);
  });
}

void run_reference(const ReduceParams& p, const Call& c) {
  reduction::reduce_reference_any(p.axes, c, []<class W>(const reduction::Elements<W>& x) {
    std::conditional_t<std::is_same_v<W, double>, double, uint64_t> product = 1;
    for (int64_t i = 0; i < x.size(); ++i) product *= static_cast<decltype(product)>(x[i]);
    return static_cast<W>(product);
  });
}

}  // namespace

const OpDef& prod_op() {
  static OpDef def =
      Op<ReduceParams>("prod")
          .inputs({"x"})
          .precision(Precision::f32)
          .reduction()
          .infer<infer>()
          .vjp<vjp>({.in = {0}})
          .cpu({kernel<supports_all<ReduceParams>, prepare, run_vectorized>("vectorized"),
                kernel<supports_all<ReduceParams>, run_reference>("reference")})
          .build();
  return def;
}

Tensor prod(const Tensor& x, const Dims& axes, bool keepdim) {
  const ReduceParams params{reduced_axes("prod", axes, x.rank()), keepdim};
  return is_complex(x.dtype()) ? complex_prod(x, params) : dispatch(prod_op(), params, {x})[0];
}

}  // namespace mica
