// Views and rearrangements.
#include "python/src/def.h"

namespace mica::python {
namespace {

void bind_views(Scope& scope) {
  scope.dims("reshape", reshape, "shape");
  scope.dims("permute", permute, "dims");
  scope.dims("expand", expand, "size");
  scope.both("broadcast_to", expand, "size"_a);
  scope.m.def("broadcast_tensors", [](const nb::args& args) {
    Tensors tensors = parse_tensors(args, "broadcast_tensors");
    return to_tuple(without_gil([&] {
      Shape shape;
      for (const Tensor& t : tensors)
        shape = broadcast_shapes(shape, t.shape(), "broadcast_tensors");
      for (Tensor& t : tensors) t = expand(t, shape);
      return tensors;
    }));
  });
  scope.both("flatten", flatten, "start_dim"_a = 0, "end_dim"_a = -1);
  scope.both("ravel", [](const Tensor& x) { return flatten(x); });
  scope.both("unflatten", unflatten, "dim"_a, "sizes"_a);
  scope.both("transpose", transpose, "dim0"_a, "dim1"_a);
  scope.both("swapaxes", swapaxes, "axis0"_a, "axis1"_a);
  scope.both("swapdims", swapaxes, "dim0"_a, "dim1"_a);
  scope.both("t", mica::t);
  for (const char* name : {"movedim", "moveaxis"})
    scope.both(name, movedim, "source"_a, "destination"_a);
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
  scope.both_with_gil(
      "unbind",
      [](const Tensor& x, int64_t dim) {
        return to_tuple(without_gil([&] {
          Tensors parts(static_cast<size_t>(x.size(normalize_axis(dim, x.rank(), "unbind"))));
          for (size_t i = 0; i < parts.size(); ++i)
            parts[i] = select(x, dim, static_cast<int64_t>(i));
          return parts;
        }));
      },
      "dim"_a = 0);
  using Join = Tensor (*)(const Tensors&, int64_t);
  for (const auto& [name, join] : {std::pair<const char*, Join>{"cat", concat},
                                   {"concat", concat},
                                   {"concatenate", concat},
                                   {"stack", stack}}) {
    scope.m.def(
        name,
        [name, f = join](nb::handle tensors, int64_t dim) {
          return without_gil([&, t = parse_tensors(tensors, name)] { return f(t, dim); });
        },
        "tensors"_a, "dim"_a = 0);
  }
  using Stack = Tensor (*)(const Tensors&);
  for (const auto& [name, join] :
       {std::pair<const char*, Stack>{"hstack", hstack}, {"vstack", vstack}, {"dstack", dstack}}) {
    scope.m.def(
        name,
        [name, f = join](nb::handle tensors) {
          return without_gil([&, t = parse_tensors(tensors, name)] { return f(t); });
        },
        "tensors"_a);
  }
  using AtLeast = Tensor (*)(const Tensor&);
  for (const auto& [name, widen] : {std::pair<const char*, AtLeast>{"atleast_1d", atleast_1d},
                                    {"atleast_2d", atleast_2d},
                                    {"atleast_3d", atleast_3d}}) {
    scope.m.def(
        name,
        [name, f = widen](const nb::args& args) {
          // One tensor, several, or a list of them: those are a tuple then.
          const bool one = args.size() == 1;
          Tensors tensors = parse_tensors(one ? nb::object(args[0]) : nb::object(args), name);
          for (Tensor& t : tensors) t = without_gil([&] { return f(t); });
          return one && nb::isinstance<Tensor>(args[0]) ? nb::cast(tensors[0])
                                                        : nb::object(to_tuple(tensors));
        },
        "tensors"_a);
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

/// Pairs (before, after) of the last axis, the one before it, and so on.
Tensor pad_outwards(const Tensor& x, const std::vector<int64_t>& pad, const std::string& mode,
                    std::optional<double> value) {
  check<ShapeError>(pad.size() % 2 == 0 && pad.size() <= 2 * Dims::kMaxRank,
                    "pad: expected pairs of numbers for at most {} axes, got {} numbers",
                    Dims::kMaxRank, pad.size());
  PadParams params = {.mode = parse_word<PadMode>("pad: mode", mode,
                                                  {{"constant", PadMode::constant},
                                                   {"reflect", PadMode::reflect},
                                                   {"replicate", PadMode::replicate},
                                                   {"circular", PadMode::circular}}),
                      .value = value.value_or(0)};
  for (size_t i = pad.size(); i > 0; i -= 2) {
    params.before.push_back(pad[i - 2]);
    params.after.push_back(pad[i - 1]);
  }
  return mica::pad(x, params);
}

void bind_repetitions(Scope& scope) {
  scope.dims("tile", tile, "dims");
  scope.dims("repeat", repeat, "repeats");
  scope.both(
      "repeat_interleave",
      [](const Tensor& x, int64_t repeats, MaybeInt dim) {
        return dim ? repeat_interleave(x, repeats, *dim)
                   : repeat_interleave(flatten(x), repeats, 0);
      },
      "repeats"_a, "dim"_a = nb::none());
  scope.m.def(
      "meshgrid",
      [](const nb::args& tensors, const std::string& indexing) {
        const auto order = parse_word<MeshIndexing>(
            "meshgrid: indexing", indexing, {{"ij", MeshIndexing::ij}, {"xy", MeshIndexing::xy}});
        return to_tuple(without_gil(
            [&, t = parse_tensors(tensors, "meshgrid")] { return meshgrid(t, order); }));
      },
      "tensors"_a, nb::kw_only(), "indexing"_a = "ij");
  scope.functional.def("pad", pad_outwards, "input"_a, "pad"_a, "mode"_a = "constant",
                       "value"_a = nb::none(), ReleaseGil());
}

}  // namespace

void bind_shapes(Scope& scope) {
  bind_views(scope);
  bind_joins(scope);
  bind_repetitions(scope);
  scope.dims("flip", flip, "dims");
  scope.both("fliplr", [](const Tensor& x) { return flip(x, {1}); });
  scope.both("flipud", [](const Tensor& x) { return flip(x, {0}); });
  scope.both(
      "roll",
      [](const Tensor& x, const Dims& shifts, const MaybeDims& dims) {
        return roll(x, shifts, dims.value_or(Dims()));
      },
      "shifts"_a, "dims"_a = nb::none());
}

}  // namespace mica::python
