#pragma once

#include "mica/core/tensor.h"
#include "mica/op/fields.h"

namespace mica {

enum class GridMode : int64_t { bilinear, nearest, bicubic };
/// What lies outside the image: zeros, the nearest pixel, or the image mirrored at its edges.
enum class GridPadding : int64_t { zeros, border, reflection };

inline constexpr const char* kGridModeNames[] = {"bilinear", "nearest", "bicubic"};
constexpr std::span<const char* const> names_of(GridMode) { return kGridModeNames; }
inline constexpr const char* kGridPaddingNames[] = {"zeros", "border", "reflection"};
constexpr std::span<const char* const> names_of(GridPadding) { return kGridPaddingNames; }

struct GridSampleParams {
  GridMode mode = GridMode::bilinear;
  GridPadding padding = GridPadding::zeros;
  /// -1 and 1 are the middles of the corner pixels, instead of the image's edges.
  bool align_corners = false;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("mode", self.mode);
    f("padding", self.padding);
    f("align_corners", self.align_corners);
  }
};

/// x (N, C, H, W) at the points of grid (N, H', W', 2), each (x, y) with the image in [-1, 1]; the
/// result is (N, C, H', W'). As PyTorch's; a point that is NaN gives zero.
Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleParams& params = {});

/// Gradients for x and grid from dy (N, C, H', W').
struct GridSampleGrads {
  Tensor x, grid;
};
GridSampleGrads grid_sample_grad(const Tensor& dy, const Tensor& x, const Tensor& grid,
                                 const GridSampleParams& params = {});

struct AffineGridOptions {
  bool align_corners = false;
};
/// The grid (N, size.h, size.w, 2) that theta (N, 2, 3) makes of the result's points.
Tensor affine_grid(const Tensor& theta, Size2 size, const AffineGridOptions& options = {});

}  // namespace mica
