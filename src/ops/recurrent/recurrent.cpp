#include "mica/ops/recurrent/recurrent.h"

#include "mica/core/check.h"
#include "mica/op/dispatch.h"
#include "mica/ops/recurrent/kernels.h"
#include "mica/ops/recurrent/problem.h"

namespace mica {

const OpDef& recurrent_op();
const OpDef& recurrent_grad_op();

namespace {

void check_shape(const char* op, const char* what, const TensorSpec& spec, const Shape& shape) {
  check<ShapeError>(spec.shape == shape, "{}: {} must be {}, got {}", op, what, shape, spec.shape);
}

/// The inputs that both ops have, by name.
struct Layer {
  const TensorSpec &x, &w_ih, &w_hh, &w_hr, &h0, &c0, &lengths;
};

RecurrentProblem checked(const char* op, RecurrentMode mode, bool reverse, const Layer& l) {
  const int64_t gates = gates_of(mode);
  check<ShapeError>(l.x.rank() == 3 && l.x.numel() > 0,
                    "{}: expected an input (steps, batch, features), none of them 0, got {}", op,
                    l.x.shape);
  check<ShapeError>(l.w_hh.rank() == 2 && l.w_hh.numel() > 0 && l.w_hh.shape[0] % gates == 0,
                    "{}: w_hh must be ({} hidden_size, output size), got {}", op, gates,
                    l.w_hh.shape);
  check<Unsupported>(!l.w_hr.defined || mode == RecurrentMode::lstm,
                     "{}: only an LSTM projects its state", op);
  const RecurrentProblem p(mode, reverse, l.x, l.w_hh, l.w_hr.defined);
  check_shape(op, "w_ih", l.w_ih, {p.gate_rows(), p.inputs});
  if (p.projected) {
    check_shape(op, "w_hr", l.w_hr, {p.outputs, p.units});
  } else {
    check_shape(op, "w_hh", l.w_hh, {p.gate_rows(), p.units});
  }
  check_shape(op, "h0", l.h0, {p.batch, p.outputs});
  check(l.c0.defined == p.has_cells(), "{}: an LSTM has cells to begin with, c0, and others none",
        op);
  if (p.has_cells()) check_shape(op, "c0", l.c0, {p.batch, p.units});
  for (const TensorSpec* spec : {&l.w_ih, &l.w_hh, &l.w_hr, &l.h0, &l.c0})
    check<DTypeError>(!spec->defined || spec->dtype == l.x.dtype,
                      "{}: weights and states must be {} as the input, got {}", op, l.x.dtype,
                      spec->dtype);
  if (l.lengths.defined) {
    check<DTypeError>(l.lengths.dtype == DType::i64, "{}: lengths must be i64, got {}", op,
                      l.lengths.dtype);
    check_shape(op, "lengths", l.lengths, {p.batch});
  }
  return p;
}

void add_row_major(OutSpecs& out, const Shape& shape, DType dtype) {
  out.add(shape, dtype);
  out[out.size() - 1].strides = contiguous_strides(shape);
}

void infer(const RecurrentParams& params, std::span<const TensorSpec> in, OutSpecs& out) {
  using namespace recurrent_io;
  const RecurrentProblem p =
      checked(out.op(), params.mode, params.reverse,
              {in[kX], in[kWIh], in[kWHh], in[kWHr], in[kH0], in[kC0], in[kLengths]});
  const DType dtype = in[kX].dtype;
  check(in[kBIh].defined == in[kBHh].defined, "{}: either both biases or none", out.op());
  for (const TensorSpec* bias : {&in[kBIh], &in[kBHh]}) {
    if (!bias->defined) continue;
    check_shape(out.op(), "a bias", *bias, {p.gate_rows()});
    check<DTypeError>(bias->dtype == dtype, "{}: biases must be {} as the input, got {}", out.op(),
                      dtype, bias->dtype);
  }
  const bool cells = params.keep && p.has_cells();
  add_row_major(out, {p.steps, p.batch, p.outputs}, dtype);
  add_row_major(out, {p.batch, p.outputs}, dtype);
  add_row_major(out, p.has_cells() ? Shape{p.batch, p.units} : Shape{0}, dtype);
  add_row_major(out, params.keep ? Shape{p.steps, p.batch, p.rows()} : Shape{0}, dtype);
  add_row_major(out, cells ? Shape{p.steps, p.batch, p.units} : Shape{0}, dtype);
}

void infer_grad(const RecurrentGradParams& params, std::span<const TensorSpec> in, OutSpecs& out) {
  using namespace recurrent_grad_io;
  const RecurrentProblem p =
      checked(out.op(), params.mode, params.reverse,
              {in[kX], in[kWIh], in[kWHh], in[kWHr], in[kH0], in[kC0], in[kLengths]});
  const DType dtype = in[kX].dtype;
  const Shape y = {p.steps, p.batch, p.outputs};
  const Shape cells = {p.batch, p.units};
  check_shape(out.op(), "y", in[kY], y);
  check_shape(out.op(), "gates", in[kGates], {p.steps, p.batch, p.rows()});
  if (p.has_cells()) check_shape(out.op(), "cells", in[kCells], {p.steps, p.batch, p.units});
  if (in[kDy].defined) check_shape(out.op(), "dy", in[kDy], y);
  if (in[kDhn].defined) check_shape(out.op(), "dhn", in[kDhn], {p.batch, p.outputs});
  if (in[kDcn].defined) check_shape(out.op(), "dcn", in[kDcn], cells);
  for (const int i : {kY, kGates, kCells, kDy, kDhn, kDcn}) {
    const TensorSpec& spec = in[static_cast<size_t>(i)];
    check<DTypeError>(!spec.defined || spec.dtype == dtype,
                      "{}: what the forward pass kept and its cotangents must be {} as the input, "
                      "got {}",
                      out.op(), dtype, spec.dtype);
  }
  const auto add = [&](bool there, const Shape& shape) {
    add_row_major(out, there ? shape : Shape{0}, dtype);
  };
  add(params.input, in[kX].shape);
  add(true, in[kWIh].shape);
  add(true, in[kWHh].shape);
  add(params.bias, {p.gate_rows()});
  add(params.bias, {p.gate_rows()});
  add(p.projected, {p.outputs, p.units});
  add(true, in[kH0].shape);
  add(p.has_cells(), cells);
}

Tensors vjp(const RecurrentParams& params, const VjpArgs& a) {
  using namespace recurrent_io;
  using G = recurrent_grad_io::Out;
  check(params.keep, "recurrent: nothing was kept for a gradient");
  const bool bias = a.in_specs[kBIh].defined && (a.needs(kBIh) || a.needs(kBHh));
  const Outputs g = dispatch(
      recurrent_grad_op(), RecurrentGradParams{params.mode, params.reverse, bias, a.needs(kX)},
      {a.in[kX], a.in[kWIh], a.in[kWHh], a.in[kWHr], a.in[kH0], a.in[kC0], a.in[kLengths],
       a.out[kY], a.out[kGates], a.out[kCells], a.grad[kY], a.grad[kHn],
       params.mode == RecurrentMode::lstm ? a.grad[kCn] : Tensor()});
  Tensors grads(a.in_specs.size());
  const auto give = [&](int input, int output) {
    if (a.needs(input)) grads[static_cast<size_t>(input)] = g[output];
  };
  give(kX, G::kDx);
  give(kWIh, G::kDwIh);
  give(kWHh, G::kDwHh);
  give(kBIh, G::kDbIh);
  give(kBHh, G::kDbHh);
  give(kWHr, G::kDwHr);
  give(kH0, G::kDh0);
  give(kC0, G::kDc0);
  return grads;
}

double flops_of(const RecurrentProblem& p) {
  const auto states = static_cast<double>(p.steps * p.batch);
  const auto units = static_cast<double>(p.units);
  const auto columns = static_cast<double>(p.inputs + p.outputs);
  return 2 * states *
         (static_cast<double>(p.gate_rows()) * columns +
          (p.projected ? units * static_cast<double>(p.outputs) : 0));
}
double flops(const RecurrentParams& params, const Specs& s) {
  using namespace recurrent_io;
  return flops_of({params.mode, false, s.in[kX], s.in[kWHh], s.in[kWHr].defined});
}
double grad_flops(const RecurrentGradParams& params, const Specs& s) {
  using namespace recurrent_grad_io;
  return 2 * flops_of({params.mode, false, s.in[kX], s.in[kWHh], s.in[kWHr].defined});
}

}  // namespace

const OpDef& recurrent_op() {
  using namespace recurrent_io;
  static OpDef def =
      Op<RecurrentParams>("recurrent")
          .inputs({"x", "w_ih", "w_hh", "b_ih?", "b_hh?", "w_hr?", "h", "c?", "lengths?"})
          .outputs({"y", "hn", "cn", "gates", "cells"})
          .precision(Precision::low)
          .dtypes(kFloatDTypes)
          .infer<infer>()
          .vjp<vjp>({.in = {kX, kWIh, kWHh, kWHr, kH0, kC0, kLengths}, .out = {kY, kGates, kCells}})
          .flops<flops>()
          .cpu({recurrent_cpu_gemm_kernel(), recurrent_reference_kernel()})
          .build();
  return def;
}

const OpDef& recurrent_grad_op() {
  static OpDef def = Op<RecurrentGradParams>("recurrent_grad")
                         .inputs({"x", "w_ih", "w_hh", "w_hr?", "h", "c?", "lengths?", "y", "gates",
                                  "cells", "dy?", "dhn?", "dcn?"})
                         .outputs({"dx", "dw_ih", "dw_hh", "db_ih", "db_hh", "dw_hr", "dh", "dc"})
                         .dtypes(kFloatDTypes)
                         .infer<infer_grad>()
                         .no_gradient(
                             "the gradient of a layer's steps is not differentiated again; a "
                             "cell's is (nn::LSTMCell, "
                             "GRUCell, RNNCell, called at each step)")
                         .flops<grad_flops>()
                         .cpu({recurrent_grad_cpu_gemm_kernel(), recurrent_grad_reference_kernel()})
                         .build();
  return def;
}

RecurrentResult recurrent(const Tensor& x, const RecurrentWeights& w, const Tensor& h,
                          const Tensor& c, const Tensor& lengths, RecurrentMode mode,
                          bool reverse) {
  const Tensors in = {x, w.w_ih, w.w_hh, w.b_ih, w.b_hh, w.w_hr, h, c, lengths};
  const Outputs out = dispatch(recurrent_op(), RecurrentParams{mode, reverse, grad_wanted(in)}, in);
  return {out[0], out[1], mode == RecurrentMode::lstm ? out[2] : Tensor()};
}

}  // namespace mica
