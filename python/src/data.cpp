#include <nanobind/stl/pair.h>

#include "mica/data/loader.h"
#include "mica/data/mnist.h"
#include "mica/train/evaluate.h"
#include "python/src/module_handle.h"

namespace mica::python {
namespace {

using Pair = std::pair<Tensor, Tensor>;

/// One walk over the batches of an epoch.
class BatchIterator {
 public:
  explicit BatchIterator(data::Epoch epoch) : epoch_(std::move(epoch)) {}

  std::optional<Pair> next() {
    auto at = epoch_.begin();
    if (started_ && at != epoch_.end()) ++at;
    started_ = true;
    if (at == epoch_.end()) return {};
    auto [x, y] = *at;
    return Pair{x, y};
  }

 private:
  data::Epoch epoch_;
  bool started_ = false;
};

/// What Python iterates over; every walk starts anew.
struct BatchSource {
  data::Loader loader;
  int64_t epoch;
};

}  // namespace

void bind_data(nb::module_& m) {
  nb::module_ scope = add_submodule(m, "data");
  scope.def(
      "fashion_mnist",
      [](bool train, const std::string& directory, bool normalize) {
        const auto set =
            data::fashion_mnist({.train = train, .directory = directory, .normalize = normalize});
        return Pair{set.x, set.y};
      },
      "train"_a = true, "directory"_a = "", "normalize"_a = false, ReleaseGil(),
      "Images (N, 1, 28, 28) and labels (N) of Fashion-MNIST.");

  nb::class_<BatchIterator>(scope, "BatchIterator")
      .def("__iter__", [](nb::handle self) { return nb::borrow(self); })
      .def("__next__", [](BatchIterator& self) {
        auto batch = without_gil([&] { return self.next(); });
        if (!batch) throw nb::stop_iteration();
        return *batch;
      });
  nb::class_<BatchSource>(scope, "Batches", "Pairs (x, y); see batches().")
      .def("__len__", [](const BatchSource& self) { return self.loader.size(); })
      .def(
          "__iter__",
          [](const BatchSource& self) { return BatchIterator(self.loader.epoch(self.epoch)); },
          ReleaseGil());
  scope.def(
      "batches",
      [](const Tensor& images, const Tensor& labels, int64_t batch_size,
         std::optional<uint64_t> shuffle, int64_t epoch, nb::handle device) {
        const data::LoaderOptions options{.batch = batch_size,
                                          .shuffle = shuffle,
                                          .device = parse_options(nb::none(), device).device};
        return BatchSource{
            without_gil([&] { return data::Loader(data::TensorDataset{images, labels}, options); }),
            epoch};
      },
      "images"_a, "labels"_a, "batch_size"_a = 64, nb::kw_only(), "shuffle"_a = nb::none(),
      "epoch"_a = 0, "device"_a = nb::none(),
      "Walks once over the images. `shuffle` is the seed of the order, `epoch` which order of that "
      "seed; without a seed "
      "the order is the dataset's own. The last batch may be smaller.");

  nb::module_ train = add_submodule(m, "train");
  train.def(
      "accuracy",
      [](nb::handle model, const Tensor& images, const Tensor& labels) {
        const nn::Module module = module_from(model);
        return without_gil(
            [&] { return train::accuracy(module, data::TensorDataset{images, labels}); });
      },
      "model"_a, "images"_a, "labels"_a,
      "The part of the images whose largest logit is their label's, in [0, 1].");
}

}  // namespace mica::python
