#pragma once

#include <optional>

#include "mica/core/tensor.h"

namespace mica {

struct AttentionOptions {
  /// Broadcasts to (…, L, S): bool, true where a query may look at a key, or numbers of the query's
  /// dtype that are added to the scores, -inf where it may not.
  Tensor mask = {};
  double dropout = 0;                ///< of the weights; there is no mode of evaluation here
  bool causal = false;               ///< query i looks at keys 0 to i; without a mask
  std::optional<double> scale = {};  ///< of the scores; 1 / √E unless given
};

/// softmax(query · keyᵀ · scale) · value of query (…, L, E), key (…, S, E) and value (…, S, V):
/// (…, L, V). A query that may look at no key gives zeros.
Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& options = {});

}  // namespace mica
