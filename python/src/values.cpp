#include "python/src/values.h"

#include "mica/core/stack.h"
#include "mica/ops/sparse/parts.h"
#include "python/src/callback.h"

namespace mica::python {
namespace {

/// A list, named tuple or dataclass, or any object, which then is the type; tuples and dicts are
/// Values' own.
class PythonForm final : public Values::Form {
 public:
  enum class Kind : uint8_t { list, named_tuple, dataclass, object };

  PythonForm(Kind kind, nb::handle type) : kind_(kind), type_(type) {}
  bool equals(const Form& other) const override {
    const auto* python = dynamic_cast<const PythonForm*>(&other);
    return python && python->kind_ == kind_ && python->type_.get().is(type_.get());
  }

  nb::object make(const nb::list& entries, std::span<const std::string> keys) const {
    if (kind_ == Kind::object) return nb::borrow(type_.get());
    if (kind_ == Kind::list) return entries;
    if (kind_ == Kind::named_tuple) return type_.get().attr("_make")(entries);
    // Not by its __init__, which may want other arguments.
    const nb::object object_type = nb::module_::import_("builtins").attr("object");
    nb::object made = object_type.attr("__new__")(type_.get());
    for (size_t i = 0; i < keys.size(); ++i)
      object_type.attr("__setattr__")(made, keys[i], entries[i]);
    return made;
  }

 private:
  Kind kind_;
  Shared type_;
};

Ref<const Values::Form> form(PythonForm::Kind kind, nb::handle type) {
  return Ref<const Values::Form>(new PythonForm(kind, type));
}

/// A sparse tensor is a list of its parts.
class SparseForm final : public Values::Form {
 public:
  explicit SparseForm(const SparseTensor& a) : parts_(SparseParts::of(a)) {
    parts_.compressed = parts_.plain = parts_.values = {};
  }
  bool equals(const Form& other) const override {
    const auto* sparse = dynamic_cast<const SparseForm*>(&other);
    return sparse && sparse->parts_.layout == parts_.layout &&
           sparse->parts_.shape == parts_.shape && sparse->parts_.coalesced == parts_.coalesced;
  }

  static Values list(const SparseTensor& a) {
    const SparseParts p = SparseParts::of(a);
    std::vector<Values> entries = {p.values, p.plain};
    if (p.compressed.defined()) entries.emplace_back(p.compressed);
    return Values::list(std::move(entries), Ref<const Form>(new SparseForm(a)));
  }
  SparseTensor make(std::span<const Values> entries) const {
    SparseParts p = parts_;
    p.values = entries[0].tensor();
    p.plain = entries[1].tensor();
    if (entries.size() > 2) p.compressed = entries[2].tensor();
    return p.make();
  }

 private:
  SparseParts parts_;  // without tensors
};

bool read_constant(nb::handle object, Constant& constant) {
  if (object.is_none()) {
    constant = std::monostate();
  } else if (PyBool_Check(object.ptr())) {
    constant = object.is(nb::handle(Py_True));
  } else if (PyFloat_Check(object.ptr())) {
    constant = PyFloat_AsDouble(object.ptr());
  } else if (PyUnicode_Check(object.ptr())) {
    constant = nb::cast<std::string>(object);
  } else if (PyLong_Check(object.ptr())) {
    int overflow = 0;
    constant = static_cast<int64_t>(PyLong_AsLongLongAndOverflow(object.ptr(), &overflow));
    return overflow == 0;
  } else if (nb::hasattr(object, "_mica_operand")) {
    return read_constant(object.attr("_now")(), constant);  // a number of a capture: its value
  } else {
    return false;
  }
  return true;
}

nb::object constant_to_python(const Constant& constant, nb::handle numbers) {
  return std::visit(
      [&]<class T>(const T& value) -> nb::object {
        if constexpr (std::is_same_v<T, std::monostate>) {
          return nb::none();
        } else if constexpr (std::is_same_v<T, PlacedNumber>) {
          return numbers[nb::int_(value.place)];
        } else {
          return nb::cast(value);
        }
      },
      constant);
}

/// Whether it is a list of numbers, or of such lists.
bool is_numbers(nb::handle object) {
  check_stack("Values");
  if (!PyTuple_Check(object.ptr()) && !PyList_Check(object.ptr()))
    return PyFloat_Check(object.ptr()) || PyLong_Check(object.ptr());
  nb::object entry;
  for (Py_ssize_t i = 0; (entry = entry_of(object, i)).is_valid(); ++i)
    if (!is_numbers(entry)) return false;
  return true;
}

bool is_array(nb::handle object) {
  return nb::hasattr(object, "__array__") || nb::hasattr(object, "__dlpack__") ||
         nb::hasattr(object, "__array_interface__");
}

/// Reads a tree of Python objects.
class Reader {
 public:
  Reader(std::vector<Constant>* constants, bool arrays) : constants_(constants), arrays_(arrays) {}

  Values read(nb::handle object, const ValuesPath& path, bool is_root) {
    if (const Tensor* t = tensor_or_null(object)) return *t;
    if (!arrays_)
      if (Constant constant; read_constant(object, constant)) {
        if (constants_) {
          constants_->push_back(std::move(constant));
          return {};
        }
      }
    if (object.is_none()) return {};
    check_stack("Values");
    if (PyDict_Check(object.ptr())) return dict(object, path);
    const bool is_tuple = PyTuple_Check(object.ptr());
    const bool is_sequence = is_tuple || PyList_Check(object.ptr());
    if (arrays_ &&
        (is_sequence ? !is_root && is_numbers(object) : is_numbers(object) || is_array(object)))
      return tensor_from(object, nb::none(), nb::none());
    if (is_sequence) return sequence(object, path, is_tuple);
    SparseTensor* matrix = nullptr;
    if (nb::try_cast(object, matrix, false)) return SparseForm::list(*matrix);
    if (nb::hasattr(object.type(), "__dataclass_fields__")) return dataclass(object, path);
    raise_type_error(
        "{}: expected a tensor, None{}, a tuple, list, dict or dataclass of them, got {}",
        path.text(),
        constants_ ? ", a number, a text"
        : arrays_  ? ", an array, a number"
                   : "",
        class_name(object));
  }

 private:
  Values sequence(nb::handle object, const ValuesPath& path, bool is_tuple) {
    std::vector<Values> entries;
    nb::object entry;
    for (Py_ssize_t i = 0; (entry = entry_of(object, i)).is_valid(); ++i)
      entries.push_back(read(entry, ValuesPath(path, int64_t{i}), false));
    Ref<const Values::Form> own;
    if (!is_tuple && !arrays_)
      own = form(PythonForm::Kind::list, nb::handle(reinterpret_cast<PyObject*>(&PyList_Type)));
    if (is_tuple && nb::hasattr(object, "_make"))
      own = form(PythonForm::Kind::named_tuple, object.type());
    return Values::list(std::move(entries), std::move(own));
  }

  Values dict(nb::handle object, const ValuesPath& path) {
    std::vector<Values::Entry> entries;
    for (const auto& [key, value] : nb::borrow<nb::dict>(object)) {
      if (!PyUnicode_Check(key.ptr()))
        raise_type_error("{}: expected a dict with texts as keys, got {}", path.text(),
                         nb::repr(key).c_str());
      const auto name = nb::cast<std::string>(key);
      entries.emplace_back(name, read(value, ValuesPath(path, name), false));
    }
    return Values::dict(std::move(entries));
  }

  Values dataclass(nb::handle object, const ValuesPath& path) {
    std::vector<Values::Entry> entries;
    const nb::object fields = nb::module_::import_("dataclasses").attr("fields")(object);
    for (const nb::handle field : nb::iter(fields)) {
      const auto name = nb::cast<std::string>(field.attr("name"));
      entries.emplace_back(name, read(object.attr(name.c_str()), ValuesPath(path, name), false));
    }
    return Values::dict(std::move(entries), form(PythonForm::Kind::dataclass, object.type()));
  }

  std::vector<Constant>* constants_;
  bool arrays_;
};

nb::object to_python(const Values& values, std::span<const Constant>& constants,
                     nb::handle numbers) {
  if (values.is_tensor()) return nb::cast(values.tensor());
  if (values.is_nothing()) {
    if (constants.empty()) return nb::none();
    nb::object value = constant_to_python(constants.front(), numbers);
    constants = constants.subspan(1);
    return value;
  }
  if (const auto own = values.form())
    if (const auto* sparse = dynamic_cast<const SparseForm*>(own.get()))
      return nb::cast(sparse->make(values.entries()));
  nb::list entries;
  for (const Values& entry : values.entries()) entries.append(to_python(entry, constants, numbers));
  if (const auto own = values.form())
    if (const auto* python = dynamic_cast<const PythonForm*>(own.get()))
      return python->make(entries, values.keys());
  if (values.is_list()) return nb::tuple(entries);
  nb::dict dict;
  for (size_t i = 0; i < values.keys().size(); ++i) dict[nb::cast(values.keys()[i])] = entries[i];
  return dict;
}

/// The same of a method that is bound, which inspect does not know.
bool bound_takes_several(nb::handle signatures) {
  for (const nb::handle signature : nb::iter(signatures)) {
    const auto text = nb::cast<std::string>(signature[0]);
    int depth = 0;
    int commas = 0;  // the first is behind self
    for (size_t i = text.find('('); i < text.size(); ++i) {
      if (text[i] == '(' || text[i] == '[') ++depth;
      if ((text[i] == ')' || text[i] == ']') && --depth == 0) break;
      if (text[i] == ',' && depth == 1) ++commas;
    }
    if (commas > 1) return true;
  }
  return false;
}

/// Whether a function takes more than one value by position.
bool takes_several(nb::handle function) {
  constexpr const char* kBound = "__nb_signature__";
  if (nb::hasattr(function, kBound)) return bound_takes_several(function.attr(kBound));
  const nb::object inspect = nb::module_::import_("inspect");
  const nb::object parameter = inspect.attr("Parameter");
  int64_t count = 0;
  for (const nb::handle p :
       nb::iter(inspect.attr("signature")(function).attr("parameters").attr("values")())) {
    const nb::object kind = p.attr("kind");
    if (kind.equal(parameter.attr("VAR_POSITIONAL"))) return true;
    if (kind.equal(parameter.attr("POSITIONAL_ONLY")) ||
        kind.equal(parameter.attr("POSITIONAL_OR_KEYWORD")))
      ++count;
  }
  return count > 1;
}

}  // namespace

Values values_from(nb::handle object, const ValuesPath& path, std::vector<Constant>* constants) {
  return Reader(constants, false).read(object, path, true);
}

Values example_from(nb::handle object, const ValuesPath& path) {
  return Reader(nullptr, true).read(object, path, true);
}

nb::object values_to_python(const Values& values, std::span<const Constant> constants,
                            nb::handle numbers) {
  return to_python(values, constants, numbers);
}

Values opaque(nb::handle object) {
  return Values::list({}, form(PythonForm::Kind::object, object));
}

Values values_from_arguments(const nb::tuple& args, const ValuesPath& path) {
  return values_from(args.size() == 1 ? nb::object(args[0]) : nb::object(args), path);
}

nb::tuple arguments_from(nb::handle function, const Values& in, nb::dict& named) {
  if (in.is_tensor() || in.is_nothing() || !takes_several(function))
    return nb::make_tuple(values_to_python(in));
  if (in.is_list()) return nb::tuple(values_to_python(in));
  if (in.form()) return nb::make_tuple(values_to_python(in));  // a dataclass is one argument
  named = nb::borrow<nb::dict>(values_to_python(in));
  return {};
}

nb::object call_with_values(nb::handle function, const Values& in) {
  if (in.is_tensor()) return function(in.tensor());
  nb::dict named;
  const nb::tuple args = arguments_from(function, in, named);
  return function(*args, **named);
}

}  // namespace mica::python
