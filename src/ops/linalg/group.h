#pragma once

// What the algorithms for groups of threads are written with. A group shares the memory of one
// matrix: a warp or a block of a GPU (cuda_group.cuh), threads of the host in a test. A Group has
//
//   int rank(), size();         this thread's number, and how many there are
//   void sync();                waits for all; what was written before is seen after
//   int team(), teams();        threads that work on one vector together: this one's team,
//   int lane(), lanes();        and its number there
//   T sum(T), team_sum(T);      of the group, and of the team; all get the same
//   T largest(T);
//   bool any(bool);
//   Pivot best(Pivot);          the largest; of equal ones the first
//   kRowWide, kProductWide      threads side by side in a row of a panel, and of a product
//   kPanel                      columns that are factored before the others follow
//
// Elements are float, double, Complex<float> or Complex<double>.
#include "mica/core/complex.h"

#if !defined(__CUDACC_RTC__)
#include <cmath>
#include <cstdint>
#endif

// A group of the device is no affair of the host, where tests have others.
#if defined(__CUDACC__)
#define MICA_OF_GROUP __device__
#else
#define MICA_OF_GROUP
#endif

namespace mica::linalg::group {

template <class T>
struct PartOf {
  using type = T;
};
template <class T>
struct PartOf<Complex<T>> {
  using type = T;
};
/// The real type of an element.
template <class T>
using Part = typename PartOf<T>::type;

template <class R>
inline constexpr R kEpsilon = sizeof(R) == 4 ? R(1.1920929e-7) : R(2.220446049250313e-16);

template <class R>
MICA_PORTABLE R absolute(R x) {
  return x < 0 ? -x : x;
}
MICA_PORTABLE inline float root_of(float x) { return ::sqrtf(x); }
MICA_PORTABLE inline double root_of(double x) { return ::sqrt(x); }

template <class R>
MICA_PORTABLE R real_part(R x) {
  return x;
}
template <class R>
MICA_PORTABLE R real_part(Complex<R> x) {
  return x.re;
}
template <class R>
MICA_PORTABLE R imaginary_part(R) {
  return 0;
}
template <class R>
MICA_PORTABLE R imaginary_part(Complex<R> x) {
  return x.im;
}
template <class R>
MICA_PORTABLE R conjugate(R x) {
  return x;
}
template <class R>
MICA_PORTABLE Complex<R> conjugate(Complex<R> x) {
  return {x.re, -x.im};
}
/// |x|².
template <class R>
MICA_PORTABLE R square_of(R x) {
  return x * x;
}
template <class R>
MICA_PORTABLE R square_of(Complex<R> x) {
  return x.re * x.re + x.im * x.im;
}
/// The same in double, where the square of a float is within the range.
template <class T>
MICA_PORTABLE double wide_square(T x) {
  const double re = real_part(x);
  const double im = imaginary_part(x);
  return re * re + im * im;
}
/// |re| + |im|, by which LAPACK chooses pivots.
template <class R>
MICA_PORTABLE R pivot_size(R x) {
  return absolute(x);
}
template <class R>
MICA_PORTABLE R pivot_size(Complex<R> x) {
  return absolute(x.re) + absolute(x.im);
}
template <class R>
MICA_PORTABLE R divide(R a, R b) {
  return a / b;
}
/// Scaled by the larger part of the divisor, so that nothing in between overflows.
template <class R>
MICA_PORTABLE Complex<R> divide(Complex<R> a, Complex<R> b) {
  if (absolute(b.re) >= absolute(b.im)) {
    if (b.re == 0 && b.im == 0) return {a.re / absolute(b.re), a.im / absolute(b.re)};
    const R ratio = b.im / b.re;
    const R scale = 1 / (b.re + b.im * ratio);
    return {(a.re + a.im * ratio) * scale, (a.im - a.re * ratio) * scale};
  }
  const R ratio = b.re / b.im;
  const R scale = 1 / (b.im + b.re * ratio);
  return {(a.re * ratio + a.im) * scale, (a.im * ratio - a.re) * scale};
}
/// A candidate for a pivot.
template <class R>
struct Pivot {
  R size;
  int row;
  MICA_PORTABLE Pivot better(const Pivot& other) const {
    const bool larger = other.size > size || (other.size == size && other.row < row);
    return larger ? other : *this;
  }
};

/// How b of a product is read.
enum class Second { plain, adjoint };

/// c (m, n) += sign a (m, k) b (k, n), or with bᴴ of b (n, k); `sign` 0 gives the product itself.
/// `lower`: what is above the diagonal of c is not needed.
template <Second second, class G, class T>
MICA_OF_GROUP void add_product(const G& g, int m, int n, int k, const T* a, int lda, const T* b,
                               int ldb, T* c, int ldc, int sign, bool lower = false) {
  constexpr int kTile = sizeof(T) <= 8 ? 4 : 2;
  const int tx = g.rank() % G::kProductWide;
  const int ty = g.rank() / G::kProductWide;
  const int wide = G::kProductWide;
  const int tall = g.size() / G::kProductWide;
  for (int i0 = 0; i0 < m; i0 += tall * kTile)
    for (int j0 = 0; j0 < n; j0 += wide * kTile) {
      if (lower && j0 >= i0 + tall * kTile) break;
      T sum[kTile][kTile] = {};
      for (int l = 0; l < k; ++l) {
        T x[kTile];
        T y[kTile];
        for (int r = 0; r < kTile; ++r) {
          const int i = i0 + ty + r * tall;
          x[r] = i < m ? a[i * lda + l] : T(0);
        }
        for (int s = 0; s < kTile; ++s) {
          const int j = j0 + tx + s * wide;
          if constexpr (second == Second::adjoint)
            y[s] = j < n ? conjugate(b[j * ldb + l]) : T(0);
          else
            y[s] = j < n ? b[l * ldb + j] : T(0);
        }
        for (int r = 0; r < kTile; ++r)
          for (int s = 0; s < kTile; ++s) sum[r][s] = sum[r][s] + x[r] * y[s];
      }
      for (int r = 0; r < kTile; ++r)
        for (int s = 0; s < kTile; ++s) {
          const int i = i0 + ty + r * tall;
          const int j = j0 + tx + s * wide;
          if (i >= m || j >= n) continue;
          T& to = c[i * ldc + j];
          to = sign == 0 ? sum[r][s] : sign > 0 ? to + sum[r][s] : to - sum[r][s];
        }
    }
}

/// The lower triangle of a becomes L with L Lᴴ = a; what is above is left alone. 0, or the order
/// of the first leading minor that is not positive.
template <class G, class T>
MICA_OF_GROUP int cholesky(const G& g, int n, T* a, int lda) {
  using R = Part<T>;
  const int tx = g.rank() % G::kRowWide;
  const int ty = g.rank() / G::kRowWide;
  const int tall = g.size() / G::kRowWide;
  int info = 0;
  for (int p = 0; p < n; p += G::kPanel) {
    const int end = p + G::kPanel < n ? p + G::kPanel : n;
    for (int j = p; j < end; ++j) {
      const R d = real_part(a[j * lda + j]);
      if (!(d > 0) && info == 0) info = j + 1;
      const R root = root_of(d);
      const R inverse = 1 / root;
      for (int i = j + 1 + ty; i < n; i += tall) {
        const T factor = a[i * lda + j] * inverse;
        const int last = i + 1 < end ? i + 1 : end;
        for (int k = j + 1 + tx; k < last; k += G::kRowWide)
          a[i * lda + k] = a[i * lda + k] - factor * conjugate(a[k * lda + j] * inverse);
      }
      g.sync();
      for (int i = j + g.rank(); i < n; i += g.size())
        a[i * lda + j] = i == j ? T(root) : a[i * lda + j] * inverse;
    }
    g.sync();
    if (end == n) break;
    T* const rest = a + end * lda;
    add_product<Second::adjoint>(g, n - end, n - end, end - p, rest + p, lda, rest + p, lda,
                                 rest + end, lda, -1, true);
    g.sync();
  }
  return info;
}

/// The first `count` columns of a (m, n) become U and, below its diagonal, L of P L U; the others
/// become L⁻¹ Pᵀ a, so that right sides may stand there. Row i was exchanged with row
/// pivots[i] - 1. 0, or the place (from 1) of the first zero of U's diagonal.
template <class G, class T>
MICA_OF_GROUP int lu(const G& g, int m, int n, int count, T* a, int lda, int32_t* pivots) {
  using R = Part<T>;
  const int tx = g.rank() % G::kRowWide;
  const int ty = g.rank() / G::kRowWide;
  const int tall = g.size() / G::kRowWide;
  int info = 0;
  for (int p = 0; p < count; p += G::kPanel) {
    const int end = p + G::kPanel < count ? p + G::kPanel : count;
    // Columns past the last pivot follow with the panel where there is but one.
    const int width = count <= G::kPanel ? n : end;
    for (int j = p; j < end; ++j) {
      Pivot<R> best{R(-1), j};
      for (int i = j + g.rank(); i < m; i += g.size())
        best = best.better({pivot_size(a[i * lda + j]), i});
      best = g.best(best);
      const int other = best.row;
      if (g.rank() == 0) pivots[j] = other + 1;
      if (other != j)
        for (int k = g.rank(); k < n; k += g.size()) {
          const T value = a[j * lda + k];
          a[j * lda + k] = a[other * lda + k];
          a[other * lda + k] = value;
        }
      g.sync();
      const T pivot = a[j * lda + j];
      const bool zero = pivot == T(0);
      if (zero && info == 0) info = j + 1;
      const T divisor = zero ? T(1) : pivot;
      for (int i = j + 1 + ty; i < m; i += tall) {
        const T factor = divide(a[i * lda + j], divisor);
        for (int k = j + 1 + tx; k < width; k += G::kRowWide)
          a[i * lda + k] = a[i * lda + k] - factor * a[j * lda + k];
      }
      g.sync();
      for (int i = j + 1 + g.rank(); i < m; i += g.size())
        a[i * lda + j] = divide(a[i * lda + j], divisor);
    }
    g.sync();
    if (width == n) continue;
    for (int k = end + g.rank(); k < n; k += g.size())
      for (int j = p; j < end; ++j) {
        const T x = a[j * lda + k];
        for (int i = j + 1; i < end; ++i) a[i * lda + k] = a[i * lda + k] - a[i * lda + j] * x;
      }
    g.sync();
    add_product<Second::plain>(g, m - end, n - end, end - p, a + end * lda + p, lda,
                               a + p * lda + end, lda, a + end * lda + end, lda, -1);
    g.sync();
  }
  return info;
}

/// How a triangle stands in its equation: A X = B, or X A = B; `adjoint`: Aᴴ in A's place; `unit`:
/// ones are on its diagonal.
struct Triangle {
  bool upper = false;
  bool left = true;
  bool unit = false;
  bool adjoint = false;
};

/// b (rows, columns) becomes X; step by step an unknown and what it leaves of the right sides.
template <class G, class T>
MICA_OF_GROUP void solve_triangular(const G& g, const Triangle& t, const T* a, int lda, T* b,
                                    int rows, int columns, int ldb) {
  const int n = t.left ? rows : columns;
  const int others = t.left ? columns : rows;
  const int step = t.left ? ldb : 1;
  const int across = t.left ? 1 : ldb;
  const bool flipped = t.adjoint != !t.left;
  const bool backwards = t.upper != flipped;
  const int by_row = flipped ? 1 : lda;
  const int by_column = flipped ? lda : 1;
  for (int c = 0; c < n; ++c) {
    const int i = backwards ? n - 1 - c : c;
    if (!t.unit) {
      const T own = t.adjoint ? conjugate(a[i * (lda + 1)]) : a[i * (lda + 1)];
      for (int k = g.rank(); k < others; k += g.size()) {
        T& x = b[i * step + k * across];
        x = divide(x, own);
      }
      g.sync();
    }
    const int left = n - 1 - c;
    for (int e = g.rank(); e < left * others; e += g.size()) {
      const int row = e / others;
      const int r = backwards ? row : i + 1 + row;
      const int k = e - row * others;
      const T factor = a[r * by_row + i * by_column];
      T& x = b[r * step + k * across];
      x = x - (t.adjoint ? conjugate(factor) : factor) * b[i * step + k * across];
    }
    g.sync();
  }
}

/// R and, below its diagonal, the vectors of the reflections I - tau v vᴴ that make it of a (m, n),
/// with LAPACK's signs; the first element of each v is 1.
template <class G, class T>
MICA_OF_GROUP void reflect(const G& g, int m, int n, T* a, int lda, T* tau) {
  using R = Part<T>;
  const int count = m < n ? m : n;
  for (int j = 0; j < count; ++j) {
    double below = 0;
    for (int i = j + 1 + g.rank(); i < m; i += g.size()) below += wide_square(a[i * lda + j]);
    below = g.sum(below);
    const T alpha = a[j * lda + j];
    g.sync();
    if (below == 0 && imaginary_part(alpha) == 0) {
      if (g.rank() == 0) tau[j] = T(0);
      g.sync();
      continue;
    }
    const R length = static_cast<R>(root_of(wide_square(alpha) + below));
    const R beta = real_part(alpha) < 0 ? length : -length;
    const T factor = (T(beta) - alpha) * (1 / beta);
    for (int i = j + 1 + g.rank(); i < m; i += g.size())
      a[i * lda + j] = divide(a[i * lda + j], alpha - T(beta));
    if (g.rank() == 0) a[j * lda + j] = T(beta), tau[j] = factor;
    g.sync();
    for (int k = j + 1 + g.team(); k < n; k += g.teams()) {
      T along = g.lane() == 0 ? a[j * lda + k] : T(0);
      for (int i = j + 1 + g.lane(); i < m; i += g.lanes())
        along = along + conjugate(a[i * lda + j]) * a[i * lda + k];
      along = g.team_sum(along) * conjugate(factor);
      if (g.lane() == 0) a[j * lda + k] = a[j * lda + k] - along;
      for (int i = j + 1 + g.lane(); i < m; i += g.lanes())
        a[i * lda + k] = a[i * lda + k] - along * a[i * lda + j];
    }
    g.sync();
  }
}

/// Q (m, columns) of those reflections, of which there are `count`.
template <class G, class T>
MICA_OF_GROUP void unfold(const G& g, int m, int count, const T* a, int lda, const T* tau, T* q,
                          int columns, int ldq) {
  for (int e = g.rank(); e < m * columns; e += g.size())
    q[e / columns * ldq + e % columns] = e / columns == e % columns ? T(1) : T(0);
  g.sync();
  for (int j = count - 1; j >= 0; --j) {
    for (int k = j + g.team(); k < columns; k += g.teams()) {
      T along = g.lane() == 0 ? q[j * ldq + k] : T(0);
      for (int i = j + 1 + g.lane(); i < m; i += g.lanes())
        along = along + conjugate(a[i * lda + j]) * q[i * ldq + k];
      along = g.team_sum(along) * tau[j];
      if (g.lane() == 0) q[j * ldq + k] = q[j * ldq + k] - along;
      for (int i = j + 1 + g.lane(); i < m; i += g.lanes())
        q[i * ldq + k] = q[i * ldq + k] - along * a[i * lda + j];
    }
    g.sync();
  }
}

}  // namespace mica::linalg::group
