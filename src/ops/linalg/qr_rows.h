#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace mica::linalg {

/// Q and R of one real matrix (m, n) by reflections that go along its rows, as dense::qr: of sizes
/// for which a library takes longer to prepare its blocks than to compute.
template <class T>
class QrByRows {
 public:
  QrByRows(int64_t m, int64_t n, int64_t columns)
      : m_(m),
        n_(n),
        columns_(columns),
        count_(std::min(m, n)),
        a_(static_cast<size_t>(m * n)),
        reflections_(static_cast<size_t>(count_ * m)),
        factors_(static_cast<size_t>(count_)),
        sums_(static_cast<size_t>(std::max(n, columns))) {}

  void operator()(const T* from, T* q, T* r) {
    std::copy(from, from + m_ * n_, a_.data());
    for (int64_t j = 0; j < count_; ++j) {
      T* const v = reflection(j);
      for (int64_t i = j; i < m_; ++i) v[i] = a_[static_cast<size_t>(i * n_ + j)];
      reflect_first(j, v);
      apply(j, v, a_.data(), n_, j + 1);
    }
    for (int64_t i = 0; i < columns_; ++i)
      for (int64_t j = 0; j < n_; ++j)
        r[i * n_ + j] = j < i ? T(0) : a_[static_cast<size_t>(i * n_ + j)];
    std::fill(q, q + m_ * columns_, T(0));
    for (int64_t i = 0; i < columns_; ++i) q[i * columns_ + i] = 1;
    for (int64_t j = count_ - 1; j >= 0; --j) apply(j, reflection(j), q, columns_, j);
  }

 private:
  T* reflection(int64_t j) { return reflections_.data() + j * m_; }

  /// Makes of column j, which v holds, the vector that takes it to a multiple of the first unit.
  void reflect_first(int64_t j, T* v) {
    T largest = 0;
    for (int64_t i = j + 1; i < m_; ++i) largest = std::max(largest, std::abs(v[i]));
    T& factor = factors_[static_cast<size_t>(j)];
    const T alpha = v[j];
    v[j] = 1;
    factor = 0;
    if (largest == 0) return;
    largest = std::max(largest, std::abs(alpha));
    T squares = 0;  // of numbers of at most 1, which cannot overflow
    for (int64_t i = j + 1; i < m_; ++i) squares += (v[i] / largest) * (v[i] / largest);
    const T own = alpha / largest;
    const T beta = std::copysign(largest * std::sqrt(own * own + squares), -alpha);
    factor = (beta - alpha) / beta;
    for (int64_t i = j + 1; i < m_; ++i) v[i] /= alpha - beta;
    a_[static_cast<size_t>(j * n_ + j)] = beta;
  }

  /// x -= factor v (vᵀ x), of rows from j on and columns from `first` on.
  void apply(int64_t j, const T* v, T* x, int64_t width, int64_t first) {
    constexpr int64_t kRows = 4;
    T* __restrict const sums = sums_.data();
    std::fill(sums + first, sums + width, T(0));
    int64_t i = j;
    for (; i + kRows <= m_; i += kRows) {
      const T* __restrict const row = x + i * width;
      for (int64_t c = first; c < width; ++c)
        sums[c] += (v[i] * row[c] + v[i + 1] * row[width + c]) +
                   (v[i + 2] * row[2 * width + c] + v[i + 3] * row[3 * width + c]);
    }
    for (; i < m_; ++i)
      for (int64_t c = first; c < width; ++c) sums[c] += v[i] * x[i * width + c];
    const T factor = factors_[static_cast<size_t>(j)];
    for (i = j; i < m_; ++i) {
      const T by = factor * v[i];
      T* __restrict const row = x + i * width;
      for (int64_t c = first; c < width; ++c) row[c] -= by * sums[c];
    }
  }

  int64_t m_, n_;
  int64_t columns_;  ///< of Q
  int64_t count_;
  std::vector<T> a_;
  std::vector<T> reflections_;
  std::vector<T> factors_;
  std::vector<T> sums_;
};

}  // namespace mica::linalg
