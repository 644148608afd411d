#include "python/src/guards.h"

#include <algorithm>
#include <bit>

#include "mica/nn/forward_hooks.h"
#include "python/src/module_handle.h"

namespace mica::python {
namespace {

/// The same object, tensor or number. 0.0 and -0.0 are different numbers.
bool same(PyObject* now, PyObject* before) {
  if (now == before) return true;
  if (now == nullptr) return false;
  if (const Tensor* a = tensor_or_null(now)) {
    const Tensor* b = tensor_or_null(before);
    return b && a->impl() == b->impl();
  }
  if (Py_TYPE(now) != Py_TYPE(before)) return false;
  if (PyFloat_CheckExact(now)) {
    const double a = PyFloat_AsDouble(now);
    const double b = PyFloat_AsDouble(before);
    return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
  }
  if (!PyLong_Check(now) && !PyUnicode_CheckExact(now) && !PyBytes_CheckExact(now)) return false;
  return PyObject_RichCompareBool(now, before, Py_EQ) == 1;
}

/// Everything that belongs to a module itself: parts that were replaced are other ones.
void collect(const nn::ModuleImpl& module, const std::vector<std::string>& skipped,
             std::vector<const void*>& parts) {
  for (const auto& [name, child] : module.children()) parts.push_back(child.impl().get());
  for (const auto& [name, tensor] : module.own_parameters()) parts.push_back(tensor.impl());
  for (const auto& [name, tensor] : module.own_buffers())
    if (std::find(skipped.begin(), skipped.end(), name) == skipped.end())
      parts.push_back(tensor.impl());
  if (const auto& hooks = module.forward_hooks()) {
    for (const auto& [id, hook] : hooks->before) parts.push_back(reinterpret_cast<void*>(id + 1));
    parts.push_back(nullptr);
    for (const auto& [id, hook] : hooks->after) parts.push_back(reinterpret_cast<void*>(id + 1));
  }
}

}  // namespace

PythonGuards::PythonGuards(const nb::list& list) {
  nb::list owned;
  for (const nb::handle row : list) {
    const auto fields = nb::cast<nb::tuple>(row);
    const auto kind = nb::cast<std::string>(fields[0]);
    owned.append(row);
    if (kind == "keep") continue;  // what callbacks of the plan belong to
    if (kind == "module") {
      Parts parts{&impl_of(fields[1]), {}, {}};
      for (const nb::handle name : nb::iter(fields[2]))
        parts.skipped.push_back(nb::cast<std::string>(name));
      collect(*parts.module, parts.skipped, parts.parts);
      modules_.push_back(std::move(parts));
      continue;
    }
    const auto place = kind == "sequence"         ? Place::Kind::sequence
                       : kind == "length"         ? Place::Kind::length
                       : kind.starts_with("item") ? Place::Kind::item
                                                  : Place::Kind::attribute;
    const nb::handle holder = fields[1];
    const nb::handle key = fields[2];
    const nb::handle value = fields[3];
    const nb::handle text = fields[4];
    places_.push_back({place, kind.ends_with(" type"), holder.ptr(), key.ptr(), value.ptr(),
                       PyUnicode_AsUTF8AndSize(text.ptr(), nullptr)});
  }
  list_ = owned;
}

bool PythonGuards::holds(const Place& place) {
  switch (place.kind) {
    case Place::Kind::item: {
      PyObject* const now = PyDict_GetItemWithError(place.holder, place.key);
      if (now == nullptr) PyErr_Clear();
      return place.type_alone ? now && Py_TYPE(now) == Py_TYPE(place.value)
                              : same(now, place.value);
    }
    case Place::Kind::attribute: {
      const nb::object now = nb::steal(PyObject_GetAttr(place.holder, place.key));
      if (!now.is_valid()) PyErr_Clear();
      return place.type_alone ? now.is_valid() && Py_TYPE(now.ptr()) == Py_TYPE(place.value)
                              : same(now.ptr(), place.value);
    }
    case Place::Kind::sequence: {
      const bool is_list = PyList_Check(place.holder);
      const Py_ssize_t n = PyTuple_Size(place.value);
      if (PySequence_Size(place.holder) != n) return false;
      for (Py_ssize_t i = 0; i < n; ++i) {
        PyObject* const now =
            is_list ? PyList_GetItem(place.holder, i) : PyTuple_GetItem(place.holder, i);
        if (!same(now, PyTuple_GetItem(place.value, i))) return false;
      }
      return true;
    }
    case Place::Kind::length:
      return PyDict_Size(place.holder) == PyLong_AsSsize_t(place.value);
  }
  return false;
}

const char* PythonGuards::broken() const {
  for (const Place& place : places_)
    if (!holds(place)) return place.text;
  thread_local std::vector<const void*> parts;
  for (const Parts& of : modules_) {
    parts.clear();
    collect(*of.module, of.skipped, parts);
    if (parts != of.parts) return "a module has other parts";
  }
  return nullptr;
}

}  // namespace mica::python
