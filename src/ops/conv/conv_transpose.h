#pragma once

#include "mica/core/tensor.h"
#include "mica/ops/conv/options.h"

namespace mica {

// Transposed convolution: what a convolution with the same stride, padding, dilation and groups
// does to a gradient, so that it turns the shape of the convolution's result back into the shape of
// its input. weight is (C_in, C_out/groups, …), bias (C_out) where defined. An axis of size L
// becomes (L - 1) * stride - 2 * padding + dilation * (k - 1) + 1 + output_padding.

/// x (N, C_in, L), weight (C_in, C_out/groups, k).
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTransposeOptions<int64_t>& options = {});
/// x (N, C_in, H, W), weight (C_in, C_out/groups, kH, kW).
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTransposeOptions<Size2>& options = {});
/// x (N, C_in, D, H, W), weight (C_in, C_out/groups, kD, kH, kW).
Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvTransposeOptions<Size3>& options = {});

}  // namespace mica
