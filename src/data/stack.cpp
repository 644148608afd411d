#include "mica/data/stack.h"

#include <cstring>

#include "mica/core/check.h"
#include "mica/core/values_check.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/view/view.h"

namespace mica::data {
namespace {

/// Writes a tensor of an example into row `row` of the stack, which the first makes.
void put_row(Tensor& stack, const Tensor& part, const ValuesPath& path, int64_t number, size_t row,
             size_t rows) {
  check(part.device().is_cpu(), "data::Dataset: {} of example {} must be on the CPU, got {}", path,
        number, part.spec());
  const Tensor value = contiguous(part.detach());
  Shape shape = {static_cast<int64_t>(rows)};
  for (const int64_t d : value.shape()) shape.push_back(d);
  if (row == 0) stack = empty(shape, {.dtype = value.dtype()});
  if (stack.shape() != shape || stack.dtype() != value.dtype()) {
    const TensorSpec others = select(stack, 0, 0).spec();
    fail<ShapeError>("data::Dataset: {} of example {} is {}, others of its batch are {}", path,
                     number, value.spec(), others);
  }
  const size_t bytes = static_cast<size_t>(value.numel()) * size_of(value.dtype());
  if (bytes > 0)
    std::memcpy(static_cast<std::byte*>(stack.data()) + row * bytes, value.data(), bytes);
}

}  // namespace

void Stack::add(const Example& example, int64_t number) {
  if (row_ == 0) {
    first_ = example;
    stacks_.resize(flatten(example).size());
  }
  check<ShapeError>(same_structure(first_, example),
                    "data::Dataset: example {} is {}, others of its batch are {}", number, example,
                    first_);
  size_t leaf = 0;
  for_each_leaf(example, ValuesPath("example"), [&](const Tensor& t, const ValuesPath& path) {
    put_row(stacks_[leaf++], t, path, number, row_, rows_);
  });
  ++row_;
}

}  // namespace mica::data
