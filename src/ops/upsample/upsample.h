#pragma once

#include "mica/core/tensor.h"
#include "mica/op/fields.h"

namespace mica {

/// How values between pixels are found. `linear` is for (N, C, L), `bilinear` and `bicubic` (with
/// a = -0.75) are for (N, C, H, W), `nearest` for both.
enum class UpsampleMode : int64_t { nearest, linear, bilinear, bicubic };

inline constexpr const char* kUpsampleModeNames[] = {"nearest", "linear", "bilinear", "bicubic"};
constexpr std::span<const char* const> names_of(UpsampleMode) { return kUpsampleModeNames; }

/// Factors of height and width: `2` means both.
struct Scale2 {
  double h = 0;
  double w = 0;

  constexpr Scale2() = default;
  constexpr Scale2(double both) : h(both), w(both) {}  // NOLINT(google-explicit-constructor)
  constexpr Scale2(double height, double width) : h(height), w(width) {}
};

struct UpsampleOptions {
  /// Of the result: one size per image axis, or one for all. Either this or `scale` is given.
  Dims size = {};
  /// The result has floor(size * scale) pixels; (N, C, L) takes the width's.
  Scale2 scale = {};
  UpsampleMode mode = UpsampleMode::nearest;
  /// The middles of the corner pixels stay where they are, instead of the image's edges.
  bool align_corners = false;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("size", self.size);
    f("scale", self.scale);
    f("mode", self.mode);
    f("align_corners", self.align_corners);
  }
};

/// x (N, C, H, W) or (N, C, L) at another resolution, as PyTorch's `interpolate` without
/// antialiasing.
Tensor upsample(const Tensor& x, const UpsampleOptions& options);

struct Upsample2dParams {
  UpsampleMode mode = UpsampleMode::nearest;
  Size2 size = 0;  ///< of the result
  /// Pixels of the result per pixel of x; 0 means the sizes' ratio.
  double scale_h = 0, scale_w = 0;
  bool align_corners = false;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("mode", self.mode);
    f("size", self.size);
    f("scale_h", self.scale_h);
    f("scale_w", self.scale_w);
    f("align_corners", self.align_corners);
  }
};

/// Parameters of the gradient: the resampling's own and the size of x.
struct Upsample2dGradParams {
  Upsample2dParams upsample;
  Size2 input = 0;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    Upsample2dParams::fields(self.upsample, f);
    f("input", self.input);
  }
};

/// The op behind `upsample`: x (N, C, H, W) becomes (N, C, size.h, size.w).
Tensor upsample2d(const Tensor& x, const Upsample2dParams& params);
/// Its adjoint: dy (N, C, size.h, size.w) becomes (N, C, input.h, input.w).
Tensor upsample2d_grad(const Tensor& dy, const Upsample2dGradParams& params);

}  // namespace mica
