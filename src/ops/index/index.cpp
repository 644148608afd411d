#include "mica/ops/index/index.h"

#include "mica/core/check.h"
#include "mica/op/dispatch.h"
#include "mica/op/function.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/elementwise/cpu_loop.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/gather/cpu_indexed.h"
#include "mica/ops/index/placement.h"
#include "mica/ops/view/view.h"
#include "mica/ops/where/where.h"

namespace mica {

const OpDef& index_op();
const OpDef& index_put_op();

namespace {

void infer(const IndexParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  out.add(place_indices(out.op(), in[0].shape, p.axes, in.subspan(1)).shape, in[0].dtype);
}

void infer_put(const IndexPutParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  const Shape& shape = in[0].defined ? in[0].shape : p.shape;
  const Placement placed = place_indices(out.op(), shape, p.axes, in.subspan(2));
  check<DTypeError>(!p.accumulate || in[1].dtype != DType::boolean,
                    "{}: expected numbers to accumulate, got bool", out.op());
  check<DTypeError>(!in[0].defined || in[1].dtype == in[0].dtype,
                    "{}: values must have x's dtype, {}, got {}", out.op(), in[0].dtype,
                    in[1].dtype);
  check<ShapeError>(in[1].shape == placed.shape, "{}: values must be {}, got {}", out.op(),
                    placed.shape, in[1].shape);
  out.add(shape, in[1].dtype);
}

Tensor call_index(const Tensor& x, const Dims& axes, std::span<const Tensor> indices) {
  Tensors in = {x};
  in.insert(in.end(), indices.begin(), indices.end());
  return dispatch(index_op(), IndexParams{axes}, in)[0];
}

Tensor call_put(const Tensor& x, const Tensor& values, const IndexPutParams& params,
                std::span<const Tensor> indices) {
  Tensors in = {x, values};
  in.insert(in.end(), indices.begin(), indices.end());
  return dispatch(index_put_op(), params, in)[0];
}

Tensors vjp(const IndexParams& p, const VjpArgs& a) {
  Tensors grads(a.in.size());
  grads[0] = call_put({}, a.grad[0], {p.axes, true, a.in_specs[0].shape}, a.in.subspan(1));
  return grads;
}

/// Where the values that stay are, broadcast to them: false where a later one overwrites.
Tensor stays(const IndexPutParams& p, const VjpArgs& a) {
  const auto indices = a.in.subspan(2);
  const Shape& x = a.out_specs[0].shape;
  const Placement placed = place_indices("index_put", x, p.axes, a.in_specs.subspan(2));
  Shape sizes;
  Dims axes;
  for (const int64_t axis : p.axes) {
    axes.push_back(sizes.rank());
    sizes.push_back(x[static_cast<int>(axis)]);
  }
  const TensorOptions order{DType::i64, a.out_specs[0].device};
  const Tensor own = reshape(arange(numel(placed.indices), order), placed.indices);
  const Tensor written = call_put(zeros(sizes, order), own, {axes}, indices);
  Shape shape = Dims::filled(placed.shape.rank(), 1);
  for (int i = 0; i < placed.indices.rank(); ++i) shape[placed.at + i] = placed.indices[i];
  return reshape(eq(own, call_index(written, axes, indices)), shape);
}

Tensors vjp_put(const IndexPutParams& p, const VjpArgs& a) {
  const auto indices = a.in.subspan(2);
  Tensors grads(a.in.size());
  if (a.needs(0)) {
    const TensorSpec& values = a.in_specs[1];
    const Tensor zero = full({}, 0, {values.dtype, values.device});
    grads[0] = p.accumulate ? a.grad[0]
                            : call_put(a.grad[0], expand(zero, values.shape), {p.axes}, indices);
  }
  if (a.needs(1)) {
    grads[1] = call_index(a.grad[0], p.axes, indices);
    if (!p.accumulate) grads[1] = where(stays(p, a), grads[1], 0.0);
  }
  return grads;
}

/// A single i64 index is used where it lies; otherwise offsets are computed first.
bool is_direct(std::span<const TensorSpec> indices) {
  return indices.size() == 1 && indices[0].dtype == DType::i64;
}

size_t offsets_bytes(const char* op, const Shape& x, const Dims& axes,
                     std::span<const TensorSpec> indices) {
  if (is_direct(indices)) return 0;
  return static_cast<size_t>(numel(place_indices(op, x, axes, indices).indices)) * sizeof(int64_t);
}

/// Checks the indices' values; then how the result of an indexing, or the values of an index_put,
/// meet the table.
Indexed indexed(const char* op, const Dims& axes, const Arg& table, const Arg& dense,
                std::span<const Arg> indices, void* workspace) {
  std::vector<TensorSpec> specs;
  for (const Arg& i : indices) specs.push_back(*i.spec);
  const Placement p = place_indices(op, table.shape(), axes, specs);
  const auto axis_of = [&](int i) {
    const int axis = static_cast<int>(axes[i]);
    return IndexedAxis{op, axis, table.shape()[axis], true};
  };
  for (int i = 0; i < axes.rank(); ++i) check_index(axis_of(i), indices[static_cast<size_t>(i)]);

  Indexed how{dense.shape(), dense.strides(), {}, {}, nullptr, 1};
  Strides index_strides = contiguous_strides(p.indices);
  if (is_direct(specs)) {
    how.indices = indices[0].as<int64_t>();
    how.scale = table.strides()[static_cast<int>(axes[0])];
    how.size = axis_of(0).size;
    index_strides = broadcast_strides(specs[0], p.indices);
  } else {
    auto* offsets = static_cast<int64_t*>(workspace);
    for (int i = 0; i < axes.rank(); ++i)
      index_offsets(axis_of(i), indices[static_cast<size_t>(i)], p.indices,
                    table.strides()[static_cast<int>(axes[i])], i > 0, offsets);
    how.indices = offsets;
  }
  const auto add_axes = [&](int begin, int end) {
    for (int i = begin; i < end; ++i) {
      if (axes.contains(i)) continue;
      how.index.push_back(0);
      how.table.push_back(table.strides()[i]);
    }
  };
  add_axes(0, p.at);
  for (const int64_t stride : index_strides) {
    how.index.push_back(stride);
    how.table.push_back(0);
  }
  add_axes(p.at, table.shape().rank());
  return how;
}

std::shared_ptr<KernelState> prepare(const IndexParams& p, const Specs& s) {
  auto state = std::make_shared<KernelState>();
  state->workspace_bytes = offsets_bytes("index", s.in[0].shape, p.axes, s.in.subspan(1));
  return state;
}

void run(const IndexParams& p, const KernelState&, const Call& c) {
  const Indexed how = indexed("index", p.axes, c.in[0], c.out[0], c.in.subspan(1), c.workspace);
  read_indexed(how, c.in[0].data, c.out[0].data, c.out[0].dtype());
}

struct PutState : KernelState {
  size_t offsets = 0;  ///< bytes of the workspace they take
};

std::shared_ptr<PutState> prepare_put(const IndexPutParams& p, const Specs& s) {
  auto state = std::make_shared<PutState>();
  state->offsets = offsets_bytes("index_put", s.out[0].shape, p.axes, s.in.subspan(2));
  state->workspace_bytes = state->offsets + (p.accumulate ? add_workspace(s.out[0]) : 0);
  return state;
}

void run_put(const IndexPutParams& p, const PutState& state, const Call& c) {
  const Arg& values = c.in[1];
  const Arg& out = c.out[0];
  const Indexed how = indexed("index_put", p.axes, out, values, c.in.subspan(2), c.workspace);
  start_table(c.in[0], out);
  if (p.accumulate) {
    add_to_table(how, values, out, static_cast<std::byte*>(c.workspace) + state.offsets);
  } else {
    write_indexed(how, values.data, out.data, out.dtype());
  }
}

/// The axes that are indexed, and a tensor of integers for each.
struct Integers {
  Dims axes;
  Tensors indices;
};
Integers integers(const char* op, const Tensor& x, const Tensors& indices) {
  Integers result;
  int axis = 0;
  const auto check_rank = [&](int needed) {
    check<IndexError>(needed <= x.rank(), "{}: the indices stand for {} axes, x has shape {}", op,
                      needed, x.shape());
  };
  for (const Tensor& i : indices) {
    if (!i.defined()) {
      check_rank(++axis);
    } else if (i.dtype() == DType::boolean) {
      const int rank = i.rank();
      check<ShapeError>(rank > 0, "{}: a mask must have an axis, got a 0-d one", op);
      check_rank(axis + rank);
      for (int k = 0; k < rank; ++k)
        check<IndexError>(i.size(k) == x.size(axis + k) || i.size(k) == 0,
                          "{}: mask {} does not fit x = {} at axis {}", op, i.shape(), x.shape(),
                          axis);
      const Tensor at = nonzero(i);
      for (int k = 0; k < rank; ++k) {
        result.axes.push_back(axis++);
        result.indices.push_back(reshape(slice(at, 1, k, k + 1), {at.size(0)}));
      }
    } else {
      check_rank(axis + 1);
      result.axes.push_back(axis++);
      result.indices.push_back(i);
    }
  }
  return result;
}

}  // namespace

Placement place_indices(const char* op, const Shape& x, const Dims& axes,
                        std::span<const TensorSpec> indices) {
  check(!axes.empty() && indices.size() == static_cast<size_t>(axes.rank()),
        "{}: expected an index for each of the axes {}, got {}", op, axes, indices.size());
  Placement p;
  for (const TensorSpec& s : indices) {
    check_index_dtype(op, s);
    p.indices = broadcast_shapes(p.indices, s.shape, op);
  }
  check<ShapeError>(x.rank() - axes.rank() + p.indices.rank() <= Dims::kMaxRank,
                    "{}: indices of shape {} in place of {} of the axes of {} make more than {}",
                    op, p.indices, axes.rank(), x, Dims::kMaxRank);
  const bool neighbours = axes.back() - axes[0] == axes.rank() - 1;
  p.at = neighbours ? static_cast<int>(axes[0]) : 0;
  for (int i = 0; i < p.at; ++i) p.shape.push_back(x[i]);
  for (const int64_t size : p.indices) p.shape.push_back(size);
  for (int i = p.at; i < x.rank(); ++i)
    if (!axes.contains(i)) p.shape.push_back(x[i]);
  return p;
}

const OpDef& index_op() {
  static OpDef def = Op<IndexParams>("index")
                         .inputs({"x", "indices..."})
                         .moves()
                         .infer<infer>()
                         .vjp<vjp>({.in = {1, 2, 3, 4, 5, 6, 7, 8}})
                         .cpu({kernel<supports_all<IndexParams>, prepare, run>("strided")})
                         .build();
  return def;
}

const OpDef& index_put_op() {
  static OpDef def =
      Op<IndexPutParams>("index_put")
          .inputs({"x?", "values", "indices..."})
          .precision(Precision::widest)
          .infer<infer_put>()
          .vjp<vjp_put>({.in = {2, 3, 4, 5, 6, 7, 8, 9}})
          .complex(kernel<supports_all<IndexPutParams>, prepare_put, run_put>("strided"))
          .build();
  return def;
}

Tensor index(const Tensor& x, const Tensors& indices) {
  const Integers by = integers("index", x, indices);
  return by.axes.empty() ? x : call_index(x, by.axes, by.indices);
}

Tensor index_put(const Tensor& x, const Tensors& indices, const Tensor& values, bool accumulate) {
  constexpr const char* kOp = "index_put";
  const Integers by = integers(kOp, x, indices);
  check(!by.axes.empty(), "{}: expected at least one index", kOp);
  std::vector<TensorSpec> specs;
  for (const Tensor& i : by.indices) specs.push_back(i.spec());
  const Shape shape = place_indices(kOp, x.shape(), by.axes, specs).shape;
  check<ShapeError>(broadcast_shapes(values.shape(), shape, kOp) == shape,
                    "{}: values must broadcast to {}, got {}", kOp, shape, values.shape());
  return call_put(x, expand(values, shape), {by.axes, accumulate}, by.indices);
}

Functions index_functions() {
  return {
      {.name = "index_put",
       .doc = "A copy of input with values, broadcast, at input[indices], or added there with "
              "accumulate. indices has a tensor of integers or bool for each leading axis, None "
              "for all of one; of elements written twice the last stays.",
       .signatures = {{index_put, {"input", "indices", "values", {"accumulate", false}}}},
       .offer = kInPlaceToo},
      {.name = "nonzero",
       .doc = "The positions (n, rank) of the elements that are not zero, as int64, in row-major "
              "order. NaN is not zero.",
       .signatures = {{nonzero, {"input"}}},
       .second_names = {"argwhere"}},
      {.name = "masked_fill",
       .doc = "input, in its dtype, with value (a number or 0-d) where mask (bool) holds; input "
              "and mask broadcast.",
       .signatures = {{overload<const Tensor&, const Tensor&, const Tensor&>(masked_fill),
                       {"input", "mask", "value"}},
                      {overload<const Tensor&, const Tensor&, Number>(masked_fill),
                       {"input", "mask", "value"}}},
       .offer = kInPlaceToo},
      {.name = "masked_select",
       .doc = "The elements of input where mask (bool) holds, (n), in row-major order; input and "
              "mask broadcast.",
       .signatures = {{masked_select, {"input", "mask"}}}},
  };
}

}  // namespace mica
