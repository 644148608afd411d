#pragma once

#include "mica/core/tensor.h"

namespace mica {

struct LocalResponseNormOptions {
  int64_t size = 5;  ///< neighbouring channels
  double alpha = 1e-4;
  double beta = 0.75;
  double k = 1.0;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("size", self.size);
    f("alpha", self.alpha);
    f("beta", self.beta);
    f("k", self.k);
  }
};

/// x / (k + alpha * mean of squares over `size` channels around)^beta, of x (N, C, …). Channels
/// outside count as zeros; of an even size, one more lies before than behind.
Tensor local_response_norm(const Tensor& x, const LocalResponseNormOptions& options = {});

}  // namespace mica
