#pragma once

#include <span>

#include "mica/op/function.h"
#include "python/src/bindings.h"

namespace mica::python {

/// A call that no signature took, in PyTorch's other words for it: `axis` for dim, `keepdims`,
/// `out`, `dtype` of reductions, `alpha`, `unbiased`, `generator`, `requires_grad`, and what has no
/// effect here (`layout`, `pin_memory`). Null where it is no call in these words either.
/// `named_objects` are the objects of `named`.
nb::object call_in_other_words(const Function& function, std::span<const Argument> positional,
                               std::span<const NamedArgument> named,
                               PyObject* const* named_objects);

/// Draws from a mica.Generator instead of the CPU's own while it lives; from that for None.
class DrawsFrom {
 public:
  explicit DrawsFrom(nb::handle generator);
  ~DrawsFrom();
  DrawsFrom(const DrawsFrom&) = delete;
  DrawsFrom& operator=(const DrawsFrom&) = delete;

 private:
  Tensor state_, own_, before_;
};

}  // namespace mica::python
