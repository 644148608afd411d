#pragma once

#include "mica/op/kernel.h"
#include "mica/ops/matmul/matmul.h"

namespace mica {

class Encoder;

/// A small f32 product as our own kernels take it: x (m, n) = a (m, k) b (k, n) + bias (n); out, of
/// the same shape and row-major as all of them, is activation(x + added), or the activation's
/// gradient where x is the gradient of its result. `sums` (m) is of a's rows.
struct SmallProduct {
  const float* a;
  const float* b;
  const float* bias;   ///< or null
  const float* saved;  ///< what the activation's gradient reads, its result or its argument, or
                       ///< null: the activation itself is wanted
  const float* added;  ///< or null; not where something is saved
  float* out;
  float* product;  ///< x, or null
  float* sums;     ///< or null; only where a's columns lie together
  int m;
  int n;
  int k;
  int a_pitch;  ///< elements between the rows (or columns, whichever lie together) of a
  int b_pitch;
  int slice;       ///< of K for each block of a cluster
  bool a_vectors;  ///< 16-byte loads are aligned
  bool b_vectors;
  bool out_vectors;
  Activation activation;
};

/// Tiles of the result that a block of split_k_mma computes.
enum class SplitKTile : int { large, middle, small, direct };  // 64 × 64, 64 × 32, 32 × 32, 16 × 16

/// How split_k_mma computes a product.
struct SplitKPlan {
  SplitKTile tile;
  int splits;  ///< of K, over the blocks of a cluster
};

/// What K is cut into multiples of.
constexpr int kSplitKStep = 16;
constexpr int kMostSplits = 8;  ///< blocks of a cluster, as many as every GPU with clusters takes

/// Where K lies together in an operand it is `along_k`; not in b alone.
void launch_split_k(Encoder& encoder, const SmallProduct& p, bool a_along_k, bool b_along_k,
                    const SplitKPlan& plan);

/// `direct` has no splits.
bool direct_takes(const SmallProduct& p, bool a_along_k, bool b_along_k);
void launch_direct(Encoder& encoder, const SmallProduct& p, bool b_along_k);

constexpr int kThin = 16;  ///< the largest thin size

/// Thin n, K together in both operands; `splits` blocks of a cluster share K.
void launch_thin_n(Encoder& encoder, const SmallProduct& p, int splits);
/// Thin k, rows of b together; a has any strides.
void launch_thin_k(Encoder& encoder, const SmallProduct& p, int a_row, int a_col);
/// Thin m, columns of a and rows of b together.
void launch_thin_m(Encoder& encoder, const SmallProduct& p);

}  // namespace mica
