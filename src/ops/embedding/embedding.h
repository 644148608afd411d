#pragma once

#include <optional>

#include "mica/core/tensor.h"
#include "mica/op/fields.h"

namespace mica {

struct EmbeddingParams {
  int64_t padding = -1;  ///< the row that takes no gradient; -1 for none

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("padding", self.padding);
  }
};

struct EmbeddingGradParams {
  int64_t rows = 0;
  int64_t padding = -1;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("rows", self.rows);
    f("padding", self.padding);
  }
};

/// The rows of weight (rows, dim) at the indices: (index…, dim). Indices are i64, i32 or u8. Row
/// `padding_idx` (negative: from the end) takes no gradient.
Tensor embedding(const Tensor& index, const Tensor& weight,
                 std::optional<int64_t> padding_idx = std::nullopt);

/// The gradient of weight, (rows, dim), for dy (index…, dim): the sum of each row's, in the order
/// of the indices.
Tensor embedding_grad(const Tensor& index, const Tensor& dy, const EmbeddingGradParams& params);

struct OneHotParams {
  int64_t classes = 1;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("classes", self.classes);
  }
};

/// i64 (index…, classes): 1 at each index's class, else 0.
Tensor one_hot(const Tensor& index, int64_t classes);

}  // namespace mica
