#pragma once

#include "mica/ops/linalg/lanes.h"

namespace mica::linalg {

/// Exchanges rows j and other[lane] of a (…, n) in each lane.
template <class T>
void exchange_rows(Lanes<T>* a, int64_t n, int64_t j, const LaneMask<T>& other) {
  for (int l = 0; l < kLanes<T>; ++l) {
    const int64_t i = other[l];
    if (i == j) continue;
    for (int64_t k = 0; k < n; ++k) {
      const T value = a[j * n + k][l];
      a[j * n + k][l] = a[i * n + k][l];
      a[i * n + k][l] = value;
    }
  }
}

/// As dense::lu, of as many matrices as there are lanes; pivots count from 0. Where the right sides
/// b (m, k) are given they go through the same steps, and become L⁻¹ Pᵀ b.
template <class T>
void lu_lanes(int64_t m, int64_t n, Lanes<T>* a, LaneMask<T>* pivots, LaneMask<T>& info,
              Lanes<T>* b = nullptr, int64_t k = 0) {
  using M = LaneMask<T>;
  for (int64_t j = 0; j < std::min(m, n); ++j) {
    Lanes<T> best = abs(a[j * n + j]);
    M at = lane_numbers<T>(j);
    for (int64_t i = j + 1; i < m; ++i) {
      const Lanes<T> size = abs(a[i * n + j]);
      const M larger = size > best;
      best = larger ? size : best;
      at = larger ? lane_numbers<T>(i) : at;
    }
    pivots[j] = at;
    if (any(at != lane_numbers<T>(j))) {
      exchange_rows<T>(a, n, j, at);
      if (b) exchange_rows<T>(b, k, j, at);
    }
    const Lanes<T> pivot = a[j * n + j];
    const M zero = pivot == 0;
    info = (info == 0) & zero ? lane_numbers<T>(j + 1) : info;
    const Lanes<T> inverse = 1 / (zero ? Lanes<T>{} + 1 : pivot);
    const Lanes<T>* row = a + j * n;
    for (int64_t i = j + 1; i < m; ++i) {
      Lanes<T>* below = a + i * n;
      const Lanes<T> factor = below[j] * inverse;
      below[j] = factor;
      for (int64_t c = j + 1; c < n; ++c) below[c] -= factor * row[c];
      for (int64_t c = 0; c < k; ++c) b[i * k + c] -= factor * b[j * k + c];
    }
  }
}

}  // namespace mica::linalg
