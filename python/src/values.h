#pragma once

// Trees of Python objects as Values, and back: tensors, None, tuples, lists, dicts with texts as
// keys, named tuples and dataclasses. A tree comes back as what it was.
#include "mica/core/values_check.h"
#include "mica/graph/compile.h"
#include "python/src/bindings.h"

namespace mica::python {

/// Raises TypeError with the path of what is something else. Where `constants` are wanted, bools,
/// ints, floats and texts may stand where None may, and are noted there, as each None is.
Values values_from(nb::handle object, const ValuesPath& path,
                   std::vector<Constant>* constants = nullptr);
/// The same for an example of a data set: what tensor() takes is a tensor too, as numbers, lists of
/// them and arrays are, and lists are tuples.
Values example_from(nb::handle object, const ValuesPath& path);
/// The other way round, with the constants that were noted; `numbers` is a dictionary of those that
/// have places.
nb::object values_to_python(const Values& values, std::span<const Constant> constants = {},
                            nb::handle numbers = {});

/// An object that goes through C++ as it is, and comes back by values_to_python.
Values opaque(nb::handle object);

/// What a module is called with: one argument as it is, several as a list.
Values values_from_arguments(const nb::tuple& args, const ValuesPath& path);
/// f of what a module is called with, without the GIL, and its result for Python.
template <class F>
nb::object forward_values(const nb::args& inputs, F&& f) {
  const Tensor* one = inputs.size() == 1 ? tensor_or_null(inputs[0]) : nullptr;
  const Values in = one ? Values(*one) : values_from_arguments(inputs, ValuesPath("input"));
  return values_to_python(without_gil([&] { return f(in); }));
}
/// Calls a function of Python with Values as a module's forward takes them: where it has more than
/// one parameter, the entries of a list stand for them in order and those of a dict by name.
nb::object call_with_values(nb::handle function, const Values& in);
/// The arguments of that call.
nb::tuple arguments_from(nb::handle function, const Values& in, nb::dict& named);

}  // namespace mica::python
