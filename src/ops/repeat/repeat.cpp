#include "mica/ops/repeat/repeat.h"

#include <algorithm>

#include "mica/core/check.h"
#include "mica/op/function.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/view/view.h"

namespace mica {
namespace {

/// x seen as (outer, rest), each row `repeats` times, in `shape`: a copy, since a view would let
/// its elements share memory with each other and with x.
Tensor repeated_rows(const Tensor& x, int64_t outer, int64_t rest, int64_t repeats,
                     const Shape& shape) {
  return reshape(clone(expand(reshape(x, {outer, 1, rest}), {outer, repeats, rest})), shape);
}

int64_t product(const Shape& shape, int first, int last) {
  int64_t n = 1;
  for (int i = first; i < last; ++i) n *= shape[i];
  return n;
}

Shape repeated_shape(const char* op, const Shape& shape, int axis, int64_t repeats) {
  Shape result = shape;
  check<ShapeError>(repeats >= 0, "{}: expected a number of at least 0, got {}", op, repeats);
  check<ShapeError>(!__builtin_mul_overflow(shape[axis], repeats, &result[axis]),
                    "{}: axis {} of {} cannot be repeated {} times: too large", op, axis, shape,
                    repeats);
  numel(result);  // raises where the product overflows
  return result;
}

/// `repeats` has a number for each axis.
Tensor tiled(const char* op, const Tensor& x, const Dims& repeats) {
  Tensor y = x;
  // One axis at a time, the last first: all but the last copy are small beside it.
  for (int axis = x.rank() - 1; axis >= 0; --axis) {
    const Shape result = repeated_shape(op, y.shape(), axis, repeats[axis]);
    if (repeats[axis] == 1) continue;
    const int64_t outer = product(y.shape(), 0, axis);
    y = repeated_rows(y, outer, product(y.shape(), axis, y.rank()), repeats[axis], result);
  }
  const bool repeated =
      std::any_of(repeats.begin(), repeats.end(), [](int64_t n) { return n != 1; });
  return repeated ? y : clone(x);
}

Tensor with_rank(const Tensor& x, int rank) {
  if (x.rank() >= rank) return x;
  Shape shape = Dims::filled(rank, 1);
  std::copy(x.shape().begin(), x.shape().end(), shape.end() - x.rank());
  return reshape(x, shape);
}

}  // namespace

Tensor tile(const Tensor& x, const Dims& repeats) {
  Dims all = Dims::filled(std::max(x.rank(), repeats.rank()), 1);
  std::copy(repeats.begin(), repeats.end(), all.end() - repeats.rank());
  return tiled("tile", with_rank(x, all.rank()), all);
}

Tensor repeat(const Tensor& x, const Dims& repeats) {
  check<ShapeError>(repeats.rank() >= x.rank(),
                    "repeat: a tensor of shape {} needs at least {} numbers, got {}", x.shape(),
                    x.rank(), repeats);
  return tiled("repeat", with_rank(x, repeats.rank()), repeats);
}

Tensor repeat_interleave(const Tensor& x, int64_t repeats, int64_t axis) {
  const int a = normalize_axis(axis, x.rank(), "repeat_interleave");
  const Shape result = repeated_shape("repeat_interleave", x.shape(), a, repeats);
  const int64_t outer = product(x.shape(), 0, a + 1);
  return repeated_rows(x, outer, product(x.shape(), a + 1, x.rank()), repeats, result);
}

Tensors meshgrid(const Tensors& axes, MeshIndexing indexing) {
  check<ShapeError>(!axes.empty() && axes.size() <= Dims::kMaxRank,
                    "meshgrid: expected between 1 and {} tensors, got {}", Dims::kMaxRank,
                    axes.size());
  const int rank = static_cast<int>(axes.size());
  // The grid's axis that belongs to tensor i.
  const auto axis_of = [&](int i) {
    return indexing == MeshIndexing::xy && rank >= 2 && i < 2 ? 1 - i : i;
  };
  Shape grid = Dims::filled(rank, 1);
  for (int i = 0; i < rank; ++i) {
    const Tensor& t = axes[static_cast<size_t>(i)];
    check<ShapeError>(t.rank() <= 1, "meshgrid: expected 1-d tensors, got {}", t.shape());
    check<DTypeError>(t.dtype() == axes[0].dtype(), "meshgrid: expected one dtype, got {} and {}",
                      axes[0].dtype(), t.dtype());
    grid[axis_of(i)] = t.numel();
  }
  Tensors result;
  for (int i = 0; i < rank; ++i) {
    Shape shape = Dims::filled(rank, 1);
    shape[axis_of(i)] = grid[axis_of(i)];
    result.push_back(expand(reshape(axes[static_cast<size_t>(i)], shape), grid));
  }
  return result;
}

template <>
struct Words<MeshIndexing> {
  static constexpr std::pair<const char*, MeshIndexing> all[] = {{"ij", MeshIndexing::ij},
                                                                 {"xy", MeshIndexing::xy}};
};

Functions repeat_functions() {
  const auto interleave = [](const Tensor& x, int64_t repeats, std::optional<int64_t> dim) {
    return dim ? repeat_interleave(x, repeats, *dim) : repeat_interleave(flatten(x), repeats, 0);
  };
  return {
      {.name = "tile",
       .doc = "input laid dims[i] times along axis i. Fewer numbers than axes are for the last "
              "ones; more add axes in front.",
       .signatures = {{tile, {"input", spread("dims")}}}},
      {.name = "repeat",
       .doc = "input laid repeats[i] times along axis i, at least one number for each axis; more "
              "of them add axes in front.",
       .signatures = {{repeat, {"input", spread("repeats")}}}},
      {.name = "repeat_interleave",
       .doc = "Each element along dim `repeats` times in a row, or of the flattened input without "
              "dim.",
       .signatures = {{interleave, {"input", "repeats", {"dim", kNone}}}}},
      {.name = "meshgrid",
       .doc =
           "The coordinates of a grid from those of its axes, each (n) or 0-d: for each axis a "
           "view of the grid's shape. indexing 'ij' has the first axis as rows, 'xy' as columns.",
       .signatures = {{meshgrid, {spread("tensors"), kKeywordOnly, {"indexing", "ij"}}}},
       .offer = kModule},
  };
}

}  // namespace mica
