#include "python/src/bindings.h"

namespace mica::python {

void bind_autograd(nb::module_& m) {
  m.def("is_grad_enabled", grad_enabled,
        "Whether operators are recorded for backward in this thread.");
  m.def("set_grad_enabled", set_grad_enabled, "mode"_a);
  m.def(
      "grad",
      [](nb::handle outputs, nb::handle inputs, nb::handle grad_outputs, bool retain_graph,
         bool create_graph) {
        const Tensors of = parse_tensors(outputs, "grad");
        const Tensors for_inputs = parse_tensors(inputs, "grad");
        const Tensors cotangents =
            grad_outputs.is_none() ? Tensors() : parse_tensors(grad_outputs, "grad");
        return to_tuple(without_gil([&] {
          return grad(of, for_inputs, cotangents,
                      {.retain_graph = retain_graph, .create_graph = create_graph});
        }));
      },
      "outputs"_a, "inputs"_a, "grad_outputs"_a = nb::none(), "retain_graph"_a = false,
      "create_graph"_a = false,
      "The gradients of outputs for inputs as a tuple, without touching any .grad; None where "
      "there is no dependence.");
}

}  // namespace mica::python
