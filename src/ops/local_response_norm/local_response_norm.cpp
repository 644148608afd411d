#include "mica/ops/local_response_norm/local_response_norm.h"

#include <algorithm>

#include "mica/core/check.h"
#include "mica/op/autocast.h"
#include "mica/op/function.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/pad/pad.h"
#include "mica/ops/view/view.h"

namespace mica {

Tensor local_response_norm(const Tensor& x, const LocalResponseNormOptions& options) {
  const ComputedIn precision(Precision::f32);
  check<DTypeError>(is_floating(x.dtype()),
                    "local_response_norm: expected a floating dtype, got {}", x.dtype());
  check<ShapeError>(x.rank() >= 2, "local_response_norm: input must be [N, C, …], got {}",
                    x.shape());
  check<ShapeError>(options.size >= 1, "local_response_norm: size must be at least 1, got {}",
                    options.size);
  const int64_t channels = x.shape()[1];
  PadParams around{.before = Dims::filled(x.rank(), 0), .after = Dims::filled(x.rank(), 0)};
  // Of a window that is wider than x the rest is zeros.
  around.before[1] = std::min(options.size / 2, channels);
  around.after[1] = std::min((options.size - 1) / 2, channels);
  const Tensor squares = pad(square(x), around);
  Tensor sum = narrow(squares, 1, 0, channels);
  for (int64_t i = 1; i <= around.before[1] + around.after[1]; ++i)
    sum = sum + narrow(squares, 1, i, channels);
  const Tensor size = sum * (options.alpha / static_cast<double>(options.size)) + options.k;
  return x * pow(size, -options.beta);
}

Functions local_response_norm_functions() {
  const auto norm = [](const Tensor& x, int64_t size, double alpha, double beta, double k) {
    return local_response_norm(x, {.size = size, .alpha = alpha, .beta = beta, .k = k});
  };
  return {{.name = "local_response_norm",
           .doc = "input / (k + alpha * mean of squares over `size` channels around)^beta, of "
                  "input (N, C, …). Channels outside count as zeros; of an even size, one more "
                  "lies before than behind.",
           .signatures = {{norm, {"input", "size", {"alpha", 1e-4}, {"beta", 0.75}, {"k", 1.0}}}},
           .offer = kFunctional,
           .precision = Precision::f32}};
}

}  // namespace mica
