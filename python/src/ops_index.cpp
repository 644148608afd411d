// Reading and writing at indices.
#include "python/src/def.h"

namespace mica::python {

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
  scope.both("take_along_dim", take_along_axis, "indices"_a, "dim"_a);
}

}  // namespace mica::python
