#pragma once

#include "mica/core/check.h"
#include "mica/op/kernel.h"
#include "mica/ops/cross_entropy/cross_entropy.h"

namespace mica {

/// The targets of a call, whatever their dtype.
class Targets {
 public:
  Targets(const Arg& arg, int64_t classes, int64_t ignore_index)
      : arg_(arg), classes_(classes), ignore_index_(ignore_index) {}

  static constexpr int64_t kIgnored = -1;

  /// The row's class, or kIgnored. Raises IndexError for a target outside [0, classes).
  int64_t operator[](int64_t row) const {
    const int64_t at = row * arg_.strides()[0];
    int64_t target = 0;
    switch (arg_.dtype()) {
      case DType::i64:
        target = arg_.as<int64_t>()[at];
        break;
      case DType::i32:
        target = arg_.as<int32_t>()[at];
        break;
      default:
        target = arg_.as<uint8_t>()[at];
        break;
    }
    if (target == ignore_index_) return kIgnored;
    check<IndexError>(target >= 0 && target < classes_,
                      "cross_entropy: target {} of row {} is outside [0, {})", target, row,
                      classes_);
    return target;
  }

  /// Rows that are not ignored.
  int64_t counted() const {
    int64_t count = 0;
    for (int64_t row = 0; row < arg_.numel(); ++row) count += (*this)[row] != kIgnored;
    return count;
  }

 private:
  const Arg& arg_;
  int64_t classes_;
  int64_t ignore_index_;
};

Kernel cross_entropy_reference_kernel();
Kernel cross_entropy_grad_reference_kernel();
Kernel cross_entropy_vectorized_kernel();
Kernel cross_entropy_grad_vectorized_kernel();

}  // namespace mica
