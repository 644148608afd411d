#pragma once

#include <optional>
#include <tuple>
#include <utility>

#include "mica/nn/describe.h"
#include "mica/nn/module.h"

namespace mica::nn {

struct MultiheadAttentionOptions {
  int64_t width = 0;  ///< of queries and results
  int64_t heads = 0;
  double dropout = 0;  ///< of the weights, in training
  bool bias = true;
  int64_t key_width = 0;    ///< `width` unless given
  int64_t value_width = 0;  ///< `width` unless given
  bool batch_first = false;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("width", self.width);
    f("heads", self.heads);
    f("dropout", self.dropout);
    f("bias", self.bias);
    f("key_width", self.key_width);
    f("value_width", self.value_width);
    f("batch_first", self.batch_first);
  }
};

/// Which keys queries do not look at, as PyTorch's layers take it: bool, true where they do not (of
/// scaled_dot_product_attention true is where they do), or numbers that are added to the scores.
struct SequenceMasks {
  Tensor mask = {};     ///< (L, S) or (N · heads, L, S)
  Tensor padding = {};  ///< (N, S)
  bool causal = false;  ///< query i looks at keys 0 to i, whatever else there is
};

struct MultiheadAttentionImpl : ModuleImpl {
  explicit MultiheadAttentionImpl(const MultiheadAttentionOptions& options);
  /// Query (L, N, width), key (S, N, key_width) and value (S, N, value_width), or (N, L, width) and
  /// so on with batch_first, or without N, to the result (L, N, width) and the mean weights of the
  /// heads, (N, L, S).
  std::tuple<Tensor, Tensor> forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                     const std::optional<Tensor>& padding = std::nullopt,
                                     const std::optional<Tensor>& mask = std::nullopt) const;
  /// Which weights to return: none, and then the scores are never stored; the heads' mean; all.
  enum class Weights : uint8_t { none, mean, all };
  /// The same with a choice; where there are none, the second is undefined.
  std::tuple<Tensor, Tensor> attend(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const SequenceMasks& masks,
                                    Weights wanted = Weights::none) const;
  /// Whether `forward` is the one above: a class of Python may have its own.
  virtual bool is_plain() const { return true; }
  std::string describe() const override;

  const MultiheadAttentionOptions options;
  /// (3 width, width), unless keys or values have a width of their own; then the next three.
  Parameter in_proj_weight{this, "in_proj_weight"};
  Parameter q_proj_weight{this, "q_proj_weight"};
  Parameter k_proj_weight{this, "k_proj_weight"};
  Parameter v_proj_weight{this, "v_proj_weight"};
  Parameter in_proj_bias{this, "in_proj_bias"};  ///< (3 width), or undefined

 private:
  /// The weight that queries (0), keys (1) or values (2) are made with, and its bias.
  std::pair<Tensor, Tensor> projection(int64_t i) const;
};

/// `MultiheadAttention({.width = 512, .heads = 8})`; `const auto [y, weights] = attention(x, x,
/// x);`.
class MultiheadAttention : public Handle<MultiheadAttentionImpl> {
 public:
  template <std::same_as<std::nullptr_t> Nothing>
  MultiheadAttention(Nothing) : Handle(nullptr) {}
  explicit MultiheadAttention(const MultiheadAttentionOptions& options);
};

}  // namespace mica::nn
