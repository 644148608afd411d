#pragma once

#include "mica/ops/conv2d/conv2d.h"
#include "mica/ops/max_pool2d/max_pool2d.h"

namespace mica {

/// A convolution, ReLU where it is asked for, and a max-pooling of the result.
struct Conv2dPoolParams {
  Conv2dParams conv;
  MaxPool2dParams pool;
  bool relu = false;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    Conv2dParams::fields(self.conv, f);
    pool_fields(self.pool, f);
    f("relu", self.relu);
  }
  /// The pooling's fields, by names that are not the convolution's too.
  template <class Pool, class F>
  static void pool_fields(Pool& pool, F&& f) {
    f("pool_kernel", pool.kernel);
    f("pool_stride", pool.stride);
    f("pool_padding", pool.padding);
    f("pool_dilation", pool.dilation);
    f("ceil_mode", pool.ceil_mode);
  }
};

/// Parameters of the two gradients.
struct Conv2dPoolGradParams {
  Conv2dParams conv;
  MaxPool2dParams pool;
  Shape shape;                 ///< of the input (dgrad) or of the weight (wgrad)
  bool bias = false;           ///< wgrad gives the bias's gradient too
  bool channels_last = false;  ///< as in Conv2dGradParams

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    Conv2dParams::fields(self.conv, f);
    Conv2dPoolParams::pool_fields(self.pool, f);
    f("shape", self.shape);
    f("bias", self.bias);
    f("channels_last", self.channels_last);
  }
};

/// max_pool2d(relu(conv2d(x, weight, bias))), with relu where the parameters say so. The op has
/// max_pool2d's second output: positions in the plane of the convolution's result, as i32.
Tensor conv2d_pool(const Tensor& x, const Tensor& weight, const Tensor& bias,
                   const Conv2dPoolParams& params);

/// conv2d_dgrad(max_pool2d_grad(dy, positions), weight), and of that relu_grad where the input was
/// a relu's result, which is then given as `x`.
Tensor conv2d_pool_dgrad(const Tensor& dy, const Tensor& positions, const Tensor& weight,
                         const Conv2dPoolGradParams& params, const Tensor& x = {});

struct Conv2dPoolWeightGradients {
  Tensor weight;
  Tensor bias;  ///< undefined where it is not asked for
};

/// conv2d_wgrad(max_pool2d_grad(dy, positions), x), and the sum of dy over all but the channels.
/// Without positions dy is that of the convolution.
Conv2dPoolWeightGradients conv2d_pool_wgrad(const Tensor& dy, const Tensor& positions,
                                            const Tensor& x, const Conv2dPoolGradParams& params);

}  // namespace mica
