#pragma once

#include "mica/op/fields.h"

namespace mica {

/// Parameters of pooling into windows that divide the image into `output` nearly equal parts.
struct AdaptivePool2dParams {
  Size2 output = 1;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("output", self.output);
  }
};

/// Parameters of its gradient: the input's shape is that of the result.
struct AdaptivePool2dGradParams {
  Shape shape;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("shape", self.shape);
  }
};

}  // namespace mica
