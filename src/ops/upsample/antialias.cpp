#include "mica/ops/upsample/antialias.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "mica/core/check.h"
#include "mica/core/make_tensor.h"
#include "mica/op/op_def.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/matmul/matmul.h"
#include "mica/ops/view/view.h"

namespace mica {
namespace {

double triangle(double t) { return std::max(1 - std::abs(t), 0.0); }

// Keys' kernel with a = -0.5.
double cubic(double t) {
  constexpr double kA = -0.5;
  const double d = std::abs(t);
  if (d < 1) return ((kA + 2) * d - (kA + 3)) * d * d + 1;
  return d < 2 ? (((d - 5) * d + 8) * d - 4) * kA : 0;
}

/// (outputs, inputs): what each output takes of each input.
Tensor shares(const Upsample2dParams& p, int64_t inputs, int64_t outputs, double scale,
              const Tensor& like) {
  const auto in = static_cast<double>(inputs);
  const auto out = static_cast<double>(outputs);
  double step = scale > 0 ? 1 / scale : in / out;
  if (p.align_corners) step = outputs > 1 ? (in - 1) / (out - 1) : 0;
  const double wider = std::max(step, 1.0);
  const double reach = (p.mode == UpsampleMode::bilinear ? 1 : 2) * wider;
  std::vector<double> weights(static_cast<size_t>(inputs * outputs), 0.0);
  for (int64_t o = 0; o < outputs; ++o) {
    const double middle = step * (static_cast<double>(o) + 0.5);
    const auto first = std::max(static_cast<int64_t>(middle - reach + 0.5), int64_t{0});
    const auto last = std::min(static_cast<int64_t>(middle + reach + 0.5), inputs);
    double* row = weights.data() + o * inputs;
    double sum = 0;
    for (int64_t i = first; i < last; ++i) {
      const double t = (static_cast<double>(i) - middle + 0.5) / wider;
      row[i] = p.mode == UpsampleMode::bilinear ? triangle(t) : cubic(t);
      sum += row[i];
    }
    for (int64_t i = first; i < last; ++i) row[i] /= sum;
  }
  return to(cast(tensor(weights, {outputs, inputs}), like.dtype()), like.device());
}

}  // namespace

Tensor upsample2d_antialiased(const Tensor& x, const Upsample2dParams& p) {
  check<DTypeError>(kFloatDTypes.contains(x.dtype()), "upsample: expected {}, got {}",
                    kFloatDTypes.words(), x.dtype());
  check<ShapeError>(p.size.h >= 1 && p.size.w >= 1 && x.size(2) >= 1 && x.size(3) >= 1,
                    "upsample: sizes must be at least 1, got {} of {}", p.size, x.shape());
  const Tensor rows = shares(p, x.size(2), p.size.h, p.scale_h, x);
  const Tensor columns = shares(p, x.size(3), p.size.w, p.scale_w, x);
  return matmul(matmul(rows, x), transpose(columns, 0, 1));
}

}  // namespace mica
