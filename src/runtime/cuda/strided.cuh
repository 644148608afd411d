#pragma once

// Loops over tensors of any strides.
#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>

#include "mica/core/dims.h"
#include "mica/runtime/cuda/types.cuh"

namespace mica::cuda {

inline constexpr int64_t kNarrowLimit = int64_t{1} << 31;

/// Walks N operands of one shape in the memory order of operand 0. Adjacent dimensions that every
/// operand can take in one stride are one, so tensors without gaps in the same order have one
/// dimension.
template <int N>
struct StridedLoop {
  int64_t count = 1;   ///< steps of the loop
  int64_t tail = 0;    ///< elements after the last whole vector, where there is one dimension
  int rank = 0;        ///< dimension 0 is the innermost
  bool narrow = true;  ///< indices fit in 31 bits
  uint32_t unit = 0;   ///< bit k: operand k is dense along dimension 0
  int64_t size[Dims::kMaxRank] = {};
  int64_t stride[N][Dims::kMaxRank] = {};
  Divider divider[Dims::kMaxRank];

  /// Offsets of all operands, in elements, at step `index`.
  __device__ void offsets(int64_t index, int64_t (&at)[N]) const {
    if (rank == 1) {
#pragma unroll
      for (int k = 0; k < N; ++k) at[k] = index * stride[k][0];
    } else if (narrow) {
      offsets_as(static_cast<uint32_t>(index), at);
    } else {
      offsets_as(index, at);
    }
  }

  /// The same for an index of known width: uint32_t where the loop is narrow, else int64_t.
  template <class Index>
  __device__ void offsets_as(Index index, int64_t (&at)[N]) const {
#pragma unroll
    for (int k = 0; k < N; ++k) at[k] = 0;
#pragma unroll
    for (int d = 0; d < Dims::kMaxRank; ++d) {
      if (d >= rank) break;
      Index here = index;
      if (d + 1 < rank) {
        if constexpr (std::is_same_v<Index, uint32_t>) {
          index = divider[d].quotient(here);
        } else {
          index = here / size[d];
        }
        here -= index * static_cast<Index>(size[d]);
      }
#pragma unroll
      for (int k = 0; k < N; ++k) at[k] += static_cast<int64_t>(here) * stride[k][d];
    }
  }

  /// Makes a step of the loop `v` elements, a power of two; false, with nothing
  /// changed, where the operands do not lie so that each is accessed in whole vectors (or, along a
  /// stride of 0, read as one value). `aligned[k]`: operand k starts on a 16-byte boundary.
  bool vectorize(int v, const std::array<bool, N>& aligned) {
    if (rank == 0 || count < v || (rank > 1 && size[0] % v != 0) || stride[0][0] != 1) return false;
    for (int k = 0; k < N; ++k) {
      if (stride[k][0] == 0) continue;
      if (stride[k][0] != 1 || !aligned[static_cast<size_t>(k)]) return false;
      for (int d = 1; d < rank; ++d)
        if (stride[k][d] % v != 0) return false;
    }
    for (int k = 0; k < N; ++k) {
      if (stride[k][0] == 1) unit |= 1U << k;
      stride[k][0] *= v;
    }
    if (rank == 1) tail = count % v;
    size[0] /= v;
    divider[0] = Divider(narrow ? static_cast<uint32_t>(size[0]) : 1);
    count /= v;
    return true;
  }
};

/// Strides of a tensor of shape `from` when it is broadcast to `to`.
inline Strides broadcast_strides(const Shape& from, const Strides& strides, const Shape& to) {
  Strides result = Dims::filled(to.rank(), 0);
  const int skip = to.rank() - from.rank();
  for (int d = 0; d < from.rank(); ++d)
    result[skip + d] = from[d] == 1 && to[skip + d] != 1 ? 0 : strides[d];
  return result;
}

template <int N>
StridedLoop<N> strided_loop(const Shape& shape, const std::array<Strides, N>& strides) {
  StridedLoop<N> loop;
  std::array<int, Dims::kMaxRank> order{};
  int dims = 0;
  for (int d = 0; d < shape.rank(); ++d) {
    loop.count *= shape[d];
    if (shape[d] != 1) order[static_cast<size_t>(dims++)] = d;
  }
  if (loop.count == 0) return loop;
  // Innermost first; of equal strides (an expanded operand 0) the later dimension.
  std::stable_sort(order.begin(), order.begin() + dims, [&](int a, int b) {
    const int64_t sa = strides[0][a];
    const int64_t sb = strides[0][b];
    return sa != sb ? sa < sb : a > b;
  });
  for (int i = 0; i < dims; ++i) {
    const int d = order[static_cast<size_t>(i)];
    bool joins = loop.rank > 0;
    for (size_t k = 0; joins && k < N; ++k)
      joins = strides[k][d] == loop.stride[k][loop.rank - 1] * loop.size[loop.rank - 1];
    if (joins) {
      loop.size[loop.rank - 1] *= shape[d];
      continue;
    }
    loop.size[loop.rank] = shape[d];
    for (size_t k = 0; k < N; ++k) loop.stride[k][loop.rank] = strides[k][d];
    ++loop.rank;
  }
  loop.narrow = loop.count < kNarrowLimit;
  for (int d = 0; loop.narrow && d < loop.rank; ++d)
    loop.divider[d] = Divider(static_cast<uint32_t>(loop.size[d]));
  return loop;
}

}  // namespace mica::cuda
