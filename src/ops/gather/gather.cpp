#include "mica/ops/gather/gather.h"

#include "mica/core/check.h"
#include "mica/op/dispatch.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/gather/cpu_indexed.h"
#include "mica/ops/view/view.h"
#include "mica/ops/where/where.h"

namespace mica {

const OpDef& gather_op();
const OpDef& scatter_add_op();

namespace {

// A 0-d tensor counts as one of shape [1].
int axis_of(int64_t axis, int rank, const char* op) {
  return normalize_axis(axis, std::max(rank, 1), op);
}
int64_t axis_size(const Shape& shape, int64_t axis) {
  return shape.empty() ? 1 : shape[static_cast<int>(axis)];
}

/// What gather and scatter ask of their index.
void check_shapes(const char* op, const Shape& x, const TensorSpec& index, int64_t axis) {
  check_index_dtype(op, index);
  check<ShapeError>(index.rank() == x.rank(), "{}: index must have x's rank with x = {}, got {}",
                    op, x, index.shape);
  for (int i = 0; i < x.rank(); ++i)
    check<ShapeError>(i == axis || index.shape[i] <= x[i],
                      "{}: index must not be larger than x = {} off axis {}, got {}", op, x, axis,
                      index.shape);
}

void infer_gather(const GatherParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check_shapes(p.wrap ? "take_along_axis" : out.op(), in[0].shape, in[1], p.axis);
  out.add(in[1].shape, in[0].dtype);
}

Tensors vjp_gather(const GatherParams& p, const VjpArgs& a) {
  return {dispatch(scatter_add_op(), ScatterParams{p.axis, p.wrap, a.in_specs[0].shape},
                   {Tensor(), a.in[1], a.grad[0]})[0],
          Tensor()};
}

/// scatter and scatter_add: x or nothing, index, src.
void infer_scatter(const ScatterParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  const Shape& shape = in[0].defined ? in[0].shape : p.shape;
  check_shapes(out.op(), shape, in[1], p.axis);
  check<DTypeError>(!in[0].defined || in[2].dtype == in[0].dtype,
                    "{}: src must have x's dtype, {}, got {}", out.op(), in[0].dtype, in[2].dtype);
  check<ShapeError>(in[2].shape == in[1].shape, "{}: src must have index's shape, {}, got {}",
                    out.op(), in[1].shape, in[2].shape);
  out.add(shape, in[2].dtype);
}

/// Where the elements of src that stay are: false where a later one overwrites.
Tensor stays(const ScatterParams& p, const VjpArgs& a) {
  const TensorSpec& src = a.in_specs[2];
  const TensorOptions order{DType::i64, src.device};
  const Tensor own = reshape(arange(src.numel(), order), src.shape);
  const Tensor last =
      gather(scatter(zeros(a.out_specs[0].shape, order), p.axis, a.in[1], own), p.axis, a.in[1]);
  return eq(own, last);
}

Tensors vjp_scatter(const ScatterParams& p, const VjpArgs& a) {
  Tensors grads(3);
  if (a.needs(0)) grads[0] = scatter(a.grad[0], p.axis, a.in[1], 0.0);
  if (a.needs(2)) grads[2] = where(stays(p, a), gather(a.grad[0], p.axis, a.in[1]), 0.0);
  return grads;
}

Tensors vjp_scatter_add(const ScatterParams& p, const VjpArgs& a) {
  Tensors grads(3);
  if (a.needs(0)) grads[0] = a.grad[0];
  if (a.needs(2))
    grads[2] = dispatch(gather_op(), GatherParams{p.axis, p.wrap}, {a.grad[0], a.in[1]})[0];
  return grads;
}

/// The dense side has index's shape; the table is x of gather, the result of scatter.
Indexed along_axis(int64_t axis, const Arg& dense, const Arg& table, const Indices& index) {
  Indexed how{dense.shape(), dense.strides(), index.strides, table.strides(), index.data, 0, 0};
  if (dense.shape().empty()) return how;
  const int at = static_cast<int>(axis);
  how.table[at] = 0;
  how.scale = table.strides()[at];
  how.size = table.shape()[at];
  return how;
}

std::shared_ptr<KernelState> prepare_gather(const GatherParams&, const Specs& s) {
  auto state = std::make_shared<KernelState>();
  state->workspace_bytes = index_workspace(s.in[1]);
  return state;
}

void run_gather(const GatherParams& p, const KernelState&, const Call& c) {
  const char* op = p.wrap ? "take_along_axis" : "gather";
  const Indices index =
      checked_index({op, p.axis, axis_size(c.in[0].shape(), p.axis), p.wrap}, c.in[1], c.workspace);
  read_indexed(along_axis(p.axis, c.out[0], c.in[0], index), c.in[0].data, c.out[0].data,
               c.out[0].dtype());
}

template <bool add>
std::shared_ptr<KernelState> prepare_scatter(const ScatterParams&, const Specs& s) {
  auto state = std::make_shared<KernelState>();
  state->workspace_bytes = index_workspace(s.in[1]) + (add ? add_workspace(s.out[0]) : 0);
  return state;
}

template <bool add>
void run_scatter(const ScatterParams& p, const KernelState&, const Call& c) {
  const Arg& out = c.out[0];
  const Indices index = checked_index(
      {add ? "scatter_add" : "scatter", p.axis, axis_size(out.shape(), p.axis), p.wrap}, c.in[1],
      c.workspace);
  const Indexed how = along_axis(p.axis, c.in[2], out, index);
  start_table(c.in[0], out);
  if constexpr (add) {
    add_to_table(how, c.in[2], out,
                 static_cast<std::byte*>(c.workspace) + index_workspace(*c.in[1].spec));
  } else {
    write_indexed(how, c.in[2].data, out.data, out.dtype());
  }
}

/// src is read where index is.
Tensor cut(const char* op, const Tensor& src, const Tensor& index) {
  check<ShapeError>(src.rank() == index.rank(),
                    "{}: src must have index's rank with index = {}, got {}", op, index.shape(),
                    src.shape());
  Tensor part = src;
  for (int i = 0; i < src.rank(); ++i) {
    check<ShapeError>(index.size(i) <= src.size(i),
                      "{}: src must be at least as large as index = {}, got {}", op, index.shape(),
                      src.shape());
    if (index.size(i) < src.size(i)) part = slice(part, i, 0, index.size(i));
  }
  return part;
}

}  // namespace

const OpDef& gather_op() {
  static OpDef def =
      Op<GatherParams>("gather")
          .inputs({"x", "index"})
          .moves()
          .infer<infer_gather>()
          .vjp<vjp_gather>({.in = {1}})
          .cpu({kernel<supports_all<GatherParams>, prepare_gather, run_gather>("strided")})
          .build();
  return def;
}

namespace {

/// The result may be written over x.
bool overwrites(const ScatterParams&, int input, int) { return input == 0; }

}  // namespace

const OpDef& scatter_op() {
  static OpDef def =
      Op<ScatterParams>("scatter")
          .inputs({"x", "index", "values"})
          .moves()
          .precision(Precision::widest)
          .overwrites<overwrites>()
          .infer<infer_scatter>()
          .vjp<vjp_scatter>({.in = {1}})
          .cpu({kernel<supports_all<ScatterParams>, prepare_scatter<false>, run_scatter<false>>(
              "strided")})
          .build();
  return def;
}

const OpDef& scatter_add_op() {
  static OpDef def =
      Op<ScatterParams>("scatter_add")
          .inputs({"x?", "index", "values"})
          .precision(Precision::widest)
          .dtypes(kNumberDTypes)
          .infer<infer_scatter>()
          .vjp<vjp_scatter_add>({.in = {{1, {2}}}})
          .complex(kernel<supports_all<ScatterParams>, prepare_scatter<true>, run_scatter<true>>(
              "strided"))
          .build();
  return def;
}

Tensor gather(const Tensor& x, int64_t axis, const Tensor& index) {
  return dispatch(gather_op(), GatherParams{axis_of(axis, x.rank(), "gather")}, {x, index})[0];
}

Tensor scatter(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& src) {
  return dispatch(scatter_op(), ScatterParams{axis_of(axis, x.rank(), "scatter")},
                  {x, index, cut("scatter", src, index)})[0];
}

Tensor scatter(const Tensor& x, int64_t axis, const Tensor& index, Number value) {
  return scatter(x, axis, index, expand(full({}, value, {x.dtype(), x.device()}), index.shape()));
}

Tensor scatter_add(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& src) {
  return dispatch(scatter_add_op(), ScatterParams{axis_of(axis, x.rank(), "scatter_add")},
                  {x, index, cut("scatter_add", src, index)})[0];
}

Tensor take_along_axis(const Tensor& x, const Tensor& index, int64_t axis) {
  constexpr const char* kOp = "take_along_axis";
  check<ShapeError>(x.rank() == index.rank(), "{}: index must have x's rank with x = {}, got {}",
                    kOp, x.shape(), index.shape());
  const int at = axis_of(axis, x.rank(), kOp);
  Shape x_shape = x.shape();
  Shape index_shape = index.shape();
  if (!x_shape.empty()) {
    x_shape[at] = index_shape[at] = 1;
    x_shape = index_shape = broadcast_shapes(x_shape, index_shape, kOp);
    x_shape[at] = x.size(at);
    index_shape[at] = index.size(at);
  }
  return dispatch(gather_op(), GatherParams{at, true},
                  {expand(x, x_shape), expand(index, index_shape)})[0];
}

}  // namespace mica
