#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "mica/ops/linalg/reflections.h"

namespace mica::linalg {

/// The real Schur form of one matrix (n, n), row-major: an upper triangle with 2×2 blocks on its
/// diagonal for pairs of conjugate eigenvalues, by reflections to a Hessenberg matrix and QR steps
/// of two shifts (Francis), as LAPACK's xGEHRD and xLAHQR. Of sizes for which a library takes
/// longer to divide and to prepare than to compute.
template <class T>
class SchurByRows {
 public:
  explicit SchurByRows(int64_t n)
      : n_(n),
        a_(static_cast<size_t>(n * n)),
        z_(static_cast<size_t>(n * n)),
        reflection_(static_cast<size_t>(n)),
        sums_(static_cast<size_t>(n)),
        real_(static_cast<size_t>(n)),
        imaginary_(static_cast<size_t>(n)) {}

  T* row(int64_t i) { return a_.data() + i * n_; }
  /// Column i of the orthogonal matrix that turns the form back.
  T* turned(int64_t i) { return z_.data() + i * n_; }
  const std::vector<T>& real() const { return real_; }
  const std::vector<T>& imaginary() const { return imaginary_; }

  /// Of the matrix in `row`, of numbers near 1. Without `whole` there are eigenvalues alone. False
  /// where the steps do not come to an end.
  bool compute(bool whole) {
    whole_ = whole;
    to_hessenberg();
    int64_t last = n_ - 1;
    int steps = 0;
    while (last >= 0) {
      const int64_t first = split_before(last);
      if (first + 1 < last) {
        if (steps++ == kMostSteps) return false;
        step(first, last, steps);
        continue;
      }
      if (first == last) {
        real_[static_cast<size_t>(last)] = row(last)[last];
        imaginary_[static_cast<size_t>(last)] = 0;
      } else {
        part_block(first);
      }
      last = first - 1;
      steps = 0;
    }
    return true;
  }

 private:
  static constexpr int kMostSteps = 60;  ///< for one or two eigenvalues; two or three are usual
  static constexpr T kEpsilon = std::numeric_limits<T>::epsilon();

  void to_hessenberg() {
    std::vector<T> reflections(whole_ ? a_.size() : 0);
    std::vector<T> factors(static_cast<size_t>(n_));
    for (int64_t k = 0; k + 2 < n_; ++k) {
      const int64_t m = n_ - k - 1;
      T* const v = reflection_.data();
      for (int64_t i = 0; i < m; ++i) v[i] = row(k + 1 + i)[k];
      const T factor = reflection_of(v, m, row(k + 1)[k]);
      for (int64_t i = k + 2; i < n_; ++i) row(i)[k] = 0;
      reflect_rows(factor, v, row(k + 1) + k + 1, m, n_, m, sums_.data());
      for (int64_t i = 0; i < n_; ++i) {
        T* const x = row(i) + k + 1;
        T along = 0;
#pragma omp simd reduction(+ : along)
        for (int64_t c = 0; c < m; ++c) along += x[c] * v[c];
        along *= factor;
        for (int64_t c = 0; c < m; ++c) x[c] -= along * v[c];
      }
      factors[static_cast<size_t>(k)] = factor;
      if (whole_) std::copy(v, v + m, reflections.data() + k * n_);
    }
    if (!whole_) return;
    // The product of the reflections, from the last, transposed: columns are rows.
    std::fill(z_.begin(), z_.end(), T(0));
    for (int64_t i = 0; i < n_; ++i) turned(i)[i] = 1;
    for (int64_t k = n_ - 3; k >= 0; --k) {
      const int64_t m = n_ - k - 1;
      reflect_rows(factors[static_cast<size_t>(k)], reflections.data() + k * n_,
                   turned(k + 1) + k + 1, m, n_, m, sums_.data());
    }
    for (int64_t i = 0; i < n_; ++i)
      for (int64_t j = 0; j < i; ++j) std::swap(turned(i)[j], turned(j)[i]);
  }

  /// Where the block begins that ends at `last`: what is below the diagonal before it is made 0.
  int64_t split_before(int64_t last) {
    for (int64_t i = last; i > 0; --i) {
      T& below = row(i)[i - 1];
      const T size = std::abs(below);
      if (size <= kLeast) {
        below = 0;
        return i;
      }
      const T a = row(i - 1)[i - 1];
      const T d = row(i)[i];
      T around = std::abs(a) + std::abs(d);
      if (around == 0) {
        if (i >= 2) around += std::abs(row(i - 1)[i - 2]);
        if (i + 1 < n_) around += std::abs(row(i + 1)[i]);
      }
      if (size > kEpsilon * around) continue;
      // Ahues and Tisseur: small beside what it does to the eigenvalues, too.
      const T above = std::abs(row(i - 1)[i]);
      const T apart = std::abs(a - d);
      const T less = std::min(size, above);
      const T more = std::max(size, above);
      const T near = std::min(std::abs(d), apart);
      const T far = std::max(std::abs(d), apart);
      const T both = far + more;
      if (less * (more / both) <= std::max(kLeast, kEpsilon * (near * (far / both)))) {
        below = 0;
        return i;
      }
    }
    return 0;
  }

  struct Shifts {
    T real[2];
    T imaginary[2];
  };
  /// The eigenvalues of the last two rows; a real one that is nearer to the corner twice.
  Shifts shifts_of(int64_t first, int64_t last, int steps) {
    T a = row(last - 1)[last - 1];
    T b = row(last - 1)[last];
    T c = row(last)[last - 1];
    T d = row(last)[last];
    if (steps % 20 == 0 || steps % 20 == 10) {  // out of a circle
      const int64_t at = steps % 20 == 0 ? last : first + 2;
      const T s = std::abs(row(at)[at - 1]) + (at >= 2 ? std::abs(row(at - 1)[at - 2]) : T(0));
      a = d = T(0.75) * s + row(at)[at];
      b = T(-0.4375) * s;
      c = s;
    }
    const T s = std::abs(a) + std::abs(b) + std::abs(c) + std::abs(d);
    if (s == 0) return {};
    const T middle = (a / s + d / s) / 2;
    const T determinant = (a / s - middle) * (d / s - middle) - (b / s) * (c / s);
    const T root = std::sqrt(std::abs(determinant));
    if (determinant >= 0) return {{middle * s, middle * s}, {root * s, -root * s}};
    const T up = middle + root;
    const T down = middle - root;
    const T nearer = std::abs(up - d / s) <= std::abs(down - d / s) ? up : down;
    return {{nearer * s, nearer * s}, {0, 0}};
  }

  /// One step of two shifts on the block [first, last].
  void step(int64_t first, int64_t last, int steps) {
    const Shifts s = shifts_of(first, last, steps);
    // It may begin at two neighbours below the diagonal that are small.
    int64_t begin = last - 2;
    T v[3];
    for (;; --begin) {
      const T* const h = row(begin) + begin;
      const T* const below = h + n_;
      const T below2 = below[n_ + 1];
      const T x = h[0] - s.real[1];
      T size = std::abs(x) + std::abs(s.imaginary[1]) + std::abs(below[0]);
      const T scaled = below[0] / size;
      v[0] = scaled * h[1] + (h[0] - s.real[0]) * (x / size) -
             s.imaginary[0] * (s.imaginary[1] / size);
      v[1] = scaled * (h[0] + below[1] - s.real[0] - s.real[1]);
      v[2] = scaled * below2;
      size = std::abs(v[0]) + std::abs(v[1]) + std::abs(v[2]);
      for (T& each : v) each /= size;
      if (begin == first) break;
      const T before = std::abs(h[-1]) * (std::abs(v[1]) + std::abs(v[2]));
      const T around =
          std::abs(v[0]) * (std::abs(h[-1 - n_]) + std::abs(h[0]) + std::abs(below[1]));
      if (before <= kEpsilon * around) break;
    }
    const int64_t from = whole_ ? 0 : first;
    const int64_t to = whole_ ? n_ : last + 1;
    for (int64_t k = begin; k < last; ++k) {
      const int64_t count = std::min<int64_t>(3, last - k + 1);
      if (k > begin)
        for (int64_t i = 0; i < count; ++i) v[i] = row(k + i)[k - 1];
      T length = 0;
      const T factor = reflection_of(v, count, length);
      if (k > begin) {
        row(k)[k - 1] = length;
        for (int64_t i = 1; i < count; ++i) row(k + i)[k - 1] = 0;
      } else if (k > first) {
        row(k)[k - 1] *= 1 - factor;
      }
      const int64_t rows = std::min(k + 3, last) + 1;
      if (count == 3) {
        reflect_three(factor, v, row(k) + k, to - k);
        for (int64_t i = from; i < rows; ++i) {
          T* const x = row(i) + k;
          const T along = factor * (x[0] + v[1] * x[1] + v[2] * x[2]);
          x[0] -= along;
          x[1] -= along * v[1];
          x[2] -= along * v[2];
        }
        if (whole_) reflect_three(factor, v, turned(k), n_);
      } else {
        reflect_two(factor, v, row(k) + k, to - k);
        for (int64_t i = from; i < rows; ++i) {
          T* const x = row(i) + k;
          const T along = factor * (x[0] + v[1] * x[1]);
          x[0] -= along;
          x[1] -= along * v[1];
        }
        if (whole_) reflect_two(factor, v, turned(k), n_);
      }
    }
  }
  void reflect_three(T factor, const T* v, T* at, int64_t n) const {
    T* __restrict const x = at;
    T* __restrict const y = at + n_;
    T* __restrict const z = at + 2 * n_;
    const T v1 = v[1];
    const T v2 = v[2];
    for (int64_t j = 0; j < n; ++j) {
      const T along = factor * (x[j] + v1 * y[j] + v2 * z[j]);
      x[j] -= along;
      y[j] -= along * v1;
      z[j] -= along * v2;
    }
  }
  void reflect_two(T factor, const T* v, T* at, int64_t n) const {
    T* __restrict const x = at;
    T* __restrict const y = at + n_;
    const T v1 = v[1];
    for (int64_t j = 0; j < n; ++j) {
      const T along = factor * (x[j] + v1 * y[j]);
      x[j] -= along;
      y[j] -= along * v1;
    }
  }

  /// Makes the 2×2 block at k a triangle, or one whose diagonal is equal, as LAPACK's xLANV2.
  void part_block(int64_t k) {
    T& a = row(k)[k];
    T& b = row(k)[k + 1];
    T& c = row(k + 1)[k];
    T& d = row(k + 1)[k + 1];
    T cosine = 1;
    T sine = 0;
    if (c == 0) {
    } else if (b == 0) {
      cosine = 0;
      sine = 1;
      std::swap(a, d);
      b = -c;
      c = 0;
    } else if (a != d || std::signbit(b) == std::signbit(c)) {
      const T p = (a - d) / 2;
      const T most = std::max(std::abs(b), std::abs(c));
      const T least = std::copysign(std::min(std::abs(b), std::abs(c)), b) * std::copysign(1, c);
      const T scale = std::max(std::abs(p), most);
      T z = p / scale * p + most / scale * least;
      if (z >= 4 * kEpsilon) {  // two real ones
        z = p + std::copysign(std::sqrt(scale) * std::sqrt(z), p);
        a = d + z;
        d -= most / z * least;
        const T length = std::hypot(c, z);
        cosine = z / length;
        sine = c / length;
        b -= c;
        c = 0;
      } else {  // a pair, or two that are nearly equal
        const T sigma = b + c;
        const T apart = a - d;
        const T length = std::hypot(sigma, apart);
        cosine = std::sqrt((1 + std::abs(sigma) / length) / 2);
        sine = -(p / (length * cosine)) * std::copysign(T(1), sigma);
        const T aa = a * cosine + b * sine;
        const T bb = -a * sine + b * cosine;
        const T cc = c * cosine + d * sine;
        const T dd = -c * sine + d * cosine;
        b = bb * cosine + dd * sine;
        c = -aa * sine + cc * cosine;
        const T middle = (aa * cosine + cc * sine + dd * cosine - bb * sine) / 2;
        a = d = middle;
        if (c != 0 && b == 0) {
          b = -c;
          c = 0;
          cosine = std::exchange(sine, cosine) * -1;
        } else if (c != 0 && std::signbit(b) == std::signbit(c)) {
          const T sab = std::sqrt(std::abs(b));
          const T sac = std::sqrt(std::abs(c));
          const T q = std::copysign(sab * sac, c);
          const T inverse = 1 / std::sqrt(std::abs(b + c));
          a = middle + q;
          d = middle - q;
          b -= c;
          c = 0;
          const T cosine1 = sab * inverse;
          const T sine1 = sac * inverse;
          const T turned_cosine = cosine * cosine1 - sine * sine1;
          sine = cosine * sine1 + sine * cosine1;
          cosine = turned_cosine;
        }
      }
    }
    const auto at = static_cast<size_t>(k);
    real_[at] = a;
    real_[at + 1] = d;
    imaginary_[at] = c == 0 ? T(0) : std::sqrt(std::abs(b)) * std::sqrt(std::abs(c));
    imaginary_[at + 1] = -imaginary_[at];
    if (!whole_) return;
    turn_rows(cosine, sine, row(k) + k + 2, n_ - k - 2);
    for (int64_t i = 0; i < k; ++i) {
      T* const x = row(i) + k;
      const T first = cosine * x[0] + sine * x[1];
      x[1] = cosine * x[1] - sine * x[0];
      x[0] = first;
    }
    turn_rows(cosine, sine, turned(k), n_);
  }
  void turn_rows(T cosine, T sine, T* at, int64_t n) const {
    T* __restrict const x = at;
    T* __restrict const y = at + n_;
    for (int64_t j = 0; j < n; ++j) {
      const T first = cosine * x[j] + sine * y[j];
      y[j] = cosine * y[j] - sine * x[j];
      x[j] = first;
    }
  }

  /// Numbers below it are nothing beside 1, and their reciprocal is a number.
  static constexpr T kLeast = std::numeric_limits<T>::min() / kEpsilon;

  int64_t n_;
  bool whole_ = true;
  std::vector<T> a_;
  std::vector<T> z_;  ///< transposed
  std::vector<T> reflection_;
  std::vector<T> sums_;
  std::vector<T> real_;
  std::vector<T> imaginary_;
};

}  // namespace mica::linalg
