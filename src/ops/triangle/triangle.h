#pragma once

#include "mica/core/tensor.h"
#include "mica/op/fields.h"

namespace mica {

struct TriangleParams {
  int64_t diagonal = 0;  ///< 0 is the main one, above it is positive

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("diagonal", self.diagonal);
  }
};

// Of each matrix (…, rows, columns).

/// What lies on a diagonal and below it; zero above.
Tensor tril(const Tensor& x, int64_t diagonal = 0);
/// What lies on a diagonal and above it; zero below.
Tensor triu(const Tensor& x, int64_t diagonal = 0);

}  // namespace mica
