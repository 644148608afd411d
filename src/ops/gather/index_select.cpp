#include "mica/core/check.h"
#include "mica/op/dispatch.h"
#include "mica/ops/gather/cpu_indexed.h"
#include "mica/ops/gather/gather.h"
#include "mica/ops/view/leading_axis.h"

// Whole slices along an axis, by a 1-d index.
namespace mica {

const OpDef& index_add_op();

namespace {

void check_slices(const char* op, const TensorSpec& index) {
  check_index_dtype(op, index);
  check<ShapeError>(index.rank() == 1, "{}: index must be 1-d, got {}", op, index.shape);
}

/// The shape of the slices an index asks for.
Shape slices_of(const char* op, const Shape& x, int64_t axis, int64_t count) {
  Shape shape = x;
  shape[normalize_axis(axis, x.rank(), op)] = count;
  return shape;
}

void infer_select(const GatherParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check_slices(out.op(), in[1]);
  out.add(slices_of(out.op(), in[0].shape, p.axis, in[1].shape[0]), in[0].dtype);
}

Tensors vjp_select(const GatherParams& p, const VjpArgs& a) {
  return {dispatch(index_add_op(), ScatterParams{p.axis, false, a.in_specs[0].shape},
                   {Tensor(), a.in[1], a.grad[0]})[0],
          Tensor()};
}

/// x or nothing, index, src.
void infer_add(const ScatterParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  const Shape& shape = in[0].defined ? in[0].shape : p.shape;
  check_slices(out.op(), in[1]);
  check<DTypeError>(!in[0].defined || in[2].dtype == in[0].dtype,
                    "{}: src must have x's dtype, {}, got {}", out.op(), in[0].dtype, in[2].dtype);
  const Shape slices = slices_of(out.op(), shape, p.axis, in[1].shape[0]);
  check<ShapeError>(in[2].shape == slices, "{}: src must be {}, got {}", out.op(), slices,
                    in[2].shape);
  out.add(shape, in[2].dtype);
}

Tensors vjp_add(const ScatterParams& p, const VjpArgs& a) {
  Tensors grads(3);
  if (a.needs(0)) grads[0] = a.grad[0];
  if (a.needs(2)) grads[2] = index_select(a.grad[0], p.axis, a.in[1]);
  return grads;
}

Indexed slices(int64_t axis, const Arg& dense, const Arg& table, const Indices& index) {
  const int at = static_cast<int>(axis);
  Indexed how{dense.shape(),   dense.strides(), Dims::filled(dense.shape().rank(), 0),
              table.strides(), index.data,      table.strides()[at]};
  how.index[at] = index.strides[0];
  how.table[at] = 0;
  return how;
}

std::shared_ptr<KernelState> prepare_select(const GatherParams&, const Specs& s) {
  auto state = std::make_shared<KernelState>();
  state->workspace_bytes = index_workspace(s.in[1]);
  return state;
}

void run_select(const GatherParams& p, const KernelState&, const Call& c) {
  const Arg& x = c.in[0];
  const Indices index = checked_index({"index_select", p.axis, x.shape()[static_cast<int>(p.axis)]},
                                      c.in[1], c.workspace);
  read_indexed(slices(p.axis, c.out[0], x, index), x.data, c.out[0].data, x.dtype());
}

std::shared_ptr<KernelState> prepare_add(const ScatterParams&, const Specs& s) {
  auto state = std::make_shared<KernelState>();
  state->workspace_bytes = index_workspace(s.in[1]) + add_workspace(s.out[0]);
  return state;
}

void run_add(const ScatterParams& p, const KernelState&, const Call& c) {
  const Arg& out = c.out[0];
  const Indices index = checked_index({"index_add", p.axis, out.shape()[static_cast<int>(p.axis)]},
                                      c.in[1], c.workspace);
  start_table(c.in[0], out);
  add_to_table(slices(p.axis, c.in[2], out, index), c.in[2], out,
               static_cast<std::byte*>(c.workspace) + index_workspace(*c.in[1].spec));
}

}  // namespace

const OpDef& index_select_op() {
  static OpDef def =
      Op<GatherParams>("index_select")
          .inputs({"x", "index"})
          .moves()
          .infer<infer_select>()
          .vjp<vjp_select>({.in = {1}})
          .cpu({kernel<supports_all<GatherParams>, prepare_select, run_select>("strided")})
          .build();
  return def;
}

const OpDef& index_add_op() {
  static OpDef def =
      Op<ScatterParams>("index_add")
          .inputs({"x?", "index", "values"})
          .precision(Precision::widest)
          .dtypes(kNumberDTypes)
          .infer<infer_add>()
          .vjp<vjp_add>({.in = {{1, {2}}}})
          .complex(kernel<supports_all<ScatterParams>, prepare_add, run_add>("strided"))
          .build();
  return def;
}

Tensor index_select(const Tensor& x, int64_t axis, const Tensor& index) {
  if (x.rank() == 0)
    return with_leading_axis(x, 1, [&](const Tensor& v) { return index_select(v, axis, index); });
  const int at = normalize_axis(axis, x.rank(), "index_select");
  return dispatch(index_select_op(), GatherParams{at}, {x, index})[0];
}

Tensor index_add(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& src) {
  const int at = normalize_axis(axis, x.rank(), "index_add");
  return dispatch(index_add_op(), ScatterParams{at}, {x, index, src})[0];
}

Tensor index_copy(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& src) {
  const int at = normalize_axis(axis, x.rank(), "index_copy");
  check_slices("index_copy", index.spec());
  const Shape shape = slices_of("index_copy", x.shape(), at, index.size(0));
  check<ShapeError>(src.shape() == shape, "index_copy: src must be {}, got {}", shape, src.shape());
  Shape along = Dims::filled(x.rank(), 1);
  along[at] = index.size(0);
  return scatter(x, at, expand(reshape(index, along), shape), src);
}

}  // namespace mica
