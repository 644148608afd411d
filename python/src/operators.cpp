// +, -, *, /, @ and indexing. A Python number is weak: it takes the tensor's dtype.
#include "python/src/bindings.h"

namespace mica::python {
namespace {

using Binary = Tensor (*)(const Tensor&, const Tensor&);
using BinaryNumber = Tensor (*)(const Tensor&, double);

/// number - x and number / x need the number as a tensor.
template <Binary op>
Tensor reversed(const Tensor& x, double number) {
  const bool weak =
      is_floating(x.dtype()) || number == static_cast<double>(static_cast<int64_t>(number));
  const DType dtype = weak ? x.dtype() : DType::f32;
  return op(full({}, number, {dtype, x.device()}), x);
}

void def_binary(nb::class_<Tensor>& tensor, const char* name, Binary op, BinaryNumber op_number) {
  tensor.def(name, op, "other"_a, nb::is_operator(), ReleaseGil());
  tensor.def(name, op_number, "other"_a, nb::is_operator(), ReleaseGil());
}

/// A value to write: a tensor, or anything a tensor can be made of, of the destination's dtype.
Tensor source_for(const Tensor& destination, nb::handle value) {
  if (nb::isinstance<Tensor>(value)) return nb::cast<Tensor>(value);
  return tensor_from(value, nb::cast(destination.dtype()), nb::cast(destination.device()));
}

}  // namespace

void bind_operators(nb::class_<Tensor>& tensor) {
  def_binary(tensor, "__add__", add, add);
  def_binary(tensor, "__sub__", sub, sub);
  def_binary(tensor, "__mul__", mul, mul);
  def_binary(tensor, "__truediv__", div, div);
  tensor.def("__radd__", BinaryNumber(add), nb::is_operator(), ReleaseGil());
  tensor.def("__rmul__", BinaryNumber(mul), nb::is_operator(), ReleaseGil());
  tensor.def("__rsub__", reversed<sub>, nb::is_operator(), ReleaseGil());
  tensor.def("__rtruediv__", reversed<div>, nb::is_operator(), ReleaseGil());
  tensor.def("__matmul__", matmul, nb::is_operator(), ReleaseGil());
  tensor.def("__neg__", neg, ReleaseGil());
  tensor.def("__pos__", [](const Tensor& t) { return t; });

  tensor.def("__getitem__", index, nb::arg("key").none());
  tensor.def(
      "__setitem__",
      [](const Tensor& t, nb::handle key, nb::handle value) {
        const Tensor destination = index(t, key);
        const Tensor source = source_for(destination, value);
        without_gil([&] { copy_(destination, source); });
      },
      nb::arg("key").none(), "value"_a);
  tensor.def("__len__", [](const Tensor& t) {
    if (t.rank() == 0) throw nb::type_error("len() of a 0-d tensor");
    return t.shape()[0];
  });
  tensor.def(
      "copy_",
      [](Tensor& t, nb::handle source) -> Tensor& {
        const Tensor s = source_for(t, source);
        without_gil([&] { copy_(t, s); });
        return t;
      },
      "source"_a, nb::rv_policy::reference, "Overwrites this tensor, broadcasting and casting.");
  tensor.def(
      "fill_",
      [](Tensor& t, double value) -> Tensor& {
        fill_(t, value);
        return t;
      },
      "value"_a, nb::rv_policy::reference, ReleaseGil());
  tensor.def(
      "zero_",
      [](Tensor& t) -> Tensor& {
        fill_(t, 0);
        return t;
      },
      nb::rv_policy::reference, ReleaseGil());
  tensor.def(
      "add_",
      [](Tensor& t, const Tensor& other) -> Tensor& {
        add_(t, other);
        return t;
      },
      "other"_a, nb::rv_policy::reference, ReleaseGil());
  tensor.def(
      "add_",
      [](Tensor& t, double other) -> Tensor& {
        copy_(t, add(t, other));
        return t;
      },
      "other"_a, nb::rv_policy::reference, ReleaseGil());
}

}  // namespace mica::python
