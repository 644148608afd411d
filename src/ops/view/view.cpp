#include "mica/ops/view/view.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "mica/core/check.h"
#include "mica/op/dispatch.h"
#include "mica/op/function.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/reduce/reduce.h"

namespace mica {
namespace {

TensorSpec with_layout(const TensorSpec& in, const Shape& shape, const Strides& strides) {
  TensorSpec s = in;
  s.shape = shape;
  s.strides = strides;
  return s;
}

/// Strides of the same memory in another shape, if there are any: each run of axes that is dense in
/// itself can be cut anew.
std::optional<Strides> reshaped_strides(const TensorSpec& in, const Shape& shape) {
  if (in.is_contiguous()) return contiguous_strides(shape);
  Strides strides = Dims::filled(shape.rank(), 0);
  int axis = shape.rank() - 1;
  for (int i = in.rank() - 1; i >= 0;) {
    // The run of input axes [j, i] that is dense in itself.
    int64_t run = in.shape[i];
    int64_t step = in.strides[i];
    int j = i - 1;
    while (j >= 0 && (in.shape[j] == 1 || run == 1 || in.strides[j] == run * step)) {
      if (run == 1) step = in.strides[j];  // the stride of a size of 1 means nothing
      run *= in.shape[j--];
    }
    int64_t taken = 1;
    while (axis >= 0 && taken * shape[axis] <= run) {
      strides[axis] = taken * step;
      taken *= shape[axis--];
    }
    if (taken != run) return std::nullopt;
    i = j;
  }
  while (axis >= 0 && shape[axis] == 1) strides[axis--] = 1;
  return axis < 0 ? std::optional(strides) : std::nullopt;
}

ViewSpec reshape_view(const DimsParams& p, const TensorSpec& in) {
  const auto strides = reshaped_strides(in, p.dims);
  check<ShapeError>(strides.has_value(), "reshape: {} cannot be seen as {} without a copy", in,
                    p.dims);
  return {with_layout(in, p.dims, *strides), 0};
}

Tensors reshape_vjp(const DimsParams&, const VjpArgs& a) {
  return {reshape(a.grad[0], a.in_specs[0].shape)};
}

ViewSpec permute_view(const DimsParams& p, const TensorSpec& in) {
  unsigned seen = 0;
  for (const int64_t axis : p.dims)
    if (axis >= 0 && axis < in.rank()) seen |= 1U << axis;
  check<ShapeError>(p.dims.rank() == in.rank() && seen + 1 == 1U << in.rank(),
                    "permute: {} is no order of the axes of {}", p.dims, in.shape);
  Shape shape = in.shape;
  Strides strides = in.strides;
  for (int i = 0; i < in.rank(); ++i) {
    shape[i] = in.shape[static_cast<int>(p.dims[i])];
    strides[i] = in.strides[static_cast<int>(p.dims[i])];
  }
  return {with_layout(in, shape, strides), 0};
}

Tensors permute_vjp(const DimsParams& p, const VjpArgs& a) {
  Dims back = p.dims;
  for (int i = 0; i < p.dims.rank(); ++i) back[static_cast<int>(p.dims[i])] = i;
  return {permute(a.grad[0], back)};
}

ViewSpec expand_view(const DimsParams& p, const TensorSpec& in) {
  const int shift = p.dims.rank() - in.rank();
  check<ShapeError>(shift >= 0, "expand: cannot lower the rank, {} to {}", in.shape, p.dims);
  for (const int64_t d : p.dims)
    check<ShapeError>(
        d >= 0, "expand: a size must be at least 0, or -1 of an axis there is, got {}", p.dims);
  numel(p.dims);  // raises where the product overflows
  Strides strides = Dims::filled(p.dims.rank(), 0);
  for (int i = 0; i < in.rank(); ++i) {
    check<ShapeError>(in.shape[i] == p.dims[i + shift] || in.shape[i] == 1,
                      "expand: {} does not expand to {}", in.shape, p.dims);
    strides[i + shift] = in.shape[i] == p.dims[i + shift] ? in.strides[i] : 0;
  }
  return {with_layout(in, p.dims, strides), 0};
}

Tensors expand_vjp(const DimsParams&, const VjpArgs& a) {
  return {sum_to(a.grad[0], a.in_specs[0].shape)};
}

}  // namespace

const OpDef& reshape_op() {
  static OpDef def =
      Op<DimsParams>("reshape").view<reshape_view>().view_absorbs().vjp<reshape_vjp>({}).build();
  return def;
}
namespace {
Dims order(const DimsParams& p) { return p.dims; }
}  // namespace
const OpDef& permute_op() {
  static OpDef def = Op<DimsParams>("permute")
                         .view<permute_view>()
                         .axis_order<order>()
                         .vjp<permute_vjp>({})
                         .build();
  return def;
}
const OpDef& expand_op() {
  static OpDef def =
      Op<DimsParams>("expand").view<expand_view>().view_absorbs().vjp<expand_vjp>({}).build();
  return def;
}
Tensor reshape(const Tensor& x, const Shape& shape) {
  Shape full = shape;
  int open = -1;
  for (int i = 0; i < shape.rank(); ++i) {
    check<ShapeError>(shape[i] >= -1, "reshape: a size must be at least 0, or -1, got {}", shape);
    if (shape[i] != -1) continue;
    check<ShapeError>(open < 0, "reshape: only one size may be -1, got {}", shape);
    open = i;
    full[i] = 1;
  }
  const int64_t known = numel(full);
  if (open >= 0) {
    check<ShapeError>(known > 0 && x.numel() % known == 0, "reshape: {} does not divide into {}",
                      x.shape(), shape);
    full[open] = x.numel() / known;
  }
  check<ShapeError>(numel(full) == x.numel(), "reshape: {} has {} elements, {} has {}", x.shape(),
                    x.numel(), shape, numel(full));
  const bool possible = reshaped_strides(x.spec(), full).has_value();
  return dispatch(reshape_op(), DimsParams{full}, {possible ? x : contiguous(x)})[0];
}

Tensor flatten(const Tensor& x, int64_t start, int64_t end) {
  if (x.rank() == 0) return reshape(x, {1});
  const int first = normalize_axis(start, x.rank(), "flatten");
  const int last = normalize_axis(end, x.rank(), "flatten");
  check<ShapeError>(first <= last, "flatten: start must not come after end, got axes {} and {}",
                    first, last);
  Shape shape;
  for (int i = 0; i < x.rank(); ++i) {
    if (i <= first || i > last) {
      shape.push_back(x.shape()[i]);
    } else {
      shape[first] *= x.shape()[i];
    }
  }
  return reshape(x, shape);
}

Tensor squeeze(const Tensor& x, const Dims& axes) {
  uint32_t named = axes.empty() ? ~0U : 0;
  for (const int64_t axis : axes)
    named |= 1U << normalize_axis(axis, std::max(x.rank(), 1), "squeeze");
  Shape shape;
  for (int i = 0; i < x.rank(); ++i)
    if (x.shape()[i] != 1 || (named >> i & 1U) == 0) shape.push_back(x.shape()[i]);
  return reshape(x, shape);
}

Tensor unsqueeze(const Tensor& x, int64_t axis) {
  check<ShapeError>(x.rank() < Dims::kMaxRank, "unsqueeze: {} has {} dimensions already, the most",
                    x.spec(), Dims::kMaxRank);
  const int at = normalize_axis(axis, x.rank() + 1, "unsqueeze");
  Shape shape;
  for (int i = 0; i <= x.rank(); ++i)
    shape.push_back(i == at ? 1 : x.shape()[i - (i > at ? 1 : 0)]);
  return reshape(x, shape);
}

Tensor permute(const Tensor& x, const Dims& axes) {
  check<ShapeError>(axes.rank() == x.rank(), "permute: a tensor of shape {} needs {} axes, got {}",
                    x.shape(), x.rank(), axes);
  Dims order = axes;
  uint32_t seen = 0;
  for (int i = 0; i < axes.rank(); ++i) {
    order[i] = normalize_axis(axes[i], x.rank(), "permute");
    seen |= 1U << order[i];
  }
  check<ShapeError>(seen == (1U << axes.rank()) - 1, "permute: axes {} name one twice", axes);
  return dispatch(permute_op(), DimsParams{order}, {x})[0];
}

Tensor transpose(const Tensor& x, int64_t a, int64_t b) {
  if (x.rank() == 0) {
    for (const int64_t axis : {a, b}) normalize_axis(axis, 1, "transpose");
    return x;
  }
  Dims axes = Dims::filled(x.rank(), 0);
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[normalize_axis(a, x.rank(), "transpose")],
            axes[normalize_axis(b, x.rank(), "transpose")]);
  return permute(x, axes);
}

Tensor swapaxes(const Tensor& x, int64_t a, int64_t b) { return transpose(x, a, b); }

Tensor movedim(const Tensor& x, const Dims& from, const Dims& to) {
  check<ShapeError>(from.rank() == to.rank(), "movedim: {} axes {} go to {} places {}", from.rank(),
                    from, to.rank(), to);
  Dims order = Dims::filled(x.rank(), -1);  // of the result's axes
  uint32_t moved = 0;
  for (int i = 0; i < from.rank(); ++i) {
    const int source = normalize_axis(from[i], x.rank(), "movedim");
    const int place = normalize_axis(to[i], x.rank(), "movedim");
    check<ShapeError>((moved >> source & 1U) == 0 && order[place] == -1,
                      "movedim: axes {} to {} name one twice", from, to);
    order[place] = source;
    moved |= 1U << source;
  }
  int next = 0;
  for (int64_t& axis : order) {
    if (axis != -1) continue;
    while ((moved >> next & 1U) != 0) ++next;
    axis = next++;
  }
  return permute(x, order);
}

Tensor expand(const Tensor& x, const Shape& shape) {
  Shape full = shape;
  const int shift = shape.rank() - x.rank();
  for (int i = std::max(shift, 0); i < shape.rank(); ++i)
    if (shape[i] == -1) full[i] = x.shape()[i - shift];
  return dispatch(expand_op(), DimsParams{full}, {x})[0];
}

Functions view_functions() {
  const auto squeeze_axes = [](const Tensor& x, const std::optional<Dims>& dim) {
    return dim ? squeeze(x, *dim) : squeeze(x);
  };
  const auto pick_diagonal = [](const Tensor& x, int64_t offset, int64_t dim1, int64_t dim2) {
    return diagonal(x, {.offset = offset, .axis1 = dim1, .axis2 = dim2});
  };
  return {
      {.name = "reshape",
       .doc = "The same elements in another shape, of which one size may be -1: a view where "
              "input's strides allow it, else a copy.",
       .signatures = {{reshape, {"input", spread("shape")}}}},
      {.name = "permute",
       .doc = "A view whose axis i is axis dims[i] of input.",
       .signatures = {{permute, {"input", spread("dims")}}}},
      {.name = "expand",
       .doc = "A view of input in a larger shape: sizes of 1 are repeated without copying, new "
              "axes come in front, and -1 keeps a size.",
       .signatures = {{expand, {"input", spread("size")}}}},
      {.name = "broadcast_to",
       .doc = "The same as expand.",
       .signatures = {{expand, {"input", "size"}}},
       .op = "expand"},
      {.name = "flatten",
       .doc = "input with its axes from start_dim to end_dim, both included, as one: a view where "
              "its strides allow that. 0-d becomes (1).",
       .signatures = {{flatten, {"input", {"start_dim", 0}, {"end_dim", -1}}}}},
      {.name = "ravel",
       .doc = "input with one axis: a view where its strides allow that.",
       .signatures = {{[](const Tensor& x) { return flatten(x); }, {"input"}}},
       .op = "flatten"},
      {.name = "transpose",
       .doc = "A view with dim0 and dim1 exchanged.",
       .signatures = {{transpose, {"input", "dim0", "dim1"}}},
       .second_names = {"swapdims"}},
      {.name = "swapaxes",
       .doc = "The same as transpose.",
       .signatures = {{swapaxes, {"input", "axis0", "axis1"}}}},
      {.name = "movedim",
       .doc = "A view in which axis source[i] of input is axis destination[i]; the others keep "
              "their order.",
       .signatures = {{movedim, {"input", "source", "destination"}}},
       .second_names = {"moveaxis"}},
      {.name = "squeeze",
       .doc = "A view without those of dim, or of all axes, that have a size of 1.",
       .signatures = {{squeeze_axes, {"input", {"dim", kNone}}}}},
      {.name = "unsqueeze",
       .doc = "A view with a new axis of size 1 that becomes axis dim.",
       .signatures = {{unsqueeze, {"input", "dim"}}}},
      {.name = "narrow",
       .doc = "A view of `length` elements of dim from `start` on, all of which must exist.",
       .signatures = {{narrow, {"input", "dim", "start", "length"}}}},
      {.name = "select",
       .doc = "A view of input at one index of dim, which is dropped.",
       .signatures = {{overload<const Tensor&, int64_t, int64_t>(select),
                       {"input", "dim", "index"}}}},
      {.name = "diagonal",
       .doc = "A view of the diagonal of dim1 and dim2, as a last axis in their place: (n, n) "
              "becomes (n). A positive offset lies above the main one.",
       .signatures = {{pick_diagonal, {"input", {"offset", 0}, {"dim1", 0}, {"dim2", 1}}}}},
  };
}

}  // namespace mica
