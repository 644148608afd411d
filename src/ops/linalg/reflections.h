#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

// Reflections 1 - factor v vᵀ of real matrices, applied along their rows.
namespace mica::linalg {

/// Makes of x, n > 0 numbers, the vector v whose reflection takes x to (first, 0, …), and `first`.
template <class T>
T reflection_of(T* x, int64_t n, T& first) {
  const T alpha = x[0];
  first = alpha;
  x[0] = 1;
  T largest = 0;
  for (int64_t i = 1; i < n; ++i) largest = std::max(largest, std::abs(x[i]));
  if (largest == 0) return 0;
  largest = std::max(largest, std::abs(alpha));
  T squares = 0;  // of numbers of at most 1, which cannot overflow
  for (int64_t i = 1; i < n; ++i) squares += (x[i] / largest) * (x[i] / largest);
  const T own = alpha / largest;
  first = std::copysign(largest * std::sqrt(own * own + squares), -alpha);
  for (int64_t i = 1; i < n; ++i) x[i] /= alpha - first;
  return (first - alpha) / first;
}

/// sums = vᵀ x, of rows of x that are `width` apart, columns [0, n).
template <class T>
void sum_rows(const T* v, const T* x, int64_t rows, int64_t width, int64_t n, T* __restrict sums) {
  constexpr int64_t kRows = 4;
  std::fill(sums, sums + n, T(0));
  int64_t i = 0;
  for (; i + kRows <= rows; i += kRows) {
    const T* __restrict const row = x + i * width;
    for (int64_t c = 0; c < n; ++c)
      sums[c] += (v[i] * row[c] + v[i + 1] * row[width + c]) +
                 (v[i + 2] * row[2 * width + c] + v[i + 3] * row[3 * width + c]);
  }
  for (; i < rows; ++i)
    for (int64_t c = 0; c < n; ++c) sums[c] += v[i] * x[i * width + c];
}

/// x -= factor v (vᵀ x).
template <class T>
void reflect_rows(T factor, const T* v, T* x, int64_t rows, int64_t width, int64_t n,
                  T* __restrict sums) {
  sum_rows(v, x, rows, width, n, sums);
  for (int64_t i = 0; i < rows; ++i) {
    const T by = factor * v[i];
    T* __restrict const row = x + i * width;
    for (int64_t c = 0; c < n; ++c) row[c] -= by * sums[c];
  }
}

}  // namespace mica::linalg
