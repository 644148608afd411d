// Comparisons and logic.
#include "mica/onnx/broadcast.h"
#include "mica/onnx/call.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/where/where.h"

namespace mica::onnx {
namespace {

template <Tensor (*f)(const Tensor&, const Tensor&)>
Results binary(const Call& c) {
  return f(c[0], second(c));
}

Results is_inf(const Call& c) {
  const Tensor x = c[0];
  const bool negative = c.integer("detect_negative", 1) != 0;
  const bool positive = c.integer("detect_positive", 1) != 0;
  if (negative && positive) return isinf(x);
  const Tensor sign = negative ? lt(x, 0) : gt(x, 0);
  if (!negative && !positive) return logical_and(isinf(x), isnan(x));
  return logical_and(isinf(x), sign);
}

}  // namespace

Operators comparison_operators() {
  return {
      {"Equal", binary<eq>},
      {"Less", binary<lt>},
      {"LessOrEqual", binary<le>},
      {"Greater", binary<gt>},
      {"GreaterOrEqual", binary<ge>},
      {"And", binary<logical_and>},
      {"Or", binary<logical_or>},
      {"Xor", binary<logical_xor>},
      {"Not", [](const Call& c) -> Results { return logical_not(c[0]); }},
      {"IsNaN", [](const Call& c) -> Results { return isnan(c[0]); }},
      {"IsInf", is_inf},
      {"Where", [](const Call& c) -> Results { return where(c[0], c[1], c[2]); }},
  };
}

}  // namespace mica::onnx
