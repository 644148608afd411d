// What Python asks of an object: its number, length, iteration, text, copies and pickled bytes.
#include "mica/autograd/tape.h"
#include "mica/core/dtype_switch.h"
#include "mica/core/print.h"
#include "python/src/bindings.h"

namespace mica::python {
namespace {

nb::object item(const Tensor& t) {
  return nb::cast(without_gil([&] { return t.item_number(); }));
}

template <class T>
nb::object list_of(const TensorSpec& spec, const T* data, int axis) {
  if (axis == spec.rank()) {
    if constexpr (std::is_integral_v<T>) {
      return nb::cast(*data);
    } else if constexpr (kIsComplex<T>) {
      return nb::cast(Number(Complex<double>(*data)));
    } else {
      return nb::cast(static_cast<double>(*data));
    }
  }
  nb::list list;
  for (int64_t i = 0; i < spec.shape[axis]; ++i)
    list.append(list_of(spec, data + i * spec.strides[axis], axis + 1));
  return list;
}

/// The values as nested lists; a number for a 0-d tensor.
nb::object to_list(const Tensor& t) {
  check<Unsupported>(!t.device().is_null(), "tolist: a tensor on the null device has no values");
  const Tensor host = without_gil([&] { return to(t.detach(), Device::cpu()); });
  return switch_all(t.dtype(),
                    [&]<class T>() { return list_of(host.spec(), host.data_as<T>(), 0); });
}

std::string represent(const Tensor& t) {
  const bool has_values = !t.is_traced() && !t.device().is_null();
  std::string s =
      has_values ? print_values(t, {"True", "False"}) : fmt::format("<{}>", to_string(t.spec()));
  if (has_values) {
    const bool obvious =
        t.dtype() == DType::f32 || t.dtype() == DType::i64 || t.dtype() == DType::boolean;
    if (t.numel() == 0 && t.rank() != 1) s += fmt::format(", shape={}", t.shape());
    if (!obvious || (t.numel() == 0 && t.dtype() != DType::f32))
      s += fmt::format(", dtype=mica.{}", python_name(t.dtype()));
    if (!t.device().is_cpu()) s += fmt::format(", device='{}'", t.device());
  }
  if (t.requires_grad()) s += ", requires_grad=True";
  return fmt::format("tensor({})", s);
}

bool truth(const Tensor& t) {
  check<ShapeError>(t.numel() == 1,
                    "bool: a tensor of shape {} is neither true nor false; use any() or all()",
                    t.shape());
  const Number value = without_gil([&] { return t.item_number(); });
  return value.to_double() != 0 || value.imag() != 0;
}

nb::object as_index(const Tensor& t) {
  if (!is_integer(t.dtype()) || t.numel() != 1)
    raise_type_error("only a tensor of one integer can be used as an index, got {}{}", t.dtype(),
                     t.shape());
  return item(t);
}

nb::object iterate(nb::handle self) {
  if (nb::cast<const Tensor&>(self).rank() == 0)
    throw nb::type_error("iteration over a 0-d tensor");
  return nb::steal(PySeqIter_New(self.ptr()));
}

nb::object format_as(nb::handle self, nb::handle spec) {
  const Tensor& t = nb::cast<const Tensor&>(self);
  if (nb::len(spec) == 0) return nb::str(self);
  if (t.numel() != 1)
    raise_type_error("format: a tensor of shape {} takes no format; one element does", t.shape());
  return nb::steal(PyObject_Format(item(t).ptr(), spec.ptr()));
}

void check_is_leaf(const Tensor& t, const char* what) {
  check(t.is_leaf() || !t.requires_grad(),
        "{}: this tensor is a result whose history cannot be copied; detach() it first", what);
}

// A pickled tensor is its dtype's name, shape, row-major bytes, device's name and whether it
// requires a gradient: plain values that nothing is executed for.
nb::tuple get_state(const Tensor& t) {
  check_is_leaf(t, "pickle");
  check<Unsupported>(!t.device().is_null(), "pickle: a tensor on the null device has no values");
  const Tensor host = without_gil([&] { return contiguous(to(t.detach(), Device::cpu())); });
  const auto bytes = static_cast<size_t>(host.numel()) * size_of(host.dtype());
  return nb::make_tuple(python_name(t.dtype()), t.shape(), nb::bytes(host.data(), bytes),
                        to_string(t.device()), t.requires_grad());
}

void set_state(Tensor& self, const std::string& dtype, const Shape& shape, const nb::bytes& bytes,
               const std::string& device, bool requires_grad) {
  const TensorOptions options{dtype_from_name(dtype), Device::cpu()};
  for (const int64_t n : shape)
    check<ShapeError>(n >= 0, "unpickling a tensor: a size of {} is negative", shape);
  check<ShapeError>(static_cast<int64_t>(bytes.size() / size_of(options.dtype)) == numel(shape) &&
                        bytes.size() % size_of(options.dtype) == 0,
                    "unpickling a tensor: {} bytes are no {} tensor of shape {}", bytes.size(),
                    options.dtype, shape);
  const void* data = bytes.data();
  Tensor t = without_gil(
      [&] { return to(tensor_from_bytes(data, shape, options), device_from_name(device)); });
  if (requires_grad) t.set_requires_grad();
  new (&self) Tensor(std::move(t));
}

nb::object array_namespace(nb::handle /*self*/, nb::handle api_version) {
  nb::module_ space = nb::module_::import_("mica.array_api");
  if (!api_version.is_none() && !space.attr("__array_api_version__").equal(api_version))
    throw nb::value_error(fmt::format("__array_namespace__: version {} of the standard is unknown",
                                      nb::cast<std::string>(nb::str(api_version)))
                              .c_str());
  return space;
}

}  // namespace

Tensor deep_copy(const Tensor& t, nb::dict memo, bool with_grad) {
  const nb::int_ key(reinterpret_cast<uintptr_t>(t.impl()));
  if (memo.contains(key)) return nb::cast<Tensor>(memo[key]);
  check_is_leaf(t, "deepcopy");
  const Tensor copy = without_gil([&] {
    const Tensor values = clone(t.detach());
    if (t.requires_grad()) values.set_requires_grad();
    if (!with_grad || grad_is_used_up(t)) return values;
    if (const Tensor g = t.grad(); g.defined()) values.set_grad(clone(g.detach()));
    return values;
  });
  memo[key] = copy;
  return copy;
}

void bind_protocols(nb::class_<Tensor>& tensor) {
  tensor.def("item", item, "The value of a one-element tensor as a Python number.");
  tensor.def("tolist", to_list, "The values as nested lists; a number for a 0-d tensor.");
  tensor.def("__float__", [](const Tensor& t) { return nb::float_(item(t)); });
  tensor.def("__int__", [](const Tensor& t) { return nb::int_(item(t)); });
  tensor.def("__complex__", [](const Tensor& t) {
    return nb::cast(Number(without_gil([&] { return t.item_number().to_complex(); })));
  });
  tensor.def("__bool__", truth);
  tensor.def("__index__", as_index);
  tensor.def("__len__", [](const Tensor& t) {
    if (t.rank() == 0) throw nb::type_error("len() of a 0-d tensor");
    return t.shape()[0];
  });
  tensor.def("__iter__", iterate);
  tensor.def(
      "__contains__",
      [](const Tensor& t, nb::handle value) {
        const Tensor element = source_for(t, value);
        return without_gil([&] { return any(eq(t, element)).item(); }) != 0;
      },
      "element"_a);
  tensor.def("__repr__", [](const Tensor& t) { return without_gil([&] { return represent(t); }); });
  tensor.def("__format__", format_as, "spec"_a);
  tensor.def("__array_namespace__", array_namespace, nb::kw_only(), "api_version"_a = nb::none());
  tensor.def("__copy__", [](const Tensor& t) { return t; });
  tensor.def(
      "__deepcopy__", [](const Tensor& t, nb::dict memo) { return deep_copy(t, memo, true); },
      "memo"_a);
  tensor.def("__getstate__", get_state);
  tensor.def("__setstate__", [](Tensor& self, const nb::tuple& state) {
    check<ShapeError>(state.size() == 5, "unpickling a tensor: expected 5 values, got {}",
                      state.size());
    set_state(self, nb::cast<std::string>(state[0]), nb::cast<Dims>(state[1]),
              nb::cast<nb::bytes>(state[2]), nb::cast<std::string>(state[3]),
              nb::cast<bool>(state[4]));
  });
}

}  // namespace mica::python
