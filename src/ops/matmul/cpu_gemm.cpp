#include "mica/ops/matmul/cpu_gemm.h"

#include <algorithm>
#include <cstring>

#include "mica/runtime/cpu/convert.h"

namespace mica {
namespace {

// A strip of b (kBlockK by one tile) stays in the first-level cache while a block of a (kBlockM by
// kBlockK) is read from the second.
constexpr int64_t kBlockM = 96;
constexpr int64_t kBlockN = 1024;
constexpr int64_t kBlockK = 256;
constexpr int kRows = 6;
constexpr int64_t kVectorDepth = 2048;  // gemm_scratch holds as much for any larger depth

template <class T>
constexpr int kLanes = 32 / sizeof(T);
template <class T>
constexpr int kCols = 2 * kLanes<T>;

int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

template <class T>
struct VectorOf {
  typedef T Type __attribute__((vector_size(32)));
};
template <class T>
using Vector = typename VectorOf<T>::Type;

template <class T>
Vector<T> load(const T* p) {
  Vector<T> v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

// Copies `count` lines of `depth` elements each in strips of Width lines: element l of every line
// of a strip lies side by side. Lines past the last are zero.
template <int Width, class From, class T>
void pack(const From* from, int64_t count, int64_t depth, int64_t line, int64_t step, T* to) {
  for (int64_t i = 0; i < count; i += Width, to += Width * depth) {
    const From* strip = from + i * line;
    const int64_t lines = std::min<int64_t>(Width, count - i);
    if (lines < Width) {
      for (int64_t l = 0; l < depth; ++l) {
        for (int64_t w = 0; w < lines; ++w)
          to[l * Width + w] = static_cast<T>(strip[w * line + l * step]);
        for (int64_t w = lines; w < Width; ++w) to[l * Width + w] = T(0);
      }
    } else if (line == 1) {
      for (int64_t l = 0; l < depth; ++l)
        for (int w = 0; w < Width; ++w) to[l * Width + w] = static_cast<T>(strip[l * step + w]);
    } else {
      for (int64_t l = 0; l < depth; ++l)
        for (int w = 0; w < Width; ++w)
          to[l * Width + w] = static_cast<T>(strip[w * line + l * step]);
    }
  }
}

// One tile: c (rows, cols) from a packed strip of a and one of b, `depth` long.
template <class T>
void tile(int64_t depth, const T* a, const T* b, T* c, int64_t ldc, int64_t rows, int64_t cols,
          bool accumulate) {
  Vector<T> sum[kRows][2] = {};
  for (int64_t l = 0; l < depth; ++l, a += kRows, b += kCols<T>) {
    const Vector<T> b0 = load(b);
    const Vector<T> b1 = load(b + kLanes<T>);
#pragma GCC unroll 6
    for (int i = 0; i < kRows; ++i) {
      sum[i][0] += a[i] * b0;
      sum[i][1] += a[i] * b1;
    }
  }
  T full[kRows * kCols<T>];
  std::memcpy(full, sum, sizeof full);
  const auto store = [&](int64_t tile_rows, int64_t tile_cols) {
    for (int64_t i = 0; i < tile_rows; ++i)
      for (int64_t j = 0; j < tile_cols; ++j) {
        const T value = full[i * kCols<T> + j];
        c[i * ldc + j] = accumulate ? c[i * ldc + j] + value : value;
      }
  };
  if (rows == kRows && cols == kCols<T>) {
    store(kRows, kCols<T>);  // constant bounds: vector stores
  } else {
    store(rows, cols);
  }
}

// The elements themselves where they have type T, else a copy.
template <class T, class From>
const T* dense_run(const From* from, int64_t n, T* copy) {
  if constexpr (std::is_same_v<T, From>) {
    return from;
  } else {
    load_run(from, 1, n, copy);
    return copy;
  }
}

template <class T>
T dot(const T* a, const T* b, int64_t n) {
  Vector<T> sum[4] = {};
  int64_t i = 0;
  for (; i + 4 * kLanes<T> <= n; i += 4 * kLanes<T>)
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) sum[v] += load(a + i + v * kLanes<T>) * load(b + i + v * kLanes<T>);
  const Vector<T> all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
  T total = 0;
  for (int v = 0; v < kLanes<T>; ++v) total += all[v];
  for (; i < n; ++i) total += a[i] * b[i];
  return total;
}

// The loops over blocks; left(i0, rows, l0, depth, memory) gives a packed block of the left
// operand.
template <class T, class From, class Left>
void multiply(int64_t m, int64_t n, int64_t k, MatrixView<const From> b, T* c, int64_t ldc,
              bool accumulate, T* scratch, Left&& left) {
  if (k == 0 && !accumulate)
    for (int64_t i = 0; i < m; ++i) std::fill_n(c + i * ldc, n, T(0));
  T* packed_b = scratch;
  T* block = scratch + round_up(std::min(n, kBlockN), kCols<T>) * std::min(k, kBlockK);
  for (int64_t j0 = 0; j0 < n; j0 += kBlockN) {
    const int64_t cols = std::min(kBlockN, n - j0);
    for (int64_t l0 = 0; l0 < k; l0 += kBlockK) {
      const int64_t depth = std::min(kBlockK, k - l0);
      const bool add = accumulate || l0 > 0;
      pack<kCols<T>>(b.data + l0 * b.row + j0 * b.col, cols, depth, b.col, b.row, packed_b);
      for (int64_t i0 = 0; i0 < m; i0 += kBlockM) {
        const int64_t rows = std::min(kBlockM, m - i0);
        const T* packed_a = left(i0, rows, l0, depth, block);
        for (int64_t j = 0; j < cols; j += kCols<T>)
          for (int64_t i = 0; i < rows; i += kRows)
            tile(depth, packed_a + i * depth, packed_b + j * depth, c + (i0 + i) * ldc + j0 + j,
                 ldc, std::min<int64_t>(kRows, rows - i), std::min<int64_t>(kCols<T>, cols - j),
                 add);
      }
    }
  }
}

// c (n) from a vector of k elements `step` apart and b (k, n), whose rows or columns are dense.
template <class T, class From>
void multiply_vector(int64_t n, int64_t k, const From* vector, int64_t step,
                     MatrixView<const From> b, T* c, bool accumulate, T* scratch) {
  constexpr int64_t kChunk = 1024;
  constexpr int64_t kTogether = 4;  // rows of b, for which c is read and written once
  T part[kTogether][kChunk];
  if (n == 0) return;
  if (!accumulate) std::fill_n(c, n, T(0));
  if (b.col == 1) {  // rows of b times one element each, a chunk of c at a time
    for (int64_t j = 0; j < n; j += kChunk) {
      const int64_t cols = std::min(kChunk, n - j);
      const auto row = [&](int64_t l, int at) {
        return dense_run(b.data + l * b.row + j, cols, part[at]);
      };
      const auto x = [&](int64_t l) { return static_cast<T>(vector[l * step]); };
      int64_t l = 0;
      for (; l + kTogether <= k; l += kTogether) {
        const T *r0 = row(l, 0), *r1 = row(l + 1, 1), *r2 = row(l + 2, 2), *r3 = row(l + 3, 3);
        const T x0 = x(l), x1 = x(l + 1), x2 = x(l + 2), x3 = x(l + 3);
        for (int64_t i = 0; i < cols; ++i)
          c[j + i] += (x0 * r0[i] + x1 * r1[i]) + (x2 * r2[i] + x3 * r3[i]);
      }
      for (; l < k; ++l) {
        const T* last = row(l, 0);
        for (int64_t i = 0; i < cols; ++i) c[j + i] += x(l) * last[i];
      }
    }
    return;
  }
  for (int64_t l = 0; l < k; l += kVectorDepth) {  // columns of b times the vector
    const int64_t depth = std::min(kVectorDepth, k - l);
    load_run(vector + l * step, step, depth, scratch);
    for (int64_t j = 0; j < n; ++j)
      for (int64_t d = 0; d < depth; d += kChunk) {
        const int64_t length = std::min(kChunk, depth - d);
        c[j] += dot(scratch + d, dense_run(b.data + j * b.col + l + d, length, part[0]), length);
      }
  }
}

}  // namespace

template <class T>
size_t gemm_scratch(int64_t m, int64_t n, int64_t k) {
  const int64_t depth = std::min(k, kBlockK);
  const int64_t rows = round_up(std::min(m, kBlockM), kRows);
  const int64_t cols = round_up(std::min(n, kBlockN), kCols<T>);
  return static_cast<size_t>((rows + cols) * depth);
}

template <class T, class From>
void gemm(int64_t m, int64_t n, int64_t k, std::type_identity_t<MatrixView<const From>> a,
          std::type_identity_t<MatrixView<const From>> b, T* c, int64_t ldc, bool accumulate,
          T* scratch) {
  if (m == 1 && (b.row == 1 || b.col == 1)) {
    multiply_vector<T, From>(n, k, a.data, a.col, b, c, accumulate, scratch);
    return;
  }
  if (n == 1 && ldc == 1 && (a.row == 1 || a.col == 1)) {
    multiply_vector<T, From>(m, k, b.data, b.row, {a.data, a.col, a.row}, c, accumulate, scratch);
    return;
  }
  multiply<T, From>(m, n, k, b, c, ldc, accumulate, scratch,
                    [&](int64_t i0, int64_t rows, int64_t l0, int64_t depth, T* block) {
                      pack<kRows>(a.data + i0 * a.row + l0 * a.col, rows, depth, a.row, a.col,
                                  block);
                      return static_cast<const T*>(block);
                    });
}

template <class T>
size_t packed_left_size(int64_t m, int64_t k) {
  return static_cast<size_t>(round_up(m, kRows) * k);
}

template <class T>
void pack_left(int64_t m, int64_t k, MatrixView<const T> a, T* packed) {
  for (int64_t l0 = 0; l0 < k; l0 += kBlockK)
    pack<kRows>(a.data + l0 * a.col, m, std::min(kBlockK, k - l0), a.row, a.col,
                packed + l0 * round_up(m, kRows));
}

template <class T>
void gemm_packed(int64_t m, int64_t n, int64_t k, const T* packed, MatrixView<const T> b, T* c,
                 int64_t ldc, bool accumulate, T* scratch) {
  multiply<T, T>(m, n, k, b, c, ldc, accumulate, scratch,
                 [&](int64_t i0, int64_t, int64_t l0, int64_t depth, T*) {
                   return packed + l0 * round_up(m, kRows) + i0 * depth;
                 });
}

template size_t gemm_scratch<float>(int64_t, int64_t, int64_t);
template size_t gemm_scratch<double>(int64_t, int64_t, int64_t);
template void gemm<float>(int64_t, int64_t, int64_t, MatrixView<const float>,
                          MatrixView<const float>, float*, int64_t, bool, float*);
template void gemm<double>(int64_t, int64_t, int64_t, MatrixView<const double>,
                           MatrixView<const double>, double*, int64_t, bool, double*);
template void gemm<float, Half>(int64_t, int64_t, int64_t, MatrixView<const Half>,
                                MatrixView<const Half>, float*, int64_t, bool, float*);
template void gemm<float, BFloat16>(int64_t, int64_t, int64_t, MatrixView<const BFloat16>,
                                    MatrixView<const BFloat16>, float*, int64_t, bool, float*);
template size_t packed_left_size<float>(int64_t, int64_t);
template size_t packed_left_size<double>(int64_t, int64_t);
template void pack_left(int64_t, int64_t, MatrixView<const float>, float*);
template void pack_left(int64_t, int64_t, MatrixView<const double>, double*);
template void gemm_packed(int64_t, int64_t, int64_t, const float*, MatrixView<const float>, float*,
                          int64_t, bool, float*);
template void gemm_packed(int64_t, int64_t, int64_t, const double*, MatrixView<const double>,
                          double*, int64_t, bool, double*);

}  // namespace mica
