#include "mica/ops/linalg/triangular.h"

#include "mica/op/dispatch.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/linalg/dense.h"
#include "mica/ops/linalg/kernels.h"
#include "mica/ops/linalg/linalg.h"
#include "mica/ops/linalg/matrix.h"
#include "mica/ops/matmul/matmul.h"
#include "mica/ops/triangle/triangle.h"

namespace mica {

const OpDef& solve_triangular_op();

namespace linalg {

/// X of what lies row-major is Xᵀ of LAPACK: the sides and the triangles change places.
template <class T>
void solve_by_trsm(const TriangularParams& p, const T* a, T* b, int64_t rows, int64_t columns) {
  const int m = static_cast<int>(columns);
  const int n = static_cast<int>(rows);
  const int order = p.left ? n : m;
  const T one = 1;
  const char* const adjoint = kIsComplex<T> ? "C" : "T";
  lapack().of<T>().trsm(p.left ? "R" : "L", p.upper ? "L" : "U", p.adjoint ? adjoint : "N",
                        p.unit ? "U" : "N", &m, &n, &one, a, &order, b, &m, 1, 1, 1, 1);
}
template void solve_by_trsm(const TriangularParams&, const float*, float*, int64_t, int64_t);
template void solve_by_trsm(const TriangularParams&, const double*, double*, int64_t, int64_t);
template void solve_by_trsm(const TriangularParams&, const std::complex<float>*,
                            std::complex<float>*, int64_t, int64_t);
template void solve_by_trsm(const TriangularParams&, const std::complex<double>*,
                            std::complex<double>*, int64_t, int64_t);

namespace {

void infer(const TriangularParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check_square("linalg.solve_triangular", in[0]);
  check_matrix("linalg.solve_triangular", in[1]);
  const Shape& b = in[1].shape;
  check<DTypeError>(in[0].dtype == in[1].dtype,
                    "linalg.solve_triangular: A and B must have one dtype, got {} and {}",
                    in[0].dtype, in[1].dtype);
  check<ShapeError>(
      batch_of(in[0].shape) == batch_of(b) &&
          (p.left ? rows_of(b) : columns_of(b)) == columns_of(in[0].shape),
      "linalg.solve_triangular: A {} and B {} do not fit: {} of B must be as many as A's, and the "
      "sizes before them the same",
      in[0].shape, b, p.left ? "the rows" : "the columns");
  add_dense(out, b, in[1].dtype);
}

Tensor triangle(const TriangularParams& p, const Tensor& x) {
  const int64_t strict = p.unit ? 1 : 0;
  return p.upper ? triu(x, strict) : tril(x, -strict);
}

Tensors vjp(const TriangularParams& p, const VjpArgs& args) {
  const Tensor& a = args.in[0];
  const Tensor& x = args.out[0];
  TriangularParams other = p;
  other.adjoint = !p.adjoint;
  const Tensor gb = solve_triangle(a, args.grad[0], other);
  Tensor ga;
  if (args.needs(0)) {
    // Of A X = B it is -gB Xᴴ, of X A = B -Xᴴ gB; of Aᴴ the adjoint.
    const Tensor first = p.adjoint ? x : gb;
    const Tensor second = p.adjoint ? gb : x;
    ga = neg(triangle(
        p, p.left ? mica::matmul(first, adjoint(second)) : mica::matmul(adjoint(second), first)));
  }
  return {ga, gb};
}

/// As dense::solve_triangular, with one reciprocal for each element of the diagonal.
template <class T>
void solve_lanes(const TriangularParams& p, int64_t n, int64_t rows, int64_t columns, Lanes<T>* a,
                 Lanes<T>* b) {
  const int64_t step = p.left ? columns : 1;
  const int64_t across = p.left ? 1 : columns;
  const int64_t others = p.left ? columns : rows;
  const bool flipped = p.adjoint != !p.left;
  const bool backwards = p.upper != flipped;
  const int64_t by_row = flipped ? 1 : n;
  const int64_t by_column = flipped ? n : 1;
  if (!p.unit)
    for (int64_t i = 0; i < n; ++i) a[i * n + i] = 1 / a[i * n + i];
  for (int64_t c = 0; c < n; ++c) {
    const int64_t i = backwards ? n - 1 - c : c;
    const Lanes<T>* row = a + i * by_row;
    for (int64_t k = 0; k < others; ++k) {
      Lanes<T> sum = b[i * step + k * across];
      for (int64_t e = 0; e < c; ++e) {
        const int64_t j = backwards ? n - 1 - e : e;
        sum -= row[j * by_column] * b[j * step + k * across];
      }
      b[i * step + k * across] = p.unit ? sum : sum * a[i * n + i];
    }
  }
}

struct TriangularOp : MatrixOp<TriangularParams> {
  using MatrixOp::MatrixOp;
  int64_t rows = rows_of(call.in[1].shape());
  int64_t columns = columns_of(call.in[1].shape());
  double work() const { return static_cast<double>(n) * static_cast<double>(rows * columns); }

  template <class T>
  auto by_reference() const {
    return [this](int64_t i) {
      const auto a = widened(in<T>(0, i), n * n);
      auto b = widened(in<T>(1, i), rows * columns);
      dense::solve_triangular({p.upper, p.left, p.unit, p.adjoint}, a.data(), b.data(), rows,
                              columns);
      store(b, out<T>(0, i));
    };
  }
  template <class T>
  auto by_lapack() const {
    return [this](int64_t i) {
      std::copy_n(in<T>(1, i), rows * columns, out<T>(0, i));
      solve_by_trsm(p, in<T>(0, i), out<T>(0, i), rows, columns);
    };
  }
  template <class T>
  auto in_lanes() const {
    return
        [this, a = LaneBuffer<T>(n * n), b = LaneBuffer<T>(rows * columns)](int64_t first) mutable {
          fill_lanes(0, first, a);
          fill_lanes(1, first, b);
          solve_lanes<T>(p, n, rows, columns, a.data(), b.data());
          take_lanes(b, 0, first);
        };
  }
};

}  // namespace

Tensor solve_triangle(const Tensor& a, const Tensor& b, const TriangularParams& params) {
  check_matrix("linalg.solve_triangular", a.spec());
  check_matrix("linalg.solve_triangular", b.spec());
  const Shape batch =
      broadcast_shapes(batch_of(a.shape()), batch_of(b.shape()), "linalg.solve_triangular");
  return dispatch(solve_triangular_op(), params,
                  {expand_batch(a, batch), expand_batch(b, batch)})[0];
}

Tensor solve_triangular(const Tensor& a, const Tensor& b, bool upper,
                        const TriangularOptions& options) {
  return solve_triangle(
      a, b,
      {.upper = upper, .left = options.left, .unit = options.unitriangular, .adjoint = false});
}

}  // namespace linalg

const OpDef& solve_triangular_op() {
  using namespace linalg;
  static OpDef def = Op<TriangularParams>("solve_triangular")
                         .inputs({"a", "b"})
                         .outputs({"x"})
                         .dtypes(kMatrixDTypes)
                         .precision(Precision::f32)
                         .infer<infer>()
                         .vjp<vjp>({.in = {0}, .out = {{0, {0}}}})
                         .cpu(matrix_kernels<TriangularOp>())
                         .build();
  return def;
}

}  // namespace mica
