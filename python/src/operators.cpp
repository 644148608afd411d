// Python's operators, indexing and writing in place. A Python number is weak: it takes the tensor's
// dtype.
#include "python/src/bindings.h"

namespace mica::python {
namespace {

using Binary = Tensor (*)(const Tensor&, const Tensor&);
using BinaryNumber = Tensor (*)(const Tensor&, double);
using NumberBinary = Tensor (*)(double, const Tensor&);

/// number op x where only tensors will do.
template <Binary op>
Tensor reversed(const Tensor& x, double number) {
  const bool whole = number == static_cast<double>(static_cast<int64_t>(number));
  const DType dtype = is_floating(x.dtype()) || whole ? x.dtype() : DType::f32;
  return op(full({}, number, {dtype, x.device()}), x);
}
template <NumberBinary op>
Tensor number_first(const Tensor& x, double number) {
  return op(number, x);
}
template <BinaryNumber op>
Tensor either_way(const Tensor& x, double number) {
  return op(x, number);
}

struct Row {
  const char* name;
  Binary op;
  BinaryNumber op_number;
  const char* reflected_name = nullptr;
  BinaryNumber reflected = nullptr;  ///< of the tensor on the right and the number on the left
};

constexpr Row kRows[] = {
    {"__add__", add, add, "__radd__", either_way<add>},
    {"__sub__", sub, sub, "__rsub__", number_first<sub>},
    {"__mul__", mul, mul, "__rmul__", either_way<mul>},
    {"__truediv__", div, div, "__rtruediv__", number_first<div>},
    {"__floordiv__", floor_divide, floor_divide, "__rfloordiv__", reversed<floor_divide>},
    {"__mod__", remainder, remainder, "__rmod__", reversed<remainder>},
    {"__pow__", pow, pow, "__rpow__", number_first<pow>},
    {"__eq__", eq, eq},
    {"__ne__", ne, ne},
    {"__lt__", lt, lt},
    {"__le__", le, le},
    {"__gt__", gt, gt},
    {"__ge__", ge, ge},
};

/// Of integers, so their numbers stay whole at any size.
struct BitRow {
  const char* name;
  const char* reflected_name;
  Binary op;
};

constexpr BitRow kBitRows[] = {
    {"__and__", "__rand__", bitwise_and},       {"__or__", "__ror__", bitwise_or},
    {"__xor__", "__rxor__", bitwise_xor},       {"__lshift__", "__rlshift__", left_shift},
    {"__rshift__", "__rrshift__", right_shift},
};

Tensor integer_like(const Tensor& x, nb::int_ number) {
  return tensor_from(number, nb::cast(x.dtype()), nb::cast(x.device()));
}

void bind_bits(nb::class_<Tensor>& tensor) {
  for (const BitRow& row : kBitRows) {
    tensor.def(row.name, row.op, "other"_a, nb::is_operator(), ReleaseGil());
    tensor.def(
        row.name,
        [op = row.op](const Tensor& x, const nb::int_& number) {
          return without_gil([&, y = integer_like(x, number)] { return op(x, y); });
        },
        "other"_a, nb::is_operator());
    tensor.def(
        row.reflected_name,
        [op = row.op](const Tensor& x, const nb::int_& number) {
          return without_gil([&, y = integer_like(x, number)] { return op(y, x); });
        },
        "other"_a, nb::is_operator());
  }
}

/// A value to write: a tensor, or anything a tensor can be made of, of the destination's dtype.
Tensor source_for(const Tensor& destination, nb::handle value) {
  if (nb::isinstance<Tensor>(value)) return nb::cast<Tensor>(value);
  return tensor_from(value, nb::cast(destination.dtype()), nb::cast(destination.device()));
}

void bind_writes(nb::class_<Tensor>& tensor) {
  tensor.def(
      "__setitem__",
      [](const Tensor& t, nb::handle key, nb::handle value) {
        const Tensor destination = get_item(t, key);
        check<Unsupported>(
            destination.storage() == t.storage(),
            "__setitem__: these indices give a copy, not a view: an assignment to it "
            "would be lost");
        const Tensor source = source_for(destination, value);
        without_gil([&] { copy_(destination, source); });
      },
      nb::arg("key").none(), "value"_a);
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

}  // namespace

void bind_operators(nb::class_<Tensor>& tensor) {
  for (const Row& row : kRows) {
    tensor.def(row.name, row.op, "other"_a, nb::is_operator(), ReleaseGil());
    tensor.def(row.name, row.op_number, "other"_a, nb::is_operator(), ReleaseGil());
    if (row.reflected)
      tensor.def(row.reflected_name, row.reflected, "other"_a, nb::is_operator(), ReleaseGil());
  }
  bind_bits(tensor);
  // Two tensors are never compared for a dict's sake: each Python object is its own key.
  tensor.def("__hash__",
             [](nb::handle self) { return reinterpret_cast<intptr_t>(self.ptr()) >> 4; });
  tensor.def("__matmul__", matmul, nb::is_operator(), ReleaseGil());
  tensor.def("__neg__", neg, ReleaseGil());
  tensor.def("__pos__", [](const Tensor& t) { return t; });
  tensor.def("__abs__", abs, ReleaseGil());
  tensor.def("__invert__", bitwise_not, ReleaseGil());
  tensor.def("__getitem__", get_item, nb::arg("key").none());
  tensor.def("__len__", [](const Tensor& t) {
    if (t.rank() == 0) throw nb::type_error("len() of a 0-d tensor");
    return t.shape()[0];
  });
  bind_writes(tensor);
}

}  // namespace mica::python
