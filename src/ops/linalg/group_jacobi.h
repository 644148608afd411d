#pragma once

#include "mica/ops/linalg/group.h"

// Singular values and eigenvalues of one matrix by one-sided Jacobi rotations of a group of
// threads: pairs of vectors are made orthogonal until all are.
namespace mica::linalg::group {

/// The rotation of two vectors, after the second was multiplied by `phase`.
template <class T>
struct Rotation {
  using R = Part<T>;
  R c;
  R s;
  T phase;

  /// From the squares of their lengths and their product, which is not 0.
  static MICA_PORTABLE Rotation of(R first, R second, T off) {
    const R size = root_of(square_of(off));
    const R zeta = (second - first) / (2 * size);
    const R grown = absolute(zeta) + root_of(1 + zeta * zeta);
    const R t = (zeta < 0 ? R(-1) : R(1)) / grown;
    const R c = 1 / root_of(1 + t * t);
    return {c, c * t, conjugate(off) * (1 / size)};
  }
  MICA_PORTABLE void turn(T& p, T& q) const {
    const T second = q * phase;
    q = p * s + second * c;
    p = p * c - second * s;
  }
};

/// The vectors of one matrix: vector j is at + j * step, its elements side by side.
template <class T>
struct Vectors {
  T* at;
  int step;
  MICA_PORTABLE T* operator[](int j) const { return at + j * step; }
};

/// What a decomposition works in. `order` holds the vectors from the largest value to the least.
template <class T>
struct JacobiMemory {
  Vectors<T> w;  ///< the vectors that become orthogonal, each of `length`
  Vectors<T> v;  ///< what they were turned by, each of `count`; null at: not wanted
  Part<T>* values;
  int32_t* order;
};

/// In round r of count - 1, pair t; count is even and each meets each once.
MICA_PORTABLE inline void pair_of(int round, int t, int count, int& p, int& q) {
  const int turning = count - 1;
  int a = turning;
  int b = round;
  if (t > 0) {
    a = round + t < turning ? round + t : round + t - turning;
    b = round - t >= 0 ? round - t : round - t + turning;
  }
  p = a < b ? a : b;
  q = a < b ? b : a;
}

/// Turns `count` vectors of `length` until they are orthogonal. False where they do not become it.
template <class G, class T>
MICA_OF_GROUP bool orthogonalize(const G& g, int count, int length, const JacobiMemory<T>& memory,
                                 Part<T> least) {
  using R = Part<T>;
  constexpr int kMostSweeps = 60;
  const R tolerance = kEpsilon<R> * root_of(static_cast<R>(length));
  const int even = count + count % 2;
  const Vectors<T>& v = memory.v;
  if (v.at)
    for (int e = g.rank(); e < count * count; e += g.size())
      v[e / count][e % count] = e / count == e % count ? T(1) : T(0);
  g.sync();
  for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
    bool turned = false;
    for (int round = 0; round + 1 < even; ++round) {
      for (int t = g.team(); t < even / 2; t += g.teams()) {
        int p = 0;
        int q = 0;
        pair_of(round, t, even, p, q);
        if (q >= count) continue;
        T* const a = memory.w[p];
        T* const b = memory.w[q];
        R aa = 0;
        R bb = 0;
        T ab = T(0);
        for (int i = g.lane(); i < length; i += g.lanes()) {
          aa += square_of(a[i]);
          bb += square_of(b[i]);
          ab = ab + conjugate(a[i]) * b[i];
        }
        aa = g.team_sum(aa);
        bb = g.team_sum(bb);
        ab = g.team_sum(ab);
        const R size = root_of(square_of(ab));
        if (aa <= least || bb <= least || size <= tolerance * root_of(aa) * root_of(bb)) continue;
        turned = true;
        const auto rotation = Rotation<T>::of(aa, bb, ab);
        for (int i = g.lane(); i < length; i += g.lanes()) rotation.turn(a[i], b[i]);
        if (v.at)
          for (int i = g.lane(); i < count; i += g.lanes()) rotation.turn(v[p][i], v[q][i]);
      }
      g.sync();
    }
    if (!g.any(turned)) return true;
  }
  return false;
}

/// The lengths of all vectors, and their order by `before(length, other)`.
template <class G, class T, class Before>
MICA_OF_GROUP void sort_lengths(const G& g, int count, int length, const JacobiMemory<T>& memory,
                                Before before) {
  using R = Part<T>;
  for (int j = g.team(); j < count; j += g.teams()) {
    R sum = 0;
    for (int i = g.lane(); i < length; i += g.lanes()) sum += square_of(memory.w[j][i]);
    sum = g.team_sum(sum);
    if (g.lane() == 0) memory.values[j] = root_of(sum);
  }
  g.sync();
  for (int j = g.rank(); j < count; j += g.size()) {
    const R own = memory.values[j];
    int place = 0;
    for (int k = 0; k < count; ++k) {
      const R other = memory.values[k];
      if (before(other, own) || (k < j && !before(own, other))) ++place;
    }
    memory.order[place] = j;
  }
  g.sync();
}

/// Makes vectors order[known …) such that all of `length` are orthonormal.
template <class G, class T>
MICA_OF_GROUP void complete(const G& g, int length, int known, int count,
                            const JacobiMemory<T>& memory) {
  using R = Part<T>;
  for (int r = known; r < count; ++r) {
    // The unit vector that is farthest from what is there.
    Pivot<R> best{R(-1), length};
    for (int i = g.rank(); i < length; i += g.size()) {
      R rest = 1;
      for (int j = 0; j < r; ++j) rest -= square_of(memory.w[memory.order[j]][i]);
      best = best.better({rest > 0 ? rest : R(0), i});
    }
    best = g.best(best);
    T* const own = memory.w[memory.order[r]];
    for (int i = g.rank(); i < length; i += g.size()) own[i] = i == best.row ? T(1) : T(0);
    for (int pass = 0; pass < 2; ++pass)
      for (int j = 0; j < r; ++j) {
        const T* other = memory.w[memory.order[j]];
        T along = T(0);
        for (int i = g.rank(); i < length; i += g.size())
          along = along + conjugate(other[i]) * own[i];
        along = g.sum(along);
        for (int i = g.rank(); i < length; i += g.size()) own[i] = own[i] - along * other[i];
      }
    R square = 0;
    for (int i = g.rank(); i < length; i += g.size()) square += square_of(own[i]);
    const R inverse = 1 / root_of(g.sum(square));
    for (int i = g.rank(); i < length; i += g.size()) own[i] = own[i] * inverse;
    g.sync();
  }
}

/// A power of two that brings the largest of the elements near 1, so that no square is past the
/// range; `finite` says whether all are numbers.
template <class G, class T>
MICA_OF_GROUP Part<T> scale_of(const G& g, const T* a, int64_t count, bool& finite) {
  using R = Part<T>;
  constexpr int kMost = sizeof(R) == 4 ? 120 : 1000;
  R largest = 0;
  bool other = false;
  for (int64_t e = g.rank(); e < count; e += g.size()) {
    const R size = pivot_size(a[e]);
    largest = size > largest ? size : largest;
    other = other || !(size * 0 == 0);
  }
  finite = !g.any(other);
  largest = g.largest(largest);
  if (!finite || !(largest > 0)) return 1;
  int exponent = 0;
  ::frexp(static_cast<double>(largest), &exponent);
  exponent = exponent < -kMost ? -kMost : exponent > kMost ? kMost : exponent;
  return static_cast<R>(::ldexp(1.0, -exponent));
}

/// How a decomposition ended.
enum Ended : int { kDone = 0, kNotFinite = -1, kNotConverged = 1 };

/// a (m, n), row-major: of m >= n its columns, else those of aᴴ, become orthonormal vectors w in
/// the order of memory.order; memory.values (by place) times 1 / scale are the singular values, and
/// v the other side's vectors. `all`: as many vectors as they have elements.
template <class G, class T>
MICA_OF_GROUP int decompose(const G& g, int m, int n, const T* a, bool all,
                            const JacobiMemory<T>& memory, Part<T>& scale) {
  using R = Part<T>;
  const bool wide = m < n;
  const int length = wide ? n : m;
  const int count = wide ? m : n;
  bool finite = true;
  scale = scale_of(g, a, static_cast<int64_t>(m) * n, finite);
  if (!finite) return kNotFinite;
  R total = 0;
  for (int e = g.rank(); e < m * n; e += g.size()) {
    const int i = e / n;
    const int j = e - i * n;
    const T value = a[e] * scale;
    total += square_of(value);
    (wide ? memory.w[i][j] : memory.w[j][i]) = wide ? conjugate(value) : value;
  }
  // The square of a vector that is nothing but rounding.
  const R least = g.sum(total) * kEpsilon<R> * kEpsilon<R>;
  const bool done = orthogonalize(g, count, length, memory, least);
  sort_lengths(g, count, length, memory, [](R x, R y) { return x > y; });
  if (memory.v.at || all) {
    int known = 0;
    for (int j = 0; j < count; ++j) {
      const R value = memory.values[memory.order[j]];
      known += value > 0 && value * value > 4 * least ? 1 : 0;
    }
    for (int j = count + g.rank(); all && j < length; j += g.size()) memory.order[j] = j;
    for (int j = g.team(); j < known; j += g.teams()) {
      const int from = memory.order[j];
      const R inverse = 1 / memory.values[from];
      for (int i = g.lane(); i < length; i += g.lanes())
        memory.w[from][i] = memory.w[from][i] * inverse;
    }
    g.sync();
    complete(g, length, known, all ? length : count, memory);
  }
  return done ? kDone : kNotConverged;
}

/// a (m, n) = u diag(s) vh; u has m columns and vh n rows with `full`, else min(m, n); without
/// memory.v there are the values alone.
template <class G, class T>
MICA_OF_GROUP int svd(const G& g, int m, int n, const T* a, bool full,
                      const JacobiMemory<T>& memory, T* u, Part<T>* s, T* vh) {
  using R = Part<T>;
  const bool vectors = memory.v.at != nullptr;
  R scale = 1;
  const int ended = decompose(g, m, n, a, full && vectors, memory, scale);
  if (ended == kNotFinite) return ended;
  const bool wide = m < n;
  const int least = wide ? m : n;
  for (int j = g.rank(); j < least; j += g.size()) s[j] = memory.values[memory.order[j]] / scale;
  if (!vectors) return ended;
  const int longer = full ? (wide ? n : m) : least;
  const int u_columns = wide ? least : longer;
  const int v_rows = wide ? longer : least;
  for (int e = g.rank(); e < m * u_columns; e += g.size()) {
    const int i = e / u_columns;
    const int k = e - i * u_columns;
    u[e] = (wide ? memory.v : memory.w)[memory.order[k]][i];
  }
  for (int e = g.rank(); e < v_rows * n; e += g.size()) {
    const int k = e / n;
    const int j = e - k * n;
    vh[e] = conjugate((wide ? memory.w : memory.v)[memory.order[k]][j]);
  }
  return ended;
}

/// Eigenvalues in ascending order, and eigenvectors (columns) where `vectors` is given, of the
/// Hermitian matrix whose lower triangle a (n, n) holds: with twice its norm on the diagonal it is
/// positive definite, and its singular vectors are the eigenvectors.
template <class G, class T>
MICA_OF_GROUP int eigh(const G& g, int n, const T* a, const JacobiMemory<T>& memory,
                       Part<T>* values, T* vectors) {
  using R = Part<T>;
  bool finite = true;
  const R scale = scale_of(g, a, static_cast<int64_t>(n) * n, finite);
  if (!finite) return kNotFinite;
  const auto element = [&](int i, int j) {
    const T value = (i >= j ? a[i * n + j] : conjugate(a[j * n + i])) * scale;
    return i == j ? T(real_part(value)) : value;
  };
  R norm = 0;
  for (int i = g.rank(); i < n; i += g.size()) {
    R sum = 0;
    for (int j = 0; j < n; ++j) sum += pivot_size(element(i, j));
    norm = sum > norm ? sum : norm;
  }
  const R shift = 2 * g.largest(norm);
  for (int e = g.rank(); e < n * n; e += g.size()) {
    const int j = e / n;
    const int i = e - j * n;
    const T value = element(i, j);
    memory.w[j][i] = i == j ? value + T(shift) : value;
  }
  const bool done = orthogonalize(g, n, n, memory, R(0));
  sort_lengths(g, n, n, memory, [](R x, R y) { return x < y; });
  for (int j = g.rank(); j < n; j += g.size())
    values[j] = (memory.values[memory.order[j]] - shift) / scale;
  if (vectors)
    for (int e = g.rank(); e < n * n; e += g.size()) {
      const int i = e / n;
      const int j = e - i * n;
      vectors[e] = memory.v[memory.order[j]][i];
    }
  return done ? kDone : kNotConverged;
}

}  // namespace mica::linalg::group
