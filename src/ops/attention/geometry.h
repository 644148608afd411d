#pragma once

#include <cstdint>

#include "mica/runtime/portable.h"

// A call of attention in numbers: what its kernels are given, and how they find their way. Run-time
// compilation takes this file as it is.
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

/// The places of q, k and v in their tensors; of one tensor with all three where `k` is left out.
struct AttentionOperands {
  AttentionRows q, k, v;
};

/// A call of the gradient.
struct AttentionGradProblem {
  AttentionProblem problem;
  AttentionOperands out;
  AttentionRows dy;
};

}  // namespace mica
