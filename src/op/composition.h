#pragma once

#include <functional>

#include "mica/op/op_def.h"

namespace mica {

/// The gradients of a composition of ops for the inputs that are asked for, by recording the
/// composition and going back through it; undefined for the others. What it is given of the inputs
/// has the history they have, so the result can be differentiated again; f16 and bf16 arrive as
/// f32. Implemented in autograd.
Tensors differentiate(const std::function<Tensors(std::span<const Tensor> in)>& composition,
                      const VjpArgs& args);

/// The vjp of an op from a function that computes the same with other ops:
/// `Tensors composition(const P&, std::span<const Tensor> in)`. The op saves every input that the
/// composition reads: `.vjp<vjp_by<composition>>({.in = {0, 1}})`.
template <auto composition, class P>
Tensors vjp_by(const P& params, const VjpArgs& args) {
  return differentiate([&](std::span<const Tensor> in) { return Tensors(composition(params, in)); },
                       args);
}

}  // namespace mica
