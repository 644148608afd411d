#pragma once

#include <limits>
#include <numeric>
#include <vector>

#include "mica/ops/linalg/reflections.h"

namespace mica::linalg {

/// Eigenvalues and vectors of one real symmetric matrix, of whose lower triangle it is made:
/// reflections leave a diagonal and what is beside it, which QL steps with shifts bring to zero. Of
/// sizes for which a library takes longer to divide and to prepare than to compute.
template <class T>
class EighByRows {
 public:
  explicit EighByRows(int64_t n)
      : n_(n),
        a_(static_cast<size_t>(n * n)),
        vectors_(static_cast<size_t>(n * n)),
        factors_(static_cast<size_t>(n)),
        sums_(static_cast<size_t>(n)),
        d_(static_cast<size_t>(n)),
        e_(static_cast<size_t>(n)),
        order_(static_cast<size_t>(n)) {}

  /// Writes ascending values, and vectors as columns where they are wanted; false where the steps
  /// do not come to an end.
  bool operator()(const T* from, T* values, T* vectors) {
    const int exponent = load(from);
    to_tridiagonal();
    if (vectors) accumulate();
    if (!diagonalise(vectors != nullptr)) return false;
    std::iota(order_.begin(), order_.end(), int64_t{0});
    std::ranges::sort(order_, {}, [&](int64_t i) { return d_[static_cast<size_t>(i)]; });
    for (int64_t c = 0; c < n_; ++c) {
      const int64_t at = order_[static_cast<size_t>(c)];
      values[c] = static_cast<T>(std::ldexp(d_[static_cast<size_t>(at)], exponent));
      for (int64_t i = 0; vectors && i < n_; ++i)
        vectors[i * n_ + c] = vectors_[static_cast<size_t>(at * n_ + i)];
    }
    return true;
  }

 private:
  T* row(int64_t i) { return a_.data() + i * n_; }

  /// Both triangles, with the largest number near 1, so that squares do not overflow; gives the
  /// exponent that was taken off.
  int load(const T* from) {
    T largest = 0;
    for (int64_t i = 0; i < n_; ++i)
      for (int64_t j = 0; j <= i; ++j) largest = std::max(largest, std::abs(from[i * n_ + j]));
    int exponent = 0;
    std::frexp(largest, &exponent);
    for (int64_t i = 0; i < n_; ++i)
      for (int64_t j = 0; j <= i; ++j)
        row(i)[j] = row(j)[i] = static_cast<T>(std::ldexp(double{from[i * n_ + j]}, -exponent));
    return exponent;
  }

  /// Leaves the vector of reflection k behind the diagonal of row k.
  void to_tridiagonal() {
    for (int64_t k = 0; k < n_; ++k) {
      d_[static_cast<size_t>(k)] = double{row(k)[k]};
      const int64_t m = n_ - k - 1;
      if (m == 0) break;
      T* const v = row(k) + k + 1;
      T beside = v[0];
      const T factor = m > 1 ? reflection_of(v, m, beside) : T(0);
      factors_[static_cast<size_t>(k)] = factor;
      e_[static_cast<size_t>(k)] = double{beside};
      if (factor != 0) reflect_both_sides(factor, v, row(k + 1) + k + 1, m);
    }
  }
  /// x = (1 - factor v vᵀ) x (1 - factor v vᵀ), of m rows.
  void reflect_both_sides(T factor, const T* v, T* x, int64_t m) {
    T* __restrict const w = sums_.data();
    sum_rows(v, x, m, n_, m, w);
    T along = 0;
    for (int64_t i = 0; i < m; ++i) along += w[i] * v[i];
    const T half = factor * factor * along / 2;
    for (int64_t i = 0; i < m; ++i) w[i] = factor * w[i] - half * v[i];
    for (int64_t i = 0; i < m; ++i) {
      T* __restrict const to = x + i * n_;
      const T a = v[i];
      const T b = w[i];
      for (int64_t c = 0; c < m; ++c) to[c] -= a * w[c] + b * v[c];
    }
  }
  /// The transposed product of the reflections.
  void accumulate() {
    std::vector<T> q(a_.size());
    for (int64_t i = 0; i < n_; ++i) q[static_cast<size_t>(i * n_ + i)] = 1;
    for (int64_t k = n_ - 3; k >= 0; --k) {
      const int64_t m = n_ - k - 1;
      reflect_rows(factors_[static_cast<size_t>(k)], row(k) + k + 1,
                   q.data() + (k + 1) * n_ + k + 1, m, n_, m, sums_.data());
    }
    for (int64_t i = 0; i < n_; ++i)
      for (int64_t j = 0; j < n_; ++j)
        vectors_[static_cast<size_t>(j * n_ + i)] = q[static_cast<size_t>(i * n_ + j)];
  }

  /// QL steps with Wilkinson's shift, in double: they take as long, and small numbers stay.
  bool diagonalise(bool turn) {
    constexpr int kMost = 60;            // for one eigenvalue; two are usual
    constexpr double kNothing = 1e-300;  // beside 1, the square of the largest number
    const double least = double{std::numeric_limits<T>::epsilon()};
    double* const d = d_.data();
    double* const e = e_.data();
    const auto split_from = [&](int64_t i) {
      while (i + 1 < n_ && std::abs(e[i]) > least * (std::abs(d[i]) + std::abs(d[i + 1]))) ++i;
      return i;
    };
    for (int64_t l = 0; l < n_; ++l) {
      int steps = 0;
      for (int64_t m = split_from(l); m != l; m = split_from(l)) {
        if (steps++ == kMost) return false;
        const double gap = (d[l + 1] - d[l]) / (2 * e[l]);
        double g = d[m] - d[l] + e[l] / (gap + std::copysign(std::sqrt(gap * gap + 1), gap));
        double s = 1;
        double c = 1;
        double p = 0;
        int64_t i = m - 1;
        for (; i >= l; --i) {
          const double f = s * e[i];
          const double b = c * e[i];
          const double square = f * f + g * g;
          if (square < kNothing) {  // it splits here
            e[i + 1] = 0;
            break;
          }
          const double length = std::sqrt(square);
          const double inverse = length * (1 / square);  // beside the root, not after it
          e[i + 1] = length;
          s = f * inverse;
          c = g * inverse;
          g = d[i + 1] - p;
          const double r = (d[i] - g) * s + 2 * c * b;
          p = s * r;
          d[i + 1] = g + p;
          g = c * r - b;
          if (turn) turn_rows(i, static_cast<T>(c), static_cast<T>(s));
        }
        if (i >= l) {
          d[i + 1] -= p;
        } else {
          d[l] -= p;
          e[l] = g;
        }
        e[m] = 0;
      }
    }
    return true;
  }
  void turn_rows(int64_t i, T c, T s) {
    T* __restrict const x = vectors_.data() + i * n_;
    T* __restrict const y = x + n_;
    for (int64_t k = 0; k < n_; ++k) {
      const T a = x[k];
      const T b = y[k];
      y[k] = s * a + c * b;
      x[k] = c * a - s * b;
    }
  }

  int64_t n_;
  std::vector<T> a_;
  std::vector<T> vectors_;  ///< as rows
  std::vector<T> factors_;
  std::vector<T> sums_;
  std::vector<double> d_;  ///< the diagonal
  std::vector<double> e_;  ///< what is beside it
  std::vector<int64_t> order_;
};

}  // namespace mica::linalg
