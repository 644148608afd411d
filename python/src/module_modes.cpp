// How mica.nn.Module moves, learns and rests.
#include "python/src/gradients.h"
#include "python/src/module_handle.h"

namespace mica::python {

using nn::ModuleImpl;

void bind_modes(ModuleClass& module) {
  // Each returns the module itself, so that calls can be chained.
  const auto move = [](nb::handle self, Device device) {
    const nn::Module m = module_from(self);
    without_gil([&] { m.to(device); });
    return nb::borrow(self);
  };
  const auto convert = [](nb::handle self, DType dtype) {
    const nn::Module m = module_from(self);
    without_gil([&] { m.to(dtype); });
    return nb::borrow(self);
  };
  module.def(
      "to",
      [move, convert](nb::handle self, const nb::args& args, nb::handle device, nb::handle dtype,
                      bool /*non_blocking*/, nb::handle /*memory_format*/) {
        for (const nb::handle to : args) {
          if (const Tensor* like = tensor_or_null(to)) {
            convert(self, like->dtype());
            move(self, like->device());
          } else if (nb::isinstance<DTypeObject>(to)) {
            convert(self, parse_dtype(to));
          } else if (!to.is_none() && !PyBool_Check(to.ptr())) {  // non_blocking is one
            move(self, parse_device(to));
          }
        }
        if (!dtype.is_none()) convert(self, parse_dtype(dtype));
        if (!device.is_none()) move(self, parse_device(device));
        return nb::borrow(self);
      },
      "args"_a, nb::kw_only(), "device"_a = nb::none(), "dtype"_a = nb::none(),
      "non_blocking"_a = false, "memory_format"_a = nb::none(),
      "Moves parameters, gradients and buffers to a device, or what is floating of them to a "
      "dtype; every handle to them stays valid.");
  for (const auto& [name, dtype] : {std::pair{"float", DType::f32},
                                    {"double", DType::f64},
                                    {"half", DType::f16},
                                    {"bfloat16", DType::bf16}}) {
    module.def(
        name, [convert, to = dtype](nb::handle self) { return convert(self, to); },
        "Converts what is floating of parameters, gradients and buffers; returns the module.");
  }
  module.def(
      "cpu", [move](nb::handle self) { return move(self, Device::cpu()); },
      "Moves it to the CPU and returns it.");
  module.def(
      "cuda",
      [move](nb::handle self, nb::handle device) {
        return move(self, parse_device(device.is_none() ? nb::int_(0) : device));
      },
      "device"_a = nb::none(), "Moves it to a CUDA device and returns it.");

  const auto set_training = [](nb::handle self, bool mode) {
    module_from(self).train(mode);
    return nb::borrow(self);
  };
  module.def("train", set_training, "mode"_a = true,
             "Dropout, batch norm and the like behave as in training, or not; returns the module.");
  module.def(
      "eval", [set_training](nb::handle self) { return set_training(self, false); },
      "train(False).");
  module.def_prop_ro("training", &ModuleImpl::training, "Whether it is in training: see train.");

  const auto set_requires_grad = [](nb::handle self, bool value, const std::string& path) {
    module_from(self).set_requires_grad(value, path);
    return nb::borrow(self);
  };
  module.def(
      "requires_grad_",
      [set_requires_grad](nb::handle self, bool value) {
        return set_requires_grad(self, value, "");
      },
      "requires_grad"_a = true, "Sets requires_grad of all parameters and returns the module.");
  module.def(
      "freeze",
      [set_requires_grad](nb::handle self, const std::string& path) {
        return set_requires_grad(self, false, path);
      },
      "path"_a = "",
      "Frozen parameters require no gradient, and optimizers leave them alone. With a path, those "
      "of that part.");
  module.def(
      "unfreeze",
      [set_requires_grad](nb::handle self, const std::string& path) {
        return set_requires_grad(self, true, path);
      },
      "path"_a = "", "Takes freeze back.");
  module.def(
      "zero_grad",
      [](nb::handle self, bool set_to_none) {
        const nn::Module m = module_from(self);
        if (set_to_none) return m.zero_grad();
        fill_gradients(m.parameters());
      },
      "set_to_none"_a = true, "Makes all gradients None, or zeros of those that are there.");
}

}  // namespace mica::python
