#pragma once

#include <concepts>
#include <functional>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "mica/core/complex.h"
#include "mica/core/float8.h"
#include "mica/core/half.h"
#include "mica/core/number.h"
#include "mica/core/ref.h"
#include "mica/core/spec.h"
#include "mica/core/storage.h"

namespace mica {

class GradNode;    // autograd/tape.h
struct GradHooks;  // autograd/tape.h
struct GradView;   // autograd/tape.h
struct TensorImpl;
struct Sorted;        // ops/sort/sort.h
struct Slice;         // core/tensor_index.h
class TensorIndex;    // core/tensor_index.h
class IndexedTensor;  // core/tensor_index.h
template <class T, int rank>
class Accessor;                     // core/accessor.h
enum class MemoryFormat : uint8_t;  // ops/copy/copy.h

/// Where a new tensor goes: `zeros({2, 3}, {.dtype = DType::f64})`.
struct TensorOptions {
  DType dtype = DType::f32;
  Device device = {};
};

/// The dtype that holds a C++ type.
template <DType t>
struct DTypeConstant {
  static constexpr DType value = t;
};
template <class T>
struct DTypeOf {
  static_assert(
      sizeof(T) == 0,
      "mica: no dtype holds this C++ type; expected double, float, Half, BFloat16, "
      "Float8E4M3, Float8E5M2, bool, an integer of 1 to 8 bytes, or std::complex of float or "
      "double");
};
template <>
struct DTypeOf<double> : DTypeConstant<DType::f64> {};
template <>
struct DTypeOf<float> : DTypeConstant<DType::f32> {};
template <>
struct DTypeOf<Half> : DTypeConstant<DType::f16> {};
template <>
struct DTypeOf<BFloat16> : DTypeConstant<DType::bf16> {};
template <>
struct DTypeOf<Float8E4M3> : DTypeConstant<DType::f8_e4m3> {};
template <>
struct DTypeOf<Float8E5M2> : DTypeConstant<DType::f8_e5m2> {};
template <>
struct DTypeOf<int64_t> : DTypeConstant<DType::i64> {};
template <>
struct DTypeOf<int32_t> : DTypeConstant<DType::i32> {};
template <>
struct DTypeOf<int16_t> : DTypeConstant<DType::i16> {};
template <>
struct DTypeOf<int8_t> : DTypeConstant<DType::i8> {};
template <>
struct DTypeOf<uint64_t> : DTypeConstant<DType::u64> {};
template <>
struct DTypeOf<uint32_t> : DTypeConstant<DType::u32> {};
template <>
struct DTypeOf<uint16_t> : DTypeConstant<DType::u16> {};
template <>
struct DTypeOf<uint8_t> : DTypeConstant<DType::u8> {};
template <>
struct DTypeOf<bool> : DTypeConstant<DType::boolean> {};
template <>
struct DTypeOf<Complex<float>> : DTypeConstant<DType::c64> {};
template <>
struct DTypeOf<Complex<double>> : DTypeConstant<DType::c128> {};
template <StdComplex C>
struct DTypeOf<C> : DTypeOf<Complex<typename C::value_type>> {};
// The integers of 64 bits that int64_t and uint64_t are not.
template <class T>
  requires(!std::is_same_v<long long, int64_t> && std::is_same_v<T, long long>)
struct DTypeOf<T> : DTypeConstant<DType::i64> {};
template <class T>
  requires(!std::is_same_v<unsigned long long, uint64_t> && std::is_same_v<T, unsigned long long>)
struct DTypeOf<T> : DTypeConstant<DType::u64> {};
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

class Tensor;
using Tensors = std::vector<Tensor>;

/// A handle to an n-dimensional array on one device. Copies of the handle share the array; views
/// share its memory. Operators are free functions, `add(a, b)`, `reshape(x, {2, 3})`, and methods:
/// `a.add(b)`, `x.reshape({2, 3})`.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(Ref<TensorImpl> impl) : impl_(std::move(impl)) {}
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) noexcept = default;
  ~Tensor() = default;
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & noexcept = default;
  /// Writes through a view that has no name: `a[0] = b`, broadcast and cast.
  void operator=(const Tensor& values) &&;
  void operator=(Number value) &&;

  bool defined() const { return static_cast<bool>(impl_); }
  const TensorSpec& spec() const;
  const Shape& shape() const { return spec().shape; }
  const Strides& strides() const { return spec().strides; }
  int rank() const { return spec().rank(); }
  int64_t size(int axis) const;
  int64_t numel() const { return spec().numel(); }
  DType dtype() const { return spec().dtype; }
  Device device() const { return spec().device; }
  /// Row-major without gaps.
  bool is_contiguous() const { return spec().is_contiguous(); }

  // Parts; see core/tensor_index.h, which mica/mica.h includes. They can be assigned to.
  /// At an index of the first axis, which may be negative: a view.
  Tensor operator[](int64_t index) const;
  template <std::unsigned_integral T>
    requires(!std::same_as<T, bool>)
  Tensor operator[](T index) const {
    return (*this)[static_cast<int64_t>(index)];
  }
  template <class T>
    requires(std::floating_point<T> || std::same_as<T, bool>)
  Tensor operator[](T) const {
    static_assert(sizeof(T) == 0, "mica: an index is an integer, a Slice, a mask or integers");
    return {};
  }
  /// A part of the first axis, `a[Slice(1, 3)]`: a view unless the step is negative.
  IndexedTensor operator[](const Slice& slice) const;
  /// Where a mask holds, or at the integers of a tensor.
  IndexedTensor operator[](const Tensor& where) const;
  /// As in NumPy, with integers, Slice, None, Ellipsis, masks and tensors of integers:
  /// `a.index({Ellipsis, 0})`, `a.index({mask}) = 1`.
  IndexedTensor index(std::initializer_list<TensorIndex> key) const;
  IndexedTensor index(const std::vector<TensorIndex>& key) const;
  /// a.index(key) = values, without reading what was there.
  void index_put_(std::initializer_list<TensorIndex> key, const Tensor& values) const;
  void index_put_(std::initializer_list<TensorIndex> key, Number value) const;

  /// The elements of a CPU tensor of this dtype and rank, by index: `a.accessor<float, 2>()`, or
  /// `<const float, 2>` for who only reads; see core/accessor.h.
  template <class T, int rank>
  Accessor<T, rank> accessor() const;

  /// First element. During capture a tensor has no memory yet: raises Unsupported.
  void* data() const;
  /// First element as T; raises DTypeError when the dtype is another.
  template <class T>
  T* data_as() const {
    return static_cast<T*>(data_checked(dtype_of<T>));
  }
  const Ref<Storage>& storage() const;
  /// Where the first element lies in the storage, in elements.
  int64_t offset() const;
  /// True while a graph is captured and this tensor is one of its values.
  bool is_traced() const;

  /// The value of a one-element tensor, copied from the device. A complex one raises DTypeError:
  /// item<std::complex<double>>() gives it.
  double item() const;
  /// The same with all its digits.
  Number item_number() const;
  /// The same as a T. Raises DTypeError where an integer T, or bool, cannot hold it exactly.
  template <class T>
  T item() const {
    constexpr bool is_number =
        std::is_arithmetic_v<T> || kIsComplex<T> ||
        (std::is_constructible_v<T, float> && !std::is_aggregate_v<T>);  // Half and the like
    static_assert(is_number, "mica: item<T>() gives a number or a bool");
    const Number value = item_number();
    if constexpr (!is_number) {
      raise_inexact(value, dtype());
    } else if constexpr (kIsComplex<T>) {
      return value.as<T>();
    } else if (value.is_complex()) {
      raise_inexact(value, dtype());
    } else if constexpr (std::is_integral_v<T>) {
      if (!value.is_exactly<T>()) raise_inexact(value, dtype_of<T>);
      return value.as<T>();
    } else if constexpr (std::is_floating_point_v<T>) {
      return value.as<T>();
    } else {
      return T(value.as<float>());
    }
  }
  /// All values in row-major order, copied from the device; T must be the dtype.
  template <class T>
  std::vector<T> to_vector() const {
    std::vector<T> values(static_cast<size_t>(numel()));
    if constexpr (std::is_same_v<T, bool>) {
      const std::vector<uint8_t> bytes = bool_bytes();
      for (size_t i = 0; i < bytes.size(); ++i) values[i] = bytes[i] != 0;
    } else {
      copy_values(values.data(), dtype_of<T>);
    }
    return values;
  }

  // Gradient; see autograd/autograd.h.
  bool requires_grad() const;
  const Tensor& set_requires_grad(bool value = true) const;
  /// Gradient accumulated by backward; undefined before.
  Tensor grad() const;
  void set_grad(const Tensor& grad) const;
  /// True when no recorded op produced this tensor.
  bool is_leaf() const;
  /// Accumulates gradients into the leaves this one-element tensor was computed from.
  void backward() const;
  /// The same for any shape, with the cotangent of this tensor.
  void backward(const Tensor& cotangent) const;
  /// The same values without history.
  Tensor detach() const;

  /// A copy with memory of its own.
  Tensor clone() const;
  /// This tensor where it has the format already, else a copy that has.
  Tensor contiguous() const;
  Tensor contiguous(MemoryFormat format) const;
  /// This tensor where it is there, or of the dtype, already, else a copy.
  Tensor to(Device device) const;
  Tensor to(DType dtype) const;
  Tensor cast(DType dtype) const;
  /// The same memory in another shape, one size of which may be -1; raises where strides do not
  /// allow it.
  Tensor view(const Shape& shape) const;

  // In place; they return the tensor.
  const Tensor& copy_(const Tensor& source) const;
  const Tensor& fill_(Number value) const;
  const Tensor& zero_() const;
  const Tensor& add_(const Tensor& other) const;
  const Tensor& add_(Number other) const;
  const Tensor& sub_(const Tensor& other) const;
  const Tensor& sub_(Number other) const;
  const Tensor& mul_(const Tensor& other) const;
  const Tensor& mul_(Number other) const;
  const Tensor& div_(const Tensor& other) const;
  const Tensor& div_(Number other) const;

  // Every function of a tensor that its room offers as a method.
#include "mica/core/tensor_methods.inc"

  TensorImpl* impl() const { return impl_.get(); }

 private:
  void* data_checked(DType expected) const;
  void copy_values(void* to, DType expected) const;
  std::vector<uint8_t> bool_bytes() const;
  [[noreturn]] static void raise_inexact(Number value, DType dtype);

  Ref<TensorImpl> impl_;
};

/// Gradient state; most tensors have none.
struct AutogradMeta {
  bool requires_grad = false;  ///< set on leaves
  Tensor grad;
  Ref<GradNode> node;                ///< the op that produced this tensor, if recorded
  int output = 0;                    ///< which output of it
  std::shared_ptr<GradHooks> hooks;  ///< of a leaf
  std::unique_ptr<GradView> view;    ///< which tensor this one shows a part of
  void* object = nullptr;            ///< what stands for a parameter in Python, while it is there
  AutogradMeta();
  ~AutogradMeta();
};

struct TensorImpl : RefCounted {
  TensorSpec spec;
  int64_t offset = 0;
  Ref<Storage> storage;  ///< of a traced tensor without memory: it tells a capture when it ends
  int64_t trace = -1;    ///< value id in the graph being captured
  bool shares = false;   ///< made on another tensor's memory: a view, or one without history
  std::unique_ptr<AutogradMeta> autograd;

  std::byte* data() const {
    return storage->data() + offset * static_cast<int64_t>(size_of(spec.dtype));
  }
};

/// Uninitialised memory in row-major order.
Tensor empty(const Shape& shape, TensorOptions options = {});
/// Uninitialised memory with the strides of `spec`, which must be dense.
Tensor empty_from_spec(const TensorSpec& spec);
template <std::same_as<TensorSpec> Spec>  // a list in braces is a shape
Tensor empty(const Spec& spec) {
  return empty_from_spec(spec);
}
/// A view of the same storage.
Tensor view_of(const Tensor& base, const TensorSpec& spec, int64_t offset);
/// Copies raw bytes in row-major order.
Tensor tensor_from_bytes(const void* data, const Shape& shape, TensorOptions options);
/// The same for `count` values; raises ShapeError where the shape needs others.
Tensor tensor_from_values(const void* data, size_t count, const Shape& shape,
                          TensorOptions options);
/// Copies host values in row-major order to a new tensor. Others are in core/make_tensor.h: arrays,
/// nested lists, memory that is used where it lies.
template <class T>
Tensor tensor(std::span<const T> values, const Shape& shape, Device device = {}) {
  return tensor_from_values(values.data(), values.size(), shape, {dtype_of<T>, device});
}
template <class T>
Tensor tensor(const std::vector<T>& values, const Shape& shape, Device device = {}) {
  if constexpr (std::is_same_v<T, bool>) {
    const std::vector<uint8_t> bytes(values.begin(), values.end());
    return tensor_from_values(bytes.data(), bytes.size(), shape, {DType::boolean, device});
  } else {
    return tensor(std::span<const T>(values), shape, device);
  }
}
template <class T>
Tensor tensor(std::initializer_list<T> values, const Shape& shape, Device device = {}) {
  return tensor(std::span<const T>(values.begin(), values.size()), shape, device);
}
/// A 0-d tensor.
Tensor scalar(Number value, TensorOptions options = {});

/// Values as NumPy prints them, shortened in the middle when long.
std::string to_string(const Tensor& tensor);
std::ostream& operator<<(std::ostream& stream, const Tensor& tensor);
std::ostream& operator<<(std::ostream& stream, DType dtype);
std::ostream& operator<<(std::ostream& stream, Device device);

}  // namespace mica
