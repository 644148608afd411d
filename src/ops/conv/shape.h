#pragma once

#include "mica/core/tensor.h"
#include "mica/ops/conv/options.h"

namespace mica {

inline Dims dims_of(int64_t size) { return {size}; }
inline Dims dims_of(Size2 size) { return {size.h, size.w}; }
inline Dims dims_of(Size3 size) { return {size.d, size.h, size.w}; }

/// "3 by 3", for messages.
std::string by(const Dims& sizes);

/// How the windows of a convolution lie along one, two or three axes.
struct ConvWindows {
  Dims stride, before, after, dilation;
  int64_t groups = 1;
};

/// The windows that `options` ask for with a kernel of the weight's size; `op` names the operator
/// in errors.
template <class Size>
ConvWindows conv_windows(const char* op, const ConvOptions<Size>& options, const Shape& weight);

/// Checks a convolution of x (N, C_in, …) with weight (C_out, C_in/groups, …) and gives its shape.
Shape conv_shape(const char* op, const Shape& x, const Shape& weight, const ConvWindows& windows);

/// The same for a transposed one with weight (C_in, C_out/groups, …).
Shape conv_transpose_shape(const char* op, const Shape& x, const Shape& weight,
                           const ConvWindows& windows, const Dims& output_padding);

/// Operands are floating and of one dtype, and a bias that is defined is (channels).
void check_conv_operands(const char* op, const TensorSpec& x, const TensorSpec& weight,
                         const TensorSpec& bias, int64_t channels);

/// Whether a kernel that reads `in` and writes `out` does so in channels_last: in out's format or,
/// where out has both (images of one pixel), in in's.
inline bool works_channels_last(const TensorSpec& out, const TensorSpec& in) {
  return out.is_channels_last() || (out.is_channels_last_dense() && in.is_channels_last());
}
/// The gradient of a tensor of `spec`, in its format where the cotangent's own does not tell one.
Tensor in_format_of(const TensorSpec& spec, const Tensor& cotangent, const Tensor& gradient);

/// x with what one side of an axis is padded more than the other; `windows` keep what is left, the
/// same on both sides.
Tensor pad_unevenly(const Tensor& x, ConvWindows& windows);

}  // namespace mica
