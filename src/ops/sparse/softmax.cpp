#include <cmath>
#include <limits>

#include "mica/op/dispatch.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/reference.h"
#include "mica/ops/sparse/cpu_pattern.h"
#include "mica/ops/sparse/parts.h"
#include "mica/ops/view/view.h"
#include "mica/runtime/cpu/runs.h"

namespace mica {

const OpDef& csr_softmax_op();

namespace {

void infer(const CsrSoftmaxParams&, std::span<const TensorSpec> in, OutSpecs& out) {
  check<ShapeError>(in[1].rank() == 1, "{}: values must be [entries], got {}", out.op(),
                    in[1].shape);
  TensorSpec col = in[0];
  col.shape = in[1].shape;
  check_pattern(out.op(), in[0], col, 1);
  check_values(out.op(), col, in[1]);
  out.add(in[1].shape, in[1].dtype);
}

/// The sum over each row, at each entry.
Tensor sums_at_entries(const Tensor& crow, const Tensor& values) {
  const Tensor first = zeros(values.shape(), {crow.dtype(), crow.device()});
  const Tensor one = ones({1, 1}, {values.dtype(), values.device()});
  return csr_sampled_matmul(crow, first, unsqueeze(row_sums(crow, values), 1), one);
}

Tensors vjp(const CsrSoftmaxParams& p, const VjpArgs& a) {
  const Tensor& crow = a.in[0];
  const Tensor& y = a.out[0];
  const Tensor& g = a.grad[0];
  return {Tensor(), p.log ? sub(g, mul(exp(y), sums_at_entries(crow, g)))
                          : mul(y, sub(g, sums_at_entries(crow, mul(g, y))))};
}

/// One row of n.
template <class C>
void softmax_row(const C* x, int64_t n, bool log, C* y) {
  using simd::Vec;
  Vec<C> most(-kInfinity<C>);
  for_vectors<C>(n, [&](int64_t i, int64_t count) {
    most = larger(load_lanes(x + i, count, -kInfinity<C>), most);
  });
  C largest = -kInfinity<C>;
  for (int i = 0; i < Vec<C>::kWidth; ++i) largest = most[i] > largest ? most[i] : largest;
  Vec<C> sums(0);
  for_vectors<C>(n, [&](int64_t i, int64_t count) {
    const Vec<C> e = exp(load_lanes(x + i, count, -kInfinity<C>) - Vec<C>(largest));
    if (!log) store_lanes(e, y + i, count);
    sums += e;
  });
  const C sum = sum_lanes(sums);
  const C shift = largest + std::log(sum);
  for (int64_t i = 0; i < n; ++i) y[i] = log ? x[i] - shift : y[i] / sum;
}

void run(const CsrSoftmaxParams& p, const KernelState&, const Call& c) {
  run_sparse(c, c.in[0].dtype(), c.in[1].dtype(), [&]<class I, class C>(const auto& operands) {
    constexpr int64_t kWork = 16;  // of an exponential function
    const CsrPattern<I> a("csr_softmax", c.in[0], c.in[1].numel());
    a.for_rows(kWork, [&](int64_t first, int64_t last) {
      for (int64_t r = first; r < last; ++r)
        softmax_row(operands.in(1) + a.begin(r), a.end(r) - a.begin(r), p.log,
                    operands.out(0) + a.begin(r));
    });
  });
}

void run_reference(const CsrSoftmaxParams& p, const Call& c) {
  const DoubleValues x(c.in[1]);
  const DoubleValues y(c.out[0]);
  switch_index(c.in[0].dtype(), [&]<class I>() {
    const CsrPattern<I> a("csr_softmax", c.in[0], c.in[1].numel());
    for (int64_t r = 0; r < a.rows; ++r) {
      double largest = -std::numeric_limits<double>::infinity();
      for (int64_t e = a.begin(r); e < a.end(r); ++e) largest = std::max(largest, x[e]);
      double sum = 0;
      for (int64_t e = a.begin(r); e < a.end(r); ++e) sum += std::exp(x[e] - largest);
      for (int64_t e = a.begin(r); e < a.end(r); ++e)
        y.set(e, p.log ? x[e] - largest - std::log(sum) : std::exp(x[e] - largest) / sum);
    }
  });
}

Support supports_reference(const CsrSoftmaxParams&, const Specs&) {
  return Support::yes().with_contiguous({0});
}

}  // namespace

const OpDef& csr_softmax_op() {
  using P = CsrSoftmaxParams;
  static OpDef def = Op<P>("csr_softmax")
                         .inputs({"crow", "values"})
                         .dtypes(kIntegerDTypes)
                         .precision(Precision::f32)
                         .infer<infer>()
                         .vjp<vjp>({.in = {0}, .out = {0}})
                         .cpu({kernel<supports_dense<P>, prepare_operands<P>, run>("rows"),
                               kernel<supports_reference, run_reference>("reference")})
                         .build();
  return def;
}

Tensor csr_softmax(const Tensor& crow, const Tensor& values, const CsrSoftmaxParams& params) {
  return dispatch(csr_softmax_op(), params, {crow, values})[0];
}

}  // namespace mica
