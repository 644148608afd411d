#pragma once

#include "mica/ops/upsample/taps.h"
#include "mica/runtime/cuda/types.cuh"

namespace mica::cuda::resampling {

/// Resampling along one axis. Positions are found as on the CPU, in the same precision, so that all
/// kernels agree on the pixels.
struct Axis {
  int inputs, outputs;
  int taps;  ///< 1: nearest, 2: linear, 4: cubic
  bool align_corners;
  double scale;
  float step;    ///< of nearest
  float offset;  ///< of nearest: 0 for the edge of an output's pixel, 0.5 for its middle

  Axis(UpsampleMode mode, int64_t in, int64_t out, double s, bool align)
      : inputs(static_cast<int>(in)),
        outputs(static_cast<int>(out)),
        taps(mode == UpsampleMode::bilinear  ? 2
             : mode == UpsampleMode::bicubic ? 4
                                             : 1),
        align_corners(align),
        scale(s),
        step(s > 0 ? static_cast<float>(1.0 / s)
                   : static_cast<float>(in) / static_cast<float>(out)),
        offset(mode == UpsampleMode::nearest ? 0.0F : 0.5F) {}

  __device__ int nearest(int o) const {
    if (offset == 0 && outputs == inputs) return o;
    if (offset == 0 && outputs == 2 * int64_t{inputs}) return o / 2;
    return min(static_cast<int>(floorf((static_cast<float>(o) + offset) * step)), inputs - 1);
  }
  __device__ double position(int o) const {
    if (align_corners)
      return outputs > 1 ? static_cast<double>(o) * (inputs - 1.0) / (outputs - 1.0) : 0.0;
    return scale > 0 ? (o + 0.5) / scale - 0.5
                     : (o + 0.5) * static_cast<double>(inputs) / outputs - 0.5;
  }
};

/// The inputs that an output is made of and what it takes of them.
template <int K>
struct Taps {
  int index[K];
  double weight[K];

  __device__ Taps(const Axis& axis, int o) {
    if constexpr (K == 1) {
      index[0] = axis.nearest(o);
      weight[0] = 1;
      return;
    }
    const double last = axis.inputs - 1.0;
    const double exact = axis.position(o);
    if constexpr (K == 2) {
      const double inside = fmin(fmax(exact, 0.0), last);
      const double first = floor(inside);
      index[0] = static_cast<int>(first);
      index[1] = static_cast<int>(fmin(first + 1, last));
      weight[0] = 1 - (inside - first);
      weight[1] = inside - first;
    }
    if constexpr (K == 4) {  // Keys' kernel
      constexpr double kA = -0.75;
      const double first = floor(exact);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const double d = fabs(exact - first + 1 - k);
        weight[k] = k == 1 || k == 2 ? ((kA + 2) * d - (kA + 3)) * d * d + 1
                                     : ((kA * d - 5 * kA) * d + 8 * kA) * d - 4 * kA;
        index[k] = static_cast<int>(fmin(fmax(first - 1 + k, 0.0), last));
      }
    }
  }
};

}  // namespace mica::cuda::resampling
