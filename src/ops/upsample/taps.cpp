#include "mica/ops/upsample/taps.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace mica {
namespace {

// PyTorch's rule, in its single precision: where the exact position is a whole number the rounding
// decides. `offset` is 0 for the edge of output's pixel, 0.5 for its middle.
int32_t nearest_index(int64_t output, float offset, int64_t inputs, int64_t outputs, double scale) {
  if (offset == 0 && outputs == inputs) return static_cast<int32_t>(output);
  if (offset == 0 && outputs == 2 * inputs) return static_cast<int32_t>(output / 2);
  const float step = scale > 0 ? static_cast<float>(1.0 / scale)
                               : static_cast<float>(inputs) / static_cast<float>(outputs);
  const auto index = static_cast<int64_t>(std::floor((static_cast<float>(output) + offset) * step));
  return static_cast<int32_t>(std::min(index, inputs - 1));
}

// Where output i lies among the inputs, whose middles are at 0, 1, …
double position(int64_t i, int64_t inputs, int64_t outputs, double scale, bool align_corners) {
  const auto at = static_cast<double>(i);
  const auto from = static_cast<double>(inputs);
  const auto to = static_cast<double>(outputs);
  if (align_corners) return outputs > 1 ? at * (from - 1) / (to - 1) : 0;
  return scale > 0 ? (at + 0.5) / scale - 0.5 : (at + 0.5) * from / to - 0.5;
}

// Keys' kernel with a = -0.75 for the pixels at -1, 0, 1, 2 seen from t in [0, 1].
std::array<double, 4> cubic_weights(double t) {
  constexpr double kA = -0.75;
  const auto near = [](double d) { return ((kA + 2) * d - (kA + 3)) * d * d + 1; };
  const auto far = [](double d) { return ((kA * d - 5 * kA) * d + 8 * kA) * d - 4 * kA; };
  return {far(t + 1), near(t), near(1 - t), far(2 - t)};
}

}  // namespace

AxisTaps::AxisTaps(UpsampleMode mode, int64_t in, int64_t out, double scale, bool align_corners)
    : outputs(out), inputs(in) {
  if (mode == UpsampleMode::bilinear) per_output = 2;
  if (mode == UpsampleMode::bicubic) per_output = 4;
  index.resize(static_cast<size_t>(out * per_output));
  weight.resize(index.size());
  for (int64_t i = 0; i < out; ++i) {
    int32_t* at = index.data() + i * per_output;
    const auto first_tap = static_cast<size_t>(i * per_output);
    if (per_output == 1) {
      *at = nearest_index(i, mode == UpsampleMode::nearest ? 0.0F : 0.5F, in, out, scale);
      continue;
    }
    const auto last = static_cast<double>(in - 1);
    const double exact = position(i, in, out, scale, align_corners);
    if (mode == UpsampleMode::bilinear) {
      const double inside = std::clamp(exact, 0.0, last);
      const double first = std::floor(inside);
      at[0] = static_cast<int32_t>(first);
      at[1] = static_cast<int32_t>(std::min(first + 1, last));
      weight.set(first_tap, 1 - (inside - first));
      weight.set(first_tap + 1, inside - first);
    } else {
      const double first = std::floor(exact);
      const auto weights = cubic_weights(exact - first);
      for (size_t k = 0; k < 4; ++k) {
        at[k] = static_cast<int32_t>(std::clamp(first - 1 + static_cast<double>(k), 0.0, last));
        weight.set(first_tap + k, weights[k]);
      }
    }
  }
}

AxisScatter::AxisScatter(const AxisTaps& taps)
    : start(static_cast<size_t>(taps.inputs) + 1), index(taps.index.size()) {
  weight.resize(taps.index.size());
  for (const int32_t i : taps.index) ++start[static_cast<size_t>(i) + 1];
  for (size_t i = 1; i < start.size(); ++i) start[i] += start[i - 1];
  std::vector<int64_t> next = start;
  for (size_t tap = 0; tap < taps.index.size(); ++tap) {
    const auto to = static_cast<size_t>(next[static_cast<size_t>(taps.index[tap])]++);
    index[to] = static_cast<int32_t>(tap / static_cast<size_t>(taps.per_output));
    weight.set(to, taps.weight[tap]);
  }
}

}  // namespace mica
