#pragma once

#include <limits>

#include "mica/ops/linalg/lanes.h"

// Jacobi's rotations of as many small matrices as there are lanes.
namespace mica::linalg {

template <class T>
struct LaneRotation {
  Lanes<T> c, s;

  /// From the diagonal elements and the one off it; where `small` the lane stands still.
  static LaneRotation of(Lanes<T> first, Lanes<T> second, Lanes<T> off, LaneMask<T> small) {
    const Lanes<T> one = Lanes<T>{} + 1;
    const Lanes<T> zeta = (second - first) / ((small ? one : off) * 2);
    const Lanes<T> t = copysign(one, zeta) / (abs(zeta) + sqrt(one + zeta * zeta));
    const Lanes<T> c = one / sqrt(one + t * t);
    return {small ? one : c, small ? Lanes<T>{} : c * t};
  }
  void turn(Lanes<T>& p, Lanes<T>& q) const {
    const Lanes<T> second = q;
    q = s * p + c * second;
    p = c * p - s * second;
  }
};

inline constexpr int kLaneSweeps = 40;

/// Eigenvectors (rows of v) and values (the diagonal) of the symmetric matrices a (n, n).
template <class T>
bool eigh_lanes(int64_t n, Lanes<T>* a, Lanes<T>* v) {
  constexpr T kSmall = std::numeric_limits<T>::epsilon() / 8;
  Lanes<T> total{};
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) {
      if (j > i) a[i * n + j] = a[j * n + i];
      total += a[i * n + j] * a[i * n + j];
      v[i * n + j] = Lanes<T>{} + (i == j ? T(1) : T(0));
    }
  const Lanes<T> least = sqrt(total) * kSmall;
  for (int sweep = 0; sweep < kLaneSweeps; ++sweep) {
    bool done = true;
    for (int64_t p = 0; p < n; ++p)
      for (int64_t q = p + 1; q < n; ++q) {
        const Lanes<T> off = a[p * n + q];
        const LaneMask<T> small = abs(off) <= least;
        if (!any(~small)) continue;
        done = false;
        const auto turn = LaneRotation<T>::of(a[p * n + p], a[q * n + q], off, small);
        for (int64_t i = 0; i < n; ++i) turn.turn(a[i * n + p], a[i * n + q]);
        for (int64_t i = 0; i < n; ++i) turn.turn(a[p * n + i], a[q * n + i]);
        a[p * n + q] = a[q * n + p] = small ? a[p * n + q] : Lanes<T>{};
        for (int64_t i = 0; i < n; ++i) turn.turn(v[p * n + i], v[q * n + i]);
      }
    if (done) return true;
  }
  return false;
}

/// Makes the rows of `rows` (n, m) orthogonal; v (n, n), where it is given, goes along.
template <class T>
bool orthogonalize_lanes(int64_t n, int64_t m, Lanes<T>* rows, Lanes<T>* v) {
  constexpr T kSmall = std::numeric_limits<T>::epsilon();
  Lanes<T> total{};
  for (int64_t i = 0; i < n * m; ++i) total += rows[i] * rows[i];
  // The square of a row that is nothing but rounding.
  const Lanes<T> least = total * (kSmall * kSmall);
  if (v)
    for (int64_t i = 0; i < n * n; ++i) v[i] = Lanes<T>{} + (i % (n + 1) == 0 ? T(1) : T(0));
  for (int sweep = 0; sweep < kLaneSweeps; ++sweep) {
    bool done = true;
    for (int64_t p = 0; p < n; ++p)
      for (int64_t q = p + 1; q < n; ++q) {
        Lanes<T>* a = rows + p * m;
        Lanes<T>* b = rows + q * m;
        Lanes<T> aa{};
        Lanes<T> bb{};
        Lanes<T> ab{};
        for (int64_t i = 0; i < m; ++i) {
          aa += a[i] * a[i];
          bb += b[i] * b[i];
          ab += a[i] * b[i];
        }
        const LaneMask<T> small =
            (abs(ab) <= sqrt(aa) * sqrt(bb) * kSmall) | (aa <= least) | (bb <= least);
        if (!any(~small)) continue;
        done = false;
        const auto turn = LaneRotation<T>::of(aa, bb, ab, small);
        for (int64_t i = 0; i < m; ++i) turn.turn(a[i], b[i]);
        for (int64_t i = 0; v && i < n; ++i) turn.turn(v[p * n + i], v[q * n + i]);
      }
    if (done) return true;
  }
  return false;
}

}  // namespace mica::linalg
