#pragma once

#include "mica/core/dtype_switch.h"
#include "mica/op/kernel.h"

// What plain kernels are written with: any floating dtype as double, any strides.
namespace mica {

/// A tensor's elements as doubles, by their offset in memory.
class DoubleElements {
 public:
  explicit DoubleElements(const Arg& arg) : data_(arg.data), dtype_(arg.dtype()) {}

  double operator[](int64_t offset) const {
    return switch_float(dtype_, "reference", [&]<class T>() {
      return static_cast<double>(static_cast<const T*>(data_)[offset]);
    });
  }
  void set(int64_t offset, double value) const {
    switch_float(dtype_, "reference",
                 [&]<class T>() { static_cast<T*>(data_)[offset] = static_cast<T>(value); });
  }

 private:
  void* data_;
  DType dtype_;
};

/// Where the element with row-major index i of `shape` lies.
inline int64_t strided_offset(const Shape& shape, const Strides& strides, int64_t i) {
  int64_t at = 0;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    at += i % shape[axis] * strides[axis];
    i /= shape[axis];
  }
  return at;
}

/// A tensor's elements by their row-major index; all alike where it is undefined.
class DoubleValues {
 public:
  explicit DoubleValues(const Arg& arg, double otherwise = 0) : arg_(arg), otherwise_(otherwise) {}
  double operator[](int64_t i) const {
    return arg_.defined() ? DoubleElements(arg_)[strided_offset(arg_.shape(), arg_.strides(), i)]
                          : otherwise_;
  }
  void set(int64_t i, double value) const {
    DoubleElements(arg_).set(strided_offset(arg_.shape(), arg_.strides(), i), value);
  }

 private:
  const Arg& arg_;
  double otherwise_;
};

}  // namespace mica
