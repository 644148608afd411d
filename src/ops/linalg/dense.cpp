#include "mica/ops/linalg/dense.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace mica::linalg::dense {
namespace {

double conj(double x) { return x; }
std::complex<double> conj(std::complex<double> x) { return std::conj(x); }

/// What LAPACK chooses pivots by.
double pivot_size(double x) { return std::abs(x); }
double pivot_size(std::complex<double> x) { return std::abs(x.real()) + std::abs(x.imag()); }

double norm_of(const std::complex<double>* x, int64_t n, int64_t step) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum = std::hypot(sum, std::abs(x[i * step]));
  return sum;
}
double norm_of(const double* x, int64_t n, int64_t step) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum = std::hypot(sum, x[i * step]);
  return sum;
}

/// The order of |values| by `before`.
template <class Before>
std::vector<size_t> order_of(size_t n, Before before) {
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), before);
  return order;
}

}  // namespace

template <class S>
int cholesky(int64_t n, S* a) {
  int info = 0;
  for (int64_t j = 0; j < n; ++j) {
    double d = std::real(a[j * n + j]);
    for (int64_t k = 0; k < j; ++k) d -= std::norm(a[j * n + k]);
    if (!(d > 0) && info == 0) info = static_cast<int>(j) + 1;
    const double root = std::sqrt(d);
    a[j * n + j] = root;
    for (int64_t i = j + 1; i < n; ++i) {
      S sum = a[i * n + j];
      for (int64_t k = 0; k < j; ++k) sum -= a[i * n + k] * conj(a[j * n + k]);
      a[i * n + j] = sum / root;
    }
    for (int64_t k = j + 1; k < n; ++k) a[j * n + k] = 0;
  }
  return info;
}

template <class S>
int lu(int64_t m, int64_t n, S* a, int32_t* pivots) {
  int info = 0;
  for (int64_t j = 0; j < std::min(m, n); ++j) {
    int64_t best = j;
    for (int64_t i = j + 1; i < m; ++i)
      if (pivot_size(a[i * n + j]) > pivot_size(a[best * n + j])) best = i;
    pivots[j] = static_cast<int32_t>(best) + 1;
    if (best != j) std::swap_ranges(a + j * n, a + j * n + n, a + best * n);
    const S pivot = a[j * n + j];
    if (pivot == S(0)) {
      if (info == 0) info = static_cast<int>(j) + 1;
      continue;
    }
    for (int64_t i = j + 1; i < m; ++i) {
      const S factor = a[i * n + j] / pivot;
      a[i * n + j] = factor;
      for (int64_t k = j + 1; k < n; ++k) a[i * n + k] -= factor * a[j * n + k];
    }
  }
  return info;
}

template <class S>
void solve_triangular(const Triangle& t, const S* a, S* b, int64_t rows, int64_t columns) {
  const int64_t n = t.left ? rows : columns;
  // X A = B is Aᵀ Xᵀ = Bᵀ: the same with other strides, and the elements of A by columns.
  const int64_t step = t.left ? columns : 1;
  const int64_t across = t.left ? 1 : columns;
  const int64_t others = t.left ? columns : rows;
  const bool flipped = t.adjoint != !t.left;
  const bool backwards = t.upper != flipped;
  const auto at = [&](int64_t i, int64_t j) {
    const S value = flipped ? a[j * n + i] : a[i * n + j];
    return t.adjoint ? conj(value) : value;
  };
  for (int64_t k = 0; k < others; ++k)
    for (int64_t c = 0; c < n; ++c) {
      const int64_t i = backwards ? n - 1 - c : c;
      S sum = b[i * step + k * across];
      for (int64_t d = 0; d < c; ++d) {
        const int64_t j = backwards ? n - 1 - d : d;
        sum -= at(i, j) * b[j * step + k * across];
      }
      b[i * step + k * across] = t.unit ? sum : sum / at(i, i);
    }
}

template <class S>
void qr(int64_t m, int64_t n, S* a, int64_t q_columns, S* q, S* r) {
  const int64_t count = std::min(m, n);
  std::vector<S> tau(static_cast<size_t>(count));
  // Column j becomes beta e_j by I - tau v vᴴ; v, whose first element is 1, stays below.
  for (int64_t j = 0; j < count; ++j) {
    const S alpha = a[j * n + j];
    const double below = norm_of(a + (j + 1 < m ? j + 1 : j) * n + j, m - j - 1, n);
    S& factor = tau[static_cast<size_t>(j)];
    if (below == 0 && std::imag(alpha) == 0) continue;  // tau = 0: nothing to reflect
    const double length = std::hypot(std::abs(alpha), below);
    const double beta = std::real(alpha) >= 0 && !std::signbit(std::real(alpha)) ? -length : length;
    factor = (S(beta) - alpha) / beta;
    for (int64_t i = j + 1; i < m; ++i) a[i * n + j] /= alpha - beta;
    a[j * n + j] = beta;
    for (int64_t k = j + 1; k < n; ++k) {
      S sum = a[j * n + k];
      for (int64_t i = j + 1; i < m; ++i) sum += conj(a[i * n + j]) * a[i * n + k];
      sum *= conj(factor);
      a[j * n + k] -= sum;
      for (int64_t i = j + 1; i < m; ++i) a[i * n + k] -= sum * a[i * n + j];
    }
  }
  for (int64_t i = 0; i < q_columns; ++i)
    for (int64_t k = 0; k < n; ++k) r[i * n + k] = k >= i ? a[i * n + k] : S(0);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t k = 0; k < q_columns; ++k) q[i * q_columns + k] = i == k ? 1 : 0;
  for (int64_t j = count - 1; j >= 0; --j)
    for (int64_t k = j; k < q_columns; ++k) {
      S sum = q[j * q_columns + k];
      for (int64_t i = j + 1; i < m; ++i) sum += conj(a[i * n + j]) * q[i * q_columns + k];
      sum *= tau[static_cast<size_t>(j)];
      q[j * q_columns + k] -= sum;
      for (int64_t i = j + 1; i < m; ++i) q[i * q_columns + k] -= sum * a[i * n + j];
    }
}

namespace {

constexpr int kSweeps = 80;

/// A rotation of two columns that makes them orthogonal, after the second was multiplied by phase.
template <class S>
struct Rotation {
  double c, s;
  S phase;

  /// From the diagonal elements and the one off it of their Gram or Hermitian matrix.
  static Rotation of(double first, double second, S off) {
    const double size = std::abs(off);
    const double zeta = (second - first) / (2 * size);
    const double t = std::copysign(1, zeta) / (std::abs(zeta) + std::hypot(1, zeta));
    const double c = 1 / std::hypot(1, t);
    return {c, c * t, conj(off) / size};
  }
  void turn(S& p, S& q) const {
    const S second = q * phase;
    q = s * p + c * second;
    p = c * p - s * second;
  }
};

/// Fills up rows [known, count) of `rows` (each of length n) so that all are orthonormal.
template <class S>
void complete(Matrix<S>& rows, int64_t n, int64_t known, int64_t count) {
  for (int64_t r = known; r < count; ++r) {
    // The unit vector that is farthest from what is there.
    int64_t best = 0;
    double largest = -1;
    for (int64_t i = 0; i < n; ++i) {
      double rest = 1;
      for (int64_t j = 0; j < r; ++j) rest -= std::norm(rows[static_cast<size_t>(j * n + i)]);
      if (rest > largest) largest = rest, best = i;
    }
    S* const own = rows.data() + r * n;
    std::fill(own, own + n, S(0));
    own[best] = 1;
    for (int pass = 0; pass < 2; ++pass)
      for (int64_t j = 0; j < r; ++j) {
        const S* other = rows.data() + j * n;
        S along = 0;
        for (int64_t i = 0; i < n; ++i) along += conj(other[i]) * own[i];
        for (int64_t i = 0; i < n; ++i) own[i] -= along * other[i];
      }
    const double length = norm_of(own, n, 1);
    for (int64_t i = 0; i < n; ++i) own[i] /= length;
  }
}

/// svd of m >= n by columns: `columns` (n, m) are those of a. They become the columns of u in the
/// order of their singular values, `right` (n, n) those of v.
template <class S>
bool svd_of_columns(int64_t m, int64_t n, Matrix<S>& columns, std::vector<double>& s,
                    Matrix<S>& right) {
  right.assign(static_cast<size_t>(n * n), S(0));
  // Columns below it are nothing but rounding.
  const double least = 2.3e-16 * norm_of(columns.data(), m * n, 1);
  for (int64_t i = 0; i < n; ++i) right[static_cast<size_t>(i * n + i)] = 1;
  bool done = false;
  for (int sweep = 0; sweep < kSweeps && !done; ++sweep) {
    done = true;
    for (int64_t p = 0; p < n; ++p)
      for (int64_t q = p + 1; q < n; ++q) {
        S* const a = columns.data() + p * m;
        S* const b = columns.data() + q * m;
        double aa = 0;
        double bb = 0;
        S ab = 0;
        for (int64_t i = 0; i < m; ++i) {
          aa += std::norm(a[i]);
          bb += std::norm(b[i]);
          ab += conj(a[i]) * b[i];
        }
        if (std::abs(ab) <= 1e-15 * std::sqrt(aa) * std::sqrt(bb)) continue;
        if (std::min(aa, bb) <= least * least) continue;
        done = false;
        const auto turn = Rotation<S>::of(aa, bb, ab);
        for (int64_t i = 0; i < m; ++i) turn.turn(a[i], b[i]);
        for (int64_t i = 0; i < n; ++i)
          turn.turn(right[static_cast<size_t>(p * n + i)], right[static_cast<size_t>(q * n + i)]);
      }
  }
  std::vector<double> lengths(static_cast<size_t>(n));
  for (int64_t j = 0; j < n; ++j)
    lengths[static_cast<size_t>(j)] = norm_of(columns.data() + j * m, m, 1);
  const auto order =
      order_of(lengths.size(), [&](size_t i, size_t j) { return lengths[i] > lengths[j]; });
  Matrix<S> sorted(columns.size());
  Matrix<S> turned(right.size());
  s.clear();
  int64_t known = 0;
  for (size_t k = 0; k < order.size(); ++k) {
    const double length = lengths[order[k]];
    s.push_back(length);
    // Where it is nothing but rounding, its direction is too.
    const bool real = length > 0 && length > 1e-300 && length > s[0] * 1e-16;
    known += real ? 1 : 0;
    for (int64_t i = 0; real && i < m; ++i)
      sorted[k * static_cast<size_t>(m) + static_cast<size_t>(i)] =
          columns[order[k] * static_cast<size_t>(m) + static_cast<size_t>(i)] / length;
    for (int64_t i = 0; i < n; ++i)
      turned[k * static_cast<size_t>(n) + static_cast<size_t>(i)] =
          right[order[k] * static_cast<size_t>(n) + static_cast<size_t>(i)];
  }
  complete(sorted, m, known, n);
  columns = std::move(sorted);
  right = std::move(turned);
  return done;
}

}  // namespace

template <class S>
bool svd(int64_t m, int64_t n, const S* a, bool full, Matrix<S>& u, std::vector<double>& s,
         Matrix<S>& vh) {
  const bool wide = m < n;
  const int64_t tall = wide ? n : m;
  const int64_t least = wide ? m : n;
  // Of numbers near 1 no square is past the range.
  double size = 0;
  for (int64_t i = 0; i < m * n; ++i) size = std::max(size, std::abs(a[i]));
  const double scale = size > 0 ? std::ldexp(1, -std::ilogb(size)) : 1;
  // The columns of a, or of aᴴ.
  Matrix<S> columns(static_cast<size_t>(tall * least));
  for (int64_t j = 0; j < least; ++j)
    for (int64_t i = 0; i < tall; ++i)
      columns[static_cast<size_t>(j * tall + i)] =
          scale * (wide ? conj(a[j * n + i]) : a[i * n + j]);
  Matrix<S> right;
  const bool done = svd_of_columns(tall, least, columns, s, right);
  for (double& value : s) value /= scale;
  const int64_t longer = full ? tall : least;
  columns.resize(static_cast<size_t>(tall * longer));
  complete(columns, tall, least, longer);
  // Of a: u has the columns, vh the conjugates of `right`; of aᴴ the other way round.
  const Matrix<S>& of_u = wide ? right : columns;
  const Matrix<S>& of_v = wide ? columns : right;
  const int64_t u_columns = wide ? least : longer;
  const int64_t v_rows = wide ? longer : least;
  u.resize(static_cast<size_t>(m * u_columns));
  vh.resize(static_cast<size_t>(v_rows * n));
  for (int64_t k = 0; k < u_columns; ++k)
    for (int64_t i = 0; i < m; ++i)
      u[static_cast<size_t>(i * u_columns + k)] = of_u[static_cast<size_t>(k * m + i)];
  for (size_t i = 0; i < vh.size(); ++i) vh[i] = conj(of_v[i]);
  return done;
}

template <class S>
bool eigh(int64_t n, const S* given, std::vector<double>& values, Matrix<S>& vectors) {
  Matrix<S> a(static_cast<size_t>(n * n));
  Matrix<S> v(static_cast<size_t>(n * n));
  const auto at = [n](int64_t i, int64_t j) { return static_cast<size_t>(i * n + j); };
  double total = 0;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) {
      a[at(i, j)] = i == j ? S(std::real(given[at(i, i)]))
                           : (i > j ? given[at(i, j)] : conj(given[at(j, i)]));
      total = std::hypot(total, std::abs(a[at(i, j)]));
      v[at(i, j)] = i == j ? 1 : 0;
    }
  bool done = false;
  for (int sweep = 0; sweep < kSweeps && !done; ++sweep) {
    done = true;
    for (int64_t p = 0; p < n; ++p)
      for (int64_t q = p + 1; q < n; ++q) {
        const S off = a[at(p, q)];
        if (std::abs(off) <= 1e-17 * total || std::abs(off) == 0) continue;
        done = false;
        const auto turn = Rotation<S>::of(std::real(a[at(p, p)]), std::real(a[at(q, q)]), off);
        for (int64_t i = 0; i < n; ++i) turn.turn(a[at(i, p)], a[at(i, q)]);
        const Rotation<S> rows{turn.c, turn.s, conj(turn.phase)};
        for (int64_t i = 0; i < n; ++i) rows.turn(a[at(p, i)], a[at(q, i)]);
        a[at(p, q)] = a[at(q, p)] = 0;
        for (int64_t i = 0; i < n; ++i) turn.turn(v[at(i, p)], v[at(i, q)]);
      }
  }
  const auto order = order_of(static_cast<size_t>(n), [&](size_t i, size_t j) {
    const auto nth = [&](size_t k) {
      return std::real(a[at(static_cast<int64_t>(k), static_cast<int64_t>(k))]);
    };
    return nth(i) < nth(j);
  });
  values.clear();
  vectors.resize(static_cast<size_t>(n * n));
  for (int64_t k = 0; k < n; ++k) {
    const auto from = static_cast<int64_t>(order[static_cast<size_t>(k)]);
    values.push_back(std::real(a[at(from, from)]));
    for (int64_t i = 0; i < n; ++i) vectors[at(i, k)] = v[at(i, from)];
  }
  return done;
}

#define MICA_DENSE(S)                                                                      \
  template int cholesky<S>(int64_t, S*);                                                   \
  template int lu<S>(int64_t, int64_t, S*, int32_t*);                                      \
  template void solve_triangular<S>(const Triangle&, const S*, S*, int64_t, int64_t);      \
  template void qr<S>(int64_t, int64_t, S*, int64_t, S*, S*);                              \
  template bool svd<S>(int64_t, int64_t, const S*, bool, Matrix<S>&, std::vector<double>&, \
                       Matrix<S>&);                                                        \
  template bool eigh<S>(int64_t, const S*, std::vector<double>&, Matrix<S>&);
MICA_DENSE(double)
MICA_DENSE(std::complex<double>)
#undef MICA_DENSE

}  // namespace mica::linalg::dense
