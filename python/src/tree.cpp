// mica.save and mica.load: trees of tensors and plain data in files.
#include "mica/io/tree.h"

#include <nanobind/stl/filesystem.h>

#include "mica/core/check.h"
#include "mica/ops/copy/copy.h"
#include "python/src/bindings.h"

namespace mica::python {
namespace {

using io::Tree;

Tree to_tree(nb::handle value, const std::string& place, int depth = 0) {
  check(depth < io::kMostTreeDepth, "save: {}: more than {} levels", place, io::kMostTreeDepth);
  if (value.is_none()) return {};
  if (const Tensor* tensor = tensor_or_null(value)) return *tensor;
  if (PyBool_Check(value.ptr())) return value.is(nb::handle(Py_True));
  if (PyLong_Check(value.ptr())) return nb::cast<int64_t>(value);
  if (PyFloat_Check(value.ptr())) return nb::cast<double>(value);
  if (PyUnicode_Check(value.ptr())) return nb::cast<std::string>(value);
  const bool tuple = PyTuple_Check(value.ptr());
  if (tuple || PyList_Check(value.ptr())) {
    Tree::List items;
    size_t i = 0;
    for (nb::handle item : value)
      items.push_back(to_tree(item, fmt::format("{}[{}]", place, i++), depth + 1));
    return tuple ? Tree(Tree::Tuple{std::move(items)}) : Tree(std::move(items));
  }
  if (PyDict_Check(value.ptr())) {
    Tree::Dict pairs;
    for (auto [key, entry] : nb::borrow<nb::dict>(value)) {
      const std::string name = nb::repr(key).c_str();
      pairs.emplace_back(to_tree(key, fmt::format("a key of {}", place), depth + 1),
                         to_tree(entry, fmt::format("{}[{}]", place, name), depth + 1));
    }
    return pairs;
  }
  // NumPy's numbers and whatever else says that it is one.
  if (nb::hasattr(value, "__index__")) return nb::cast<int64_t>(value.attr("__index__")());
  raise_type_error(
      "save: {} is a {}; expected tensors, numbers, texts, None, and lists, tuples and "
      "dicts of them",
      place, class_name(value));
}

nb::object from_tree(const Tree& tree, const std::optional<Device>& device) {
  if (const bool* value = tree.get_if<bool>()) return nb::cast(*value);
  if (const int64_t* value = tree.get_if<int64_t>()) return nb::cast(*value);
  if (const double* value = tree.get_if<double>()) return nb::cast(*value);
  if (const std::string* value = tree.get_if<std::string>()) return nb::cast(*value);
  if (const Tensor* value = tree.get_if<Tensor>())
    return nb::cast(device ? without_gil([&] { return to(*value, *device); }) : *value);
  if (const Tree::Dict* dict = tree.get_if<Tree::Dict>()) {
    nb::dict result;
    for (const auto& [key, value] : *dict) result[from_tree(key, {})] = from_tree(value, device);
    return result;
  }
  const Tree::Tuple* tuple = tree.get_if<Tree::Tuple>();
  const Tree::List* list = tuple ? &tuple->items : tree.get_if<Tree::List>();
  if (!list) return nb::none();
  nb::list result;
  for (const Tree& item : *list) result.append(from_tree(item, device));
  return tuple ? nb::object(nb::tuple(result)) : nb::object(result);
}

}  // namespace

void bind_tree(nb::module_& m) {
  m.def(
      "save",
      [](nb::handle obj, const std::filesystem::path& f) {
        const Tree tree = to_tree(obj, "obj");
        without_gil([&] { io::save(f.string(), tree); });
      },
      "obj"_a.none(), "f"_a,
      "Writes tensors and plain data (numbers, texts, None, lists, tuples, dicts) to a safetensors "
      "file, all or nothing.");
  m.def(
      "load",
      [](const std::filesystem::path& f, nb::handle map_location, bool weights_only) {
        check<Unsupported>(weights_only,
                           "load: weights_only=False would run code; only tensors and plain data "
                           "are read");
        std::optional<Device> device;
        if (!map_location.is_none()) device = parse_device(map_location);
        const Tree tree = without_gil([&] { return io::load(f.string()); });
        return from_tree(tree, device);
      },
      "f"_a, "map_location"_a = nb::none(), nb::kw_only(), "weights_only"_a = true,
      nb::sig("def load(f: str | os.PathLike[str], map_location: object = None, *, weights_only: "
              "bool = True) -> Any"),
      "What save() wrote, the tensors of any safetensors file, or what torch.save wrote of tensors "
      "and plain data; no code is run. Tensors are on the CPU, or on the device map_location.");
}

}  // namespace mica::python
