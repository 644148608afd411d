#pragma once

#include <cstring>

#include "mica/runtime/cuda/types.cuh"

// How rows are read and written.
namespace mica::cuda::softmax_line {

inline constexpr int kHeld = 4;  ///< vectors of a row that a thread holds

struct Rows {
  int64_t count, n;
  bool aligned;  ///< all tensors start on 16-byte boundaries
};

/// A row in vectors of 16 bytes that lie on 16-byte boundaries, so the first and the last may have
/// elements of other rows, which are neither read nor written.
template <class T>
struct Row {
  static constexpr int kWidth = kVec16<T>;
  using Vector = Vec<T, kWidth>;
  int64_t start, n;
  int head;  ///< elements of the first vector that lie before the row
  bool aligned;

  /// Rows past the last have no elements.
  __device__ Row(const Rows& rows, int64_t index)
      : start(index * rows.n),
        n(index < rows.count ? rows.n : 0),
        head(rows.aligned ? static_cast<int>(start % kWidth) : 0),
        aligned(rows.aligned) {}

  __device__ int64_t vectors() const { return (head + n + kWidth - 1) / kWidth; }
  __device__ bool whole(int64_t at) const { return aligned && at >= 0 && at + kWidth <= n; }

  __device__ Vector load(const T* tensor, int64_t vector, T otherwise) const {
    const int64_t at = vector * kWidth - head;
    if (whole(at)) return load_vec<kWidth>(tensor + start + at);
    Vector v;
#pragma unroll
    for (int e = 0; e < kWidth; ++e)
      v.v[e] = at + e >= 0 && at + e < n ? tensor[start + at + e] : otherwise;
    return v;
  }
  __device__ void store(T* tensor, int64_t vector, const Vector& v) const {
    const int64_t at = vector * kWidth - head;
    if (whole(at)) return store_vec<kWidth>(tensor + start + at, v);
#pragma unroll
    for (int e = 0; e < kWidth; ++e)
      if (at + e >= 0 && at + e < n) tensor[start + at + e] = v.v[e];
  }
};

/// What a thread holds of a row, as it lies in memory. Rows are `exact` where each is whole vectors
/// on 16-byte boundaries; otherwise halves are put together one by one, which takes a register
/// each.
template <class T, bool exact>
struct Held {
  static constexpr int V = kVec16<T>;
  uint4 raw[kHeld];

  __device__ Vec<T, V> vector(int k) const {
    Vec<T, V> v;
    memcpy(&v, &raw[k], sizeof v);
    return v;
  }
  __device__ void set(int k, const Vec<T, V>& v) { memcpy(&raw[k], &v, sizeof v); }

  /// Vectors `group` apart; `otherwise` beyond the row.
  __device__ void load(const Row<T>& row, const T* tensor, int lane, int group,
                       Compute<T> otherwise) {
    if constexpr (exact) {
      Vec<T, V> none;
#pragma unroll
      for (int e = 0; e < V; ++e) none.v[e] = convert<T>(otherwise);
#pragma unroll
      for (int k = 0; k < kHeld; ++k) {
        const int64_t at = static_cast<int64_t>(lane + k * group) * V;
        set(k, none);
        if (at < row.n) raw[k] = *reinterpret_cast<const uint4*>(tensor + row.start + at);
      }
    } else {
#pragma unroll
      for (int k = 0; k < kHeld; ++k)
        set(k, row.load(tensor, lane + k * group, convert<T>(otherwise)));
    }
  }
  __device__ void store(const Row<T>& row, T* tensor, int lane, int group) const {
    if constexpr (exact) {
#pragma unroll
      for (int k = 0; k < kHeld; ++k) {
        const int64_t at = static_cast<int64_t>(lane + k * group) * V;
        if (at < row.n) *reinterpret_cast<uint4*>(tensor + row.start + at) = raw[k];
      }
    } else {
#pragma unroll
      for (int k = 0; k < kHeld; ++k) row.store(tensor, lane + k * group, vector(k));
    }
  }
};

}  // namespace mica::cuda::softmax_line
