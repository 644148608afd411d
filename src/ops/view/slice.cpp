#include <algorithm>
#include <cstring>

#include "mica/core/check.h"
#include "mica/op/dispatch.h"
#include "mica/ops/copy/cpu_copy.h"
#include "mica/ops/flip/flip.h"
#include "mica/ops/view/view.h"
#include "mica/runtime/cpu/parallel.h"

namespace mica {
namespace {

bool lies_in(const SliceParams& p, const Shape& shape) {
  return p.axis >= 0 && p.axis < shape.rank() && p.step >= 1 && 0 <= p.start && p.start <= p.stop &&
         p.stop <= shape[static_cast<int>(p.axis)];
}
bool lies_in(const DiagonalParams& p, const Shape& shape) {
  return p.axis1 >= 0 && p.axis1 < shape.rank() && p.axis2 >= 0 && p.axis2 < shape.rank() &&
         p.axis1 != p.axis2 && p.offset >= -shape[static_cast<int>(p.axis1)] &&
         p.offset <= shape[static_cast<int>(p.axis2)];
}

template <class P>
void check_lies_in(const char* op, const P& p, const Shape& shape) {
  if (!lies_in(p, shape))
    fail<ShapeError>("{}: {} does not lie in {}", op, AnyParams(ParamsRef::of(p)).print(), shape);
}

ViewSpec slice_view(const SliceParams& p, const TensorSpec& in) {
  check_lies_in("slice", p, in.shape);
  const int axis = static_cast<int>(p.axis);
  ViewSpec v{in, 0};
  v.spec.shape[axis] = (p.stop - p.start + p.step - 1) / p.step;
  v.spec.strides[axis] *= p.step;
  if (v.spec.shape[axis] > 0) v.offset = p.start * in.strides[axis];
  return v;
}

Tensors slice_vjp(const SliceParams& p, const VjpArgs& a) {
  return {slice_grad(a.grad[0], {p, a.in_specs[0].shape})};
}

ViewSpec diagonal_view(const DiagonalParams& p, const TensorSpec& in) {
  check_lies_in("diagonal", p, in.shape);
  const int row = static_cast<int>(p.axis1);
  const int column = static_cast<int>(p.axis2);
  const int64_t down = std::max<int64_t>(-p.offset, 0);
  const int64_t right = std::max<int64_t>(p.offset, 0);
  const int64_t length =
      std::max<int64_t>(0, std::min(in.shape[row] - down, in.shape[column] - right));
  ViewSpec v{in, 0};
  v.spec.shape = {};
  v.spec.strides = {};
  for (int i = 0; i < in.rank(); ++i) {
    if (i == row || i == column) continue;
    v.spec.shape.push_back(in.shape[i]);
    v.spec.strides.push_back(in.strides[i]);
  }
  v.spec.shape.push_back(length);
  v.spec.strides.push_back(in.strides[row] + in.strides[column]);
  if (length > 0) v.offset = down * in.strides[row] + right * in.strides[column];
  return v;
}

Tensors diagonal_vjp(const DiagonalParams& p, const VjpArgs& a) {
  return {diagonal_grad(a.grad[0], {p, a.in_specs[0].shape})};
}

// The gradients of both are zeros with dy where the view lies in them.

const SliceParams& view_params(const SliceGradParams& p) { return p.slice; }
const DiagonalParams& view_params(const DiagonalGradParams& p) { return p.diagonal; }
ViewSpec view_in(const SliceParams& p, const TensorSpec& whole) { return slice_view(p, whole); }
ViewSpec view_in(const DiagonalParams& p, const TensorSpec& whole) {
  return diagonal_view(p, whole);
}

template <class P>
void infer_grad(const P& p, std::span<const TensorSpec> in, OutSpecs& out) {
  numel(p.shape);  // raises where the product overflows
  check_lies_in(out.op(), view_params(p), p.shape);
  const Shape part =
      view_in(view_params(p), TensorSpec::contiguous(p.shape, in[0].dtype)).spec.shape;
  check<ShapeError>(in[0].shape == part, "{}: dy must be {}, got {}", out.op(), part, in[0].shape);
  out.add(p.shape, in[0].dtype);
}

struct GradState : KernelState {
  explicit GradState(const CopyPlan& plan, int64_t at) : copy(plan), offset(at) {}
  CopyPlan copy;
  int64_t offset;  ///< of the part in the output, in elements
};

template <class P>
std::shared_ptr<GradState> prepare_grad(const P& p, const Specs& s) {
  const ViewSpec v = view_in(view_params(p), s.out[0]);
  return std::make_shared<GradState>(CopyPlan(v.spec, s.in[0]), v.offset);
}

/// Outputs are dense: all zeros first, then dy.
template <class P>
void run_grad(const P&, const GradState& state, const Call& c) {
  const auto size = static_cast<int64_t>(size_of(c.out[0].dtype()));
  auto* data = c.out[0].as<std::byte>();
  constexpr int64_t kBytesPerThread = 1 << 17;
  parallel_for(c.out[0].numel() * size, kBytesPerThread, [&](int64_t begin, int64_t end) {
    std::memset(data + begin, 0, static_cast<size_t>(end - begin));
  });
  if (c.in[0].numel() > 0) state.copy.run(data + state.offset * size, c.in[0].data);
}

Tensors slice_grad_vjp(const SliceGradParams& p, const VjpArgs& a);
Tensors diagonal_grad_vjp(const DiagonalGradParams& p, const VjpArgs& a);

}  // namespace

const OpDef& slice_op() {
  static OpDef def = Op<SliceParams>("slice").view<slice_view>().vjp<slice_vjp>({}).build();
  return def;
}

const OpDef& diagonal_op() {
  static OpDef def =
      Op<DiagonalParams>("diagonal").view<diagonal_view>().vjp<diagonal_vjp>({}).build();
  return def;
}

const OpDef& slice_grad_op() {
  static OpDef def = Op<SliceGradParams>("slice_grad")
                         .inputs({"dy"})
                         .outputs({"dx"})
                         .moves()
                         .infer<infer_grad<SliceGradParams>>()
                         .vjp<slice_grad_vjp>({})
                         .cpu({kernel<supports_all<SliceGradParams>, prepare_grad<SliceGradParams>,
                                      run_grad<SliceGradParams>>("reference")})
                         .build();
  return def;
}

const OpDef& diagonal_grad_op() {
  static OpDef def =
      Op<DiagonalGradParams>("diagonal_grad")
          .inputs({"dy"})
          .outputs({"dx"})
          .moves()
          .infer<infer_grad<DiagonalGradParams>>()
          .vjp<diagonal_grad_vjp>({})
          .cpu({kernel<supports_all<DiagonalGradParams>, prepare_grad<DiagonalGradParams>,
                       run_grad<DiagonalGradParams>>("reference")})
          .build();
  return def;
}

namespace {

Tensors slice_grad_vjp(const SliceGradParams& p, const VjpArgs& a) {
  return {dispatch(slice_op(), p.slice, {a.grad[0]})[0]};
}
Tensors diagonal_grad_vjp(const DiagonalGradParams& p, const VjpArgs& a) {
  return {dispatch(diagonal_op(), p.diagonal, {a.grad[0]})[0]};
}

}  // namespace

Tensor slice(const Tensor& x, int64_t axis, int64_t start, int64_t stop, int64_t step) {
  check<IndexError>(step != 0, "slice: step must not be 0");
  const int a = normalize_axis(axis, x.rank(), "slice");
  const int64_t n = x.shape()[a];
  // Longer steps take the first element alone, like one of n.
  step = std::clamp(step, -std::max<int64_t>(n, 1), std::max<int64_t>(n, 1));
  // Backwards an index may stand before the first element, forwards behind the last.
  const int64_t lowest = step < 0 ? -1 : 0;
  const auto clip = [&](int64_t i) { return std::clamp(i < 0 ? i + n : i, lowest, n + lowest); };
  const int64_t first = clip(start);
  const int64_t end = clip(stop);
  if (step > 0) {
    const SliceParams p{a, first, std::max(first, end), step};
    return dispatch(slice_op(), p, {x})[0];
  }
  const int64_t count = std::max<int64_t>(0, (first - end - step - 1) / -step);
  const int64_t last = count == 0 ? first + 1 : first + (count - 1) * step;
  return flip(dispatch(slice_op(), SliceParams{a, last, first + 1, -step}, {x})[0], {a});
}

Tensor narrow(const Tensor& x, int64_t axis, int64_t start, int64_t length) {
  const int a = normalize_axis(axis, x.rank(), "narrow");
  const int64_t n = x.shape()[a];
  const int64_t first = start < 0 ? start + n : start;
  check<IndexError>(first >= 0 && first <= n && length >= 0 && length <= n - first,
                    "narrow: {} elements from {} on do not lie in axis {} of {}", length, start, a,
                    x.shape());
  return dispatch(slice_op(), SliceParams{a, first, first + length, 1}, {x})[0];
}

Tensor select(const Tensor& x, int64_t axis, int64_t index) {
  const int a = normalize_axis(axis, x.rank(), "select");
  const int64_t n = x.shape()[a];
  check<IndexError>(index >= -n && index < n,
                    "select: index must be in [{}, {}) for axis {} of {}, got {}", -n, n, a,
                    x.shape(), index);
  return squeeze(narrow(x, a, index, 1), {a});
}

Tensor diagonal(const Tensor& x, const DiagonalParams& params) {
  const int row = normalize_axis(params.axis1, x.rank(), "diagonal");
  const int column = normalize_axis(params.axis2, x.rank(), "diagonal");
  check<ShapeError>(row != column, "diagonal: the two axes must differ, got {} and {}",
                    params.axis1, params.axis2);
  // A diagonal outside the matrix is empty, and so is the first one outside.
  const int64_t offset = std::clamp(params.offset, -x.shape()[row], x.shape()[column]);
  return dispatch(diagonal_op(), DiagonalParams{offset, row, column}, {x})[0];
}

Tensor slice_grad(const Tensor& dy, const SliceGradParams& params) {
  return dispatch(slice_grad_op(), params, {dy})[0];
}

Tensor diagonal_grad(const Tensor& dy, const DiagonalGradParams& params) {
  return dispatch(diagonal_grad_op(), params, {dy})[0];
}

}  // namespace mica
