#pragma once

#include <complex>
#include <vector>

#include "mica/core/check.h"
#include "mica/core/tensor.h"
#include "mica/op/op_def.h"
#include "mica/ops/complex/complex.h"
#include "mica/ops/linalg/error.h"
#include "mica/ops/linalg/failures.h"
#include "mica/ops/linalg/lapack.h"
#include "mica/ops/view/view.h"
#include "mica/runtime/cpu/parallel.h"

// What the rooms' ops share: tensors as batches of matrices (…, rows, columns), and kernels that go
// through a batch.
namespace mica::linalg {

inline constexpr DTypeSet kMatrixDTypes{{DType::f32, DType::f64, DType::c64, DType::c128},
                                        "float32, float64, complex64 or complex128"};

/// Calls `f.template operator()<T>()` with the C++ type of a matrix's elements.
template <class F>
void switch_matrix(DType t, F&& f) {
  if (t == DType::f64) return f.template operator()<double>();
  if (t == DType::c64) return f.template operator()<std::complex<float>>();
  if (t == DType::c128) return f.template operator()<std::complex<double>>();
  f.template operator()<float>();
}

/// What a reference computes in: double, or complex numbers of them.
template <class T>
using Wide = std::conditional_t<kIsComplex<T>, std::complex<double>, double>;

// Shapes.

inline int64_t rows_of(const Shape& s) { return s[s.rank() - 2]; }
inline int64_t columns_of(const Shape& s) { return s[s.rank() - 1]; }
/// The sizes before the last two.
inline Shape batch_of(const Shape& s) {
  Shape batch;
  for (int i = 0; i + 2 < s.rank(); ++i) batch.push_back(s[i]);
  return batch;
}
inline int64_t matrices_in(const Shape& s) { return numel(batch_of(s)); }
inline Shape with(Shape batch, std::initializer_list<int64_t> sizes) {
  for (const int64_t n : sizes) batch.push_back(n);
  return batch;
}

inline void check_matrix(const char* op, const TensorSpec& x) {
  check<ShapeError>(x.rank() >= 2, "{}: expected a matrix or a batch of them (…, m, n), got {}", op,
                    x.shape);
}
inline void check_square(const char* op, const TensorSpec& x) {
  check_matrix(op, x);
  check<ShapeError>(rows_of(x.shape) == columns_of(x.shape),
                    "{}: expected square matrices (…, n, n), got {}", op, x.shape);
}
/// A row-major output.
inline void add_dense(OutSpecs& out, const Shape& shape, DType dtype) {
  out.add(shape, dtype);
  out[out.size() - 1].strides = contiguous_strides(shape);
}

// Tensors.

inline Tensor transposed(const Tensor& x) { return transpose(x, -2, -1); }
/// x with its batch axes broadcast to `batch`.
inline Tensor expand_batch(const Tensor& x, const Shape& batch) {
  const Shape shape = with(batch, {rows_of(x.shape()), columns_of(x.shape())});
  return shape == x.shape() ? x : expand(x, shape);
}
/// (…, n) on the diagonals of (…, n, n).
Tensor diagonal_matrix(const Tensor& x);
/// The diagonals (…, min(m, n)).
inline Tensor diagonal_of(const Tensor& x) {
  return mica::diagonal(x, {.offset = 0, .axis1 = x.rank() - 2, .axis2 = x.rank() - 1});
}
/// Ones on the diagonal of one matrix, in x's dtype and place.
Tensor eye_like(const Tensor& x, int64_t n);

// Kernels.

/// Calls f(begin, end) for ranges of a batch on several threads; `work` is about the number of
/// multiplications of one matrix.
template <class F>
void for_matrices(int64_t count, double work, F&& f) {
  const auto grain = static_cast<int64_t>(2e4 / (work + 1)) + 1;
  parallel_for(count, grain, f);
}

template <class T>
std::vector<Wide<T>> widened(const T* values, int64_t n) {
  return std::vector<Wide<T>>(values, values + n);
}
template <class T, class W>
void store(const std::vector<W>& values, T* to) {
  for (size_t i = 0; i < values.size(); ++i) to[i] = static_cast<T>(values[i]);
}

/// to (columns, rows) = from (rows, columns) transposed, in blocks that stay in the cache.
template <class T>
void transpose_into(const T* from, int64_t rows, int64_t columns, T* to) {
  constexpr int64_t kBlock = 16;
  for (int64_t i0 = 0; i0 < rows; i0 += kBlock)
    for (int64_t j0 = 0; j0 < columns; j0 += kBlock)
      for (int64_t i = i0; i < std::min(rows, i0 + kBlock); ++i)
        for (int64_t j = j0; j < std::min(columns, j0 + kBlock); ++j)
          to[j * rows + i] = from[i * columns + j];
}

/// Raises LinAlgError where a batch holds what is no finite number: iterations would not end.
template <class T>
void check_finite(Failure failure, const T* values, int64_t n) {
  using R = Real<T>;
  const auto* parts = reinterpret_cast<const R*>(values);
  R sum = 0;
  for (int64_t i = 0; i < n * (kIsComplex<T> ? 2 : 1); ++i) sum += parts[i] * 0;
  if (!(sum == 0)) fail_factor(failure, 0, 1, kNotFiniteInfo);
}

/// Of iterations.
inline void check_converged(Failure failure, bool converged, int64_t at, int64_t count) {
  if (!converged) fail_factor(failure, at, count, 1);
}
/// Raises for the first matrix whose info is not 0.
inline void check_infos(Failure failure, const int32_t* infos, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    if (infos[i] != 0) fail_factor(failure, i, count, infos[i]);
}

/// How many multiplications an n × n matrix takes, about.
inline double cube(int64_t n) {
  return static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
}

}  // namespace mica::linalg
