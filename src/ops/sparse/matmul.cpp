#include "mica/op/dispatch.h"
#include "mica/ops/gather/gather.h"
#include "mica/ops/reference.h"
#include "mica/ops/sparse/cpu_matmul.h"
#include "mica/ops/sparse/cpu_pattern.h"
#include "mica/ops/sparse/csr.h"

namespace mica {

const OpDef& csr_matmul_op();
const OpDef& csr_sampled_matmul_op();

namespace {

enum In { kCrow, kCol, kValues, kDense };

void infer(const NoParams&, std::span<const TensorSpec> in, OutSpecs& out) {
  const TensorSpec& dense = in[kDense];
  check<ShapeError>(dense.rank() == 2, "{}: dense must be [columns, K], got {}", out.op(),
                    dense.shape);
  check_pattern(out.op(), in[kCrow], in[kCol], dense.shape[0]);
  check_values(out.op(), in[kCol], in[kValues]);
  check<DTypeError>(dense.dtype == in[kValues].dtype,
                    "{}: values and dense must have one dtype, got {} and {}", out.op(),
                    in[kValues].dtype, dense.dtype);
  out.add({in[kCrow].numel() - 1, dense.shape[1]}, dense.dtype);
}

/// The gradient of dense is the product of the transposed matrix, that of the values the products
/// of the cotangent and dense where there are entries.
Tensors vjp(const NoParams&, const VjpArgs& a) {
  Tensors grads(4);
  if (a.needs(kValues))
    grads[kValues] = csr_sampled_matmul(a.in[kCrow], a.in[kCol], a.grad[0], a.in[kDense]);
  if (a.needs(kDense)) {
    const CsrTransposed t = csr_transpose(a.in[kCrow], a.in[kCol], a.in_specs[kDense].shape[0]);
    grads[kDense] = csr_matmul(t.crow, t.col, index_select(a.in[kValues], 0, t.order), a.grad[0]);
  }
  return grads;
}

double flops(const NoParams&, const Specs& s) {
  return 2.0 * static_cast<double>(s.in[kCol].numel()) * static_cast<double>(s.in[kDense].shape[1]);
}

void run_reference(const NoParams&, const Call& c) {
  const DoubleValues values(c.in[kValues]);
  const DoubleValues dense(c.in[kDense]);
  const DoubleValues y(c.out[0]);
  const int64_t k = c.out[0].shape()[1];
  switch_index(c.in[kCrow].dtype(), [&]<class I>() {
    const CsrPattern<I> a("csr_matmul", c.in[kCrow], c.in[kCol], c.in[kDense].shape()[0]);
    for (int64_t r = 0; r < a.rows; ++r)
      for (int64_t j = 0; j < k; ++j) {
        double sum = 0;
        for (int64_t e = a.begin(r); e < a.end(r); ++e)
          sum += values[e] * dense[a.column(e) * k + j];
        y.set(r * k + j, sum);
      }
  });
}

enum SampledIn { kA = 2, kB };

void infer_sampled(const NoParams&, std::span<const TensorSpec> in, OutSpecs& out) {
  const TensorSpec& a = in[kA];
  const TensorSpec& b = in[kB];
  check<ShapeError>(a.rank() == 2 && b.rank() == 2 && a.shape[1] == b.shape[1],
                    "{}: a must be [rows, K] and b [columns, K], got {} and {}", out.op(), a.shape,
                    b.shape);
  check_pattern(out.op(), in[kCrow], in[kCol], b.shape[0]);
  check<ShapeError>(a.shape[0] == in[kCrow].numel() - 1,
                    "{}: a must have a row for each of the pattern's {}, got {}", out.op(),
                    in[kCrow].numel() - 1, a.shape);
  check<DTypeError>(kFloatDTypes.contains(a.dtype) && b.dtype == a.dtype,
                    "{}: a and b must have one floating dtype, got {} and {}", out.op(), a.dtype,
                    b.dtype);
  out.add(in[kCol].shape, a.dtype);
}

Tensors vjp_sampled(const NoParams&, const VjpArgs& a) {
  Tensors grads(4);
  if (a.needs(kA)) grads[kA] = csr_matmul(a.in[kCrow], a.in[kCol], a.grad[0], a.in[kB]);
  if (a.needs(kB)) {
    const CsrTransposed t = csr_transpose(a.in[kCrow], a.in[kCol], a.in_specs[kB].shape[0]);
    grads[kB] = csr_matmul(t.crow, t.col, index_select(a.grad[0], 0, t.order), a.in[kA]);
  }
  return grads;
}

double flops_sampled(const NoParams&, const Specs& s) {
  return 2.0 * static_cast<double>(s.in[kCol].numel()) * static_cast<double>(s.in[kA].shape[1]);
}

void run_sampled_reference(const NoParams&, const Call& c) {
  const DoubleValues left(c.in[kA]);
  const DoubleValues right(c.in[kB]);
  const DoubleValues y(c.out[0]);
  const int64_t k = c.in[kA].shape()[1];
  switch_index(c.in[kCrow].dtype(), [&]<class I>() {
    const CsrPattern<I> a("csr_sampled_matmul", c.in[kCrow], c.in[kCol], c.in[kB].shape()[0]);
    for (int64_t r = 0; r < a.rows; ++r)
      for (int64_t e = a.begin(r); e < a.end(r); ++e) {
        const int64_t column = a.column(e);
        double sum = 0;
        for (int64_t j = 0; j < k; ++j) sum += left[r * k + j] * right[column * k + j];
        y.set(e, sum);
      }
  });
}

/// The reference takes any strides of values and dense operands; of indices it wants them dense.
Support supports_reference(const NoParams&, const Specs&) {
  return Support::yes().with_contiguous({kCrow, kCol});
}

}  // namespace

const OpDef& csr_matmul_op() {
  static OpDef def =
      Op<NoParams>("csr_matmul")
          .inputs({"crow", "col", "values", "dense"})
          .dtypes(kIntegerDTypes)
          .precision(Precision::widest)
          .infer<infer>()
          .vjp<vjp>({.in = {kCrow, kCol, {kValues, {kDense}}, {kDense, {kValues}}}})
          .flops<flops>()
          .cpu({csr_matmul_rows_kernel(), kernel<supports_reference, run_reference>("reference")})
          .build();
  return def;
}

const OpDef& csr_sampled_matmul_op() {
  static OpDef def = Op<NoParams>("csr_sampled_matmul")
                         .inputs({"crow", "col", "a", "b"})
                         .outputs({"values"})
                         .dtypes(kIntegerDTypes)
                         .precision(Precision::widest)
                         .infer<infer_sampled>()
                         .vjp<vjp_sampled>({.in = {kCrow, kCol, {kA, {kB}}, {kB, {kA}}}})
                         .flops<flops_sampled>()
                         .cpu({csr_sampled_matmul_rows_kernel(),
                               kernel<supports_reference, run_sampled_reference>("reference")})
                         .build();
  return def;
}

Tensor csr_matmul(const Tensor& crow, const Tensor& col, const Tensor& values,
                  const Tensor& dense) {
  return dispatch(csr_matmul_op(), NoParams{}, {crow, col, values, dense})[0];
}

Tensor csr_sampled_matmul(const Tensor& crow, const Tensor& col, const Tensor& a, const Tensor& b) {
  return dispatch(csr_sampled_matmul_op(), NoParams{}, {crow, col, a, b})[0];
}

}  // namespace mica
