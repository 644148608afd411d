#pragma once

namespace mica {

/// A small f32 product as our own kernels take it: x (m, n) = a (m, k) b (k, n) + bias (n). What
/// becomes of x is the kernel's End. `sums` (m) is of a's rows.
struct SmallProduct {
  const float* a;
  const float* b;
  const float* bias;  ///< or null
  float* sums;        ///< or null; only where a's columns lie together
  int m;
  int n;
  int k;
  int a_pitch;  ///< elements between the rows (or columns, whichever lie together) of a
  int b_pitch;
  int a_row;  ///< strides of a, for a thin k
  int a_col;
  int slice;       ///< of K for each block of a cluster
  bool a_vectors;  ///< 16-byte loads are aligned
  bool b_vectors;
  bool out_vectors;
};

/// What K is cut into multiples of.
inline constexpr int kSplitKStep = 16;
inline constexpr int kMostSplits =
    8;                            ///< blocks of a cluster, as many as every GPU with clusters takes
inline constexpr int kThin = 16;  ///< the largest thin size

}  // namespace mica
