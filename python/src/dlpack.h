#pragma once

// The memory layout of DLPack, version 1.0 and the one before it:
// https://dmlc.github.io/dlpack/latest/c_api.html. Names are the standard's.
#include <cstdint>

#include "python/src/bindings.h"

namespace mica::python::dlpack {

enum DeviceType : int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13 };
enum TypeCode : uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kBool = 6 };

struct DataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
  bool operator==(const DataType&) const = default;
};

struct DLDevice {
  int32_t type;
  int32_t id;
};

struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;  ///< in elements; null: row-major
  uint64_t byte_offset;
};

struct Managed {
  DLTensor tensor;
  void* context;
  void (*deleter)(Managed* self);
};

struct ManagedVersioned {
  uint32_t major;
  uint32_t minor;
  void* context;
  void (*deleter)(ManagedVersioned* self);
  uint64_t flags;
  DLTensor tensor;
};

inline constexpr uint64_t kReadOnly = 1;
inline constexpr uint64_t kIsCopied = 2;

DataType data_type(DType t);
/// Raises DTypeError for a type that tensors do not have.
DType dtype_of(DataType d);

}  // namespace mica::python::dlpack

namespace mica::python {

/// Memory of somebody else as a tensor; `owner` keeps it alive. Raises when a stride is negative or
/// there are too many axes. `what` names the caller in messages.
struct ForeignArray {
  void* data = nullptr;
  Device device;
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  ///< in elements; empty: row-major
};
Tensor tensor_of(const char* what, const ForeignArray& array, std::shared_ptr<void> owner);

/// A tensor that shares the memory of an object with __dlpack__ or __cuda_array_interface__, in the
/// order of both streams. Raises BufferError for memory that is read-only.
Tensor from_protocol(nb::handle object);
/// Whether `from_protocol` takes it.
bool has_protocol(nb::handle object);
Tensor from_cuda_array_interface(nb::handle object);
/// Memory goes back to its owner, who may use it at once: on CUDA's default stream after our work.
void let_owner_wait(Device device) noexcept;

/// Raises for a tensor whose memory nobody else may see: with a gradient, or without memory.
void check_shareable(const Tensor& t, const char* what);

/// Raises a BufferError.
template <class... Args>
[[noreturn]] void raise_buffer_error(fmt::format_string<Args...> format, Args&&... args) {
  throw nb::buffer_error(fmt::format(format, std::forward<Args>(args)...).c_str());
}

void bind_dlpack(nb::class_<Tensor>& tensor);
/// Python's buffer protocol.
const PyType_Slot* buffer_slots();
void bind_cuda_array_interface(nb::class_<Tensor>& tensor);

}  // namespace mica::python
