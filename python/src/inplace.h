#pragma once

#include "python/src/bindings.h"

namespace mica::python {

/// PyTorch's last argument of activations and dropouts, a bool that they take and leave alone: the
/// result is always a tensor of its own, and a compiled step plans memory without being told.
inline nb::arg_v inplace() { return "inplace"_a = false; }
/// What such a layer says of itself.
inline void say_inplace(nb::object layer) { layer.attr("inplace") = false; }

}  // namespace mica::python
