#pragma once

// What the binding files share. Each binds one area; module.cpp calls them in order.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "mica/core/check.h"
#include "mica/mica.h"
#include "python/src/casters.h"

namespace mica::python {

namespace nb = nanobind;
using namespace nb::literals;

void bind_errors(nb::module_& m);
void bind_types(nb::module_& m);
void bind_tensor(nb::module_& m);
void bind_arrays(nb::module_& m, nb::class_<Tensor>& tensor);
void bind_operators(nb::class_<Tensor>& tensor);
void bind_writes(nb::class_<Tensor>& tensor);
void bind_indexing_methods(nb::class_<Tensor>& tensor);
void bind_protocols(nb::class_<Tensor>& tensor);
void bind_functions(nb::module_& m, nb::module_& functional);
void bind_ops(nb::module_& m);
void bind_sparse(nb::module_& m);
void bind_autograd(nb::module_& m);
void bind_hooks();
/// Tensor's, for the garbage collector.
std::vector<PyType_Slot> gradient_slots();
void bind_compile(nb::module_& m);
void bind_nn(nb::module_& m);
void bind_layers(nb::module_& nn);
void bind_init(nb::module_& nn);
void bind_summary(nb::module_& nn);
void bind_optim(nb::module_& m);
void bind_amp(nb::module_& m);
void bind_distributed(nb::module_& m);
void bind_datasets(nb::module_& data);
void bind_transforms(nb::module_& data);
void bind_data(nb::module_& m);
void bind_train(nb::module_& m);
void bind_io(nb::module_& m);
void bind_models(nb::module_& m);
void bind_text(nb::module_& m);
void bind_profiler(nb::module_& m);
void bind_onnx(nb::module_& m);
void bind_inference(nb::module_& m);
void bind_onnx_export(nb::module_& m);
void bind_settings(nb::module_& m);
void bind_cuda(nb::module_& m);
void bind_kernels(nb::module_& m);
void bind_caller();

/// Other Python threads run while an operator does.
using ReleaseGil = nb::call_guard<nb::gil_scoped_release>;

template <class F>
auto without_gil(F&& f) {
  const nb::gil_scoped_release release;
  return f();
}

/// A module that calls itself `mica.<name>` and is imported as `mica._mica.<name>`: the package's
/// own files import from it.
nb::module_ add_submodule(nb::module_& m, const char* name);

/// The name of a value's class.
std::string class_name(nb::handle value);
/// For __repr__: "Name(a=1, b=2)" with some of an object's properties.
inline auto shows(std::vector<const char*> properties) {
  return [properties = std::move(properties)](nb::handle self) {
    std::string text;
    for (const char* name : properties)
      text +=
          fmt::format("{}{}={}", text.empty() ? "" : ", ", name, nb::repr(self.attr(name)).c_str());
    return fmt::format("{}({})", class_name(self), text);
  };
}
/// A plain TypeError: an argument of a class that cannot be used.
template <class... Args>
[[noreturn]] void raise_type_error(fmt::format_string<Args...> format, Args&&... args) {
  throw nb::type_error(fmt::format(format, std::forward<Args>(args)...).c_str());
}

/// Makes Python raise what C++ threw, where nanobind does not stand between.
void set_error(const std::exception_ptr& exception);

/// "float32".
const char* python_name(DType t);
/// mica.float32, "float32", numpy.float32, numpy.dtype("float32"), float, int or bool.
DType parse_dtype(nb::handle value);
/// mica.device, "cuda:0", or an int for that CUDA device.
Device parse_device(nb::handle value);
/// None keeps what `defaults` say.
TensorOptions parse_options(nb::handle dtype, nb::handle device, TensorOptions defaults = {});
/// f(2, 3) and f((2, 3)).
Dims parse_dims(const nb::args& args);

/// None stands for an undefined tensor.
inline Tensor or_undefined(const std::optional<Tensor>& t) { return t ? *t : Tensor(); }
inline std::optional<Tensor> or_none(const Tensor& t) {
  return t.defined() ? std::optional(t) : std::nullopt;
}
/// A tensor, or a list or tuple of them.
Tensors parse_tensors(nb::handle value, const char* what);
/// A tuple with None for undefined ones.
nb::tuple to_tuple(const Tensors& tensors);

/// An array, a (nested) list or a number as a new tensor.
Tensor tensor_from(nb::handle data, nb::handle dtype, nb::handle device);
/// A value to write: a tensor, or anything a tensor can be made of, of the destination's dtype.
Tensor source_for(const Tensor& destination, nb::handle value);
/// Overwrites a tensor with a result, whose kind of number it must be able to hold.
void store(const Tensor& destination, const Tensor& result);
/// The tensor in a Python object; null for any other object.
inline const Tensor* tensor_or_null(nb::handle value) {
  Tensor* t = nullptr;
  return nb::try_cast(value, t, false) ? t : nullptr;
}
/// What copy.deepcopy makes of a tensor, once for each that `memo` knows: many Python objects may
/// stand for one.
Tensor deep_copy(const Tensor& t, nb::dict memo, bool with_grad);
/// t[key] as NumPy has it: a view but for arrays of indices and negative steps.
Tensor get_item(const Tensor& t, nb::handle key);

}  // namespace mica::python
