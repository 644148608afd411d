#pragma once

#include <type_traits>
#include <vector>

#include "mica/op/kernel.h"
#include "mica/ops/upsample/upsample.h"

namespace mica {

/// Weights of taps, in both types that kernels compute in.
class TapWeights {
 public:
  void resize(size_t n) {
    wide_.resize(n, 1.0);
    narrow_.resize(n, 1.0F);
  }
  double operator[](size_t i) const { return wide_[i]; }
  void set(size_t i, double weight) {
    wide_[i] = weight;
    narrow_[i] = static_cast<float>(weight);
  }
  template <class C>
  const C* as() const {
    if constexpr (std::is_same_v<C, double>) {
      return wide_.data();
    } else {
      return narrow_.data();
    }
  }

 private:
  std::vector<double> wide_;
  std::vector<float> narrow_;
};

/// Resampling along one axis: output i is the sum over k of weight * input at its taps
/// [i * per_output, (i + 1) * per_output). Two axes are resampled one after the other.
struct AxisTaps {
  int per_output = 1;
  int64_t outputs = 0, inputs = 0;
  std::vector<int32_t> index;
  TapWeights weight;

  /// `scale` is the axis's own, or 0.
  AxisTaps(UpsampleMode mode, int64_t inputs, int64_t outputs, double scale, bool align_corners);
};

/// The same taps sorted by input: input i goes to outputs index[k], k in [start[i], start[i + 1]).
struct AxisScatter {
  std::vector<int64_t> start;
  std::vector<int32_t> index;
  TapWeights weight;

  explicit AxisScatter(const AxisTaps& taps);
};

Kernel upsample2d_reference_kernel();
Kernel upsample2d_grad_reference_kernel();
Kernel upsample2d_separable_kernel();
Kernel upsample2d_grad_separable_kernel();

}  // namespace mica
