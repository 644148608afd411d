#pragma once

#include "mica/core/tensor.h"

namespace mica::test {

/// What a module gives that has more than one result.
struct Gaussian {
  Tensor mean, log_var;
  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("mean", self.mean);
    f("log_var", self.log_var);
  }
};

}  // namespace mica::test
