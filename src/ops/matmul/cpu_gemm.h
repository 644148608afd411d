#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace mica {

/// A matrix in memory: element (i, j) is data[i * row + j * col].
template <class T>
struct MatrixView {
  T* data;
  int64_t row;
  int64_t col;
};

/// Writes `bias` (n elements, `stride` apart), or zeros where there is none, to
/// the rows of a matrix (rows, n), which are `ldc` apart.
template <class T, class From = T>
void fill_rows(T* c, int64_t rows, int64_t ldc, int64_t n, const From* bias, int64_t stride) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < n; ++j) c[i * ldc + j] = bias ? static_cast<T>(bias[j * stride]) : T(0);
}

/// Elements of scratch memory that `gemm` needs.
template <class T>
size_t gemm_scratch(int64_t m, int64_t n, int64_t k);

/// c (m, n), whose rows are `ldc` apart, becomes a (m, k) times b (k, n), added
/// to what it held where `accumulate` is set. Runs in the calling thread; float
/// and double, and float from operands (From) that are f16 or bf16.
///
/// Blocks of both operands are copied to `scratch` in the order the inner loop
/// reads them, so any strides will do; the inner loop keeps a 6 by 2-vector
/// tile of c in registers. A vector times a matrix that is dense one way goes
/// without the copies.
template <class T, class From = T>
void gemm(int64_t m, int64_t n, int64_t k, std::type_identity_t<MatrixView<const From>> a,
          std::type_identity_t<MatrixView<const From>> b, T* c, int64_t ldc, bool accumulate,
          T* scratch);

/// A left operand that serves many products is copied to that order once:
/// `pack_left` fills `packed_left_size` elements, which `gemm_packed` takes in
/// a's place. It needs no more scratch memory than `gemm`.
template <class T>
size_t packed_left_size(int64_t m, int64_t k);
template <class T>
void pack_left(int64_t m, int64_t k, MatrixView<const T> a, T* packed);
template <class T>
void gemm_packed(int64_t m, int64_t n, int64_t k, const T* packed, MatrixView<const T> b, T* c,
                 int64_t ldc, bool accumulate, T* scratch);

}  // namespace mica
