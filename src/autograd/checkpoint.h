#pragma once

#include <functional>

#include "mica/autograd/autograd.h"
#include "mica/core/values.h"

namespace mica {

/// function(inputs), keeping only the inputs for backward, which runs the function again to get
/// what its ops save: less memory for more time. The second run draws the random numbers of the
/// first. Gradients flow to the inputs and to whatever else the function reads, such as the
/// parameters of a layer it holds. Checkpoints may be nested, captured and differentiated twice.
///
/// The function is called later: what it holds by reference must still be there. It must compute
/// the same from the same inputs; what it writes to (running statistics) is written twice.
Tensors checkpoint(const std::function<Tensors(const Tensors& inputs)>& function,
                   const Tensors& inputs);

/// For trees of tensors.
Values checkpoint(const std::function<Values(const Values& inputs)>& function,
                  const Values& inputs);

/// For one tensor: `y = checkpoint([&](const Tensor& x) { return block(x); }, x)`.
Tensor checkpoint(const std::function<Tensor(const Tensor& input)>& function, const Tensor& input);

}  // namespace mica
