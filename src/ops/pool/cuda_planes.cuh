#pragma once

#include <algorithm>
#include <initializer_list>

#include "mica/op/kernel.h"
#include "mica/runtime/cuda/strided.cuh"

// What the CUDA kernels over the planes of images share.
namespace mica::cuda {

struct Range {
  int first, last;  ///< [first, last)
};

/// Part `i` of `parts` nearly equal ones of `size` places, as adaptive pooling divides them; which
/// parts lie over a place is the same question with the two sizes changed.
struct Parts {
  int size = 1, parts = 1;
  bool narrow = true;  ///< products fit in 31 bits
  Divider by_parts;

  Parts() = default;
  Parts(int64_t places, int64_t of)
      : size(static_cast<int>(places)),
        parts(static_cast<int>(of)),
        narrow((of + 1) * places + of < kNarrowLimit),
        by_parts(static_cast<uint32_t>(of)) {}

  __device__ Range operator[](int i) const {
    if (narrow) {
      const auto n = static_cast<uint32_t>(size);
      const auto at = static_cast<uint32_t>(i) * n;
      return {static_cast<int>(by_parts.quotient(at)),
              static_cast<int>(by_parts.quotient(at + n + by_parts.divisor - 1))};
    }
    const int64_t at = int64_t{i} * size;
    return {static_cast<int>(at / parts), static_cast<int>((at + size + parts - 1) / parts)};
  }
};

/// Walks a dense tensor in memory order as (planes, rows, columns, inner): a row-major one has N *
/// C planes and an inner size of 1, a channels_last one N planes and the channels inside.
struct PlaneLoop {
  int64_t count;
  bool narrow;  ///< indices fit in 31 bits
  int rows, columns, inner;
  Divider by_rows, by_columns, by_inner;

  PlaneLoop(int64_t planes, int64_t h, int64_t w, int64_t i)
      : count(planes * h * w * i),
        narrow(count < kNarrowLimit),
        rows(static_cast<int>(h)),
        columns(static_cast<int>(w)),
        inner(static_cast<int>(i)),
        by_rows(static_cast<uint32_t>(h)),
        by_columns(static_cast<uint32_t>(w)),
        by_inner(static_cast<uint32_t>(std::max<int64_t>(i, 1))) {}

  struct Place {
    int64_t plane;
    int h, w, i;
  };
  __device__ Place place(int64_t index) const {
    if (narrow) {
      const auto n = static_cast<uint32_t>(index);
      const uint32_t pixel = by_inner.quotient(n);
      const uint32_t row = by_columns.quotient(pixel);
      const uint32_t plane = by_rows.quotient(row);
      return {.plane = plane,
              .h = static_cast<int>(row - plane * by_rows.divisor),
              .w = static_cast<int>(pixel - row * by_columns.divisor),
              .i = static_cast<int>(n - pixel * by_inner.divisor)};
    }
    const int64_t pixel = index / inner;
    const int64_t row = pixel / columns;
    return {.plane = row / rows,
            .h = static_cast<int>(row % rows),
            .w = static_cast<int>(pixel % columns),
            .i = static_cast<int>(index % inner)};
  }
};

/// How the V neighbours in memory that a thread writes lie: as channels of one pixel or as pixels
/// of one row.
enum class Neighbours { channels, pixels };

/// Of tensors that all lie alike.
enum class Format { row_major, channels_last, other };

inline Format format_of(std::initializer_list<const TensorSpec*> specs) {
  const auto all = [&](bool (TensorSpec::*lies)() const) {
    return std::all_of(specs.begin(), specs.end(),
                       [&](const TensorSpec* spec) { return (spec->*lies)(); });
  };
  if (all(&TensorSpec::is_contiguous)) return Format::row_major;
  return all(&TensorSpec::is_channels_last_dense) ? Format::channels_last : Format::other;
}

/// Inputs that lie otherwise than the outputs are copied.
inline Support support_for(Format together, Format outputs, uint32_t inputs) {
  if (together != Format::other) return Support::yes();
  if (outputs == Format::row_major) return Support::yes().with_contiguous(inputs);
  if (outputs == Format::channels_last) return Support::yes().with_channels_last(inputs);
  return Support::no("the outputs are neither all row-major nor all channels_last");
}

}  // namespace mica::cuda
