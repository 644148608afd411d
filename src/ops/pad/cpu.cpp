#include "mica/ops/pad/cpu.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "mica/core/dtype_switch.h"
#include "mica/ops/pad/pad.h"
#include "mica/runtime/cpu/parallel.h"

namespace mica {
namespace {

/// Indices [begin, end) of dy's axis.
struct Span {
  int64_t begin = 0;
  int64_t end = 0;
};

/// Where index i of x's axis went to: before the axis, into it, behind it.
std::array<Span, 3> places(const PadGradParams& p, int64_t i) {
  const int64_t n = p.size;
  const auto one = [](int64_t at, int64_t begin, int64_t end) {
    return at >= begin && at < end ? Span{at, at + 1} : Span{};
  };
  const int64_t behind = p.before + n;
  const int64_t end = behind + p.after;
  const Span within{p.before + i, p.before + i + 1};
  switch (p.mode) {
    case PadMode::reflect:
      return {i > 0 ? one(p.before - i, 0, p.before) : Span{}, within,
              i < n - 1 ? one(behind + n - 2 - i, behind, end) : Span{}};
    case PadMode::replicate:
      return {i == 0 ? Span{0, p.before} : Span{}, within, i == n - 1 ? Span{behind, end} : Span{}};
    default:
      return {one(p.before + i - n, 0, p.before), within, one(behind + i, behind, end)};
  }
}

/// One kernel for both layouts: memory is (outer, axis, inner).
Support supports(const PadGradParams&, const Specs& s) {
  return s.out[0].is_channels_last() ? Support::yes().with_channels_last(1)
                                     : Support::yes().with_contiguous(1);
}

/// Most of the axis is copied; elements near its ends, that were repeated outside, are sums. `rows`
/// are elements of x's axis with all that lies within them.
template <class T>
void add_up(const PadGradParams& p, int64_t rows, int64_t inner, const T* dy, T* dx) {
  const int64_t n = p.size;
  const int64_t padded = p.before + n + p.after;
  const bool mirror = p.mode == PadMode::reflect;
  const bool edge = p.mode == PadMode::replicate;
  const int64_t low = std::min(n, edge ? 1 : mirror ? p.before + 1 : p.after);
  const int64_t high = std::max(low, n - (edge ? 1 : mirror ? p.after + 1 : p.before));
  const auto sum_row = [&](const T* from, int64_t i, T* to) {
    const auto spans = places(p, i);
    for (int64_t j = 0; j < inner; ++j) {
      Compute<T> sum = 0;
      for (const Span& span : spans)
        for (int64_t k = span.begin; k < span.end; ++k)
          sum += static_cast<Compute<T>>(from[k * inner + j]);
      to[j] = static_cast<T>(sum);
    }
  };
  constexpr int64_t kElementsPerThread = 1 << 15;
  const int64_t grain = std::max<int64_t>(1, kElementsPerThread / inner);
  parallel_for(rows, grain, [&](int64_t row, int64_t last) {
    while (row < last) {  // the part of one axis that lies in [row, last)
      const int64_t o = row / n;
      const int64_t begin = row % n;
      const int64_t end = std::min(n, begin + last - row);
      const T* from = dy + o * padded * inner;
      T* to = dx + o * n * inner;
      for (int64_t i = begin; i < std::min(end, low); ++i) sum_row(from, i, to + i * inner);
      const int64_t first = std::max(begin, low);
      if (const int64_t copied = std::min(end, high) - first; copied > 0)
        std::memcpy(to + first * inner, from + (p.before + first) * inner,
                    static_cast<size_t>(copied * inner) * sizeof(T));
      for (int64_t i = std::max(begin, high); i < end; ++i) sum_row(from, i, to + i * inner);
      row += end - begin;
    }
  });
}

void run(const PadGradParams& p, const Call& c) {
  const int64_t count = c.out[0].numel();
  if (count == 0) return;
  const auto axis = static_cast<int>(p.axis);
  // Of the axes that lie within the padded one; sizes of 1 have strides that say nothing.
  const bool channels_last = c.out[0].spec->is_channels_last();
  const Strides strides = channels_last ? channels_last_strides(c.out[0].shape())
                                        : contiguous_strides(c.out[0].shape());
  const int64_t inner = strides[axis];
  switch_float(c.out[0].dtype(), "pad_grad", [&]<class T>() {
    add_up(p, count / inner, inner, c.in[0].as<T>(), c.out[0].as<T>());
  });
}

}  // namespace

KernelList pad_grad_cpu_kernels() { return {kernel<supports, run>("runs")}; }

}  // namespace mica
