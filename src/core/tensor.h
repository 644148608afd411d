#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

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
struct DTypeOf;
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
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

/// A handle to an n-dimensional array on one device. Copies of the handle share the array; views
/// share its memory. Operators are free functions: `add(a, b)`, `reshape(x, {2, 3})`.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(Ref<TensorImpl> impl) : impl_(std::move(impl)) {}

  bool defined() const { return static_cast<bool>(impl_); }
  const TensorSpec& spec() const;
  const Shape& shape() const { return spec().shape; }
  const Strides& strides() const { return spec().strides; }
  int rank() const { return spec().rank(); }
  int64_t size(int axis) const;
  int64_t numel() const { return spec().numel(); }
  DType dtype() const { return spec().dtype; }
  Device device() const { return spec().device; }

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

  /// The value of a one-element tensor, copied from the device.
  double item() const;
  /// The same with all its digits.
  Number item_number() const;
  /// All values in row-major order, copied from the device; T must be the dtype.
  template <class T>
  std::vector<T> to_vector() const;

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

  TensorImpl* impl() const { return impl_.get(); }

 private:
  void* data_checked(DType expected) const;

  Ref<TensorImpl> impl_;
};

using Tensors = std::vector<Tensor>;

/// Gradient state; most tensors have none.
struct AutogradMeta {
  bool requires_grad = false;  ///< set on leaves
  Tensor grad;
  Ref<GradNode> node;                ///< the op that produced this tensor, if recorded
  int output = 0;                    ///< which output of it
  std::shared_ptr<GradHooks> hooks;  ///< of a leaf
  std::unique_ptr<GradView> view;    ///< which tensor this one shows a part of
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
Tensor empty(const TensorSpec& spec);
/// A view of the same storage.
Tensor view_of(const Tensor& base, const TensorSpec& spec, int64_t offset);
/// Copies host values in row-major order to a new tensor.
template <class T>
Tensor tensor(std::span<const T> values, const Shape& shape, Device device = {});
template <class T>
Tensor tensor(const std::vector<T>& values, const Shape& shape, Device device = {}) {
  return tensor(std::span<const T>(values), shape, device);
}
template <class T>
Tensor tensor(std::initializer_list<T> values, const Shape& shape, Device device = {}) {
  return tensor(std::span<const T>(values.begin(), values.size()), shape, device);
}
/// A 0-d tensor.
Tensor scalar(Number value, TensorOptions options = {});
/// Copies raw bytes in row-major order.
Tensor tensor_from_bytes(const void* data, const Shape& shape, TensorOptions options);

/// Values as NumPy prints them, shortened in the middle when long.
std::string to_string(const Tensor& tensor);

}  // namespace mica
