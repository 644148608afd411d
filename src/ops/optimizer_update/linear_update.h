#pragma once

// The updates of optimizers where linear layers make gradients: what compiled functions make of
// linear_wgrad and the update that reads its results. The first parameters are weight (out, in) and
// bias (out) of each layer; in the places of their gradients stand dy (rows, out) and x (rows, in),
// of which the gradients are dyᵀ x and the sum of dy over rows. Everything else is as in
// optimizer_update.h.
#include "mica/op/kernel.h"
#include "mica/ops/optimizer_update/functors.h"

namespace mica::update {

template <class P>
struct WithLayers {
  P update;
  int64_t layers = 0;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    P::fields(self.update, f);
    f("layers", self.layers);
  }
};

struct LinearSgd : Sgd {
  static constexpr const char* kPlain = Sgd::kName;
  static constexpr const char* kName = "linear_sgd_update";
};
struct LinearAdam : Adam {
  static constexpr const char* kPlain = Adam::kName;
  static constexpr const char* kName = "linear_adam_update";
};
struct LinearRmsprop : Rmsprop {
  static constexpr const char* kPlain = Rmsprop::kName;
  static constexpr const char* kName = "linear_rmsprop_update";
};
struct LinearAdagrad : Adagrad {
  static constexpr const char* kPlain = Adagrad::kName;
  static constexpr const char* kName = "linear_adagrad_update";
};

/// linear_wgrad of each layer, then the plain update; for the four ops above.
template <class O>
Kernel composed_kernel();

}  // namespace mica::update
