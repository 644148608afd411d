#pragma once

#include "mica/core/tensor.h"
#include "mica/op/fields.h"

namespace mica {

/// How values between pixels are found. `linear` is for (N, C, L), `bilinear` and `bicubic` (with
/// a = -0.75) are for (N, C, H, W), `trilinear` is for (N, C, D, H, W), the others for all three.
/// `nearest_exact` takes the pixel whose middle is nearest; `nearest` rounds as older programs do,
/// towards the first. `area` is the mean of what lies under a pixel of the result.
enum class UpsampleMode : int64_t {
  nearest,
  linear,
  bilinear,
  bicubic,
  nearest_exact,
  trilinear,
  area
};

inline constexpr const char* kUpsampleModeNames[] = {
    "nearest", "linear", "bilinear", "bicubic", "nearest-exact", "trilinear", "area"};
constexpr std::span<const char* const> names_of(UpsampleMode) { return kUpsampleModeNames; }

/// Factors of depth, height and width: `2` means all of them.
struct Scale {
  double d = 0;
  double h = 0;
  double w = 0;

  constexpr Scale() = default;
  constexpr Scale(double all) : d(all), h(all), w(all) {}  // NOLINT(google-explicit-constructor)
  constexpr Scale(double height, double width) : h(height), w(width) {}
  constexpr Scale(double depth, double height, double width) : d(depth), h(height), w(width) {}
};

struct UpsampleOptions {
  /// Of the result: one size per image axis, or one for all. Either this or `scale` is given.
  Dims size = {};
  /// The result has floor(size * scale) pixels; (N, C, L) takes the width's.
  Scale scale = {};
  UpsampleMode mode = UpsampleMode::nearest;
  /// The middles of the corner pixels stay where they are, instead of the image's edges.
  bool align_corners = false;
  /// Where the result is smaller, all pixels under one of its pixels count: for bilinear and
  /// bicubic (then with a = -0.5).
  bool antialias = false;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("size", self.size);
    f("scale", self.scale);
    f("mode", self.mode);
    f("align_corners", self.align_corners);
    f("antialias", self.antialias);
  }
};

/// x (N, C, L), (N, C, H, W) or (N, C, D, H, W) at another resolution, as PyTorch's `interpolate`.
Tensor upsample(const Tensor& x, const UpsampleOptions& options);

struct Upsample2dParams {
  /// nearest, nearest_exact, bilinear or bicubic
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
