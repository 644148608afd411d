#pragma once

#include <functional>

#include "mica/core/tensor.h"

namespace mica::optim {

/// The backward pass of a batch in `parts` equal parts, one after the other, each needing the
/// memory of a part: the gradients of `parts` calls of `loss`, divided by their number, are added
/// to the parameters' `.grad`. For a loss that is a mean over the batch they are those of the
/// joined batch. Every tensor of the batch is cut along its first axis. Gives the mean of the
/// losses. In a compiled step all parts and the optimizer's step after them are one graph.
Tensor accumulate_backward(const std::function<Tensor(const Tensors& part)>& loss,
                           const Tensors& batch, int64_t parts);

}  // namespace mica::optim
