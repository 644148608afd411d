#include "mica/optim/sgd.h"
#include "python/src/bindings.h"

namespace mica::python {

void bind_optim(nb::module_& m) {
  using optim::SGD;
  nb::module_ scope = add_submodule(m, "optim");
  nb::class_<SGD>(scope, "SGD",
                  "Stochastic gradient descent. Make it after the module was moved to its device.")
      .def(
          "__init__",
          [](SGD* self, nb::handle params, double lr, double momentum, double dampening,
             double weight_decay, bool nesterov) {
            new (self) SGD(parse_tensors(params, "SGD"), {.lr = lr,
                                                          .momentum = momentum,
                                                          .dampening = dampening,
                                                          .weight_decay = weight_decay,
                                                          .nesterov = nesterov});
          },
          "params"_a, "lr"_a = 1e-3, "momentum"_a = 0.0, "dampening"_a = 0.0,
          "weight_decay"_a = 0.0, nb::kw_only(), "nesterov"_a = false)
      .def("step", &SGD::step, ReleaseGil(),
           "Updates every parameter that requires a gradient and has one.")
      .def("zero_grad", &SGD::zero_grad, "Makes all gradients None.")
      .def_prop_rw("lr", &SGD::lr, &SGD::set_lr,
                   "The learning rate; a compiled step sees a new one.");
}

}  // namespace mica::python
