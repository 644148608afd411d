#pragma once

#include <cstdint>

#include "mica/core/device.h"

namespace mica {

/// What was measured on one GPU and decides elsewhere: how fast it is at most, up to which sizes
/// our kernels are faster than a library's, and the numbers of the models by which they estimate.
/// Everything that says "measured on …" stands here, in one table with a row for each GPU.
struct DeviceTable {
  const char* name = "";  ///< of the GPU, as its driver gives it

  /// The most that the device does in a second; 0 where nobody measured it.
  struct Rates {
    double bytes = 0;  ///< of a copy, read and written
    double f32 = 0;    ///< FLOPs of a large product, here and below
    double tf32 = 0;
    double half = 0;  ///< f16 and bf16
    double f64 = 0;
  } rates;

  /// Convolutions up to these sizes are faster by implicit GEMM on operands in shared memory
  /// (ops/conv2d/implicit_gemm.h); larger ones keep the library's tiles busy.
  struct ImplicitGemm {
    int64_t most_weights = 0;
    int64_t most_pixels = 0;  ///< of an image of x, and of y
  } implicit_gemm;

  /// The same of the kernels for few channels (ops/conv2d/cuda_few_channels.cuh).
  struct FewChannels {
    int64_t most_in = 0;
    int64_t most_out = 0;
    int64_t most_pixels = 0;  ///< of an image of y
  } few_channels;

  /// Cycles of a block of the input gradient by implicit GEMM.
  struct DgradModel {
    double start = 0;
    double weight_vector = 0, weight_scalar = 0;  ///< to copy an element of the weight
    double dy = 0;                                ///< of dy, for one warp
    double product = 0, load = 0;                 ///< of a warp's step
    double least_step = 0;
    double sums_8 = 0, sums_16 = 0;  ///< sums that 8 and 16 warps write in a cycle
  } dgrad;

  /// The weight gradient by implicit GEMM, in the time that a pixel takes.
  struct WgradModel {
    double chunk = 0;   ///< to start a chunk
    double scalar = 0;  ///< how many times as long without 16-byte copies
  } wgrad;

  /// Small f32 products (ops/matmul/cuda_small.h).
  struct SmallProducts {
    int64_t most_products = 0;  ///< m · n · k up to which they are faster than the library's
    int64_t most_results = 0;   ///< m · n
    int64_t most_thin = 0;      ///< m · n · k of a thin product
    int64_t long_k = 0;         ///< from here on a thin product of few rows splits K
    int64_t few_rows = 0;
    struct Tile {
      double start = 0;  ///< microseconds that a block takes beside K
      double per_k = 0;  ///< microseconds for one of K
    } large, middle, small;
    double launch = 0;     ///< microseconds, here and below
    double cluster = 0;    ///< that blocks of a cluster take to meet
    double per_split = 0;  ///< for each of them
    double direct_start = 0, direct_byte = 0;
  } products;

  /// Weight gradients of linear layers that the optimizer's update makes itself.
  struct LinearUpdate {
    int64_t most_rows = 0;
    int64_t most_weights = 0;
  } linear_update;
};

/// The row of a CUDA device, by its name. A GPU that nobody measured has the H200's sizes and
/// models, by which any choice is right and perhaps not the fastest (timing finds that, see
/// `set_autotune`), and no rates.
const DeviceTable& device_table(Device device);

}  // namespace mica
