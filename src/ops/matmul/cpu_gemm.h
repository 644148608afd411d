#pragma once

#include <cstddef>
#include <cstdint>

namespace mica {

/// A matrix in memory: element (i, j) is data[i * row + j * col].
template <class T>
struct MatrixView {
  T* data;
  int64_t row;
  int64_t col;
};

/// Elements of scratch memory that `gemm` needs.
template <class T>
size_t gemm_scratch(int64_t m, int64_t n, int64_t k);

/// c (m, n), whose rows are `ldc` apart, becomes a (m, k) times b (k, n), added to what it held
/// where `accumulate` is set. Runs in the calling thread; float and double.
///
/// Blocks of both operands are copied to `scratch` in the order the inner loop reads them, so any
/// strides will do; the inner loop keeps a 6 by 2-vector tile of c in registers.
template <class T>
void gemm(int64_t m, int64_t n, int64_t k, MatrixView<const T> a, MatrixView<const T> b, T* c,
          int64_t ldc, bool accumulate, T* scratch);

}  // namespace mica
