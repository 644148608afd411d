#include "mica/ops/where/nan_to_num.h"

#include <limits>

#include "mica/op/function.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/complex/complex.h"
#include "mica/ops/where/where.h"

namespace mica {
Tensor nan_to_num(const Tensor& x, const NanToNumOptions& options) {
  if (is_complex(x.dtype()))
    return by_parts(x, [&](const Tensor& part) { return nan_to_num(part, options); });
  if (!is_floating(x.dtype())) return x;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double most = info_of(x.dtype()).largest;
  const Tensor numbers = where(isnan(x), options.nan, x);
  const Tensor below = where(eq(x, kInfinity), options.posinf.value_or(most), numbers);
  return where(eq(x, -kInfinity), options.neginf.value_or(-most), below);
}

Functions nan_to_num_functions() {
  return {{.name = "nan_to_num",
           .doc = "input with numbers in place of NaN and the infinities, for which it takes the "
                  "dtype's largest and lowest numbers unless posinf and neginf are given.",
           .signatures = {{[](const Tensor& x, double nan, std::optional<double> posinf,
                              std::optional<double> neginf) {
                             return nan_to_num(x, {.nan = nan, .posinf = posinf, .neginf = neginf});
                           },
                           {"input", {"nan", 0.0}, {"posinf", kNone}, {"neginf", kNone}}}},
           .offer = kInPlaceToo}};
}

}  // namespace mica
