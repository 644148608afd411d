#include <algorithm>
#include <limits>

#include "mica/op/dispatch.h"
#include "mica/ops/sparse/cpu_pattern.h"
#include "mica/ops/sparse/csr.h"

namespace mica {

const OpDef& csr_check_op();
const OpDef& csr_coordinates_op();
const OpDef& csr_transpose_op();
const OpDef& coo_keys_op();

void check_pattern(const char* op, const TensorSpec& crow, const TensorSpec& col, int64_t columns) {
  check<DTypeError>(crow.dtype == DType::i32 || crow.dtype == DType::i64,
                    "{}: indices must be i32 or i64, got {}", op, crow.dtype);
  check<DTypeError>(col.dtype == crow.dtype, "{}: crow and col must have one dtype, got {} and {}",
                    op, crow.dtype, col.dtype);
  check<ShapeError>(crow.rank() == 1 && crow.shape[0] > 0 && col.rank() == 1,
                    "{}: crow must be [rows + 1] and col [entries], got {} and {}", op, crow.shape,
                    col.shape);
  check<ShapeError>(columns >= 0, "{}: expected a number of columns, got {}", op, columns);
}

void check_values(const char* op, const TensorSpec& col, const TensorSpec& values) {
  check<DTypeError>(kFloatDTypes.contains(values.dtype), "{}: values must be floating, got {}", op,
                    values.dtype);
  check<ShapeError>(values.shape == col.shape, "{}: values must be {}, one for each entry, got {}",
                    op, col.shape, values.shape);
}

namespace {

void infer_check(const CsrParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check_pattern(out.op(), in[0], in[1], p.columns);
  out.add({}, DType::boolean);
}

void run_check(const CsrParams& p, const Call& c) {
  switch_index(c.in[0].dtype(), [&]<class I>() {
    const CsrPattern<I> a("csr_check", c.in[0], c.in[1], p.columns);
    a.check_columns();
    bool rise = true;
    for (int64_t r = 0; r < a.rows && rise; ++r)
      for (int64_t e = a.begin(r) + 1; e < a.end(r); ++e) rise = rise && a.col[e - 1] < a.col[e];
    *c.out[0].as<bool>() = rise;
  });
}

void infer_coordinates(const CsrParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check_pattern(out.op(), in[0], in[1], p.columns);
  out.add({2, in[1].numel()}, in[0].dtype);
}

void run_coordinates(const CsrParams& p, const Call& c) {
  switch_index(c.in[0].dtype(), [&]<class I>() {
    const CsrPattern<I> a("csr_coordinates", c.in[0], c.in[1], p.columns);
    I* row = c.out[0].as<I>();
    I* column = row + a.entries;
    a.for_rows(2, [&](int64_t first, int64_t last) {
      for (int64_t r = first; r < last; ++r)
        for (int64_t e = a.begin(r); e < a.end(r); ++e) {
          row[e] = static_cast<I>(r);
          column[e] = static_cast<I>(a.column(e));
        }
    });
  });
}

void infer_transpose(const CsrParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check_pattern(out.op(), in[0], in[1], p.columns);
  check<ShapeError>(p.columns < std::numeric_limits<int64_t>::max(), "{}: {} columns are too many",
                    out.op(), p.columns);
  out.add({p.columns + 1}, in[0].dtype);
  out.add(in[1].shape, in[0].dtype);
  out.add(in[1].shape, DType::i64);
}

/// Counting sort: how many entries each column has, where its first goes, then one after the other.
void run_transpose(const CsrParams& p, const Call& c) {
  switch_index(c.in[0].dtype(), [&]<class I>() {
    const CsrPattern<I> a("csr_transpose", c.in[0], c.in[1], p.columns);
    I* begin = c.out[0].as<I>();
    I* row = c.out[1].as<I>();
    auto* order = c.out[2].as<int64_t>();
    std::fill_n(begin, p.columns + 1, I{0});
    for (int64_t e = 0; e < a.entries; ++e) ++begin[a.column(e) + 1];
    for (int64_t k = 0; k < p.columns; ++k) begin[k + 1] = static_cast<I>(begin[k] + begin[k + 1]);
    for (int64_t r = 0; r < a.rows; ++r)
      for (int64_t e = a.begin(r); e < a.end(r); ++e) {
        const auto at = static_cast<int64_t>(begin[a.col[e]]++);
        row[at] = static_cast<I>(r);
        order[at] = e;
      }
    // Each column's beginning has moved to its end, which is the next one's beginning.
    std::copy_backward(begin, begin + p.columns, begin + p.columns + 1);
    begin[0] = 0;
  });
}

void infer_keys(const CooKeysParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check<DTypeError>(in[0].dtype == DType::i32 || in[0].dtype == DType::i64,
                    "{}: indices must be i32 or i64, got {}", out.op(), in[0].dtype);
  check<ShapeError>(in[0].rank() == 2 && in[0].shape[0] == 2,
                    "{}: indices must be [2, entries], got {}", out.op(), in[0].shape);
  check<ShapeError>(
      p.rows >= 0 && p.columns >= 0 &&
          (p.columns == 0 || p.rows <= std::numeric_limits<int64_t>::max() / p.columns),
      "{}: a matrix of {} rows and {} columns cannot be counted", out.op(), p.rows, p.columns);
  out.add({in[0].shape[1]}, DType::i64);
}

void run_keys(const CooKeysParams& p, const Call& c) {
  switch_index(c.in[0].dtype(), [&]<class I>() {
    const int64_t entries = c.out[0].numel();
    const I* row = c.in[0].as<I>();
    auto* keys = c.out[0].as<int64_t>();
    const auto checked = [&](int64_t axis, int64_t size, int64_t entry) {
      const auto i = static_cast<int64_t>(row[axis * entries + entry]);
      check<IndexError>(i >= 0 && i < size,
                        "coo_keys: index {} at [{}, {}] is out of range for {} {}", i, axis, entry,
                        size, axis == 0 ? "rows" : "columns");
      return i;
    };
    parallel_for(entries, 1 << 14, [&](int64_t first, int64_t last) {
      for (int64_t e = first; e < last; ++e)
        keys[e] = checked(0, p.rows, e) * p.columns + checked(1, p.columns, e);
    });
  });
}

}  // namespace

const OpDef& csr_check_op() {
  static OpDef def = Op<CsrParams>("csr_check")
                         .inputs({"crow", "col"})
                         .outputs({"sorted"})
                         .dtypes(kIntegerDTypes)
                         .infer<infer_check>()
                         .no_gradient("its inputs are integers")
                         .cpu({kernel<supports_dense<CsrParams>, run_check>("rows")})
                         .build();
  return def;
}

const OpDef& csr_coordinates_op() {
  static OpDef def = Op<CsrParams>("csr_coordinates")
                         .inputs({"crow", "col"})
                         .outputs({"indices"})
                         .dtypes(kIntegerDTypes)
                         .infer<infer_coordinates>()
                         .no_gradient("its inputs are integers")
                         .cpu({kernel<supports_dense<CsrParams>, run_coordinates>("rows")})
                         .build();
  return def;
}

const OpDef& csr_transpose_op() {
  static OpDef def = Op<CsrParams>("csr_transpose")
                         .inputs({"crow", "col"})
                         .outputs({"crow", "col", "order"})
                         .dtypes(kIntegerDTypes)
                         .infer<infer_transpose>()
                         .no_gradient("its inputs are integers")
                         .cpu({kernel<supports_dense<CsrParams>, run_transpose>("counting")})
                         .build();
  return def;
}

const OpDef& coo_keys_op() {
  static OpDef def = Op<CooKeysParams>("coo_keys")
                         .inputs({"indices"})
                         .outputs({"keys"})
                         .dtypes(kIntegerDTypes)
                         .infer<infer_keys>()
                         .no_gradient("its inputs are integers")
                         .cpu({kernel<supports_dense<CooKeysParams>, run_keys>("entries")})
                         .build();
  return def;
}

Tensor csr_check(const Tensor& crow, const Tensor& col, int64_t columns) {
  return dispatch(csr_check_op(), CsrParams{columns}, {crow, col})[0];
}

Tensor csr_coordinates(const Tensor& crow, const Tensor& col, int64_t columns) {
  return dispatch(csr_coordinates_op(), CsrParams{columns}, {crow, col})[0];
}

CsrTransposed csr_transpose(const Tensor& crow, const Tensor& col, int64_t columns) {
  const Outputs out = dispatch(csr_transpose_op(), CsrParams{columns}, {crow, col});
  return {out[0], out[1], out[2]};
}

Tensor coo_keys(const Tensor& indices, const CooKeysParams& params) {
  return dispatch(coo_keys_op(), params, {indices})[0];
}

}  // namespace mica
