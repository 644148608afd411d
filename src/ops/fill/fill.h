#pragma once

#include "mica/core/tensor.h"
#include "mica/op/params.h"

namespace mica {

struct FullParams {
  Shape shape;
  double value = 0;
  DType dtype = DType::f32;
  Device device;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("shape", self.shape);
    f("value", self.value);
    f("dtype", self.dtype);
    f("device", self.device);
  }
};

/// A tensor of one value. The op `full` has no inputs and one row-major output.
Tensor full(const Shape& shape, double value, TensorOptions options = {});
Tensor zeros(const Shape& shape, TensorOptions options = {});
Tensor ones(const Shape& shape, TensorOptions options = {});
Tensor zeros_like(const Tensor& x);
Tensor ones_like(const Tensor& x);
/// 0, 1, … n-1.
Tensor arange(int64_t n, TensorOptions options = {.dtype = DType::i64, .device = {}});

/// Sets every element of x.
void fill_(const Tensor& x, double value);

}  // namespace mica
