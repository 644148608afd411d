#pragma once

#include "mica/op/kernel.h"
#include "mica/ops/attention/attention.h"
#include "mica/ops/attention/geometry.h"

// What the kernels of attention share. The op's inputs are q (B, H, L, E), k (B, G, S, E), v (B, G,
// S, V), mask, lengths and counter, or q alone, (B, L, H + 2 G, E), which holds all three. Its
// outputs are y (B, H, L, V) and the logarithm of the sums of exponentials, lse (B, H, L), -inf for
// a query that looks at nothing. The gradient's inputs are dy, then q, k, v, y, lse, then mask,
// lengths, counter, and the cotangent of lse; its outputs dq, dk, dv, or one for all three.
namespace mica {

/// Positions of the inputs of attention and of its gradient.
struct AttentionInputs {
  size_t q, k, v, mask, lengths, counter;
};
inline constexpr AttentionInputs kAttentionInputs = {0, 1, 2, 3, 4, 5};
inline constexpr AttentionInputs kAttentionGradInputs = {1, 2, 3, 6, 7, 8};
inline constexpr size_t kAttentionGradY = 4, kAttentionGradLse = 5, kAttentionGradDlse = 9;

AttentionOperands attention_operands(const AttentionParams& params, const TensorSpec& q,
                                     const TensorSpec& k, const TensorSpec& v);

/// From the specs of a call of attention, or of its gradient.
AttentionProblem attention_problem(const AttentionParams& params, const Specs& specs);
AttentionProblem attention_grad_problem(const AttentionParams& params, const Specs& specs);

/// Where the gradients lie, in the outputs of a call of the gradient; `dy` in its first input.
AttentionOperands attention_grad_outputs(const AttentionParams& params, const Specs& specs);
AttentionRows attention_rows(const TensorSpec& spec);

/// How many keys of sequence b are there.
inline int64_t keys_of(const AttentionProblem& p, const Arg& lengths, int64_t b) {
  if (!p.has_lengths) return p.keys;
  const int64_t length = lengths.as<const int32_t>()[b];
  return length < 0 ? 0 : (length < p.keys ? length : p.keys);
}

Kernel attention_reference_kernel();
Kernel attention_tiled_kernel();
Kernel attention_grad_reference_kernel();
Kernel attention_grad_tiled_kernel();

}  // namespace mica
