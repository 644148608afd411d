#pragma once

#include <complex>
#include <vector>

#include "mica/ops/linalg/schur_rows.h"

namespace mica::linalg {

/// Eigenvalues and eigenvectors of one real matrix, as LAPACK's xGEEV: rows and columns are
/// balanced by powers of 2, the vectors of the Schur form are found from the diagonal up and turned
/// back.
template <class T>
class EigByRows {
 public:
  using Complex = std::complex<T>;

  explicit EigByRows(int64_t n)
      : n_(n),
        schur_(n),
        scales_(static_cast<size_t>(n)),
        x_(static_cast<size_t>(n * n)),
        column_(static_cast<size_t>(n)),
        re_(static_cast<size_t>(n)),
        im_(static_cast<size_t>(n)) {}

  /// Writes eigenvalues, and vectors of length 1 as columns where they are wanted; false where the
  /// steps do not come to an end.
  bool operator()(const T* from, Complex* values, Complex* vectors) {
    const int exponent = load(from);
    balance();
    if (!schur_.compute(vectors != nullptr)) return false;
    for (int64_t i = 0; i < n_; ++i) {
      const auto at = static_cast<size_t>(i);
      values[i] = {std::ldexp(schur_.real()[at], exponent),
                   std::ldexp(schur_.imaginary()[at], exponent)};
    }
    if (!vectors) return true;
    solve_triangle();
    for (int64_t c = 0; c < n_; c += is_pair(c) ? 2 : 1) store_vector(c, vectors);
    return true;
  }

 private:
  bool is_pair(int64_t c) const { return schur_.imaginary()[static_cast<size_t>(c)] != 0; }
  T* row(int64_t i) { return schur_.row(i); }
  T* x(int64_t i) { return x_.data() + i * n_; }

  /// With the largest number near 1; gives the exponent that was taken off.
  int load(const T* from) {
    T largest = 0;
    for (int64_t i = 0; i < n_ * n_; ++i) largest = std::max(largest, std::abs(from[i]));
    int exponent = 0;
    std::frexp(largest, &exponent);
    // In two steps: the power alone may be no number of this dtype.
    const T half = std::ldexp(T(1), -exponent / 2);
    const T rest = std::ldexp(T(1), -exponent - -exponent / 2);
    for (int64_t i = 0; i < n_ * n_; ++i) row(0)[i] = from[i] * half * rest;
    return exponent;
  }

  /// Row i over, column i times scales_[i], until they are about as long.
  void balance() {
    constexpr T kMost = T(1 << 30);
    std::fill(scales_.begin(), scales_.end(), T(1));
    for (bool done = false; !done;) {
      done = true;
      for (int64_t i = 0; i < n_; ++i) {
        T across = -std::abs(row(i)[i]);
        T down = across;
        for (int64_t j = 0; j < n_; ++j) {
          across += std::abs(row(i)[j]);
          down += std::abs(row(j)[i]);
        }
        if (!(across > 0) || !(down > 0)) continue;
        T& scale = scales_[static_cast<size_t>(i)];
        T factor = 1;
        T wide = down;
        while (wide < across / 2 && scale * factor < kMost) factor *= 2, wide *= 4;
        while (wide >= across * 2 && scale * factor > 1 / kMost) factor /= 2, wide /= 4;
        if ((wide + across) / factor >= T(0.95) * (down + across)) continue;
        done = false;
        scale *= factor;
        for (int64_t j = 0; j < n_; ++j) row(i)[j] /= factor;
        for (int64_t j = 0; j < n_; ++j) row(j)[i] *= factor;
      }
    }
  }

  /// Columns of x_ become vectors of the Schur form: of a pair the real part and, after it, the
  /// imaginary part of the first one's. Products of a row go along all columns at once.
  void solve_triangle() {
    std::fill(x_.begin(), x_.end(), T(0));
    for (int64_t c = 0; c < n_; ++c) {
      if (!is_pair(c)) {
        x(c)[c] = 1;
        continue;
      }
      const double up = double{row(c)[c + 1]};
      const double down = double{row(c + 1)[c]};
      const double im = double{schur_.imaginary()[static_cast<size_t>(c)]};
      if (std::abs(up) >= std::abs(down)) {
        x(c)[c] = 1;
        x(c + 1)[c + 1] = static_cast<T>(im / up);
      } else {
        x(c)[c] = static_cast<T>(-im / down);
        x(c + 1)[c + 1] = 1;
      }
      ++c;
    }
    for (int64_t i = n_ - 1; i >= 0; --i) {
      const bool pair = is_pair(i);
      if (pair) --i;
      const int64_t next = i + (pair ? 2 : 1);
      const int64_t left = n_ - next;
      if (left == 0) continue;
      sum_rows(row(i) + next, x(next) + next, left, n_, left, x(i) + next);
      if (pair) sum_rows(row(i + 1) + next, x(next) + next, left, n_, left, x(i + 1) + next);
      for (int64_t c = next; c < n_; c += is_pair(c) ? 2 : 1) solve_row(i, pair, c);
    }
  }

  using Number = std::complex<double>;
  static Number product(Number a, Number b) {
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
  }
  static Number quotient(Number a, Number b) {
    const double over = 1 / (b.real() * b.real() + b.imag() * b.imag());
    return {(a.real() * b.real() + a.imag() * b.imag()) * over,
            (a.imag() * b.real() - a.real() * b.imag()) * over};
  }
  static double size(Number a) { return std::abs(a.real()) + std::abs(a.imag()); }

  Number get(int64_t i, int64_t c, bool pair) {
    return {double{x(i)[c]}, pair ? double{x(i)[c + 1]} : 0.0};
  }
  void put(int64_t i, int64_t c, bool pair, Number value) {
    x(i)[c] = static_cast<T>(value.real());
    if (pair) x(i)[c + 1] = static_cast<T>(value.imag());
  }

  /// Row i, or the two of a block, of the vector in column c, from the sums that stand there.
  void solve_row(int64_t i, bool block, int64_t c) {
    constexpr double kBig = 1e15;  // whose square and products are numbers
    const bool pair = is_pair(c);
    const auto at = static_cast<size_t>(c);
    const Number value(double{schur_.real()[at]}, double{schur_.imaginary()[at]});
    const double least = std::max(double{std::numeric_limits<T>::epsilon()} * size(value), 1e-100);
    const auto large = [least](Number n) { return size(n) < least ? Number(least) : n; };
    Number first = -get(i, c, pair);
    Number second;
    const Number a = double{row(i)[i]} - value;
    if (!block) {
      first = quotient(first, large(a));
    } else {
      // [a b; e d] by elimination with the larger of a and e.
      Number rhs = -get(i + 1, c, pair);
      Number b = double{row(i)[i + 1]};
      Number e = double{row(i + 1)[i]};
      Number d = double{row(i + 1)[i + 1]} - value;
      Number pivot = a;
      if (size(e) > size(pivot)) {
        std::swap(pivot, e);
        std::swap(b, d);
        std::swap(first, rhs);
      }
      const Number by = quotient(e, pivot);
      second = quotient(rhs - product(by, first), large(d - product(by, b)));
      first = quotient(first - product(b, second), pivot);
    }
    const double most = std::max(size(first), size(second));
    if (most > kBig) {
      const T smaller = static_cast<T>(1 / most);
      for (int64_t j = i + (block ? 2 : 1); j < n_; ++j) {
        x(j)[c] *= smaller;
        if (pair) x(j)[c + 1] *= smaller;
      }
      first /= most;
      second /= most;
    }
    put(i, c, pair, first);
    if (block) put(i + 1, c, pair, second);
  }

  /// Turns the vector in column c back and makes it as long as 1, its largest element real.
  void store_vector(int64_t c, Complex* vectors) {
    const bool pair = is_pair(c);
    turn_back(c, c + (pair ? 2 : 1), re_);
    if (pair) turn_back(c + 1, c + 2, im_);
    double squares = 0;
    double most = -1;
    size_t largest = 0;
    for (size_t i = 0; i < re_.size(); ++i) {
      const double re = double{re_[i]};
      const double im = pair ? double{im_[i]} : 0;
      const double square = re * re + im * im;
      squares += square;
      if (square > most) most = square, largest = i;
    }
    const double length = std::sqrt(squares);
    if (!pair) {
      for (int64_t i = 0; i < n_; ++i)
        vectors[i * n_ + c] = static_cast<T>(double{re_[static_cast<size_t>(i)]} / length);
      return;
    }
    const double turn = 1 / (std::sqrt(most) * length);
    const double cosine = double{re_[largest]} * turn;
    const double sine = double{im_[largest]} * turn;
    for (size_t i = 0; i < re_.size(); ++i) {
      const double re = double{re_[i]};
      const double im = double{im_[i]};
      const T real = static_cast<T>(re * cosine + im * sine);
      const T imaginary = i == largest ? T(0) : static_cast<T>(im * cosine - re * sine);
      Complex* const to = vectors + static_cast<int64_t>(i) * n_ + c;
      to[0] = {real, imaginary};
      to[1] = {real, -imaginary};
    }
  }
  /// The first `rows` rows of column c, turned back and unbalanced.
  void turn_back(int64_t c, int64_t rows, std::vector<T>& to) {
    for (int64_t j = 0; j < rows; ++j) column_[static_cast<size_t>(j)] = x(j)[c];
    sum_rows(column_.data(), schur_.turned(0), rows, n_, n_, to.data());
    for (size_t i = 0; i < to.size(); ++i) to[i] *= scales_[i];
  }

  int64_t n_;
  SchurByRows<T> schur_;
  std::vector<T> scales_;
  std::vector<T> x_;
  std::vector<T> column_;
  std::vector<T> re_;
  std::vector<T> im_;
};

}  // namespace mica::linalg
