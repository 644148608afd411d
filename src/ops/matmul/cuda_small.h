#pragma once

#include <cuda_runtime.h>

#include <string>

#include "mica/op/kernel.h"
#include "mica/ops/fused/carrying_source.h"
#include "mica/ops/matmul/cuda_small_product.h"
#include "mica/ops/matmul/matmul.h"

namespace mica {

class Encoder;

/// What is done to the result of a small product by what is compiled in: out, of its shape and
/// row-major, is activation(x), or the activation's gradient where x is the gradient of its result.
struct SmallEnd {
  const float* saved;  ///< what the activation's gradient reads, its result or (gelu) its argument,
                       ///< or null: the activation itself is wanted
  float* out;
  float* product;         ///< x, or null
  Activation activation;  ///< none, relu or gelu
};

/// How a small product is launched.
struct SmallLaunch {
  void (*kernel)(SmallProduct, SmallEnd) = nullptr;  ///< with what is compiled in
  std::string header;  ///< with what is generated: where `call`, a template of its end, stands
  std::string call;
  int bound = 0;  ///< threads that the kernel is compiled for
  dim3 grid;
  unsigned threads = 0;
  size_t shared_bytes = 0;
  unsigned cluster = 1;
};

/// Tiles of the result that a block of split_k_mma computes.
enum class SplitKTile : int { large, middle, small, direct };  // 64 × 64, 64 × 32, 32 × 32, 16 × 16

/// How split_k_mma computes a product.
struct SplitKPlan {
  SplitKTile tile;
  int splits;  ///< of K, over the blocks of a cluster
};

/// Where K lies together in an operand it is `along_k`; not in b alone. `row_sums`: those are
/// wanted.
SmallLaunch split_k_launch(const SmallProduct& p, bool a_along_k, bool b_along_k,
                           const SplitKPlan& plan, bool row_sums);

/// `direct` has no splits.
bool direct_takes(const SmallProduct& p, bool a_along_k, bool b_along_k);
SmallLaunch direct_launch(const SmallProduct& p, bool b_along_k);

/// Thin n, K together in both operands; `splits` blocks of a cluster share K.
SmallLaunch thin_n_launch(const SmallProduct& p, int splits);
/// Thin k, rows of b together; a has any strides.
SmallLaunch thin_k_launch(const SmallProduct& p);
/// Thin m, columns of a and rows of b together.
SmallLaunch thin_m_launch(const SmallProduct& p, bool row_sums);

}  // namespace mica
