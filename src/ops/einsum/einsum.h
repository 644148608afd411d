#pragma once

#include <string_view>

#include "mica/core/tensor.h"

namespace mica {

/// Sums of products in Einstein's notation, with PyTorch's grammar: `einsum("bij,bjk->bik", {a,
/// b})`. A label is a letter; one that stands twice in an operand means its diagonal; "..." stands
/// for any axes, which broadcast; without "->" the result has those axes and then, sorted, the
/// labels that occur once. Sizes of 1 broadcast. Operands have one floating dtype. Several are
/// multiplied two at a time, first the two that leave the least.
Tensor einsum(std::string_view equation, const Tensors& operands);

}  // namespace mica
