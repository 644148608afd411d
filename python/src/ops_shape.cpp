// Views and rearrangements.
#include "python/src/def.h"

namespace mica::python {
namespace {

void bind_views(Scope& scope) {
  scope.dims("reshape", reshape, "shape");
  scope.dims("permute", permute, "dims");
  scope.dims("expand", expand, "size");
  scope.both("flatten", flatten, "start_dim"_a = 0);
  scope.both("transpose", transpose, "dim0"_a, "dim1"_a);
  scope.both("swapaxes", swapaxes, "axis0"_a, "axis1"_a);
  scope.both("movedim", movedim, "source"_a, "destination"_a);
  scope.both(
      "squeeze",
      [](const Tensor& x, const MaybeDims& dim) { return dim ? squeeze(x, *dim) : squeeze(x); },
      "dim"_a = nb::none());
  scope.both("unsqueeze", unsqueeze, "dim"_a);
  scope.both("narrow", narrow, "dim"_a, "start"_a, "length"_a);
  scope.both("select", static_cast<Tensor (*)(const Tensor&, int64_t, int64_t)>(select), "dim"_a,
             "index"_a);
  scope.both(
      "diagonal",
      [](const Tensor& x, int64_t offset, int64_t dim1, int64_t dim2) {
        return diagonal(x, {.offset = offset, .axis1 = dim1, .axis2 = dim2});
      },
      "offset"_a = 0, "dim1"_a = 0, "dim2"_a = 1);
}

void bind_joins(Scope& scope) {
  using Join = Tensor (*)(const Tensors&, int64_t);
  for (const auto& [name, join] :
       {std::pair<const char*, Join>{"cat", concat}, {"concat", concat}, {"stack", stack}}) {
    scope.m.def(
        name,
        [name, f = join](nb::handle tensors, int64_t dim) {
          return without_gil([&, t = parse_tensors(tensors, name)] { return f(t, dim); });
        },
        "tensors"_a, "dim"_a = 0);
  }
  const auto split_evenly = [](const Tensor& x, int64_t size, int64_t dim) {
    return to_tuple(without_gil([&] { return split(x, size, dim); }));
  };
  const auto split_by = [](const Tensor& x, const std::vector<int64_t>& sizes, int64_t dim) {
    return to_tuple(without_gil([&] { return split(x, sizes, dim); }));
  };
  scope.m.def("split", split_evenly, "tensor"_a, "split_size_or_sections"_a, "dim"_a = 0);
  scope.m.def("split", split_by, "tensor"_a, "split_size_or_sections"_a, "dim"_a = 0);
  scope.tensor.def("split", split_evenly, "split_size"_a, "dim"_a = 0);
  scope.tensor.def("split", split_by, "split_size"_a, "dim"_a = 0);
  scope.both_with_gil(
      "chunk",
      [](const Tensor& x, int64_t chunks, int64_t dim) {
        return to_tuple(without_gil([&] { return chunk(x, chunks, dim); }));
      },
      "chunks"_a, "dim"_a = 0);
}

}  // namespace

void bind_shapes(Scope& scope) {
  bind_views(scope);
  bind_joins(scope);
  scope.dims("flip", flip, "dims");
  scope.both(
      "roll",
      [](const Tensor& x, const Dims& shifts, const MaybeDims& dims) {
        return roll(x, shifts, dims.value_or(Dims()));
      },
      "shifts"_a, "dims"_a = nb::none());
}

}  // namespace mica::python
