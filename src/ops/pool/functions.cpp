#include "mica/ops/pool/functions.h"

namespace mica {

Functions pool_functions() {
  return {
      max_pool_function<int64_t, max_pool1d, max_pool1d_with_indices>(
          "max_pool1d",
          "The largest value of each window of input (N, C, L): (N, C, L'), L' = floor((L + 2 "
          "padding - dilation (kernel_size - 1) - 1) / stride) + 1; stride is kernel_size unless "
          "given, with ceil_mode a last window that reaches past the end counts too. NaN wins; the "
          "first of equals has the gradient."),
      max_pool_function<Size3, max_pool3d, max_pool3d_with_indices>(
          "max_pool3d",
          "The largest value of each window of input (N, C, D, H, W): (N, C, D', H', W'), H' = "
          "floor((H + 2 padding - dilation (kernel_size - 1) - 1) / stride) + 1; stride is "
          "kernel_size unless given, with ceil_mode a last window that reaches past the end counts "
          "too. NaN wins; the first of equals has the gradient."),
      avg_pool_function<int64_t, avg_pool1d>(
          "avg_pool1d",
          "The mean of each window of input (N, C, L): (N, C, L'), L' = floor((L + 2 padding - "
          "kernel_size) / stride) + 1; stride is kernel_size unless given. Padding counts in the "
          "divisor with count_include_pad; divisor_override takes its place; with ceil_mode a last "
          "window that reaches past the end counts too."),
      avg_pool_function<Size3, avg_pool3d>(
          "avg_pool3d",
          "The mean of each window of input (N, C, D, H, W): (N, C, D', H', W'), H' = floor((H + 2 "
          "padding - kernel_size) / stride) + 1; stride is kernel_size unless given. Padding "
          "counts in the divisor with count_include_pad; divisor_override takes its place; with "
          "ceil_mode a last window that reaches past the end counts too."),
      adaptive_max_pool_function<int64_t, adaptive_max_pool1d, adaptive_max_pool1d_with_indices>(
          "adaptive_max_pool1d",
          "The largest value of each of output_size windows that divide input "
          "(N, C, L) into nearly equal parts, which overlap by one where they "
          "are not equal: (N, C, output_size). NaN wins."),
      adaptive_max_pool_function<Size3, adaptive_max_pool3d, adaptive_max_pool3d_with_indices>(
          "adaptive_max_pool3d",
          "The largest value of each of output_size = (D', H', W') windows that "
          "divide input (N, C, D, H, W) into nearly equal parts, which overlap "
          "by one where they are not equal: (N, C, D', H', W'). NaN wins."),
      adaptive_pool_function<int64_t, adaptive_avg_pool1d>(
          "adaptive_avg_pool1d",
          "The mean of each of output_size windows that divide input (N, C, L) into nearly equal "
          "parts, which overlap by one where they are not equal: (N, C, output_size)."),
      adaptive_pool_function<Size3, adaptive_avg_pool3d>(
          "adaptive_avg_pool3d",
          "The mean of each of output_size = (D', H', W') windows that divide "
          "input (N, C, D, H, W) into nearly equal parts, which overlap by one "
          "where they are not equal: (N, C, D', H', W')."),
      lp_pool_function<int64_t, lp_pool1d>(
          "lp_pool1d",
          "(k * mean of input^norm_type)^(1 / norm_type) of each window, k elements of input (N, "
          "C, L): (N, C, L'); stride is kernel_size unless given. The gradient where it is 0 is "
          "0."),
      lp_pool_function<Size2, lp_pool2d>(
          "lp_pool2d",
          "(k * mean of input^norm_type)^(1 / norm_type) of each window, k elements of input (N, "
          "C, H, W): (N, C, H', W'); stride is kernel_size unless given. The gradient where it is "
          "0 is 0."),
      lp_pool_function<Size3, lp_pool3d>(
          "lp_pool3d",
          "(k * mean of input^norm_type)^(1 / norm_type) of each window, k elements of input (N, "
          "C, D, H, W): (N, C, D', H', W'); stride is kernel_size unless given. The gradient where "
          "it is 0 is 0."),
      max_pool_with_indices<int64_t, max_pool1d_with_indices>("max_pool1d_with_indices",
                                                              "max_pool1d"),
      max_pool_with_indices<Size3, max_pool3d_with_indices>("max_pool3d_with_indices",
                                                            "max_pool3d"),
      adaptive_with_indices<int64_t, adaptive_max_pool1d_with_indices>(
          "adaptive_max_pool1d_with_indices", "adaptive_max_pool1d"),
      adaptive_with_indices<Size3, adaptive_max_pool3d_with_indices>(
          "adaptive_max_pool3d_with_indices", "adaptive_max_pool3d"),
  };
}

}  // namespace mica
