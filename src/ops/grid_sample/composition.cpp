#include "mica/ops/grid_sample/composition.h"

#include <vector>

#include "mica/ops/compare/compare.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/gather/gather.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/view/view.h"
#include "mica/ops/where/where.h"

namespace mica {
namespace {

// A tap of each point (N, 1, points) along one axis.
struct Tap {
  Tensor index;  ///< i64, inside the image
  Tensor weight;
};

Tensor padded(const Tensor& at, int64_t size, const GridSampleParams& p) {
  const auto last = static_cast<double>(size - 1);
  if (p.padding == GridPadding::zeros) return at;
  if (p.padding == GridPadding::border) return clamp(at, 0, last);
  const double low = p.align_corners ? 0 : -0.5;
  const double span = p.align_corners ? last : last + 1;
  if (span == 0) return at * 0.0;
  const Tensor from_low = abs(at - low);
  const Tensor flips = floor(from_low / span);
  const Tensor rest = from_low - flips * span;
  const Tensor odd = flips - floor(flips / 2.0) * 2.0;
  return clamp(rest + odd * (rest * -2.0 + span) + low, 0, last);
}

// Keys' kernel with a = -0.75 for a pixel d away, nearer or farther than 1.
Tensor cubic_weight(const Tensor& d, bool near) {
  constexpr double kA = -0.75;
  if (near) return (d * (kA + 2) - (kA + 3)) * d * d + 1.0;
  return ((d * kA - 5 * kA) * d + 8 * kA) * d - 4 * kA;
}

std::vector<Tap> taps_of(const Tensor& coordinate, int64_t size, const GridSampleParams& p) {
  const auto n = static_cast<double>(size);
  const Tensor raw =
      p.align_corners ? (coordinate + 1.0) * ((n - 1) / 2) : (coordinate + 1.0) * (n / 2) - 0.5;
  std::vector<Tap> taps;
  const auto add_tap = [&](const Tensor& at, const Tensor& weight) {
    const Tensor index = clamp(at.detach(), 0, n - 1);
    taps.push_back({clamp(cast(index, DType::i64), 0, n - 1),  // NaN too has a pixel then
                    weight * cast(eq(index, at), weight.dtype())});
  };
  if (p.mode == GridMode::nearest) {
    const Tensor at = round(padded(raw, size, p).detach());
    add_tap(at, at * 0.0 + 1.0);
  } else if (p.mode == GridMode::bilinear) {
    const Tensor at = padded(raw, size, p);
    const Tensor first = floor(at.detach());
    add_tap(first, first + 1.0 - at);
    add_tap(first + 1.0, at - first);
  } else {
    const Tensor first = floor(raw.detach());
    const Tensor t = raw - first;
    for (int k = 0; k < 4; ++k) {
      const Tensor d = k < 2 ? t + (1.0 - k) : t * -1.0 + (k - 1.0);
      add_tap(padded(first + (k - 1.0), size, p), cubic_weight(d, k == 1 || k == 2));
    }
  }
  return taps;
}

}  // namespace

Tensor grid_sample_by_ops(const Tensor& x, const Tensor& grid, const GridSampleParams& p) {
  const int64_t n = x.size(0);
  const int64_t c = x.size(1);
  const int64_t points = grid.size(1) * grid.size(2);
  // Positions in double, as the kernels have them.
  const DType wide = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const auto coordinate = [&](int64_t i) {
    return reshape(cast(slice(grid, 3, i, i + 1), DType::f64), {n, 1, points});
  };
  const Tensor planes = reshape(x, {n, c, x.size(2) * x.size(3)});
  Tensor sum;
  const std::vector<Tap> cols = taps_of(coordinate(0), x.size(3), p);
  for (const Tap& row : taps_of(coordinate(1), x.size(2), p))
    for (const Tap& col : cols) {
      const Tensor pixel = row.index * x.size(3) + col.index;
      const Tensor part = cast(gather(planes, 2, expand(pixel, {n, c, points})), wide) *
                          cast(row.weight * col.weight, wide);
      sum = sum.defined() ? sum + part : part;
    }
  return reshape(cast(sum, x.dtype()), {n, c, grid.size(1), grid.size(2)});
}

}  // namespace mica
