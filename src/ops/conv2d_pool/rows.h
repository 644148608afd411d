#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

// Sums of scaled rows, which stay in registers: what the gradients of a pooled convolution are made
// of, since a pooling's window passes the gradient on to one of its elements only.
namespace mica::pooled {

/// out[r][v] += Σ value[k] * from[offset[k] + r * from_row + v], as many rows r and columns v as
/// the kernel has. Of the last vector of a row only what `mask` lets through is added.
struct RowSum {
  const float* from = nullptr;
  int64_t from_row = 0;
  const int32_t* offset = nullptr;
  const float* value = nullptr;
  int64_t count = 0;
  const int32_t* mask = nullptr;  ///< one vector; all ones or all zeros each
  float* out = nullptr;
  int64_t out_row = 0;
};

/// Of 16 registers, 14 hold sums.
inline constexpr int kMostVectors = 14;

using RowKernel = void (*)(const RowSum&);
struct RowKernels {
  int width;                                         ///< floats of a vector
  RowKernel of[kMostVectors + 1][kMostVectors + 1];  ///< by rows and vectors of a row
};

// Code for wider vectors carries them in its name and stays in its file.
namespace avx2 {
struct Vectors {
  static constexpr int kWidth = 8;
};
extern const RowKernels kRows;
}  // namespace avx2
namespace avx512 {
struct Vectors {
  static constexpr int kWidth = 16;
};
extern const RowKernels kRows;
}  // namespace avx512

template <class Vectors, int kRowCount, int kVectors>
void add_rows(const RowSum& s) {
  constexpr int kWidth = Vectors::kWidth;
  constexpr int kSums = kRowCount * kVectors;
  using Vector __attribute__((vector_size(kWidth * 4))) = float;
  using Mask __attribute__((vector_size(kWidth * 4))) = int32_t;
  using Unaligned __attribute__((vector_size(kWidth * 4), aligned(4), may_alias)) = float;
  using UnalignedMask __attribute__((vector_size(kWidth * 4), aligned(4), may_alias)) = int32_t;
  // Few sums would wait for each other: then two terms are added side by side.
  constexpr int kSides = kSums <= kMostVectors / 2 ? 2 : 1;
  Vector sums[kSides][kSums] = {};
  const auto add = [&](int side, int64_t k) __attribute__((always_inline)) {
    const float* from = s.from + s.offset[k];
    const float value = s.value[k];
#pragma GCC unroll 14
    for (int r = 0; r < kRowCount; ++r)
#pragma GCC unroll 14
      for (int v = 0; v < kVectors; ++v)
        sums[side][r * kVectors + v] +=
            value * *reinterpret_cast<const Unaligned*>(from + r * s.from_row + v * kWidth);
  };
  int64_t k = 0;
  for (; k + kSides <= s.count; k += kSides)
#pragma GCC unroll 2
    for (int side = 0; side < kSides; ++side) add(side, k + side);
  if (k < s.count) add(0, k);
  const Mask mask = *reinterpret_cast<const UnalignedMask*>(s.mask);
#pragma GCC unroll 14
  for (int r = 0; r < kRowCount; ++r)
#pragma GCC unroll 14
    for (int v = 0; v < kVectors; ++v) {
      Vector sum = sums[0][r * kVectors + v];
      if constexpr (kSides == 2) sum += sums[1][r * kVectors + v];
      if (v == kVectors - 1) sum = reinterpret_cast<Vector>(reinterpret_cast<Mask>(sum) & mask);
      *reinterpret_cast<Unaligned*>(s.out + r * s.out_row + v * kWidth) += sum;
    }
}

template <class Vectors, int kRowCount, int kVectors = 1>
constexpr void set_kernels(RowKernels& kernels) {
  if constexpr (kRowCount * kVectors <= kMostVectors) {
    kernels.of[kRowCount][kVectors] = add_rows<Vectors, kRowCount, kVectors>;
    set_kernels<Vectors, kRowCount, kVectors + 1>(kernels);
  } else if constexpr (kRowCount < kMostVectors / 2) {
    set_kernels<Vectors, kRowCount + 1>(kernels);
  }
}

template <class Vectors>
constexpr RowKernels row_kernels() {
  RowKernels kernels{};
  kernels.width = Vectors::kWidth;
  set_kernels<Vectors, 1>(kernels);
  return kernels;
}

}  // namespace mica::pooled
