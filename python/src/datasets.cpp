// Data sets: in memory, of files, and those that Python defines by __len__ and __getitem__.
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/pair.h>

#include "mica/data/collate.h"
#include "mica/data/csv.h"
#include "mica/data/dataset.h"
#include "mica/data/idx.h"
#include "mica/data/image_folder.h"
#include "mica/data/mnist.h"
#include "mica/data/sampler.h"
#include "python/src/callback.h"
#include "python/src/dataset.h"
#include "python/src/values.h"

namespace mica::python {
namespace {

using data::Dataset;
using data::Example;
using Path = std::filesystem::path;
using Pair = std::pair<Tensor, Tensor>;

Tensor as_tensor(nb::handle value) {
  return nb::isinstance<Tensor>(value) ? nb::cast<Tensor>(value)
                                       : tensor_from(value, nb::none(), nb::none());
}

Example as_example(nb::handle value) { return example_from(value, ValuesPath("example")); }

/// An object with __len__ and __getitem__.
class PythonDataset : public data::DatasetImpl {
 public:
  explicit PythonDataset(nb::handle object) : object_(object) {}

  PyObject* object() const { return object_.get().ptr(); }

  int64_t size() const override {
    const nb::gil_scoped_acquire acquire;
    return static_cast<int64_t>(nb::len(object_.get()));
  }
  Example get(int64_t i) const override {
    const DatasetScope scope(object_.get());
    return example_of(i, [&] { return as_example(nb::object(object_.get()[nb::int_(i)])); });
  }

 private:
  Shared object_;
};

bool is_own(nb::handle object) { return object.type().is(nb::type<Dataset>()); }

/// What a class of one's own has to define.
[[noreturn]] void missing(nb::handle self, const char* method) {
  raise_type_error("data.Dataset: {} must define {}", class_name(self), method);
}

Dataset mapped(nb::handle self, nb::handle function) {
  return as_dataset(self).map([f = Shared(function)](const Example& e) {
    const nb::gil_scoped_acquire acquire;
    const nb::object parts = values_to_python(e);
    return as_example(e.is_list() ? f.get()(*parts) : f.get()(parts));
  });
}

void bind_readers(nb::module_& m) {
  const auto def_mnist = [&](const char* name, auto read, const char* doc) {
    m.def(
        name,
        [read](bool train, const Path& directory, bool normalize) {
          const data::TensorDataset set =
              read({.train = train, .directory = directory.string(), .normalize = normalize});
          return Pair{set.x, set.y};
        },
        "train"_a = true, "directory"_a = "", "normalize"_a = false, ReleaseGil(), doc);
  };
  def_mnist("fashion_mnist", data::fashion_mnist,
            "Images (N, 1, 28, 28) and labels (N) of Fashion-MNIST.");
  def_mnist("mnist", data::mnist,
            "The same of MNIST; without a directory, Fashion-MNIST's images.");
  m.def(
      "read_idx", [](const Path& path) { return data::read_idx(path.string()); }, "path"_a,
      ReleaseGil(), "An IDX file, the format of MNIST, plain or packed by gzip.");
  m.def(
      "image_folder",
      [](const Path& root, Size2 size, int64_t channels) {
        return data::image_folder(root.string(), {.size = size, .channels = channels});
      },
      "root"_a, "size"_a = 0, "channels"_a = 3, ReleaseGil(),
      "PNG and JPEG files below one directory per class, read when they are asked for.");
  m.def(
      "read_csv",
      [](const Path& path, bool header, int64_t label, const std::string& label_name,
         nb::handle label_dtype, const std::string& delimiter) {
        check(delimiter.size() == 1, "read_csv: delimiter must be one character, got '{}'",
              delimiter);
        const data::CsvOptions options = {
            .header = header,
            .label = label,
            .label_name = label_name,
            .label_dtype = label_dtype.is_none() ? DType::i64 : parse_dtype(label_dtype),
            .delimiter = delimiter[0]};
        const auto set = without_gil([&] { return data::read_csv(path.string(), options); });
        return Pair{set.x, set.y};
      },
      "path"_a, nb::kw_only(), "header"_a = false, "label"_a = -1, "label_name"_a = "",
      "label_dtype"_a = nb::none(), "delimiter"_a = ",",
      "Rows of numbers: x (N, F) float32 and y (N), a column of them.");
}

/// Whether it is a tuple, list or dict of arrays, whose rows are the examples.
bool is_arrays(nb::handle object) {
  const bool is_dict = PyDict_Check(object.ptr());
  if (!is_dict && !PyTuple_Check(object.ptr()) && !PyList_Check(object.ptr())) return false;
  const nb::object parts = is_dict ? nb::object(object.attr("values")()) : nb::borrow(object);
  const bool enough = nb::len(object) >= (is_dict ? 1 : 2);
  for (const nb::handle part : nb::iter(parts))
    if (!nb::hasattr(part, "shape") || nb::len(nb::object(part.attr("shape"))) == 0) return false;
  return enough;
}

}  // namespace

Dataset as_dataset(nb::handle object) {
  if (is_own(object)) return nb::cast<Dataset>(object);
  if (is_arrays(object)) return Dataset(example_from(object, ValuesPath("dataset")));
  if (!nb::hasattr(object, "__len__") || !nb::hasattr(object, "__getitem__"))
    raise_type_error("data: expected a data set with __len__ and __getitem__, got {}",
                     class_name(object));
  return Dataset(std::make_shared<PythonDataset>(object));
}

PyObject* own_object(const Dataset& set) {
  const auto* python = dynamic_cast<const PythonDataset*>(set.impl().get());
  return python && set.impl().use_count() == 1 ? python->object() : nullptr;
}

namespace {

/// Parts of data sets, and the orders of samplers.
void bind_parts(nb::module_& m) {
  m.def(
      "random_split",
      [](nb::handle dataset, const std::vector<double>& lengths, nb::handle generator) {
        const uint64_t seed = generator.is_none() ? 0
                              : PyLong_Check(generator.ptr())
                                  ? nb::cast<uint64_t>(generator)
                                  : nb::cast<uint64_t>(generator.attr("initial_seed")());
        double sum = 0;
        std::vector<int64_t> counts;
        for (const double n : lengths) {
          sum += n;
          counts.push_back(static_cast<int64_t>(n));
        }
        return without_gil([&, set = as_dataset(dataset)] {
          return sum <= 1 + 1e-6 && set.size() != 1 ? data::random_split(set, lengths, seed)
                                                    : data::random_split(set, counts, seed);
        });
      },
      "dataset"_a, "lengths"_a, "generator"_a = nb::none(),
      "Parts of a data set, of these lengths or fractions, drawn at random; generator is the "
      "seed.");
  m.def(
      "ConcatDataset",
      [](nb::handle datasets) {
        std::vector<Dataset> all;
        for (nb::handle each : nb::iter(datasets)) all.push_back(as_dataset(each));
        return data::concat(std::move(all));
      },
      "datasets"_a, "The examples of several data sets, one after the other.");
  m.def(
      "Subset",
      [](nb::handle dataset, std::vector<int64_t> indices) {
        return without_gil(
            [&, set = as_dataset(dataset)] { return set.subset(std::move(indices)); });
      },
      "dataset"_a, "indices"_a, "The examples at the indices, in their order.");
  m.def(
      "_pad",
      [](nb::handle examples, double value, int64_t multiple) {
        std::vector<Example> all;
        for (nb::handle each : nb::iter(examples)) all.push_back(as_example(each));
        return values_to_python(without_gil([&] {
          return data::pad_collate({.value = value, .multiple = multiple})(std::move(all));
        }));
      },
      "examples"_a, "value"_a, "multiple"_a);
  m.def(
      "_random_order",
      [](int64_t n, uint64_t seed, int64_t epoch, bool replacement,
         std::optional<int64_t> samples) {
        return data::random_sampler(n, {seed, replacement, samples}).order(epoch);
      },
      "n"_a, "seed"_a, "epoch"_a, "replacement"_a, "samples"_a.none());
  m.def(
      "_weighted_order",
      [](const std::vector<double>& weights, int64_t samples, uint64_t seed, int64_t epoch,
         bool replacement) {
        return data::weighted_sampler(weights, samples, {seed, replacement}).order(epoch);
      },
      "weights"_a, "samples"_a, "seed"_a, "epoch"_a, "replacement"_a);
  m.def(
      "_distributed_order",
      [](int64_t n, int64_t replicas, int64_t rank, std::optional<uint64_t> shuffle, bool drop_last,
         int64_t epoch) {
        return data::distributed_sampler(n, {replicas, rank, shuffle, drop_last}).order(epoch);
      },
      "n"_a, "replicas"_a, "rank"_a, "shuffle"_a.none(), "drop_last"_a, "epoch"_a);
}

}  // namespace

void bind_datasets(nb::module_& m) {
  bind_parts(m);
  nb::class_<Dataset> dataset(
      m, "Dataset",
      "Examples by number: pairs (x, y), or any tuples, dicts, named tuples or dataclasses of "
      "tensors. One's own class derives from it, or from nothing, and defines "
      "__len__ and __getitem__.");
  dataset.def("__init__", [](Dataset* self) { new (self) Dataset(nullptr); });
  dataset.def("__len__", [](nb::handle self) {
    if (!is_own(self)) missing(self, "__len__(self)");
    return nb::cast<const Dataset&>(self).size();
  });
  dataset.def(
      "__getitem__",
      [](nb::handle self, int64_t i) {
        if (!is_own(self)) missing(self, "__getitem__(self, index)");
        const auto& set = nb::cast<const Dataset&>(self);
        return values_to_python(without_gil([&] { return set.get(i < 0 ? i + set.size() : i); }));
      },
      "index"_a);
  dataset.def("map", mapped, "function"_a,
              "Each example as function(x, y) makes it, whenever it is asked for; of a dict as "
              "function(example) does.");
  dataset.def(
      "first",
      [](nb::handle self, int64_t n) {
        return without_gil([&, set = as_dataset(self)] { return set.first(n); });
      },
      "n"_a, "The first n, or all where there are fewer.");
  dataset.def(
      "subset",
      [](nb::handle self, std::vector<int64_t> indices) {
        return without_gil([&, set = as_dataset(self)] { return set.subset(std::move(indices)); });
      },
      "indices"_a, "Those at the indices, in their order.");
  dataset.def(
      "shuffle",
      [](nb::handle self, uint64_t seed) {
        return without_gil([&, set = as_dataset(self)] { return set.shuffle(seed); });
      },
      "seed"_a, "All in another order: the same for the same seed.");
  dataset.def_prop_ro(
      "class_names",
      [](nb::handle self) {
        // Names of folders among them, which may hold any bytes: as Python has file names.
        nb::typed<nb::list, nb::str> names;
        for (const std::string& name : as_dataset(self).class_names())
          names.append(nb::steal(
              PyUnicode_DecodeFSDefaultAndSize(name.data(), static_cast<Py_ssize_t>(name.size()))));
        return names;
      },
      "Of class 0, 1, …; empty where they have none.");
  m.def(
      "TensorDataset",
      [](nb::handle x, nb::handle y, std::vector<std::string> class_names) {
        return Dataset(data::TensorDataset{as_tensor(x), as_tensor(y), std::move(class_names)});
      },
      "x"_a, "y"_a, "class_names"_a = std::vector<std::string>(),
      "A data set in memory: x (N, …) and y (N, …), tensors or arrays.");
  bind_readers(m);
}

}  // namespace mica::python
