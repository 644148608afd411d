#pragma once

#include <optional>

#include "mica/core/tensor.h"
#include "mica/op/fields.h"

namespace mica {

struct AttentionOptions {
  /// Broadcasts to (…, L, S): bool, true where a query may look at a key, or numbers of the query's
  /// dtype that are added to the scores, -inf where it may not.
  Tensor mask = {};
  double dropout = 0;                ///< of the weights; there is no mode of evaluation here
  bool causal = false;               ///< query i looks at keys 0 to i; without a mask
  std::optional<double> scale = {};  ///< of the scores; 1 / √E unless given
  bool grouped = false;  ///< key and value may have fewer heads (axis -3): each serves as many
                         ///< queries' heads, one after the other
  /// The last query is the last key's, not the first the first's: what `causal` and `window` count
  /// from.
  bool bottom_right = false;
  /// How many keys a query looks at that end with its own (causal), or on each side, its own among
  /// them; 0: all.
  int64_t window = 0;
  /// i32 (B), of key (B, …, S, E): keys from lengths[b] on are not looked at.
  Tensor lengths = {};
};

/// softmax(query · keyᵀ · scale) · value of query (…, L, E), key (…, S, E) and value (…, S, V):
/// (…, L, V). A query that may look at no key gives zeros. The scores are never stored.
Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& options = {});

/// The same of queries, keys and values that one layer made: qkv (B, L, (heads + 2 kv_heads) E),
/// first the queries' heads, then the keys', then the values': (B, L, heads · E). `kv_heads` is
/// `heads` unless given.
Tensor packed_attention(const Tensor& qkv, int64_t heads, const AttentionOptions& options = {},
                        int64_t kv_heads = 0);

/// Parameters of attention and of its gradient.
struct AttentionParams {
  double scale = 1;
  double dropout = 0;
  int64_t left = -1;   ///< keys before its own that a query looks at; -1: all
  int64_t right = -1;  ///< keys after it
  bool bottom_right = false;
  int64_t heads = 0;  ///< where the operands are one tensor: of its queries
  int64_t kv_heads = 0;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("scale", self.scale);
    f("dropout", self.dropout);
    f("left", self.left);
    f("right", self.right);
    f("bottom_right", self.bottom_right);
    f("heads", self.heads);
    f("kv_heads", self.kv_heads);
  }
};

}  // namespace mica
