#include "mica/ops/concat/concat.h"

#include <algorithm>

#include "mica/core/check.h"
#include "mica/op/dispatch.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/copy/cpu_copy.h"
#include "mica/ops/view/view.h"

namespace mica {
namespace {

constexpr size_t kMostInputs = 32;  // of one call

void infer(const ConcatParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check<ShapeError>(!in.empty(), "concat: expected at least one tensor");
  const int axis = normalize_axis(p.axis, in[0].rank(), "concat");
  Shape shape = in[0].shape;
  for (size_t i = 0; i < in.size(); ++i) {
    check(in[i].defined, "concat: tensor {} is undefined", i);
    check<DTypeError>(in[i].dtype == in[0].dtype,
                      "concat: tensors must have one dtype, got {} and {}", in[0].dtype,
                      in[i].dtype);
    if (i == 0) continue;
    Shape alike = in[i].shape;
    if (alike.rank() == shape.rank()) alike[axis] = in[0].shape[axis];
    check<ShapeError>(alike == in[0].shape,
                      "concat: shapes must agree but for axis {}, got {} and {}", axis, in[0].shape,
                      in[i].shape);
    check<ShapeError>(!__builtin_add_overflow(shape[axis], in[i].shape[axis], &shape[axis]),
                      "concat: the sizes of axis {} add up to more than 2^63", axis);
  }
  numel(shape);
  out.add(shape, in[0].dtype);
}

Tensors vjp(const ConcatParams& p, const VjpArgs& a) {
  Tensors grads;
  int64_t at = 0;
  for (int i = 0; i < static_cast<int>(a.in_specs.size()); ++i) {
    const int64_t n = a.in_specs[static_cast<size_t>(i)].shape[static_cast<int>(p.axis)];
    grads.push_back(a.needs(i) ? narrow(a.grad[0], p.axis, at, n) : Tensor());
    at += n;
  }
  return grads;
}

/// Each input is copied to its part of the output.
struct ConcatState : KernelState {
  struct Part {
    CopyPlan copy;
    int64_t offset;  ///< in the output, in bytes
  };
  std::vector<Part> parts;
};

std::shared_ptr<ConcatState> prepare(const ConcatParams& p, const Specs& s) {
  auto state = std::make_shared<ConcatState>();
  const int axis = static_cast<int>(p.axis);
  TensorSpec part = s.out[0];
  int64_t at = 0;
  for (const TensorSpec& in : s.in) {
    part.shape = in.shape;
    state->parts.push_back(
        {CopyPlan(part, in), at * part.strides[axis] * static_cast<int64_t>(size_of(part.dtype))});
    at += part.shape[axis];
  }
  return state;
}

void run(const ConcatParams&, const ConcatState& state, const Call& c) {
  for (size_t i = 0; i < c.in.size(); ++i)
    if (c.in[i].numel() > 0)
      state.parts[i].copy.run(c.out[0].as<std::byte>() + state.parts[i].offset, c.in[i].data);
}

}  // namespace

const OpDef& concat_op() {
  static OpDef def = Op<ConcatParams>("concat")
                         .inputs({"tensors..."})
                         .formats({Format::images}, {Format::images})
                         .precision(Precision::widest)
                         .dtypes(kAllDTypes)
                         .moves()
                         .joins()
                         .infer<infer>()
                         .vjp<vjp>({})
                         .cpu({kernel<supports_all<ConcatParams>, prepare, run>("runs")})
                         .build();
  return def;
}

namespace {

Tensor concat_groups(std::span<const Tensor> tensors, int axis) {
  if (tensors.size() <= kMostInputs)
    return dispatch(concat_op(), ParamsRef::of(ConcatParams{axis}), tensors)[0];
  // Groups of one size, so that nesting stays as flat as it can.
  size_t group = kMostInputs;
  while (group * kMostInputs < tensors.size()) group *= kMostInputs;
  Tensors parts;
  for (size_t i = 0; i < tensors.size(); i += group) {
    const auto members = tensors.subspan(i, std::min(group, tensors.size() - i));
    parts.push_back(members.size() == 1 ? members[0] : concat_groups(members, axis));
  }
  return concat_groups(parts, axis);
}

}  // namespace

Tensor concat(const Tensors& tensors, int64_t axis) {
  check<ShapeError>(!tensors.empty(), "concat: expected at least one tensor");
  DType dtype = tensors[0].dtype();
  for (const Tensor& t : tensors) dtype = promote(dtype, t.dtype());
  Tensors same;
  for (const Tensor& t : tensors) same.push_back(cast(t, dtype));
  return concat_groups(same, normalize_axis(axis, tensors[0].rank(), "concat"));
}

Tensor stack(const Tensors& tensors, int64_t axis) {
  check<ShapeError>(!tensors.empty(), "stack: expected at least one tensor");
  const int at = normalize_axis(axis, tensors[0].rank() + 1, "stack");
  Tensors rows;
  for (const Tensor& t : tensors) {
    check<ShapeError>(t.shape() == tensors[0].shape(), "stack: expected one shape, got {} and {}",
                      tensors[0].shape(), t.shape());
    rows.push_back(unsqueeze(t, at));
  }
  return concat(rows, at);
}

Tensors split(const Tensor& x, const std::vector<int64_t>& sizes, int64_t axis) {
  const int a = normalize_axis(axis, x.rank(), "split");
  int64_t left = x.shape()[a];
  for (const int64_t size : sizes) {
    check<ShapeError>(size >= 0, "split: a size must be at least 0, got {}", size);
    left = size <= left ? left - size : -1;
    if (left < 0) break;
  }
  check<ShapeError>(left == 0, "split: the {} sizes do not add up to {}, axis {} of {}",
                    sizes.size(), x.shape()[a], a, x.shape());
  Tensors parts;
  int64_t at = 0;
  for (const int64_t size : sizes) {
    parts.push_back(narrow(x, a, at, size));
    at += size;
  }
  return parts;
}

Tensors split(const Tensor& x, int64_t size, int64_t axis) {
  const int a = normalize_axis(axis, x.rank(), "split");
  const int64_t n = x.shape()[a];
  check<ShapeError>(size > 0 || (size == 0 && n == 0),
                    "split: size must be at least 1 for axis {} of {}, got {}", a, x.shape(), size);
  Tensors parts;
  int64_t at = 0;
  do {  // an empty axis has one part
    parts.push_back(narrow(x, a, at, std::min(size, n - at)));
    at += parts.back().shape()[a];
  } while (at < n);
  return parts;
}

Tensors chunk(const Tensor& x, int64_t chunks, int64_t axis) {
  check<ShapeError>(chunks > 0, "chunk: expected at least one chunk, got {}", chunks);
  const int a = normalize_axis(axis, x.rank(), "chunk");
  const int64_t n = x.shape()[a];
  if (n == 0) return split(x, std::vector<int64_t>(static_cast<size_t>(chunks), 0), a);
  return split(x, (n - 1) / chunks + 1, a);
}

}  // namespace mica
