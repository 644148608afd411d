#include <limits>

#include "mica/op/dispatch.h"
#include "mica/ops/gather/gather.h"
#include "mica/ops/sparse/cpu_product.h"
#include "mica/ops/sparse/csr.h"
#include "mica/ops/view/view.h"

namespace mica {

const OpDef& csr_product_ends_op();
const OpDef& csr_product_op();
const OpDef& csr_sampled_product_op();

namespace {

/// Each thread holds a row of the result as if it were dense.
void check_width(const char* op, int64_t columns) {
  constexpr int64_t kMost = int64_t{1} << 28;
  check<Unsupported>(columns <= kMost, "{}: rows of {} columns are too long, {} are the most", op,
                     columns, kMost);
}

void check_factors(const char* op, const TensorSpec& crow_a, const TensorSpec& col_a,
                   const TensorSpec& crow_b, const TensorSpec& col_b, int64_t columns) {
  check_width(op, columns);
  check_pattern(op, crow_b, col_b, columns);
  check_pattern(op, crow_a, col_a, crow_b.numel() - 1);
  check<DTypeError>(crow_a.dtype == crow_b.dtype,
                    "{}: both matrices must have indices of one dtype, got {} and {}", op,
                    crow_a.dtype, crow_b.dtype);
}

void check_factor_values(const char* op, const TensorSpec& col_a, const TensorSpec& a,
                         const TensorSpec& col_b, const TensorSpec& b) {
  check_values(op, col_a, a);
  check_values(op, col_b, b);
  check<DTypeError>(a.dtype == b.dtype, "{}: both matrices must have one dtype, got {} and {}", op,
                    a.dtype, b.dtype);
}

void infer_ends(const CsrParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check_factors(out.op(), in[0], in[1], in[2], in[3], p.columns);
  out.add(in[0].shape, in[0].dtype);
}

void infer(const CsrProductParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  using namespace csr_product_inputs;
  check_factors(out.op(), in[kCrowA], in[kColA], in[kCrowB], in[kColB], p.columns);
  check_factor_values(out.op(), in[kColA], in[kA], in[kColB], in[kB]);
  check<ShapeError>(p.entries >= 0, "{}: expected a number of entries, got {}", out.op(),
                    p.entries);
  check<ShapeError>(in[kCrow].shape == in[kCrowA].shape && in[kCrow].dtype == in[kCrowA].dtype,
                    "{}: crow must be {} of {}, got {} of {}", out.op(), in[kCrowA].shape,
                    in[kCrowA].dtype, in[kCrow].shape, in[kCrow].dtype);
  out.add({p.entries}, in[kCrow].dtype);
  out.add({p.entries}, in[kA].dtype);
}

/// The parts of the transposed matrix.
CsrParts transposed(const CsrParts& m, int64_t columns) {
  const CsrTransposed t = csr_transpose(m.crow, m.col, columns);
  return {t.crow, t.col, index_select(m.values, 0, t.order)};
}

/// With G the cotangent of A B: that of A is G B^T, that of B is A^T G, both at their entries.
Tensors vjp(const CsrProductParams& p, const VjpArgs& a) {
  using namespace csr_product_inputs;
  const CsrParts left{a.in[kCrowA], a.in[kColA], a.in[kA]};
  const CsrParts right{a.in[kCrowB], a.in[kColB], a.in[kB]};
  const CsrParts g{a.in[kCrow], a.out[0], a.grad[1]};
  Tensors grads(a.in_specs.size());
  if (a.needs(kA)) grads[kA] = csr_sampled_product(left.crow, left.col, g, right, p.columns);
  if (a.needs(kB))
    grads[kB] =
        csr_sampled_product(right.crow, right.col, transposed(left, a.in_specs[kCrowB].numel() - 1),
                            transposed(g, p.columns), a.in_specs[kCrowA].numel() - 1);
  return grads;
}

void infer_sampled(const CsrParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  using namespace csr_sampled_product_inputs;
  check_width(out.op(), p.columns);
  check_pattern(out.op(), in[kCrow], in[kCol], p.columns);
  check_pattern(out.op(), in[kCrowA], in[kColA], p.columns);
  check_pattern(out.op(), in[kCrowB], in[kColB], p.columns);
  check<DTypeError>(in[kCrowA].dtype == in[kCrow].dtype && in[kCrowB].dtype == in[kCrow].dtype,
                    "{}: all indices must have one dtype, got {}, {} and {}", out.op(),
                    in[kCrow].dtype, in[kCrowA].dtype, in[kCrowB].dtype);
  check_factor_values(out.op(), in[kColA], in[kA], in[kColB], in[kB]);
  check<ShapeError>(in[kCrowA].shape == in[kCrow].shape,
                    "{}: crow_a must be {}, as the pattern's, got {}", out.op(), in[kCrow].shape,
                    in[kCrowA].shape);
  out.add(in[kCol].shape, in[kA].dtype);
}

/// The same once more: with G at the pattern, A's cotangent is G B, B's is G^T A.
Tensors vjp_sampled(const CsrParams& p, const VjpArgs& a) {
  using namespace csr_sampled_product_inputs;
  const CsrParts left{a.in[kCrowA], a.in[kColA], a.in[kA]};
  const CsrParts right{a.in[kCrowB], a.in[kColB], a.in[kB]};
  const CsrParts g{a.in[kCrow], a.in[kCol], a.grad[0]};
  const int64_t rows_a = a.in_specs[kCrowA].numel() - 1;
  const int64_t rows_b = a.in_specs[kCrowB].numel() - 1;
  Tensors grads(a.in_specs.size());
  if (a.needs(kA))
    grads[kA] = csr_sampled_product(left.crow, left.col, g, transposed(right, p.columns), rows_b);
  if (a.needs(kB))
    grads[kB] = csr_sampled_product(right.crow, right.col, transposed(g, rows_b),
                                    transposed(left, p.columns), rows_a);
  return grads;
}

}  // namespace

const OpDef& csr_product_ends_op() {
  static OpDef def = Op<CsrParams>("csr_product_ends")
                         .inputs({"crow_a", "col_a", "crow_b", "col_b"})
                         .outputs({"crow"})
                         .dtypes(kIntegerDTypes)
                         .infer<infer_ends>()
                         .no_gradient("its inputs are integers")
                         .cpu({csr_product_ends_rows_kernel()})
                         .build();
  return def;
}

const OpDef& csr_product_op() {
  using namespace csr_product_inputs;
  static OpDef def =
      Op<CsrProductParams>("csr_product")
          .inputs({"crow_a", "col_a", "a", "crow_b", "col_b", "b", "crow"})
          .outputs({"col", "values"})
          .dtypes(kIntegerDTypes)
          .precision(Precision::widest)
          .infer<infer>()
          .vjp<vjp>(
              {.in = {kCrowA, kColA, {kA, {kB}}, kCrowB, kColB, {kB, {kA}}, kCrow}, .out = {0}})
          .cpu({csr_product_rows_kernel(), csr_product_reference_kernel()})
          .build();
  return def;
}

const OpDef& csr_sampled_product_op() {
  using namespace csr_sampled_product_inputs;
  static OpDef def =
      Op<CsrParams>("csr_sampled_product")
          .inputs({"crow", "col", "crow_a", "col_a", "a", "crow_b", "col_b", "b"})
          .outputs({"values"})
          .dtypes(kIntegerDTypes)
          .precision(Precision::widest)
          .infer<infer_sampled>()
          .vjp<vjp_sampled>(
              {.in = {kCrow, kCol, kCrowA, kColA, {kA, {kB}}, kCrowB, kColB, {kB, {kA}}}})
          .cpu({csr_sampled_product_rows_kernel(), csr_sampled_product_reference_kernel()})
          .build();
  return def;
}

Tensor csr_product_ends(const Tensor& crow_a, const Tensor& col_a, const Tensor& crow_b,
                        const Tensor& col_b, int64_t columns) {
  return dispatch(csr_product_ends_op(), CsrParams{columns}, {crow_a, col_a, crow_b, col_b})[0];
}

CsrParts csr_product(const CsrParts& a, const CsrParts& b, int64_t columns) {
  const Tensor crow = csr_product_ends(a.crow, a.col, b.crow, b.col, columns);
  const int64_t rows = crow.numel() - 1;
  const auto entries = static_cast<int64_t>(slice(crow, 0, rows, rows + 1).item());
  const Outputs out = dispatch(csr_product_op(), CsrProductParams{columns, entries},
                               {a.crow, a.col, a.values, b.crow, b.col, b.values, crow});
  return {crow, out[0], out[1]};
}

Tensor csr_sampled_product(const Tensor& crow, const Tensor& col, const CsrParts& a,
                           const CsrParts& b, int64_t columns) {
  return dispatch(csr_sampled_product_op(), CsrParams{columns},
                  {crow, col, a.crow, a.col, a.values, b.crow, b.col, b.values})[0];
}

}  // namespace mica
