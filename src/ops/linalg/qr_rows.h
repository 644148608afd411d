#pragma once

#include <vector>

#include "mica/ops/linalg/reflections.h"

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
    T* const a = a_.data();
    std::copy(from, from + m_ * n_, a);
    for (int64_t j = 0; j < count_; ++j) {
      T* const v = reflections_.data() + j * m_;
      T* const corner = a + j * n_ + j;
      for (int64_t i = 0; i < m_ - j; ++i) v[i] = corner[i * n_];
      T& factor = factors_[static_cast<size_t>(j)];
      factor = reflection_of(v, m_ - j, *corner);
      reflect_rows(factor, v, corner + 1, m_ - j, n_, n_ - j - 1, sums_.data());
    }
    for (int64_t i = 0; i < columns_; ++i)
      for (int64_t j = 0; j < n_; ++j) r[i * n_ + j] = j < i ? T(0) : a[i * n_ + j];
    std::fill(q, q + m_ * columns_, T(0));
    for (int64_t i = 0; i < columns_; ++i) q[i * columns_ + i] = 1;
    for (int64_t j = count_ - 1; j >= 0; --j)
      reflect_rows(factors_[static_cast<size_t>(j)], reflections_.data() + j * m_,
                   q + j * columns_ + j, m_ - j, columns_, columns_ - j, sums_.data());
  }

 private:
  int64_t m_, n_;
  int64_t columns_;  ///< of Q
  int64_t count_;
  std::vector<T> a_;
  std::vector<T> reflections_;
  std::vector<T> factors_;
  std::vector<T> sums_;
};

}  // namespace mica::linalg
