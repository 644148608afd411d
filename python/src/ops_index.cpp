// Reading and writing at indices.
#include "python/src/def.h"

namespace mica::python {
namespace {

/// None among the indices stands for all of an axis.
Tensor put(const Tensor& x, nb::handle indices, const Tensor& values, bool accumulate) {
  Tensors at;
  for (const nb::handle i : nb::iter(indices)) {
    if (!i.is_none() && !nb::isinstance<Tensor>(i))
      raise_type_error("index_put: expected tensors or None, got {}", class_name(i));
    at.push_back(i.is_none() ? Tensor() : nb::cast<Tensor>(i));
  }
  return without_gil([&] { return index_put(x, at, values, accumulate); });
}

}  // namespace

void bind_indexing(Scope& scope) {
  using Source = Tensor (*)(const Tensor&, int64_t, const Tensor&, const Tensor&);
  using Value = Tensor (*)(const Tensor&, int64_t, const Tensor&, double);
  scope.both("gather", gather, "dim"_a, "index"_a);
  scope.both("scatter", Source(scatter), "dim"_a, "index"_a, "src"_a);
  scope.both("scatter", Value(scatter), "dim"_a, "index"_a, "value"_a);
  scope.both("scatter_add", scatter_add, "dim"_a, "index"_a, "src"_a);
  scope.both("index_select", index_select, "dim"_a, "index"_a);
  scope.both("index_add", index_add, "dim"_a, "index"_a, "source"_a);
  scope.both("index_copy", index_copy, "dim"_a, "index"_a, "source"_a);
  scope.both("index_fill", index_fill, "dim"_a, "index"_a, "value"_a);
  scope.both("take_along_dim", take_along_axis, "indices"_a, "dim"_a);
  scope.both_with_gil("index_put", put, "indices"_a, "values"_a, "accumulate"_a = false);

  using FillTensor = Tensor (*)(const Tensor&, const Tensor&, const Tensor&);
  using FillNumber = Tensor (*)(const Tensor&, const Tensor&, double);
  scope.both("masked_fill", FillTensor(masked_fill), "mask"_a, "value"_a);
  scope.both("masked_fill", FillNumber(masked_fill), "mask"_a, "value"_a);
  scope.both("masked_select", masked_select, "mask"_a);
  scope.both("masked_scatter", masked_scatter, "mask"_a, "source"_a);
  for (const char* name : {"nonzero", "argwhere"}) scope.both(name, nonzero);

  Functions& f = scope.functional;
  f.def("embedding", embedding, "input"_a, "weight"_a, "padding_idx"_a = nb::none(), ReleaseGil());
  f.def(
      "one_hot",
      [](const Tensor& classes, int64_t n) {
        if (n == -1 && classes.numel() > 0) n = static_cast<int64_t>(max(classes).item()) + 1;
        return one_hot(classes, n);
      },
      "tensor"_a, "num_classes"_a = -1, ReleaseGil());
}

}  // namespace mica::python
