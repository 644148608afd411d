// Eigenvalues of a general matrix, in complex numbers: a Hessenberg matrix is made triangular by QR
// steps with shifts, and the eigenvectors of the triangle are turned back.
#include <algorithm>
#include <cmath>

#include "mica/ops/linalg/dense.h"

namespace mica::linalg::dense {
namespace {

using Complex = std::complex<double>;

struct Schur {
  int64_t n;
  Matrix<Complex> t;  ///< becomes the triangle
  Matrix<Complex> z;  ///< unitary, a = z t zᴴ

  Complex& at(int64_t i, int64_t j) { return t[static_cast<size_t>(i * n + j)]; }
  Complex& turned(int64_t i, int64_t j) { return z[static_cast<size_t>(i * n + j)]; }

  /// Rows k and k + 1 by [c s; -s̄ c], columns by its adjoint.
  void rotate_rows(int64_t k, double c, Complex s, int64_t from) {
    for (int64_t j = from; j < n; ++j) {
      const Complex x = at(k, j);
      const Complex y = at(k + 1, j);
      at(k, j) = c * x + s * y;
      at(k + 1, j) = -std::conj(s) * x + c * y;
    }
  }
  template <class At>
  static void rotate_columns(At&& at, int64_t k, double c, Complex s, int64_t rows) {
    for (int64_t i = 0; i < rows; ++i) {
      const Complex x = at(i, k);
      const Complex y = at(i, k + 1);
      at(i, k) = c * x + std::conj(s) * y;
      at(i, k + 1) = -s * x + c * y;
    }
  }
};

/// The rotation that takes (x, y) to (r, 0).
std::pair<double, Complex> zeroing(Complex x, Complex y) {
  const double length = std::hypot(std::abs(x), std::abs(y));
  if (length == 0 || std::abs(y) == 0) return {1, 0};
  if (std::abs(x) == 0) return {0, std::conj(y) / std::abs(y)};
  const Complex phase = x / std::abs(x);
  return {std::abs(x) / length, phase * std::conj(y) / length};
}

void to_hessenberg(Schur& a) {
  // By rotations of neighbouring rows, from the bottom of each column up.
  for (int64_t j = 0; j + 2 < a.n; ++j)
    for (int64_t i = a.n - 1; i >= j + 2; --i) {
      const auto [c, s] = zeroing(a.at(i - 1, j), a.at(i, j));
      a.rotate_rows(i - 1, c, s, j);
      const auto elements = [&](int64_t r, int64_t k) -> Complex& { return a.at(r, k); };
      const auto vectors = [&](int64_t r, int64_t k) -> Complex& { return a.turned(r, k); };
      Schur::rotate_columns(elements, i - 1, c, s, a.n);
      Schur::rotate_columns(vectors, i - 1, c, s, a.n);
      a.at(i, j) = 0;
    }
}

/// The eigenvalue of the 2×2 block that ends at `last` which is nearer to its last element.
Complex wilkinson_shift(Schur& a, int64_t last) {
  const Complex p = a.at(last - 1, last - 1);
  const Complex q = a.at(last - 1, last);
  const Complex r = a.at(last, last - 1);
  const Complex s = a.at(last, last);
  const Complex half = (p - s) / 2.0;
  const Complex root = std::sqrt(half * half + q * r);
  const Complex larger = std::abs(half + root) > std::abs(half - root) ? half + root : half - root;
  return std::abs(larger) == 0 ? s : s - q * r / larger;
}

bool to_triangle(Schur& a) {
  constexpr int kMost = 60;  // steps for one eigenvalue
  double size = 0;
  for (const Complex& x : a.t) size = std::max(size, std::abs(x));
  std::vector<std::pair<double, Complex>> turns(static_cast<size_t>(std::max<int64_t>(a.n, 1)));
  int64_t last = a.n - 1;
  int steps = 0;
  while (last > 0) {
    int64_t first = last;
    while (first > 0) {
      const double around = std::abs(a.at(first, first)) + std::abs(a.at(first - 1, first - 1));
      if (std::abs(a.at(first, first - 1)) <= 1e-16 * (around > 0 ? around : size)) {
        a.at(first, first - 1) = 0;
        break;
      }
      --first;
    }
    if (first == last) {
      --last;
      steps = 0;
      continue;
    }
    if (++steps > kMost) return false;
    Complex shift = wilkinson_shift(a, last);
    if (steps % 12 == 0) shift += std::abs(a.at(last, last - 1));  // out of a circle
    for (int64_t i = 0; i <= last; ++i) a.at(i, i) -= shift;
    for (int64_t k = first; k < last; ++k) {
      turns[static_cast<size_t>(k)] = zeroing(a.at(k, k), a.at(k + 1, k));
      const auto [c, s] = turns[static_cast<size_t>(k)];
      a.rotate_rows(k, c, s, k);
    }
    const auto elements = [&](int64_t r, int64_t k) -> Complex& { return a.at(r, k); };
    const auto vectors = [&](int64_t r, int64_t k) -> Complex& { return a.turned(r, k); };
    for (int64_t k = first; k < last; ++k) {
      const auto [c, s] = turns[static_cast<size_t>(k)];
      Schur::rotate_columns(elements, k, c, s, std::min(k + 2, last + 1));
      Schur::rotate_columns(vectors, k, c, s, a.n);
    }
    for (int64_t i = 0; i <= last; ++i) a.at(i, i) += shift;
  }
  return true;
}

}  // namespace

bool eig(int64_t n, const Complex* given, std::vector<Complex>& values, Matrix<Complex>& vectors) {
  Schur a{n, Matrix<Complex>(given, given + n * n), Matrix<Complex>(static_cast<size_t>(n * n))};
  for (int64_t i = 0; i < n; ++i) a.turned(i, i) = 1;
  to_hessenberg(a);
  const bool done = to_triangle(a);
  values.clear();
  double size = 1e-300;
  for (int64_t i = 0; i < n; ++i) {
    values.push_back(a.at(i, i));
    for (int64_t j = i; j < n; ++j) size = std::max(size, std::abs(a.at(i, j)));
  }
  vectors.assign(static_cast<size_t>(n * n), Complex(0));
  std::vector<Complex> x(static_cast<size_t>(n));
  for (int64_t k = 0; k < n; ++k) {
    // (T - t_kk) x = 0 from the diagonal up.
    std::fill(x.begin(), x.end(), Complex(0));
    x[static_cast<size_t>(k)] = 1;
    for (int64_t i = k - 1; i >= 0; --i) {
      Complex sum = 0;
      for (int64_t j = i + 1; j <= k; ++j) sum += a.at(i, j) * x[static_cast<size_t>(j)];
      Complex apart = a.at(k, k) - a.at(i, i);
      if (std::abs(apart) < 1e-16 * size) apart = 1e-16 * size;
      x[static_cast<size_t>(i)] = sum / apart;
    }
    double length = 0;
    Complex largest = 0;
    std::vector<Complex> turned(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) {
      Complex& sum = turned[static_cast<size_t>(i)];
      for (int64_t j = 0; j <= k; ++j) sum += a.turned(i, j) * x[static_cast<size_t>(j)];
      length = std::hypot(length, std::abs(sum));
      if (std::abs(sum) > std::abs(largest)) largest = sum;
    }
    const Complex scale = std::conj(largest) / std::abs(largest) / length;
    for (int64_t i = 0; i < n; ++i)
      vectors[static_cast<size_t>(i * n + k)] = turned[static_cast<size_t>(i)] * scale;
  }
  return done;
}

}  // namespace mica::linalg::dense
