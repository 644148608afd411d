#pragma once

// What a group of threads does with matrix b of a batch, for each_matrix.
#include "mica/ops/linalg/cuda_complaint.h"
#include "mica/ops/linalg/cuda_group.cuh"
#include "mica/ops/linalg/group_jacobi.h"
#include "mica/runtime/cuda/fault.cuh"

namespace mica::linalg::group {

/// The matrix and its info are one word, so that what two threads note is not mixed.
__device__ inline void note_info(const Complaint& complaint, int64_t b, int info) {
  if (complaint.fault == nullptr || info == 0) return;
  Fault found = complaint.found;
  found.index = b << 32 | static_cast<uint32_t>(info);
  cuda::note_fault(complaint.fault, found);
}

/// Rows of `columns` elements lie so that neighbours in a column are in different banks.
MICA_PORTABLE constexpr int padded(int columns) { return columns | 1; }

template <class T>
struct Cholesky {
  const T* a;
  T* l;
  int32_t* info;
  int n;
  Complaint complaint;

  static size_t bytes(int64_t n) {
    return static_cast<size_t>(n * padded(static_cast<int>(n))) * sizeof(T);
  }
  template <class G>
  __device__ void operator()(const G& g, int64_t b, std::byte* memory) const {
    T* const w = reinterpret_cast<T*>(memory);
    const int ldw = padded(n);
    const int64_t at = b * n * n;
    for (int e = g.rank(); e < n * n; e += g.size()) {
      const int i = e / n;
      const int j = e - i * n;
      if (j <= i) w[i * ldw + j] = a[at + e];
    }
    g.sync();
    const int found = cholesky(g, n, w, ldw);
    g.sync();
    for (int e = g.rank(); e < n * n; e += g.size()) {
      const int i = e / n;
      const int j = e - i * n;
      l[at + e] = j <= i ? w[i * ldw + j] : T(0);
    }
    if (g.rank() != 0) return;
    info[b] = found;
    note_info(complaint, b, found);
  }
};

template <class T>
struct Lu {
  const T* a;
  T* factors;
  int32_t* pivots;
  int32_t* info;
  int m, n;
  Complaint complaint;

  static size_t bytes(int64_t m, int64_t n) {
    return static_cast<size_t>(m * padded(static_cast<int>(n))) * sizeof(T);
  }
  template <class G>
  __device__ void operator()(const G& g, int64_t b, std::byte* memory) const {
    T* const w = reinterpret_cast<T*>(memory);
    const int ldw = padded(n);
    const int64_t at = b * m * n;
    const int count = m < n ? m : n;
    for (int e = g.rank(); e < m * n; e += g.size()) w[e / n * ldw + e % n] = a[at + e];
    g.sync();
    const int found = lu(g, m, n, count, w, ldw, pivots + b * count);
    g.sync();
    for (int e = g.rank(); e < m * n; e += g.size()) factors[at + e] = w[e / n * ldw + e % n];
    if (g.rank() != 0) return;
    info[b] = found;
    note_info(complaint, b, found);
  }
};

/// The right sides stand beside the matrix and go through the same steps.
template <class T>
struct Solve {
  const T* a;
  const T* right;
  T* x;
  int32_t* info;
  int n, sides;
  Complaint complaint;

  static size_t bytes(int64_t n, int64_t sides) {
    return static_cast<size_t>(n * padded(static_cast<int>(n + sides))) * sizeof(T) +
           static_cast<size_t>(n) * sizeof(int32_t);
  }
  template <class G>
  __device__ void operator()(const G& g, int64_t b, std::byte* memory) const {
    const int all = n + sides;
    const int ldw = padded(all);
    T* const w = reinterpret_cast<T*>(memory);
    auto* const pivots = reinterpret_cast<int32_t*>(w + n * ldw);
    for (int e = g.rank(); e < n * n; e += g.size()) w[e / n * ldw + e % n] = a[b * n * n + e];
    for (int e = g.rank(); e < n * sides; e += g.size())
      w[e / sides * ldw + n + e % sides] = right[b * n * sides + e];
    g.sync();
    const int found = lu(g, n, all, n, w, ldw, pivots);
    g.sync();
    solve_triangular(g, {.upper = true}, w, ldw, w + n, n, sides, ldw);
    for (int e = g.rank(); e < n * sides; e += g.size())
      x[b * n * sides + e] = w[e / sides * ldw + n + e % sides];
    if (g.rank() != 0) return;
    info[b] = found;
    note_info(complaint, b, found);
  }
};

template <class T>
struct SolveTriangular {
  const T* a;
  const T* right;
  T* x;
  int n, rows, columns;
  Triangle triangle;

  static size_t bytes(int64_t n, int64_t rows, int64_t columns) {
    return static_cast<size_t>(n * padded(static_cast<int>(n)) +
                               rows * padded(static_cast<int>(columns))) *
           sizeof(T);
  }
  template <class G>
  __device__ void operator()(const G& g, int64_t b, std::byte* memory) const {
    const int ldw = padded(n);
    const int ldx = padded(columns);
    T* const w = reinterpret_cast<T*>(memory);
    T* const y = w + n * ldw;
    for (int e = g.rank(); e < n * n; e += g.size()) w[e / n * ldw + e % n] = a[b * n * n + e];
    const int64_t at = b * rows * columns;
    for (int e = g.rank(); e < rows * columns; e += g.size())
      y[e / columns * ldx + e % columns] = right[at + e];
    g.sync();
    solve_triangular(g, triangle, w, ldw, y, rows, columns, ldx);
    for (int e = g.rank(); e < rows * columns; e += g.size())
      x[at + e] = y[e / columns * ldx + e % columns];
  }
};

/// Q (m, k) and R (k, n), k of them m or min(m, n).
template <class T>
struct Qr {
  const T* a;
  T* q;
  T* r;
  int m, n, columns;

  static size_t bytes(int64_t m, int64_t n, int64_t columns) {
    return static_cast<size_t>(m * padded(static_cast<int>(n)) +
                               m * padded(static_cast<int>(columns)) + (m < n ? m : n)) *
           sizeof(T);
  }
  template <class G>
  __device__ void operator()(const G& g, int64_t b, std::byte* memory) const {
    const int ldw = padded(n);
    const int ldq = padded(columns);
    T* const w = reinterpret_cast<T*>(memory);
    T* const own = w + m * ldw;
    T* const tau = own + m * ldq;
    const int count = m < n ? m : n;
    for (int e = g.rank(); e < m * n; e += g.size()) w[e / n * ldw + e % n] = a[b * m * n + e];
    g.sync();
    reflect(g, m, n, w, ldw, tau);
    unfold(g, m, count, w, ldw, tau, own, columns, ldq);
    for (int e = g.rank(); e < columns * n; e += g.size()) {
      const int i = e / n;
      const int j = e - i * n;
      r[b * columns * n + e] = j >= i ? w[i * ldw + j] : T(0);
    }
    for (int e = g.rank(); e < m * columns; e += g.size())
      q[b * m * columns + e] = own[e / columns * ldq + e % columns];
  }
};

/// Memory of a decomposition by rotations.
template <class T>
struct JacobiSizes {
  int vectors;  ///< that are there in the end
  int length;
  int count;
  bool turns;  ///< what they were turned by is wanted

  MICA_PORTABLE static int64_t aligned(int64_t bytes) { return (bytes + 15) / 16 * 16; }
  MICA_PORTABLE int64_t bytes() const {
    const int64_t elements =
        static_cast<int64_t>(vectors) * length + (turns ? static_cast<int64_t>(count) * count : 0);
    return aligned(elements * static_cast<int64_t>(sizeof(T))) +
           aligned(count * static_cast<int64_t>(sizeof(Part<T>))) +
           aligned(vectors * static_cast<int64_t>(sizeof(int32_t)));
  }
  __device__ JacobiMemory<T> in(std::byte* memory) const {
    T* const w = reinterpret_cast<T*>(memory);
    T* const v = w + static_cast<int64_t>(vectors) * length;
    const int64_t elements =
        static_cast<int64_t>(vectors) * length + (turns ? static_cast<int64_t>(count) * count : 0);
    std::byte* const values = memory + aligned(elements * static_cast<int64_t>(sizeof(T)));
    std::byte* const order = values + aligned(count * static_cast<int64_t>(sizeof(Part<T>)));
    return {{w, length},
            {turns ? v : nullptr, count},
            reinterpret_cast<Part<T>*>(values),
            reinterpret_cast<int32_t*>(order)};
  }
};

template <class T>
struct Svd {
  const T* a;
  T* u;
  Part<T>* s;
  T* vh;
  int m, n;
  bool full;
  JacobiSizes<T> sizes;
  Complaint complaint;

  template <class G>
  __device__ void operator()(const G& g, int64_t b, std::byte* memory) const {
    const int least = m < n ? m : n;
    const int64_t u_columns = full ? m : least;
    const int64_t v_rows = full ? n : least;
    const int ended = svd(g, m, n, a + b * m * n, full, sizes.in(memory),
                          sizes.turns ? u + b * m * u_columns : nullptr, s + b * least,
                          sizes.turns ? vh + b * v_rows * n : nullptr);
    if (g.rank() == 0) note_info(complaint, b, ended);
  }
};

template <class T>
struct Eigh {
  const T* a;
  Part<T>* values;
  T* vectors;
  int n;
  JacobiSizes<T> sizes;
  Complaint complaint;

  template <class G>
  __device__ void operator()(const G& g, int64_t b, std::byte* memory) const {
    const int ended = eigh(g, n, a + b * n * n, sizes.in(memory), values + b * n,
                           vectors ? vectors + b * n * n : nullptr);
    if (g.rank() == 0) note_info(complaint, b, ended);
  }
};

}  // namespace mica::linalg::group
