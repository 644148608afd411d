#pragma once

// Python's objects as the arguments of functions, and back.
#include "mica/op/function.h"
#include "python/src/bindings.h"

namespace mica::python {

/// What an object is in itself, whatever a parameter wants; of one that no function takes something
/// that no parameter takes.
Argument to_argument(nb::handle value);
/// The same without a copy of a tensor's handle, into a new one: what every call does.
void read_argument(nb::handle value, Argument& argument);
nb::object to_object(Argument&& result, ResultKind kind);

/// The signatures of a function, as stubs write them: "add(input: mica.Tensor, …) -> mica.Tensor".
std::vector<std::string> signatures_of(const Function& function, const char* name, bool method);

}  // namespace mica::python
