// Reductions over a set of axes, all of them for dim=None.
#include "python/src/def.h"

namespace mica::python {
namespace {

using Reducer = Tensor (*)(const Tensor&, const Dims&, bool);
using ArgReducer = Tensor (*)(const Tensor&, int64_t, bool);

constexpr std::pair<const char*, Reducer> kReductions[] = {
    {"sum", sum},
    {"mean", mean},
};

constexpr std::pair<const char*, ArgReducer> kArgReductions[] = {
    {"argmax", argmax},
};

}  // namespace

void bind_reductions(Scope& scope) {
  for (const auto& [name, op] : kReductions) {
    scope.both(
        name,
        [f = op](const Tensor& x, const MaybeDims& dim, bool keepdim) {
          return f(x, dim.value_or(Dims()), keepdim);
        },
        "dim"_a = nb::none(), "keepdim"_a = false);
  }
  for (const auto& [name, op] : kArgReductions) {
    scope.both(
        name,
        [f = op](const Tensor& x, MaybeInt dim, bool keepdim) {
          return dim ? f(x, *dim, keepdim) : f(flatten(x), 0, false);
        },
        "dim"_a = nb::none(), "keepdim"_a = false);
  }
}

}  // namespace mica::python
