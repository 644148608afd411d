#pragma once

#include "mica/ops/reference.h"

namespace mica {

/// A floating tensor of any dtype and strides whose elements are read and written as doubles, for
/// reference kernels.
class Elements {
 public:
  explicit Elements(const Arg& arg) : elements_(arg), strides_(arg.strides()) {}

  template <class... Index>
  double get(Index... index) const {
    return elements_[at(index...)];
  }
  template <class... Index>
  void set(double value, Index... index) const {
    elements_.set(at(index...), value);
  }

 private:
  template <class... Index>
  int64_t at(Index... index) const {
    int64_t offset = 0;
    int axis = 0;
    ((offset += index * strides_[axis++]), ...);
    return offset;
  }

  DoubleElements elements_;
  Strides strides_;
};

}  // namespace mica
