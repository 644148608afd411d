#pragma once

#include "mica/autograd/autograd.h"
#include "mica/ops/fill/fill.h"

namespace mica::python {

/// zero_grad(set_to_none=False): the gradients that are there become zeros.
inline void fill_gradients(const Tensors& parameters) {
  const NoGrad guard;
  for (const Tensor& p : parameters)
    if (p.grad().defined()) fill_(p.grad().detach(), 0);
}

}  // namespace mica::python
