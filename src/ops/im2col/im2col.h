#pragma once

#include "mica/core/tensor.h"
#include "mica/op/fields.h"

namespace mica {

struct Im2colParams {
  Size2 kernel = 1;
  Size2 stride = 1;
  Size2 padding = 0;
  Size2 dilation = 1;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("kernel", self.kernel);
    f("stride", self.stride);
    f("padding", self.padding);
    f("dilation", self.dilation);
  }
};

/// Parameters of the way back: those of `im2col` and the image's size.
struct Col2imParams {
  Im2colParams im2col;
  Size2 size = 0;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    Im2colParams::fields(self.im2col, f);
    f("size", self.size);
  }
};

/// The windows of x (N, C, H, W) as columns (N, C * kernel.h * kernel.w, L), where L counts the
/// windows row by row (PyTorch's unfold). Padding is zero.
Tensor im2col(const Tensor& x, const Im2colParams& params);
/// The adjoint: columns (N, C * kernel.h * kernel.w, L) added up to images (N, C, size.h, size.w)
/// (PyTorch's fold).
Tensor col2im(const Tensor& columns, const Col2imParams& params);

}  // namespace mica
