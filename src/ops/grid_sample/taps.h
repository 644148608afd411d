#pragma once

#include <algorithm>
#include <array>
#include <cmath>

#include "mica/op/kernel.h"
#include "mica/ops/grid_sample/grid_sample.h"
#include "mica/runtime/portable.h"

namespace mica {

/// Pixels a point takes its value from along one axis. Every kernel finds them in double, so that
/// all agree on them.
struct GridTaps {
  static constexpr int kMost = 4;
  std::array<int32_t, kMost> index{};  ///< -1 outside
  std::array<double, kMost> weight{};
  std::array<double, kMost> slope{};  ///< of the weight, by the grid's coordinate
};

MICA_PORTABLE inline int grid_taps(GridMode mode) {
  return mode == GridMode::nearest ? 1 : mode == GridMode::bilinear ? 2 : 4;
}

/// A position in pixels and how fast it moves with the grid's coordinate.
struct GridPosition {
  double at;
  double slope;
};

/// Moves a position into the image as the padding says.
MICA_PORTABLE inline GridPosition grid_padded(GridPosition p, int64_t size,
                                              const GridSampleParams& params) {
  const auto last = static_cast<double>(size - 1);
  if (params.padding == GridPadding::zeros) return p;
  if (params.padding == GridPadding::reflection) {
    const double low = params.align_corners ? 0 : -0.5;
    const double span = params.align_corners ? last : last + 1;
    if (span == 0) return {0, 0};
    const double from_low = std::abs(p.at - low);
    if (p.at < low) p.slope = -p.slope;
    const double rest = std::fmod(from_low, span);
    const bool flipped = std::fmod(std::floor(from_low / span), 2) != 0;
    p.at = low + (flipped ? span - rest : rest);
    if (flipped) p.slope = -p.slope;
  }
  if (p.at <= 0) return {0, 0};
  if (p.at >= last) return {last, 0};
  return p;
}

MICA_PORTABLE inline GridTaps grid_taps_at(double coordinate, int64_t size,
                                           const GridSampleParams& params) {
  const auto n = static_cast<double>(size);
  const double half = params.align_corners ? (n - 1) / 2 : n / 2;
  const GridPosition raw{(coordinate + 1) * half - (params.align_corners ? 0 : 0.5), half};
  GridTaps taps;
  const auto pixel = [&](double at) {
    return at >= 0 && at <= n - 1 ? static_cast<int32_t>(at) : -1;
  };
  if (params.mode == GridMode::bicubic) {
    const double first = std::floor(raw.at);
    const double t = raw.at - first;
    constexpr double kA = -0.75;
    for (int k = 0; k < 4; ++k) {
      const auto i = static_cast<size_t>(k);
      const double d = std::abs(t + 1 - k);  // to the pixel at k - 1
      const double side = k < 2 ? half : -half;
      const bool near = k == 1 || k == 2;
      taps.weight[i] = near ? ((kA + 2) * d - (kA + 3)) * d * d + 1
                            : ((kA * d - 5 * kA) * d + 8 * kA) * d - 4 * kA;
      taps.slope[i] = side * (near ? (3 * (kA + 2) * d - 2 * (kA + 3)) * d
                                   : (3 * kA * d - 10 * kA) * d + 8 * kA);
      taps.index[i] = std::isnan(t) ? -1 : pixel(grid_padded({first - 1 + k, 0}, size, params).at);
    }
    return taps;
  }
  const GridPosition p = grid_padded(raw, size, params);
  if (params.mode == GridMode::nearest) {
    taps.index[0] = pixel(std::nearbyint(p.at));
    taps.weight[0] = 1;
    return taps;
  }
  const double first = std::floor(p.at);
  taps.index[0] = pixel(first);
  taps.index[1] = pixel(first + 1);
  taps.weight[1] = p.at - first;
  taps.weight[0] = 1 - taps.weight[1];
  taps.slope[0] = -p.slope;
  taps.slope[1] = p.slope;
  return taps;
}

Kernel grid_sample_reference_kernel();
Kernel grid_sample_grad_reference_kernel();
Kernel grid_sample_tabulated_kernel();
Kernel grid_sample_grad_tabulated_kernel();

}  // namespace mica
