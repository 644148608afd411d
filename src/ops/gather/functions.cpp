#include "mica/op/function.h"
#include "mica/ops/gather/gather.h"
#include "mica/ops/gather/index_fill.h"

namespace mica {

Functions gather_functions() {
  using Source = Tensor (*)(const Tensor&, int64_t, const Tensor&, const Tensor&);
  const auto at = [](const char* name, Source f, const char* doc, const char* source) {
    return Function{.name = name,
                    .doc = doc,
                    .signatures = {{f, {"input", "dim", "index", source}}},
                    .offer = kInPlaceToo};
  };
  Function scattered =
      at("scatter", scatter,
         "A copy of input with result[i, index[i, j, k], k] = src[i, j, k], or value, for dim=1. "
         "index (integers, from 0) is at most as large as src, and as input off dim; of elements "
         "written twice the last stays. src has input's dtype.",
         "src");
  scattered.signatures.push_back({overload<const Tensor&, int64_t, const Tensor&, Number>(scatter),
                                  {"input", "dim", "index", "value"}});
  return {
      {.name = "gather",
       .doc = "Elements of input along dim: result[i, j, k] = input[i, index[i, j, k], k] for "
              "dim=1. index (integers, from 0) has input's rank and is at most as large off dim; "
              "the result has its shape.",
       .signatures = {{gather, {"input", "dim", "index"}}}},
      scattered,
      at("scatter_add", scatter_add,
         "A copy of input with src[i, j, k] added at [i, index[i, j, k], k] for dim=1. index "
         "(integers, from 0) is at most as large as src, and as input off dim. src has input's "
         "dtype.",
         "src"),
      {.name = "index_select",
       .doc = "The slices of input at the positions of index (n), from 0, along dim: input's shape "
              "with n for dim.",
       .signatures = {{index_select, {"input", "dim", "index"}}}},
      at("index_add", index_add,
         "A copy of input with slice i of source added to its slice index[i] along dim. index is "
         "(n); source has input's dtype and shape, but n for dim.",
         "source"),
      at("index_copy", index_copy,
         "A copy of input with slice i of source in place of its slice index[i] along dim. index "
         "is (n); source has input's dtype and shape, but n for dim.",
         "source"),
      {.name = "index_fill",
       .doc = "A copy of input with value in its slices at the positions of index (n) along dim.",
       .signatures = {{index_fill, {"input", "dim", "index", "value"}}},
       .offer = kInPlaceToo},
      {.name = "take_along_dim",
       .doc = "gather where input and indices broadcast off dim and negative indices count from "
              "the end.",
       .signatures = {{take_along_axis, {"input", "indices", "dim"}}},
       .op = "take_along_axis"},
  };
}

}  // namespace mica
