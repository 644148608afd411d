#pragma once

#include "mica/core/tensor.h"
#include "mica/op/fields.h"
#include "mica/ops/activation.h"

namespace mica {

/// Matrix product of a (…, M, K) and b (…, K, N); leading dimensions broadcast. Transposed operands
/// (permuted views) are taken as they are.
Tensor matmul(const Tensor& a, const Tensor& b);

/// x (…, in) times weight (out, in) transposed, plus bias (out) where defined.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

struct LinearParams {
  Activation activation = Activation::none;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("activation", self.activation);
  }
};

/// `linear` and an activation, in one pass where no gradient is wanted.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const LinearParams& params);

/// a (M) and b (N) to a[i] * b[j], (M, N).
Tensor outer(const Tensor& a, const Tensor& b);
/// The sum of products over the last axes of a (…, K) and b (…, K), the other axes of both beside
/// each other; numbers (0-d) multiply.
Tensor inner(const Tensor& a, const Tensor& b);
/// The sum of products of two vectors.
Tensor dot(const Tensor& a, const Tensor& b);

}  // namespace mica
