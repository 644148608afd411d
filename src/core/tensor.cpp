#include "mica/core/tensor.h"

#include <cstring>

#include "mica/core/dtype_switch.h"
#include "mica/runtime/runtime.h"

namespace mica {

/// Which call of the captured function makes a traced tensor, in words; empty for one of another
/// capture. Implemented in graph/capture.cpp.
std::string traced_origin(const Tensor& tensor);

const TensorSpec& Tensor::spec() const {
  check(defined(), "an undefined tensor was used");
  return impl_->spec;
}

int64_t Tensor::size(int axis) const { return shape()[normalize_axis(axis, rank(), "size")]; }

bool Tensor::is_traced() const { return defined() && impl_->trace >= 0; }

/// Apart, so that those who have a value need no protected stack.
[[gnu::noinline, noreturn]] static void fail_traced(const Tensor& t) {
  fail<Unsupported>(
      "the value of a {} tensor{} was asked for while a graph is captured: it is computed when "
      "the graph runs. Return it from the compiled function and read it afterwards",
      t.spec(), traced_origin(t));
}

const Ref<Storage>& Tensor::storage() const {
  check(defined(), "an undefined tensor was used");
  if (is_traced()) fail_traced(*this);
  return impl_->storage;
}

int64_t Tensor::offset() const { return impl_->offset; }

void* Tensor::data() const { return storage()->data() ? impl_->data() : nullptr; }

void* Tensor::data_checked(DType expected) const {
  check<DTypeError>(dtype() == expected, "data_as: the tensor is {}, not {}", dtype(), expected);
  void* pointer = data();
  storage()->hand_out();
  return pointer;
}

Number Tensor::item_number() const {
  check<ShapeError>(numel() == 1, "item: expected one element, got shape {}", shape());
  alignas(16) std::byte bytes[16];
  void* source = data();
  check<Unsupported>(source != nullptr, "item: a tensor on {} has no values", device());
  runtime(device()).copy_to_host(bytes, source, size_of(dtype()), device().index);
  return switch_all(dtype(), [&]<class T>() -> Number {
    T v;
    std::memcpy(&v, bytes, sizeof v);
    if constexpr (std::is_integral_v<T>) {
      return v;
    } else if constexpr (kIsComplex<T>) {
      return Complex<double>(v);
    } else {
      return static_cast<double>(v);
    }
  });
}

double Tensor::item() const { return item<double>(); }

void Tensor::raise_inexact(Number value, DType dtype) {
  check<DTypeError>(
      !value.is_complex(),
      "item: {} is a complex number; item<std::complex<double>>() gives it, real() and "
      "abs() make real numbers of it",
      to_string(value));
  fail<DTypeError>("item: {} cannot hold {}", dtype, to_string(value));
}

Tensor empty_from_spec(const TensorSpec& spec) {
  size_t bytes;  // too many become more than there can be
  if (__builtin_mul_overflow(static_cast<size_t>(numel(spec.shape)), size_of(spec.dtype), &bytes))
    bytes = size_t{1} << 63;
  auto impl = make_ref<TensorImpl>();
  impl->spec = spec;
  impl->spec.defined = true;
  impl->spec.aligned = true;
  impl->storage = make_ref<Storage>(bytes, spec.device);
  return Tensor(std::move(impl));
}

Tensor empty(const Shape& shape, TensorOptions options) {
  return empty(TensorSpec::contiguous(shape, options.dtype, options.device));
}

Tensor view_of(const Tensor& base, const TensorSpec& spec, int64_t offset) {
  auto impl = make_ref<TensorImpl>();
  impl->spec = spec;
  impl->offset = offset;
  impl->storage = base.storage();
  impl->shares = true;
  impl->spec.aligned = (reinterpret_cast<uintptr_t>(impl->data()) & 15U) == 0;
  return Tensor(std::move(impl));
}

Tensor tensor_from_bytes(const void* data, const Shape& shape, TensorOptions options) {
  Tensor t = empty(shape, options);
  const size_t bytes = t.storage()->bytes();
  if (bytes > 0)
    runtime(options.device).copy_from_host(t.data(), data, bytes, options.device.index);
  return t;
}

Tensor tensor_from_values(const void* data, size_t count, const Shape& shape,
                          TensorOptions options) {
  check<ShapeError>(numel(shape) == static_cast<int64_t>(count),
                    "tensor: shape {} needs {} values, got {}", shape, numel(shape), count);
  return tensor_from_bytes(data, shape, options);
}

Tensor scalar(Number value, TensorOptions options) {
  const ElementWords words = element_words(value, options.dtype);
  return tensor_from_bytes(words.data(), {}, options);
}

}  // namespace mica
