#include "mica/ops/embedding/embedding.h"

#include <algorithm>

#include "mica/core/check.h"
#include "mica/op/dispatch.h"
#include "mica/op/function.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/gather/cpu_indexed.h"
#include "mica/ops/gather/gather.h"
#include "mica/ops/reduce/reduce.h"

namespace mica {
namespace {

Shape with_axis(const char* op, const Shape& index, int64_t size) {
  check<ShapeError>(index.rank() < Dims::kMaxRank, "{}: index must have fewer than {} axes, got {}",
                    op, Dims::kMaxRank, index);
  Shape shape = index;
  shape.push_back(size);
  return shape;
}

void infer(const EmbeddingParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check<ShapeError>(in[1].rank() == 2, "{}: weight must be [rows, dim], got {}", out.op(),
                    in[1].shape);
  check<IndexError>(p.padding >= -1 && p.padding < in[1].shape[0],
                    "{}: padding_idx {} is out of range for weight = {}", out.op(), p.padding,
                    in[1].shape);
  out.add(with_axis(out.op(), in[0].shape, in[1].shape[1]), in[1].dtype);
}

Tensors vjp(const EmbeddingParams& p, const VjpArgs& a) {
  return {Tensor(), embedding_grad(a.in[0], a.grad[0], {a.in_specs[1].shape[0], p.padding})};
}

void infer_grad(const EmbeddingGradParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check<ShapeError>(p.rows >= 0, "{}: expected a number of rows, got {}", out.op(), p.rows);
  check<DTypeError>(is_floating(in[1].dtype), "{}: expected a floating dy, got {}", out.op(),
                    in[1].dtype);
  check<ShapeError>(
      in[1].rank() > 0 && in[1].shape == with_axis(out.op(), in[0].shape, in[1].shape.back()),
      "{}: dy must be {} and one axis more, got {}", out.op(), in[0].shape, in[1].shape);
  out.add({p.rows, in[1].shape.back()}, in[1].dtype);
}

Tensors vjp_grad(const EmbeddingGradParams& p, const VjpArgs& a) {
  Tensor g = a.grad[0];
  if (p.padding >= 0) {
    g = scatter(g, 0, full({1, g.size(1)}, p.padding, {DType::i64, g.device()}), 0.0);
  }
  return {Tensor(), embedding(a.in[0], g)};
}

/// dense (index…, dim), table (rows, dim).
Indexed rows_of(const Arg& dense, const Arg& table, const Indices& index) {
  Indexed how{dense.shape(), dense.strides(),
              index.strides, Dims::filled(index.strides.rank(), 0),
              index.data,    table.strides()[0]};
  how.index.push_back(0);
  how.table.push_back(table.strides()[1]);
  return how;
}

template <class P>
std::shared_ptr<KernelState> prepare(const P&, const Specs& s) {
  auto state = std::make_shared<KernelState>();
  state->workspace_bytes = index_workspace(s.in[0]);
  return state;
}

void run(const EmbeddingParams&, const KernelState&, const Call& c) {
  const Arg& weight = c.in[1];
  const Indices index = checked_index({"embedding", 0, weight.shape()[0]}, c.in[0], c.workspace);
  read_indexed(rows_of(c.out[0], weight, index), weight.data, c.out[0].data, weight.dtype());
}

std::shared_ptr<KernelState> prepare_grad(const EmbeddingGradParams&, const Specs& s) {
  auto state = std::make_shared<KernelState>();
  state->workspace_bytes = index_workspace(s.in[0]) + add_workspace(s.out[0]);
  return state;
}

void run_grad(const EmbeddingGradParams& p, const KernelState&, const Call& c) {
  const Arg& out = c.out[0];
  const Indices index = checked_index({"embedding_grad", 0, p.rows}, c.in[0], c.workspace);
  clear_table(out);
  add_to_table(rows_of(c.in[1], out, index), c.in[1], out,
               static_cast<std::byte*>(c.workspace) + index_workspace(*c.in[0].spec));
  if (p.padding < 0) return;
  const auto row = out.shape()[1] * static_cast<int64_t>(size_of(out.dtype()));
  std::fill_n(out.as<std::byte>() + p.padding * row, row, std::byte{0});
}

void infer_one_hot(const OneHotParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check<ShapeError>(p.classes >= 1, "{}: expected at least one class, got {}", out.op(), p.classes);
  out.add(with_axis(out.op(), in[0].shape, p.classes), DType::i64);
}

void run_one_hot(const OneHotParams& p, const KernelState&, const Call& c) {
  const Arg& out = c.out[0];
  const int rank = c.in[0].shape().rank();
  const Indices index = checked_index({"one_hot", rank, p.classes}, c.in[0], c.workspace);
  clear_table(out);
  Strides table;
  for (int i = 0; i < rank; ++i) table.push_back(out.strides()[i]);
  const int64_t one = 1;
  write_indexed({c.in[0].shape(), Dims::filled(rank, 0), index.strides, table, index.data,
                 out.strides()[rank]},
                &one, out.data, DType::i64);
}

}  // namespace

const OpDef& embedding_op() {
  static OpDef def =
      Op<EmbeddingParams>("embedding")
          .inputs({"indices", "weight"})
          .dtypes(kIntegerDTypes)
          .infer<infer>()
          .vjp<vjp>({.in = {0}})
          .cpu({kernel<supports_all<EmbeddingParams>, prepare<EmbeddingParams>, run>("strided")})
          .build();
  return def;
}

const OpDef& embedding_grad_op() {
  static OpDef def =
      Op<EmbeddingGradParams>("embedding_grad")
          .inputs({"indices", "dy"})
          .outputs({"dweight"})
          .dtypes(kIntegerDTypes)
          .infer<infer_grad>()
          .vjp<vjp_grad>({.in = {0}})
          .cpu({kernel<supports_all<EmbeddingGradParams>, prepare_grad, run_grad>("strided")})
          .build();
  return def;
}

const OpDef& one_hot_op() {
  static OpDef def =
      Op<OneHotParams>("one_hot")
          .inputs({"indices"})
          .dtypes(kIntegerDTypes)
          .infer<infer_one_hot>()
          .no_gradient("its input is integers")
          .cpu({kernel<supports_all<OneHotParams>, prepare<OneHotParams>, run_one_hot>("strided")})
          .build();
  return def;
}

Tensor embedding(const Tensor& index, const Tensor& weight, std::optional<int64_t> padding_idx) {
  EmbeddingParams params;
  if (padding_idx) {
    check<ShapeError>(weight.rank() == 2, "embedding: weight must be [rows, dim], got {}",
                      weight.shape());
    const int64_t rows = weight.size(0);
    check<IndexError>(*padding_idx >= -rows && *padding_idx < rows,
                      "embedding: padding_idx {} is out of range for weight = {}", *padding_idx,
                      weight.shape());
    params.padding = *padding_idx + (*padding_idx < 0 ? rows : 0);
  }
  return dispatch(embedding_op(), params, {index, weight})[0];
}

Tensor embedding_grad(const Tensor& index, const Tensor& dy, const EmbeddingGradParams& params) {
  return dispatch(embedding_grad_op(), params, {index, dy})[0];
}

Tensor one_hot(const Tensor& index, int64_t classes) {
  return dispatch(one_hot_op(), OneHotParams{classes}, {index})[0];
}

Functions embedding_functions() {
  const auto classes = [](const Tensor& x, int64_t n) {
    if (n == -1 && x.numel() > 0) n = static_cast<int64_t>(max(x).item()) + 1;
    return one_hot(x, n);
  };
  return {
      {.name = "embedding",
       .doc = "The rows of weight (rows, D) at the indices in input, of integers: (*input.shape, "
              "D). Row padding_idx takes no gradient; an index outside raises IndexError.",
       .signatures = {{embedding, {"input", "weight", {"padding_idx", kNone}}}},
       .offer = kFunctional},
      {.name = "one_hot",
       .doc = "int64 (*tensor.shape, num_classes): 1 at the class that each element of tensor "
              "names, else 0. num_classes=-1 takes the largest class + 1.",
       .signatures = {{classes, {"tensor", {"num_classes", -1}}}},
       .offer = kFunctional}};
}

}  // namespace mica
