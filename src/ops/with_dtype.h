#pragma once

#include <concepts>
#include <utility>

#include "mica/core/make_tensor.h"
#include "mica/ops/fft/fft.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/random/random.h"

// Where TensorOptions are taken, a dtype alone, or with a device, stands for them:
// `zeros({2, 3}, DType::f64)`. What stands in braces are options.
namespace mica {

template <std::same_as<DType> T>
Tensor empty(const Shape& shape, T dtype, Device device = {}) {
  return empty(shape, TensorOptions{dtype, device});
}
template <std::same_as<DType> T>
Tensor scalar(Number value, T dtype, Device device = {}) {
  return scalar(value, TensorOptions{dtype, device});
}
template <std::same_as<DType> T>
Tensor full(const Shape& shape, Number value, T dtype, Device device = {}) {
  return full(shape, value, TensorOptions{dtype, device});
}
template <std::same_as<DType> T>
Tensor zeros(const Shape& shape, T dtype, Device device = {}) {
  return zeros(shape, TensorOptions{dtype, device});
}
template <std::same_as<DType> T>
Tensor ones(const Shape& shape, T dtype, Device device = {}) {
  return ones(shape, TensorOptions{dtype, device});
}
template <std::same_as<DType> T>
Tensor arange(int64_t n, T dtype, Device device = {}) {
  return arange(n, TensorOptions{dtype, device});
}
template <std::same_as<DType> T>
Tensor arange(Number start, Number stop, Number step, T dtype, Device device = {}) {
  return arange(start, stop, step, TensorOptions{dtype, device});
}
template <std::same_as<DType> T>
Tensor linspace(double start, double stop, int64_t steps, T dtype, Device device = {}) {
  return linspace(start, stop, steps, TensorOptions{dtype, device});
}
template <std::same_as<DType> T>
Tensor eye(int64_t rows, int64_t columns, T dtype, Device device = {}) {
  return eye(rows, columns, TensorOptions{dtype, device});
}
template <std::same_as<DType> T>
Tensor eye(int64_t rows, T dtype, Device device = {}) {
  return eye(rows, -1, TensorOptions{dtype, device});
}
template <std::same_as<DType> T>
Tensor rand(const Shape& shape, T dtype, Device device = {}) {
  return rand(shape, TensorOptions{dtype, device});
}
template <std::same_as<DType> T>
Tensor randn(const Shape& shape, T dtype, Device device = {}) {
  return randn(shape, TensorOptions{dtype, device});
}
template <std::same_as<DType> T>
Tensor randint(int64_t low, int64_t high, const Shape& shape, T dtype, Device device = {}) {
  return randint(low, high, shape, TensorOptions{dtype, device});
}
template <std::same_as<DType> T>
Tensor uniform(const Shape& shape, double low, double high, T dtype, Device device = {}) {
  return uniform(shape, low, high, TensorOptions{dtype, device});
}
template <std::same_as<DType> T>
Tensor normal(const Shape& shape, double mean, double deviation, T dtype, Device device = {}) {
  return normal(shape, mean, deviation, TensorOptions{dtype, device});
}
template <std::same_as<DType> T>
Tensor bernoulli(const Shape& shape, double p, T dtype, Device device = {}) {
  return bernoulli(shape, p, TensorOptions{dtype, device});
}
template <std::same_as<DType> T>
Tensor from_blob(void* data, const Shape& shape, T dtype, Device device = {}) {
  return from_blob(data, shape, {}, TensorOptions{dtype, device});
}
template <std::same_as<DType> T>
Tensor from_blob(void* data, const Shape& shape, const Strides& strides, T dtype,
                 Deleter deleter = {}, Device device = {}) {
  return from_blob(data, shape, strides, TensorOptions{dtype, device}, std::move(deleter));
}

template <class Values, std::same_as<DType> T>
Tensor tensor(const Values& values, T dtype, Device device = {}) {
  return tensor(values).to(dtype).to(device);
}
// Lists in braces are no argument that Values could be.
template <class V, std::same_as<DType> T>
Tensor tensor(std::initializer_list<V> values, T dtype, Device device = {}) {
  return tensor(values).to(dtype).to(device);
}
template <class V, std::same_as<DType> T>
Tensor tensor(std::initializer_list<std::initializer_list<V>> values, T dtype, Device device = {}) {
  return tensor(values).to(dtype).to(device);
}

namespace fft {

template <std::same_as<DType> T>
Tensor fftfreq(int64_t n, double d, T dtype, Device device = {}) {
  return fftfreq(n, d, TensorOptions{dtype, device});
}
template <std::same_as<DType> T>
Tensor rfftfreq(int64_t n, double d, T dtype, Device device = {}) {
  return rfftfreq(n, d, TensorOptions{dtype, device});
}

}  // namespace fft

}  // namespace mica
