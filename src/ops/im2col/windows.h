#pragma once

#include <algorithm>

#include "mica/op/kernel.h"
#include "mica/ops/im2col/im2col.h"

namespace mica {

/// The sizes of one unfolding: images (n, c, h, w), windows oh by ow.
struct Windows {
  int64_t n = 0, c = 0, h = 0, w = 0;
  int64_t oh = 0, ow = 0;
  Im2colParams params;

  Shape images() const { return {n, c, h, w}; }
  /// One row of a column matrix holds element (i, j) of each window of a channel.
  int64_t rows() const { return c * params.kernel.h * params.kernel.w; }
  int64_t windows() const { return oh * ow; }

  /// Where element i of the first window lies along an axis.
  int64_t first_row(int64_t i) const { return i * params.dilation.h - params.padding.h; }
  int64_t first_col(int64_t j) const { return j * params.dilation.w - params.padding.w; }
};

/// Checks the parameters and the image's size; `op` names the operator in errors.
Windows im2col_windows(const char* op, const Im2colParams& params, int64_t n, int64_t c, int64_t h,
                       int64_t w);

/// Windows o whose element, `first` in window 0, lies in [0, size): [begin, end).
struct WindowRange {
  int64_t begin;
  int64_t end;

  WindowRange(int64_t first, int64_t stride, int64_t size, int64_t windows)
      : begin(std::min(windows, first >= 0 ? 0 : (-first + stride - 1) / stride)),
        end(first >= size ? begin
                          : std::max(begin, std::min(windows, (size - 1 - first) / stride + 1))) {}
};

Kernel im2col_reference_kernel();
Kernel col2im_reference_kernel();
Kernel im2col_rows_kernel();
Kernel col2im_rows_kernel();

}  // namespace mica
