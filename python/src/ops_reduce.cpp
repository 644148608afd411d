// Reductions over a set of axes, all of them for dim=None; scans and order along one axis.
#include <nanobind/stl/pair.h>

#include "python/src/def.h"

namespace mica::python {
namespace {

using Reducer = Tensor (*)(const Tensor&, const Dims&, bool);
using ArgReducer = Tensor (*)(const Tensor&, int64_t, bool);
using Binary = Tensor (*)(const Tensor&, const Tensor&);

constexpr std::pair<const char*, Reducer> kReductions[] = {
    {"sum", sum},  {"mean", mean}, {"prod", prod},
    {"any", any},  {"all", all},   {"count_nonzero", count_nonzero},
    {"amax", max}, {"amin", min},  {"logsumexp", logsumexp},
};

constexpr std::pair<const char*, ArgReducer> kArgReductions[] = {
    {"argmax", argmax},
    {"argmin", argmin},
};

struct ExtremeRow {
  const char* name;
  Reducer over_all;
  ArgReducer where;
  Binary of_two;
};

constexpr ExtremeRow kExtremes[] = {
    {"max", max, argmax, maximum},
    {"min", min, argmin, minimum},
};

/// max(x), max(x, dim) with the indices, and max(x, y).
void bind_extreme(Scope& scope, const ExtremeRow& row) {
  scope.both(row.name, [op = row.over_all](const Tensor& x) { return op(x, {}, false); });
  scope.both_with_gil(
      row.name,
      [where = row.where](const Tensor& x, int64_t dim, bool keepdim) {
        const auto [values, indices] = without_gil([&] {
          const Tensor at = where(x, dim, true);
          const Tensor found = gather(x, dim, at);
          return keepdim ? std::pair(found, at)
                         : std::pair(squeeze(found, {dim}), squeeze(at, {dim}));
        });
        return values_and_indices(values, indices);
      },
      "dim"_a, "keepdim"_a = false);
  scope.both(row.name, row.of_two, "other"_a);
}

void bind_moments(Scope& scope) {
  using Moment = Tensor (*)(const Tensor&, const Dims&, bool, double);
  for (const auto& [name, op] : {std::pair<const char*, Moment>{"var", var}, {"std", mica::std}}) {
    scope.both(
        name,
        [f = op](const Tensor& x, const MaybeDims& dim, double correction, bool keepdim) {
          return f(x, dim.value_or(Dims()), keepdim, correction);
        },
        "dim"_a = nb::none(), nb::kw_only(), "correction"_a = 1.0, "keepdim"_a = false);
  }
  // Both at once, as a tuple.
  for (const auto& [name, op] :
       {std::pair<const char*, Moment>{"var_mean", var}, {"std_mean", mica::std}}) {
    scope.m.def(
        name,
        [f = op](const Tensor& x, const MaybeDims& dim, double correction, bool keepdim) {
          const Dims axes = dim.value_or(Dims());
          return std::pair(f(x, axes, keepdim, correction), mean(x, axes, keepdim));
        },
        "input"_a, "dim"_a = nb::none(), nb::kw_only(), "correction"_a = 1.0, "keepdim"_a = false,
        ReleaseGil());
  }
  scope.both(
      "norm",
      [](const Tensor& x, double p, const MaybeDims& dim, bool keepdim) {
        return norm(x, p, dim.value_or(Dims()), keepdim);
      },
      "p"_a = 2.0, "dim"_a = nb::none(), "keepdim"_a = false);
}

void bind_scans(Scope& scope) {
  using Scan = Tensor (*)(const Tensor&, const ScanParams&);
  for (const auto& [name, op] :
       {std::pair<const char*, Scan>{"cumsum", cumsum}, {"cumprod", cumprod}}) {
    scope.both(
        name,
        [f = op](const Tensor& x, int64_t dim, bool exclusive, bool reverse) {
          return f(x, ScanParams{.axis = dim, .exclusive = exclusive, .reverse = reverse});
        },
        "dim"_a, nb::kw_only(), "exclusive"_a = false, "reverse"_a = false);
  }
  scope.both(
      "diff",
      [](const Tensor& x, int64_t n, int64_t dim, const MaybeTensor& prepend,
         const MaybeTensor& append) {
        return diff(x, n, dim, or_undefined(prepend), or_undefined(append));
      },
      "n"_a = 1, "dim"_a = -1, "prepend"_a = nb::none(), "append"_a = nb::none());
  scope.m.def(
      "linear_scan",
      [](const Tensor& a, const Tensor& b, int64_t dim, bool exclusive, bool reverse) {
        return linear_scan(a, b, {.axis = dim, .exclusive = exclusive, .reverse = reverse});
      },
      "a"_a, "b"_a, "dim"_a, nb::kw_only(), "exclusive"_a = false, "reverse"_a = false,
      ReleaseGil());
}

}  // namespace

nb::object values_and_indices(const Tensor& values, const Tensor& indices) {
  return nb::module_::import_("mica._mica").attr("ValuesIndices")(values, indices);
}

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
  for (const ExtremeRow& row : kExtremes) bind_extreme(scope, row);
  bind_moments(scope);
  bind_scans(scope);
}

void bind_order(Scope& scope) {
  nb::list fields;
  fields.append("values");
  fields.append("indices");
  scope.m.attr("ValuesIndices") =
      nb::module_::import_("collections").attr("namedtuple")("ValuesIndices", fields);
  scope.both_with_gil(
      "sort",
      [](const Tensor& x, int64_t dim, bool descending) {
        const Sorted s = without_gil([&] { return sort(x, dim, descending); });
        return values_and_indices(s.values, s.indices);
      },
      "dim"_a = -1, "descending"_a = false);
  scope.both("median", [](const Tensor& x) { return median(x); });
  scope.both_with_gil(
      "median",
      [](const Tensor& x, int64_t dim, bool keepdim) {
        const Sorted s = without_gil([&] { return median(x, dim, keepdim); });
        return values_and_indices(s.values, s.indices);
      },
      "dim"_a, "keepdim"_a = false);
  scope.both("argsort", argsort, "dim"_a = -1, "descending"_a = false);
  scope.both_with_gil(
      "topk",
      [](const Tensor& x, int64_t k, int64_t dim, bool largest, bool sorted) {
        const Sorted s = without_gil([&] { return topk(x, k, dim, largest, sorted); });
        return values_and_indices(s.values, s.indices);
      },
      "k"_a, "dim"_a = -1, "largest"_a = true, "sorted"_a = true);
  scope.both_with_gil(
      "unique",
      [](const Tensor& x, bool return_inverse, bool return_counts) {
        const Unique u = without_gil([&] { return unique(x); });
        nb::list results;
        results.append(u.values);
        if (return_inverse) results.append(u.inverse);
        if (return_counts) results.append(u.counts);
        return nb::len(results) == 1 ? nb::object(results[0]) : nb::object(nb::tuple(results));
      },
      nb::kw_only(), "return_inverse"_a = false, "return_counts"_a = false);
  scope.m.def("searchsorted", searchsorted, "sorted_sequence"_a, "input"_a, nb::kw_only(),
              "right"_a = false, ReleaseGil());
}

}  // namespace mica::python
