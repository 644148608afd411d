#pragma once

#include "mica/core/tensor.h"
#include "mica/ops/pool/options.h"

namespace mica {

// Pooling over one and three axes, and Lp pooling, made of the ops over two. Sizes are int64_t for
// (N, C, L) and Size3 for (N, C, D, H, W). As the ops over two, they take one image without the
// batch axis too.

template <class Size>
struct LpPoolOptions {
  Size kernel = 2;
  Size stride = 0;  ///< 0 means the kernel's size
  bool ceil_mode = false;
};

/// Largest value of each window; NaN wins, and the first of equals has the gradient.
Tensor max_pool1d(const Tensor& x, const MaxPoolOptions<int64_t>& options = {});
Tensor max_pool3d(const Tensor& x, const MaxPoolOptions<Size3>& options = {});
PooledWithIndices max_pool1d_with_indices(const Tensor& x,
                                          const MaxPoolOptions<int64_t>& options = {});
PooledWithIndices max_pool3d_with_indices(const Tensor& x,
                                          const MaxPoolOptions<Size3>& options = {});

/// Mean of each window.
Tensor avg_pool1d(const Tensor& x, const AvgPoolOptions<int64_t>& options = {});
Tensor avg_pool3d(const Tensor& x, const AvgPoolOptions<Size3>& options = {});

// Windows that divide the input into `output` nearly equal parts.
Tensor adaptive_max_pool1d(const Tensor& x, int64_t output);
Tensor adaptive_max_pool3d(const Tensor& x, Size3 output);
PooledWithIndices adaptive_max_pool1d_with_indices(const Tensor& x, int64_t output);
PooledWithIndices adaptive_max_pool3d_with_indices(const Tensor& x, Size3 output);
Tensor adaptive_avg_pool1d(const Tensor& x, int64_t output);
Tensor adaptive_avg_pool3d(const Tensor& x, Size3 output);

/// (mean of x^p over each window, times the kernel's size)^(1/p): the p-norm of a window that fits.
/// The gradient is 0 where that is 0.
Tensor lp_pool1d(const Tensor& x, double p, const LpPoolOptions<int64_t>& options = {});
Tensor lp_pool2d(const Tensor& x, double p, const LpPoolOptions<Size2>& options = {});
Tensor lp_pool3d(const Tensor& x, double p, const LpPoolOptions<Size3>& options = {});

}  // namespace mica
