#include "mica/ops/attention/problem.h"

namespace mica {

AttentionRows attention_rows(const TensorSpec& spec) {
  return {0, spec.strides[0], spec.strides[1], spec.strides[2], spec.strides[3]};
}

AttentionOperands attention_operands(const AttentionParams& params, const TensorSpec& q,
                                     const TensorSpec& k, const TensorSpec& v) {
  if (params.heads == 0) return {attention_rows(q), attention_rows(k), attention_rows(v)};
  const AttentionRows all{0, q.strides[0], q.strides[2], q.strides[1], q.strides[3]};
  AttentionOperands parts{all, all, all};
  parts.k.offset = params.heads * all.head;
  parts.v.offset = (params.heads + params.kv_heads) * all.head;
  return parts;
}

namespace {

AttentionProblem make_problem(const AttentionParams& params, const Specs& s,
                              const AttentionInputs& in, const TensorSpec& y) {
  const TensorSpec& q = s.in[in.q];
  const bool packed = params.heads > 0;
  const TensorSpec& k = packed ? q : s.in[in.k];
  const TensorSpec& v = packed ? q : s.in[in.v];
  AttentionProblem p;
  p.packed = packed;
  p.batch = q.shape[0];
  p.heads = packed ? params.heads : q.shape[1];
  p.kv_heads = packed ? params.kv_heads : k.shape[1];
  p.queries = packed ? q.shape[1] : q.shape[2];
  p.keys = packed ? q.shape[1] : k.shape[2];
  p.width = q.shape[3];
  p.value_width = v.shape[3];
  const AttentionOperands operands = attention_operands(params, q, k, v);
  p.q = operands.q;
  p.k = operands.k;
  p.v = operands.v;
  p.y = attention_rows(y);
  const TensorSpec& mask = s.in[in.mask];
  if (mask.defined) {
    p.mask = mask.dtype == DType::boolean ? AttentionMask::boolean : AttentionMask::added;
    p.masks = attention_rows(mask);
    if (mask.shape[0] == 1) p.masks.batch = 0;
    if (mask.shape[1] == 1) p.masks.head = 0;
    if (mask.shape[2] == 1) p.masks.row = 0;
    if (mask.shape[3] == 1) p.masks.col = 0;
  }
  p.has_lengths = s.in[in.lengths].defined;
  p.left = params.left;
  p.right = params.right;
  p.bottom_right = params.bottom_right;
  p.scale = params.scale;
  p.dropout = params.dropout;
  return p;
}

}  // namespace

AttentionProblem attention_problem(const AttentionParams& params, const Specs& s) {
  return make_problem(params, s, kAttentionInputs, s.out[0]);
}

AttentionProblem attention_grad_problem(const AttentionParams& params, const Specs& s) {
  return make_problem(params, s, kAttentionGradInputs, s.in[kAttentionGradY]);
}

AttentionOperands attention_grad_outputs(const AttentionParams& params, const Specs& s) {
  const bool packed = params.heads > 0;
  return attention_operands(params, s.out[0], s.out[packed ? 0 : 1], s.out[packed ? 0 : 2]);
}

}  // namespace mica
