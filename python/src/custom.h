#pragma once

// Operators and kernels of users.
#include "mica/op/function.h"
#include "python/src/bindings.h"

namespace mica::python {

void bind_user_ops(nb::module_& m);

/// What Python calls a function by.
nb::object function_object(const Function& function);

}  // namespace mica::python
