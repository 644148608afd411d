#pragma once

#include "mica/op/kernel.h"
#include "mica/ops/attention/attention.h"
#include "mica/runtime/portable.h"

// What the kernels of attention share. The op's inputs are q (B, H, L, E), k (B, G, S, E), v (B, G,
// S, V), mask, lengths and counter, or q alone, (B, L, H + 2 G, E), which holds all three. Its
// outputs are y (B, H, L, V) and the logarithm of the sums of exponentials, lse (B, H, L), -inf for
// a query that looks at nothing. The gradient's inputs are dy, then q, k, v, y, lse, then mask,
// lengths, counter, and the cotangent of lse; its outputs dq, dk, dv, or one for all three.
namespace mica {

/// Where an operand's rows lie, in elements.
struct AttentionRows {
  int64_t offset = 0;
  int64_t batch = 0;
  int64_t head = 0;
  int64_t row = 0;
  int64_t col = 1;

  MICA_PORTABLE int64_t at(int64_t b, int64_t h, int64_t i) const {
    return offset + b * batch + h * head + i * row;
  }
};

enum class AttentionMask : uint8_t { none, boolean, added };

struct AttentionProblem {
  int64_t batch = 0;
  int64_t heads = 0;     ///< of queries
  int64_t kv_heads = 0;  ///< of keys and values
  int64_t queries = 0;
  int64_t keys = 0;
  int64_t width = 0;        ///< of a query and a key, E
  int64_t value_width = 0;  ///< V
  bool packed = false;      ///< q, k and v are one tensor
  AttentionRows q, k, v, y;
  AttentionMask mask = AttentionMask::none;
  AttentionRows masks;  ///< an axis that is broadcast has stride 0
  bool has_lengths = false;
  int64_t left = -1;
  int64_t right = -1;
  bool bottom_right = false;
  double scale = 1;
  double dropout = 0;

  MICA_PORTABLE int64_t group() const { return heads / kv_heads; }
  MICA_PORTABLE int64_t kv_head(int64_t head) const { return head / group(); }
  /// The key that is a query's own, where `length` keys are there.
  MICA_PORTABLE int64_t own_key(int64_t query, int64_t length) const {
    return bottom_right ? query + length - queries : query;
  }
  /// The keys [first, last) that a query looks at by its place.
  MICA_PORTABLE int64_t first_key(int64_t query, int64_t length) const {
    const int64_t first = left < 0 ? 0 : own_key(query, length) - left;
    return first < 0 ? 0 : first;
  }
  MICA_PORTABLE int64_t last_key(int64_t query, int64_t length) const {
    const int64_t last = right < 0 ? length : own_key(query, length) + right + 1;
    return last < 0 ? 0 : (last < length ? last : length);
  }
  /// The queries [first, last) that look at a key by its place.
  MICA_PORTABLE int64_t first_query(int64_t key, int64_t length) const {
    const int64_t shift = bottom_right ? length - queries : 0;
    const int64_t first = right < 0 ? 0 : key - shift - right;
    return first < 0 ? 0 : first;
  }
  MICA_PORTABLE int64_t last_query(int64_t key, int64_t length) const {
    const int64_t shift = bottom_right ? length - queries : 0;
    const int64_t last = left < 0 ? queries : key - shift + left + 1;
    return last < 0 ? 0 : (last < queries ? last : queries);
  }
  /// Number of a weight, which chooses its random number.
  MICA_PORTABLE int64_t weight(int64_t b, int64_t h, int64_t query, int64_t key) const {
    return ((b * heads + h) * queries + query) * keys + key;
  }
};

/// Positions of the inputs of attention and of its gradient.
struct AttentionInputs {
  size_t q, k, v, mask, lengths, counter;
};
inline constexpr AttentionInputs kAttentionInputs = {0, 1, 2, 3, 4, 5};
inline constexpr AttentionInputs kAttentionGradInputs = {1, 2, 3, 6, 7, 8};
inline constexpr size_t kAttentionGradY = 4, kAttentionGradLse = 5, kAttentionGradDlse = 9;

/// The places of q, k and v in their tensors; of one tensor with all three where `k` is left out.
struct AttentionOperands {
  AttentionRows q, k, v;
};
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
