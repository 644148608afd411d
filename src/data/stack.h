#pragma once

#include "mica/data/dataset.h"

namespace mica::data {

/// Examples that become one batch, each tensor stacked along a new first axis.
class Stack {
 public:
  explicit Stack(size_t rows) : rows_(rows) {}

  /// The next one, whose number is for messages. Raises ShapeError where it differs from the first
  /// in structure, shape or dtype.
  void add(const Example& example, int64_t number);
  /// After `rows` of them.
  Batch batch() const { return unflatten(first_, stacks_); }

 private:
  size_t rows_;
  size_t row_ = 0;
  Values first_;
  Tensors stacks_;
};

}  // namespace mica::data
