#pragma once

#include <optional>

#include "mica/nn/describe.h"
#include "mica/nn/module.h"

namespace mica::nn {

struct EmbeddingOptions {
  int64_t rows = 0;
  int64_t dim = 0;
  std::optional<int64_t> padding_idx = {};  ///< the row that starts as zeros and is not trained
  /// Rows that are asked for and are longer are made this long first, in the weight itself; 0
  /// leaves them as they are.
  double max_norm = 0;
  double norm_type = 2;  ///< which norm that is

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("rows", self.rows);
    f("dim", self.dim);
    f("padding_idx", self.padding_idx);
    f("max_norm", self.max_norm);
    f("norm_type", self.norm_type);
  }
};

struct EmbeddingImpl : ModuleImpl {
  explicit EmbeddingImpl(const EmbeddingOptions& options);
  /// Indices (…) of an integer dtype to (…, dim).
  Tensor forward(const Tensor& index);
  std::string describe() const override;

  const EmbeddingOptions options;
  Parameter weight{this, "weight"};  ///< (rows, dim)
};

/// `Embedding(1000, 64)` or `Embedding({.rows = 1000, .dim = 64})`.
class Embedding : public Handle<EmbeddingImpl> {
 public:
  template <std::same_as<std::nullptr_t> Nothing>
  Embedding(Nothing) : Handle(nullptr) {}
  explicit Embedding(const EmbeddingOptions& options);
  Embedding(int64_t rows, int64_t dim);
};

}  // namespace mica::nn
