// Python's operators. A Python number is weak: it takes the tensor's dtype, unless it is of another
// kind (ops/elementwise/elementwise.h).
#include <nanobind/stl/pair.h>

#include <algorithm>

#include "python/src/bindings.h"
#include "python/src/inplace.h"

namespace mica::python {
namespace {

using Binary = Tensor (*)(const Tensor&, const Tensor&);
using BinaryNumber = Tensor (*)(const Tensor&, Number);
using NumberBinary = Tensor (*)(Number, const Tensor&);

/// The other operand of an operator: a tensor, a number, or neither.
struct Operand {
  Tensor tensor = {};
  Number number = 0;
  bool too_large = false;  ///< an integer of more than 64 bits
  bool valid = true;
};

Operand read_operand(nb::handle value, const Tensor& like) {
  if (const Tensor* t = tensor_or_null(value)) return {.tensor = *t};
  const bool plain =
      PyFloat_Check(value.ptr()) || PyLong_Check(value.ptr()) || PyComplex_Check(value.ptr());
  // A number that runs of a compiled function read anew; see python/mica/_guards.py.
  if (!plain && nb::hasattr(value.type(), "_mica_operand"))
    return {.tensor = nb::cast<Tensor>(value.attr("_mica_operand")(like))};
  if (!plain && !nb::hasattr(value, "__array_interface__")) return {.valid = false};
  // Of NumPy: an array becomes a tensor beside this one, what has no axes is a number.
  if (!plain && !value.attr("ndim").equal(nb::int_(0)))
    return {.tensor = tensor_from(value, nb::none(), nb::cast(like.device()))};
  Operand operand;
  operand.valid = read_number(value, operand.number);
  operand.too_large = PyLong_Check(value.ptr()) && operand.number.is_floating();
  return operand;
}

nb::object not_implemented() { return nb::borrow(Py_NotImplemented); }

/// A number as a tensor beside x, where only tensors will do.
Tensor as_tensor(Number number, const Tensor& x) {
  DType t = x.dtype();
  if (!is_differentiable(t) && number.is_floating()) t = DType::f32;
  if (number.is_complex()) t = complex_dtype(t);
  if (t == DType::boolean && !number.is_bool()) t = DType::i64;
  return full({}, number, {t, x.device()});
}
template <Binary op>
Tensor reversed(Number number, const Tensor& x) {
  return op(as_tensor(number, x), x);
}
template <BinaryNumber op>
Tensor either_way(Number number, const Tensor& x) {
  return op(x, number);
}
/// x op number of integers and bools.
template <Binary op>
Tensor of_integers(const Tensor& x, Number number) {
  check<DTypeError>(!number.is_floating() && !number.is_complex(), "expected an integer, got {}",
                    number);
  return op(x, as_tensor(number, x));
}

struct Row {
  const char* name;
  Binary op;
  BinaryNumber op_number;
  const char* reflected_name = nullptr;
  NumberBinary reflected = nullptr;
  const char* in_place_name = nullptr;
};

constexpr Row kRows[] = {
    {"__add__", add, add, "__radd__", either_way<add>, "__iadd__"},
    {"__sub__", sub, sub, "__rsub__", sub, "__isub__"},
    {"__mul__", mul, mul, "__rmul__", either_way<mul>, "__imul__"},
    {"__truediv__", div, div, "__rtruediv__", div, "__itruediv__"},
    {"__floordiv__", floor_divide, floor_divide, "__rfloordiv__", reversed<floor_divide>,
     "__ifloordiv__"},
    {"__mod__", remainder, remainder, "__rmod__", reversed<remainder>, "__imod__"},
    {"__pow__", pow, pow, "__rpow__", pow, "__ipow__"},
    {"__eq__", eq, eq},
    {"__ne__", ne, ne},
    {"__lt__", lt, lt},
    {"__le__", le, le},
    {"__gt__", gt, gt},
    {"__ge__", ge, ge},
    {"__and__", bitwise_and, of_integers<bitwise_and>, "__rand__", reversed<bitwise_and>,
     "__iand__"},
    {"__or__", bitwise_or, of_integers<bitwise_or>, "__ror__", reversed<bitwise_or>, "__ior__"},
    {"__xor__", bitwise_xor, of_integers<bitwise_xor>, "__rxor__", reversed<bitwise_xor>,
     "__ixor__"},
    {"__lshift__", left_shift, of_integers<left_shift>, "__rlshift__", reversed<left_shift>,
     "__ilshift__"},
    {"__rshift__", right_shift, of_integers<right_shift>, "__rrshift__", reversed<right_shift>,
     "__irshift__"},
};

/// Comparisons take any number; of others integers take what their dtype may hold.
void check_size(const Row& row, const Tensor& x, const Operand& y) {
  const bool compares = row.reflected == nullptr;
  check<DTypeError>(!y.too_large || compares || is_differentiable(x.dtype()),
                    "{}: {} does not fit {}", row.name, y.number, x.dtype());
}

Tensor compute(const Row& row, const Tensor& x, const Operand& y) {
  check_size(row, x, y);
  return y.tensor.defined() ? row.op(x, y.tensor) : row.op_number(x, y.number);
}

/// Whether x op= y goes on the tape. Then the op reads a copy: what it saves must stay.
bool is_recorded(const Tensor& x, const Operand& y) {
  return grad_enabled() && (x.requires_grad() || (y.tensor.defined() && y.tensor.requires_grad()));
}

void bind_row(nb::class_<Tensor>& tensor, const Row& row) {
  tensor.def(
      row.name,
      [&row](const Tensor& x, nb::handle other) -> nb::object {
        if (const Tensor* y = tensor_or_null(other))
          return nb::cast(without_gil([&] { return row.op(x, *y); }));
        const Operand y = read_operand(other, x);
        if (!y.valid) return not_implemented();
        return nb::cast(without_gil([&] { return compute(row, x, y); }));
      },
      nb::arg("other").none(), nb::is_operator());
  if (row.reflected_name) {
    tensor.def(
        row.reflected_name,
        [&row](const Tensor& x, nb::handle other) -> nb::object {
          const Operand y = read_operand(other, x);
          if (!y.valid) return not_implemented();
          return nb::cast(without_gil([&] {
            check_size(row, x, y);
            return y.tensor.defined() ? row.op(y.tensor, x) : row.reflected(y.number, x);
          }));
        },
        nb::arg("other").none(), nb::is_operator());
  }
  if (row.in_place_name) {
    tensor.def(
        row.in_place_name,
        [&row](nb::handle self, nb::handle other) -> nb::object {
          const Tensor& x = nb::cast<const Tensor&>(self);
          const Operand y = read_operand(other, x);
          if (!y.valid) return not_implemented();
          without_gil([&] { store(x, compute(row, is_recorded(x, y) ? clone(x) : x, y)); });
          return nb::borrow(self);
        },
        nb::arg("other").none(), nb::is_operator());
  }
}

/// What the method without _ gives in PyTorch's other words, written to the tensor.
Tensor& write_in_other_words(Tensor& t, const char* method, nb::handle other, const char* word,
                             nb::handle value) {
  nb::dict words;
  words[word] = value;
  const nb::object source = nb::cast(without_gil([&] { return clone(t); }));
  const auto result = nb::cast<Tensor>(source.attr(method)(other, **words));
  without_gil([&] { store(t, result); });
  return t;
}

struct InPlace {
  const char* name;
  const char* operation;
  const char* method;
  const char* word;  ///< that it takes too; null for none
};
constexpr InPlace kInPlace[] = {{"add_", "__add__", "add", "alpha"},
                                {"sub_", "__sub__", "sub", "alpha"},
                                {"mul_", "__mul__", "mul", nullptr},
                                {"div_", "__truediv__", "div", "rounding_mode"}};

/// x.add_(y) and the like; x itself is returned.
void bind_arithmetic_in_place(nb::class_<Tensor>& tensor) {
  constexpr const char* kDoc =
      "Overwrites this tensor with the result of the method without _, which must have its shape. "
      "other is a tensor or a number.";
  for (const InPlace& f : kInPlace) {
    const std::string_view wanted = f.operation;
    const Row* row = std::ranges::find_if(kRows, [&](const Row& r) { return r.name == wanted; });
    tensor.def(
        f.name,
        [row, of = f.name](Tensor& t, nb::handle other) -> Tensor& {
          const Operand y = read_operand(other, t);
          if (!y.valid)
            raise_type_error("{}: expected a tensor or a number, got {}", of, class_name(other));
          without_gil([&] { store(t, compute(*row, is_recorded(t, y) ? clone(t) : t, y)); });
          return t;
        },
        "other"_a, nb::rv_policy::reference, kDoc);
    if (!f.word) continue;
    tensor.def(
        f.name,
        [method = f.method, word = f.word](Tensor& t, nb::handle other, nb::handle value)
            -> Tensor& { return write_in_other_words(t, method, other, word, value); },
        "other"_a, nb::kw_only(), nb::arg(f.word).none(), nb::rv_policy::reference, kDoc);
  }
}

}  // namespace

void bind_operators(nb::class_<Tensor>& tensor) {
  for (const Row& row : kRows) bind_row(tensor, row);
  // Two tensors are never compared for a dict's sake: each Python object is its own key.
  tensor.def("__hash__",
             [](nb::handle self) { return reinterpret_cast<intptr_t>(self.ptr()) >> 4; });
  tensor.def("__matmul__", matmul, "other"_a, nb::is_operator(), ReleaseGil());
  tensor.def("__neg__", neg, ReleaseGil());
  tensor.def("__pos__", [](const Tensor& t) { return t; });
  tensor.def(
      "__divmod__",
      [](const Tensor& x, const Tensor& y) {
        return std::pair(floor_divide(x, y), remainder(x, y));
      },
      "other"_a, nb::is_operator(), ReleaseGil());
  tensor.def(
      "__divmod__",
      [](const Tensor& x, Number y) { return std::pair(floor_divide(x, y), remainder(x, y)); },
      "other"_a, nb::is_operator(), ReleaseGil());
  tensor.def("__abs__", abs, ReleaseGil());
  tensor.def("__invert__", bitwise_not, ReleaseGil());
  bind_arithmetic_in_place(tensor);
}

}  // namespace mica::python
