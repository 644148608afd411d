#pragma once

#include "mica/core/half.h"
#include "mica/op/kernel.h"

namespace mica {

/// A floating tensor of any dtype and strides whose elements are read and written as doubles, for
/// reference kernels.
class Elements {
 public:
  explicit Elements(const Arg& arg)
      : data_(arg.data), dtype_(arg.dtype()), strides_(arg.strides()) {}

  template <class... Index>
  double get(Index... index) const {
    const int64_t i = at(index...);
    switch (dtype_) {
      case DType::f64:
        return static_cast<const double*>(data_)[i];
      case DType::f32:
        return static_cast<const float*>(data_)[i];
      case DType::f16:
        return static_cast<const Half*>(data_)[i];
      default:
        return static_cast<const BFloat16*>(data_)[i];
    }
  }
  template <class... Index>
  void set(double value, Index... index) const {
    const int64_t i = at(index...);
    switch (dtype_) {
      case DType::f64:
        static_cast<double*>(data_)[i] = value;
        break;
      case DType::f32:
        static_cast<float*>(data_)[i] = static_cast<float>(value);
        break;
      case DType::f16:
        static_cast<Half*>(data_)[i] = static_cast<Half>(static_cast<float>(value));
        break;
      default:
        static_cast<BFloat16*>(data_)[i] = static_cast<BFloat16>(static_cast<float>(value));
    }
  }

 private:
  template <class... Index>
  int64_t at(Index... index) const {
    int64_t offset = 0;
    int axis = 0;
    ((offset += index * strides_[axis++]), ...);
    return offset;
  }

  void* data_;
  DType dtype_;
  Strides strides_;
};

}  // namespace mica
