#include "mica/inference/check_call.h"

#include <algorithm>
#include <string_view>

#include "mica/core/check.h"

namespace mica::inference {
namespace {

constexpr int64_t kMost = int64_t{1} << 48;

/// Rising, each in [0, rank).
bool are_axes(const Dims& axes, int rank) {
  int64_t least = 0;
  return std::all_of(axes.begin(), axes.end(), [&](int64_t axis) {
    const bool good = axis >= least && axis < rank;
    least = axis + 1;
    return good;
  });
}

}  // namespace

void check_call(const OpDef& op, const AnyParams& params, std::span<const Tensor> in) {
  const int rank = in.empty() || !in[0].defined() ? -1 : in[0].rank();
  for (const auto& [name, value] : params.ref().info->values(params.ref().data)) {
    const std::string_view field = name;
    const auto small = [](int64_t n) { return n > -kMost && n < kMost; };
    const auto* number = std::get_if<int64_t>(&value);
    const auto* dims = std::get_if<Dims>(&value);
    const auto* size = std::get_if<Size2>(&value);
    const auto* solid = std::get_if<Size3>(&value);
    bool good = (!number || small(*number)) &&
                (!dims || std::all_of(dims->begin(), dims->end(), small)) &&
                (!size || (small(size->h) && small(size->w))) &&
                (!solid || (small(solid->d) && small(solid->h) && small(solid->w)));
    if (rank >= 0 && number && field.starts_with("axis"))
      good = *number >= 0 && *number < std::max(rank, 1);
    if (rank >= 0 && dims && field == "axes") good = good && are_axes(*dims, rank);
    if (!good)
      fail<IndexError>("{}: '{}' cannot be what {} says, of {}", op.name, name, params.print(),
                       rank < 0 ? "no input" : to_string(in[0].spec()));
  }
}

}  // namespace mica::inference
