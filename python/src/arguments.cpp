#include "python/src/arguments.h"

#include <string_view>

#include "mica/ops/linalg/results.h"
#include "python/src/past_int64.h"

namespace mica::python {
namespace {

Number integer_of(nb::handle value) {
  int overflow = 0;
  const int64_t small = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
  if (overflow == 0) return small;
  if (overflow > 0) {
    const uint64_t large = PyLong_AsUnsignedLongLong(value.ptr());
    if (!PyErr_Occurred()) return large;
    PyErr_Clear();
  }
  const double number = PyLong_AsDouble(value.ptr());
  if (number == -1 && PyErr_Occurred()) nb::raise_python_error();
  return past_int64(number);
}

Number complex_of(nb::handle value) {
  Number number;
  read_number(value, number);
  return number;
}

/// Integers, tensors (None is an undefined one among them), or any arguments.
Argument sequence_of(nb::handle value) {
  ArgumentList list;
  size_t integers = 0;
  size_t tensors = 0;
  size_t absent = 0;
  size_t n = 0;
  for (; const nb::object entry = entry_of(value, static_cast<Py_ssize_t>(n)); ++n) {
    list.push_back(to_argument(entry));
    const Number* number = list.back().get<Number>();
    integers += number && number->kind() == Number::Kind::integer ? 1 : 0;
    tensors += list.back().get<Tensor>() ? 1 : 0;
    absent += list.back().is_none() ? 1 : 0;
  }
  if (integers == n && n <= Dims::kMaxRank) {
    Dims dims;
    for (const Argument& a : list) dims.push_back(a.get<Number>()->as<int64_t>());
    return dims;
  }
  if (integers == n) {
    Ints ints;
    for (const Argument& a : list) ints.push_back(a.get<Number>()->as<int64_t>());
    return ints;
  }
  if (tensors > 0 && tensors + absent == n) {
    Tensors all;
    for (const Argument& a : list) all.push_back(a.is_none() ? Tensor() : *a.get<Tensor>());
    return all;
  }
  return list;
}

const char* type_text(ParameterKind kind) {
  constexpr const char* kInts = "int | collections.abc.Sequence[int]";
  switch (kind) {
    case ParameterKind::tensor:
      return "mica.Tensor";
    case ParameterKind::tensors:
      return "collections.abc.Sequence[mica.Tensor]";
    case ParameterKind::boolean:
      return "bool";
    case ParameterKind::integer:
      return "int";
    case ParameterKind::number:
      return "float";
    case ParameterKind::word:
    case ParameterKind::text:
      return "str";
    case ParameterKind::numbers:
      return "float | collections.abc.Sequence[float]";
    case ParameterKind::padding:
      return "int | str | collections.abc.Sequence[int] | "
             "collections.abc.Sequence[collections.abc.Sequence[int]]";
    case ParameterKind::two_dims:
      return "collections.abc.Sequence[collections.abc.Sequence[int]]";
    case ParameterKind::dtype:
      return "mica.dtype | str | type";
    case ParameterKind::device:
      return "mica.device | str | int";
    default:
      return kInts;
  }
}

const char* result_text(ResultKind kind) {
  switch (kind) {
    case ResultKind::tensor:
      return "mica.Tensor";
    case ResultKind::tensors:
      return "tuple[mica.Tensor, ...]";
    case ResultKind::values_and_indices:
      return "mica.ValuesIndices";
    case ResultKind::boolean:
      return "bool";
    case ResultKind::number:
      return "float";
    case ResultKind::any:
      break;
  }
  return "object";
}

/// What a function gives back: a named tuple where its results have names.
std::string result_text(const Function& function, const Signature& s) {
  for (const linalg::ResultNames& names : linalg::result_names())
    if (std::string_view(names.function) == function.name)
      return std::string("mica.linalg.") + names.type;
  return result_text(s.result);
}

std::string signature_text(const Function& function, const Signature& s, const char* name,
                           bool method, bool spreads) {
  std::string text;
  bool by_name = false;
  for (const Parameter& p : s.parameters) {
    if (!text.empty()) text += ", ";
    if (method && text.empty()) {
      text = "self";
      continue;
    }
    if (p.spread && spreads) {
      text +=
          fmt::format("*{}: {}", p.name, p.kind == ParameterKind::tensors ? "mica.Tensor" : "int");
      by_name = true;
      continue;
    }
    if (p.keyword_only && !by_name) text += "*, ";
    by_name = by_name || p.keyword_only;
    text += fmt::format("{}: {}{}", p.name, type_text(p.kind), p.optional ? " | None" : "");
    if (!p.required)
      text +=
          " = " + nb::cast<std::string>(nb::repr(to_object(Argument(p.fallback), ResultKind::any)));
  }
  return fmt::format("{}({}) -> {}", name, text, result_text(function, s));
}

}  // namespace

Argument to_argument(nb::handle value) {
  PyObject* p = value.ptr();
  if (const Tensor* t = tensor_or_null(value)) return *t;
  if (value.is_none()) return {};
  if (PyBool_Check(p)) return p == Py_True;
  if (PyFloat_Check(p)) return PyFloat_AsDouble(p);
  if (PyLong_Check(p)) return integer_of(value);
  if (PyComplex_Check(p)) return complex_of(value);
  if (PyUnicode_Check(p)) {
    auto text = nb::cast<std::string>(value);
    if (text == "cuda" || text.starts_with("cuda:")) return parse_device(value);
    return text;
  }
  if (PyTuple_Check(p) || PyList_Check(p)) return sequence_of(value);
  if (PyIndex_Check(p)) {
    const nb::object whole = nb::steal(PyNumber_Index(p));
    if (whole.is_valid()) return integer_of(whole);
    PyErr_Clear();
  }
  if (DType t{}; nb::try_cast(value, t, false)) return t;
  if (Device d; nb::try_cast(value, d, false)) return d;
  if (PyType_Check(p) || nb::hasattr(value, "kind")) return parse_dtype(value);  // NumPy's
  if (is_complex_number(value)) return complex_of(value);
  if (nb::hasattr(value, "__float__")) {  // a number of NumPy
    const nb::object number = nb::steal(PyNumber_Float(p));
    if (number.is_valid()) return PyFloat_AsDouble(number.ptr());
    PyErr_Clear();
  }
  return ArgumentList{Argument()};  // which no parameter takes
}

void read_argument(nb::handle value, Argument& argument) {
  if (const Tensor* t = tensor_or_null(value)) {
    argument.emplace<Tensor>(*t);
  } else {
    argument = to_argument(value);
  }
}

nb::object to_object(Argument&& result, ResultKind kind) {
  if (Tensor* t = std::get_if<Tensor>(&result)) return nb::cast(std::move(*t));
  if (const Tensors* t = result.get<Tensors>()) {
    if (kind != ResultKind::values_and_indices) return to_tuple(*t);
    return nb::module_::import_("mica._mica").attr("ValuesIndices")(t->front(), t->back());
  }
  if (const Number* n = result.get<Number>()) {
    if (n->is_bool()) return nb::cast(n->as<bool>());
    if (n->is_floating() || n->is_complex()) return nb::cast(*n);
    return n->kind() == Number::Kind::integer ? nb::cast(n->as<int64_t>())
                                              : nb::cast(n->as<uint64_t>());
  }
  if (const std::string* s = result.get<std::string>()) return nb::cast(*s);
  if (const Dims* d = result.get<Dims>()) return nb::cast(*d);
  return nb::none();
}

std::vector<std::string> signatures_of(const Function& function, const char* name, bool method) {
  std::vector<std::string> texts;
  for (const Signature& s : function.signatures) {
    // A method is called on a tensor.
    if (method && s.parameters[0].kind != ParameterKind::tensor) continue;
    texts.push_back(signature_text(function, s, name, method, false));
    for (const Parameter& p : s.parameters)
      if (p.spread) texts.push_back(signature_text(function, s, name, method, true));
  }
  return texts;
}

}  // namespace mica::python
