#pragma once

#include <cstdint>

// What the direct convolution spends its time in: sums of products that stay in registers.
namespace mica::direct {

/// out[m][v] = start[m][v] + Σ a[m][run * a_run + k * a_step] * b[run * b_run + k * b_step + v],
/// the sum over `runs` runs of `length` products each. As many rows m and columns v as the kernel
/// has.
struct Tile {
  static constexpr int kMostRows = 8;

  const float* a[kMostRows] = {};
  const float* b = nullptr;
  int64_t runs = 0, length = 0;
  int64_t a_run = 0, a_step = 1;
  int64_t b_run = 0, b_step = 0;
  const float* start = nullptr;  ///< null: zeros
  int64_t start_row = 0;         ///< from row to row; 0: all rows start alike
  float* out = nullptr;
  int64_t out_row = 0;
};

struct TileKernel {
  int rows;
  int columns;
  void (*run)(const Tile&);
};

/// By how many vectors a row has, at least one.
struct TileKernels {
  int width;         ///< floats of a vector
  int most_vectors;  ///< of a row
  TileKernel of[4];
};

// Code for wider vectors carries them in its name and stays in its file.
namespace avx2 {
struct Vectors {
  static constexpr int kWidth = 8;
};
extern const TileKernels kTiles;
}  // namespace avx2
namespace avx512 {
struct Vectors {
  static constexpr int kWidth = 16;
};
extern const TileKernels kTiles;
}  // namespace avx512

template <int kWidth>
struct VectorOf {
  using Type __attribute__((vector_size(kWidth * 4), aligned(4), may_alias)) = float;
};

template <class Vectors, int kRows, int kVectors>
void sum_tile(const Tile& t) {
  constexpr int kWidth = Vectors::kWidth;
  using Unaligned = typename VectorOf<kWidth>::Type;
  using Vector __attribute__((vector_size(kWidth * 4))) = float;
  const auto load = [](const float* from) -> Vector {
    return *reinterpret_cast<const Unaligned*>(from);
  };
  Vector sums[kRows][kVectors] = {};
  if (t.start != nullptr) {
#pragma GCC unroll 8
    for (int m = 0; m < kRows; ++m)
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[m][v] = load(t.start + m * t.start_row + v * kWidth);
  }
  const float* a[kRows];
#pragma GCC unroll 8
  for (int m = 0; m < kRows; ++m) a[m] = t.a[m];
  for (int64_t run = 0; run < t.runs; ++run) {
    const float* b = t.b + run * t.b_run;
    int64_t at = run * t.a_run;
    for (int64_t k = 0; k < t.length; ++k, at += t.a_step, b += t.b_step) {
      Vector row[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) row[v] = load(b + v * kWidth);
#pragma GCC unroll 8
      for (int m = 0; m < kRows; ++m)
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sums[m][v] += a[m][at] * row[v];
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < kRows; ++m)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      *reinterpret_cast<Unaligned*>(t.out + m * t.out_row + v * kWidth) = sums[m][v];
}

template <class Vectors, int kRows, int kVectors>
constexpr TileKernel tile_kernel() {
  return {kRows, kVectors * Vectors::kWidth, sum_tile<Vectors, kRows, kVectors>};
}

}  // namespace mica::direct
