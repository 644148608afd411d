#include "mica/ops/collective/collective.h"

#include "mica/autograd/function.h"
#include "mica/core/check.h"
#include "mica/op/dispatch.h"
#include "mica/ops/collective/kernels.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/reduce/reduce.h"

namespace mica {
namespace {

using distributed::CollectiveKind;
using distributed::ReduceOp;

void check_peer(const CollectiveParams& p, const char* op) {
  check<IndexError>(p.peer >= 0 && p.peer < p.ranks, "{}: expected a rank below {}, got {}", op,
                    p.ranks, p.peer);
}

bool is_token(const TensorSpec& spec) { return spec.dtype == DType::u8 && spec.numel() == 1; }

void check_token(const TensorSpec& spec, const char* op) {
  check(is_token(spec), "{}: expected a group's token, u8[1], got {}", op, spec);
}

Shape split(const Shape& shape, int64_t ranks, const char* op) {
  check<ShapeError>(shape.rank() >= 1 && shape[0] % ranks == 0,
                    "{}: the first axis must be divisible by the {} ranks, got {}", op, ranks,
                    shape);
  Shape part = shape;
  part[0] /= ranks;
  return part;
}

void add_dense(OutSpecs& out, const Shape& shape, DType dtype) {
  out.add(shape, dtype);
  out[0].strides = contiguous_strides(shape);
}

void infer_same(const CollectiveParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check_peer(p, out.op());
  check_token(in[1], out.op());
  add_dense(out, in[0].shape, in[0].dtype);
}
void infer_gather(const CollectiveParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check_token(in[1], out.op());
  check<ShapeError>(in[0].rank() >= 1, "{}: expected at least one axis, got {}", out.op(), in[0]);
  Shape all = in[0].shape;
  check<ShapeError>(!__builtin_mul_overflow(all[0], p.ranks, &all[0]),
                    "{}: {} of {} ranks has more than 2^63 elements", out.op(), in[0], p.ranks);
  add_dense(out, all, in[0].dtype);
}
void infer_scatter(const CollectiveParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check_token(in[1], out.op());
  add_dense(out, split(in[0].shape, p.ranks, out.op()), in[0].dtype);
}
void infer_exchange(const CollectiveParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check_token(in[1], out.op());
  split(in[0].shape, p.ranks, out.op());
  add_dense(out, in[0].shape, in[0].dtype);
}
void infer_send(const CollectiveParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check_peer(p, out.op());
  check_token(in[1], out.op());
  add_dense(out, {0}, in[0].dtype);
}
void infer_barrier(const CollectiveParams&, std::span<const TensorSpec> in, OutSpecs& out) {
  check_token(in[0], out.op());
}
void infer_wait(const CollectiveParams&, std::span<const TensorSpec> in, OutSpecs& out) {
  check_token(in[2], out.op());
}

Tensor call(const OpDef& op, const CollectiveParams& p, const Tensor& x) {
  check(x.defined(), "{}: the tensor is undefined", op.name);
  return dispatch(op, p, {x, distributed::token_of(p.group, x.device())})[0];
}

CollectiveParams params_of(int64_t group, ReduceOp reduce = ReduceOp::sum) {
  return {.group = group, .ranks = distributed::communicator(group)->size(), .reduce = reduce};
}

/// What does not lie dense is done at once: its copy would be gone before the result comes.
Tensor start(const OpDef& op, const Tensor& x, const distributed::ReduceOptions& o) {
  check(x.defined(), "{}: the tensor is undefined", op.name);
  CollectiveParams p = params_of(o.group, o.op);
  p.deferred = x.is_contiguous();
  return call(op, p, x);
}

/// A gradient that is a sum, or its mean where the call was one.
void check_linear(const CollectiveParams& p, const char* op) {
  check<Unsupported>(p.reduce == ReduceOp::sum || p.reduce == ReduceOp::avg,
                     "{}: only sum and avg have a gradient, not {}", op,
                     distributed::kReduceOpNames[static_cast<size_t>(p.reduce)]);
  check<Unsupported>(!p.deferred, "{}: has no gradient where the result comes later", op);
}

Tensors grad_all_reduce(const CollectiveParams& p, const VjpArgs& a) {
  check_linear(p, "all_reduce");
  return {call(all_reduce_op(), p, a.grad[0]), {}};
}
Tensors grad_all_gather(const CollectiveParams& p, const VjpArgs& a) {
  return {call(reduce_scatter_op(), p, a.grad[0]), {}};
}
Tensors grad_reduce_scatter(const CollectiveParams& p, const VjpArgs& a) {
  check_linear(p, "reduce_scatter");
  const Tensor all = call(all_gather_op(), p, a.grad[0]);
  return {p.reduce == ReduceOp::avg ? div(all, p.ranks) : all, {}};
}
Tensors grad_broadcast(const CollectiveParams& p, const VjpArgs& a) {
  const Tensor sum = call(all_reduce_op(), p, a.grad[0]);
  return {distributed::communicator(p.group)->rank == p.peer ? sum : zeros_like(sum), {}};
}
Tensors grad_all_to_all(const CollectiveParams& p, const VjpArgs& a) {
  return {call(all_to_all_op(), p, a.grad[0]), {}};
}
/// Zeros like a tensor that depend on one without elements: the thread by which a gradient of
/// higher order finds its way across.
Tensor zeros_by(const TensorSpec& spec, const Tensor& nothing) {
  const Tensor zero = zeros(spec.shape, {.dtype = spec.dtype, .device = spec.device});
  return grad_enabled() ? add(zero, sum(nothing)) : zero;
}
Tensors grad_send(const CollectiveParams& p, const VjpArgs& a) {
  return {call(recv_op(), p, zeros_by(a.in_specs[0], a.grad[0])), {}};
}
Tensors grad_recv(const CollectiveParams& p, const VjpArgs& a) {
  const Tensor sent = call(send_op(), p, a.grad[0]);
  return {grad_enabled() ? zeros_by(a.in_specs[0], sent) : Tensor(), {}};
}

bool writes_token(const CollectiveParams&, int input, int count) { return input == count - 1; }
bool wait_writes(const CollectiveParams&, int input, int) { return input != 1; }

template <CollectiveKind kind>
Op<CollectiveParams> collective(const char* name) {
  Op<CollectiveParams> op(name);
  op.inputs({"x", "token"})
      .dtypes(kAllDTypes)
      .mutates<writes_token>()
      .cpu({collective_kernel<kind>("engine")});
  return op;
}

}  // namespace

const OpDef& all_reduce_op() {
  static OpDef def = collective<CollectiveKind::all_reduce>("all_reduce")
                         .dtypes(kComputedDTypes)
                         .infer<infer_same>()
                         .vjp<grad_all_reduce>({})
                         .build();
  return def;
}

const OpDef& all_gather_op() {
  static OpDef def = collective<CollectiveKind::all_gather>("all_gather")
                         .infer<infer_gather>()
                         .vjp<grad_all_gather>({})
                         .build();
  return def;
}

const OpDef& reduce_scatter_op() {
  static OpDef def = collective<CollectiveKind::reduce_scatter>("reduce_scatter")
                         .dtypes(kComputedDTypes)
                         .infer<infer_scatter>()
                         .vjp<grad_reduce_scatter>({})
                         .build();
  return def;
}

const OpDef& broadcast_op() {
  static OpDef def = collective<CollectiveKind::broadcast>("broadcast")
                         .infer<infer_same>()
                         .vjp<grad_broadcast>({})
                         .build();
  return def;
}

const OpDef& all_to_all_op() {
  static OpDef def = collective<CollectiveKind::all_to_all>("all_to_all")
                         .infer<infer_exchange>()
                         .vjp<grad_all_to_all>({})
                         .build();
  return def;
}

const OpDef& send_op() {
  static OpDef def =
      collective<CollectiveKind::send>("send").infer<infer_send>().vjp<grad_send>({}).build();
  return def;
}

const OpDef& recv_op() {
  static OpDef def = collective<CollectiveKind::recv>("recv")
                         .inputs({"like", "token"})
                         .infer<infer_same>()
                         .vjp<grad_recv>({})
                         .build();
  return def;
}

const OpDef& barrier_op() {
  static OpDef def = collective<CollectiveKind::barrier>("barrier")
                         .inputs({"token"})
                         .outputs({})
                         .infer<infer_barrier>()
                         .no_gradient("it has no result")
                         .build();
  return def;
}

const OpDef& collective_wait_op() {
  static OpDef def = Op<CollectiveParams>("collective_wait")
                         .inputs({"result", "x", "token"})
                         .outputs({})
                         .dtypes(kAllDTypes)
                         .infer<infer_wait>()
                         .mutates<wait_writes>()
                         .no_gradient("it waits for a result without one")
                         .cpu({collective_wait_kernel("engine")})
                         .build();
  return def;
}

namespace distributed {

Tensor all_reduce(const Tensor& x, const ReduceOptions& o) {
  return call(all_reduce_op(), params_of(o.group, o.op), x);
}
Tensor all_gather(const Tensor& x, int64_t group) {
  return call(all_gather_op(), params_of(group), x);
}
Tensor reduce_scatter(const Tensor& x, const ReduceOptions& o) {
  return call(reduce_scatter_op(), params_of(o.group, o.op), x);
}
Tensor all_to_all(const Tensor& x, int64_t group) {
  return call(all_to_all_op(), params_of(group), x);
}
Tensor broadcast(const Tensor& x, int64_t root, int64_t group) {
  CollectiveParams p = params_of(group);
  p.peer = root;
  return call(broadcast_op(), p, x);
}
Tensor send(const Tensor& x, int64_t to, int64_t group) {
  CollectiveParams p = params_of(group);
  p.peer = to;
  return call(send_op(), p, x);
}
Tensor recv(const Tensor& like, int64_t from, int64_t group) {
  CollectiveParams p = params_of(group);
  p.peer = from;
  return call(recv_op(), p, like);
}
void barrier(int64_t group, Device device) {
  dispatch(barrier_op(), params_of(group), {token_of(group, device)});
}

Tensor start_all_reduce(const Tensor& x, const ReduceOptions& o) {
  return start(all_reduce_op(), x, o);
}
Tensor start_reduce_scatter(const Tensor& x, const ReduceOptions& o) {
  return start(reduce_scatter_op(), x, o);
}
void collective_wait(const Tensor& result, const Tensor& x, int64_t group) {
  dispatch(collective_wait_op(), params_of(group), {result, x, token_of(group, result.device())});
}

}  // namespace distributed
}  // namespace mica
