#include "mica/core/check.h"
#include "mica/op/dispatch.h"
#include "mica/ops/complex/complex.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/reduce/axes.h"
#include "mica/ops/reduce/cpu_engine.h"
#include "mica/ops/reduce/cpu_reference.h"
#include "mica/ops/view/view.h"

namespace mica {
namespace {

void infer(const ReduceParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  add_reduced(out, in[0].shape, p.axes, p.keepdim, total_dtype(in[0].dtype));
}

Tensors vjp(const ReduceParams& p, const VjpArgs& a) {
  const Shape& shape = a.in_specs[0].shape;
  return {expand(with_axes(a.grad[0], shape, p.axes), shape)};
}

/// Floats are added in lanes of their own type, and the sums of blocks in double.
template <class T>
struct FloatSum {
  using Value = T;
  using Lane = T;
  using Acc = double;
  static Acc start() { return 0; }
  static Lane map(Value x) { return x; }
  template <class A>
  static A join(A a, A b) {
    return a + b;
  }
  static void put(const Arg& out, int64_t at, Acc acc) { reduction::put_float(out, at, acc); }
};

/// Integers are added modulo 2^64; blocks of bytes in 32 bits.
template <class T>
struct IntegerSum {
  using Value = T;
  using Lane = std::conditional_t<sizeof(T) == 1, uint32_t, uint64_t>;
  using Acc = uint64_t;
  static Acc start() { return 0; }
  static Lane map(Value x) { return static_cast<Lane>(x); }
  template <class A>
  static A join(A a, A b) {
    return a + b;
  }
  static void put(const Arg& out, int64_t at, Acc acc) { out.as<uint64_t>()[at] = acc; }
};

std::shared_ptr<reduction::Plan> prepare(const ReduceParams& p, const Specs& s) {
  return std::make_shared<reduction::Plan>(s.in[0], s.out[0], p.axes, sizeof(double));
}

void run_vectorized(const ReduceParams&, const reduction::Plan& plan, const Call& c) {
  reduction::switch_value(c.in[0].dtype(), [&]<class T>() {
    using Sum = std::conditional_t<std::is_floating_point_v<T>, FloatSum<T>, IntegerSum<T>>;
    reduction::reduce(plan, reduction::Fold<Sum>(), c);
  });
}

void run_reference(const ReduceParams& p, const Call& c) {
  reduction::reduce_reference_any(p.axes, c, []<class W>(const reduction::Elements<W>& x) {
    std::conditional_t<std::is_same_v<W, double>, double, uint64_t> sum = 0;
    for (int64_t i = 0; i < x.size(); ++i) sum += static_cast<decltype(sum)>(x[i]);
    return static_cast<W>(sum);
  });
}

}  // namespace

const OpDef& sum_op() {
  static OpDef def =
      Op<ReduceParams>("sum")
          .inputs({"x"})
          .precision(Precision::f32)
          .reduction()
          .infer<infer>()
          .vjp<vjp>({})
          .cpu({kernel<supports_all<ReduceParams>, prepare, run_vectorized>("vectorized"),
                kernel<supports_all<ReduceParams>, run_reference>("reference")})
          .build();
  return def;
}

Tensor sum(const Tensor& x, const Dims& axes, bool keepdim) {
  const ReduceParams params{reduced_axes("sum", axes, x.rank()), keepdim};
  if (!is_complex(x.dtype())) return dispatch(sum_op(), params, {x})[0];
  if (x.rank() == 0) return x;
  return as_pairs(x, [&](const Tensor& pairs) { return sum(pairs, params.axes, keepdim); });
}

Tensor mean(const Tensor& x, const Dims& axes, bool keepdim) {
  const DType t = x.dtype();
  check<DTypeError>(is_differentiable(t), "mean: expected a floating or complex dtype, got {}", t);
  const Dims all = reduced_axes("mean", axes, x.rank());
  const auto n = static_cast<double>(reduced_count(x.shape(), all));
  // A sum of many f16 numbers may pass their range where the mean does not.
  const bool narrow = t == DType::f16 || t == DType::bf16;
  const Tensor y = div(sum(narrow ? cast(x, DType::f32) : x, all, keepdim), n);
  return narrow ? cast(y, t) : y;
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  const int shift = x.rank() - shape.rank();
  Dims axes;
  for (int i = 0; i < x.rank(); ++i)
    if (i < shift || (shape[i - shift] == 1 && x.shape()[i] != 1)) axes.push_back(i);
  return reshape(axes.empty() ? x : sum(x, axes), shape);
}

}  // namespace mica
