#pragma once

#include "mica/core/tensor.h"
#include "mica/op/params.h"

namespace mica {

struct SgdParams {
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  int64_t count = 0;  ///< number of parameters

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("momentum", self.momentum);
    f("dampening", self.dampening);
    f("weight_decay", self.weight_decay);
    f("nesterov", self.nesterov);
    f("count", self.count);
  }
};

/// Updates all parameters in one launch, as PyTorch's SGD does:
///   g += weight_decay * p;  m = momentum * m + (1 - dampening) * g;
///   p -= lr * (nesterov ? g + momentum * m : momentum != 0 ? m : g).
/// Op inputs: lr (0-d f32), params…, grads…, and with momentum momenta… (params and momenta
/// mutated, all contiguous or of equal dense strides). Momenta start at zero.
void sgd_update(const Tensor& lr, const Tensors& params, const Tensors& grads,
                const Tensors& momenta, SgdParams options);

}  // namespace mica
