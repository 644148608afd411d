#include <cstring>

#include "mica/c/handles.h"
#include "mica/core/make_tensor.h"
#include "mica/op/settings.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/random/random.h"
#include "mica/runtime/runtime.h"

namespace mica::c {

Device device_of(mica_device device) {
  check<DeviceError>(device.kind == MICA_CPU || device.kind == MICA_CUDA,
                     "there is no device of kind {}", device.kind);
  check<DeviceError>(device.index >= 0 && (device.kind == MICA_CUDA || device.index == 0),
                     "there is no device {} of kind {}", device.index, device.kind);
  return device.kind == MICA_CPU ? Device::cpu() : Device::cuda(device.index);
}

mica_device device_of(Device device) {
  return {device.is_cuda() ? MICA_CUDA : MICA_CPU, device.index};
}

DType dtype_of(mica_dtype dtype) {
  check<DTypeError>(dtype >= 0 && static_cast<int>(dtype) < kDTypes, "there is no dtype {}",
                    static_cast<int>(dtype));
  return static_cast<DType>(dtype);
}

Shape shape_of(const int64_t* shape, int rank) {
  check<ShapeError>(rank >= 0 && rank <= Dims::kMaxRank, "a tensor has 0 to {} axes, got {}",
                    static_cast<int>(Dims::kMaxRank), rank);
  check(shape != nullptr || rank == 0, "the sizes are NULL");
  Shape s;
  for (int i = 0; i < rank; ++i) {
    check<ShapeError>(shape[i] >= 0, "size {} of axis {} is negative", shape[i], i);
    s.push_back(shape[i]);
  }
  return s;
}

void give(const Tensors& tensors, mica_tensor** results, size_t* count) {
  check(count != nullptr, "the count of results is NULL");
  check(tensors.size() <= *count && (results || tensors.empty()),
        "there are {} results, and room for {}", tensors.size(), results ? *count : 0);
  std::vector<std::unique_ptr<mica_tensor>> made;
  made.reserve(tensors.size());
  for (const Tensor& t : tensors) made.emplace_back(t.defined() ? handle_of(t) : nullptr);
  for (size_t i = 0; i < made.size(); ++i) results[i] = made[i].release();
  *count = made.size();
}

namespace {

void check_bytes(const Tensor& t, const void* values, size_t bytes) {
  const size_t wanted = static_cast<size_t>(t.numel()) * size_of(t.dtype());
  check(bytes == wanted, "expected {} bytes for {}, got {}", wanted, t.spec(), bytes);
  check(values != nullptr || wanted == 0, "the values are NULL");
}

}  // namespace
}  // namespace mica::c

using namespace mica::c;  // NOLINT(google-build-using-namespace)
using mica::Tensor;

static_assert(static_cast<int>(mica::DType::f64) == MICA_F64 &&
              static_cast<int>(mica::DType::bf16) == MICA_BF16 &&
              static_cast<int>(mica::DType::i64) == MICA_I64 &&
              static_cast<int>(mica::DType::u64) == MICA_U64 &&
              static_cast<int>(mica::DType::boolean) == MICA_BOOL);

extern "C" {

mica_status mica_device_count(mica_device_kind kind, int* count) {
  return guarded([&] {
    const mica::DeviceKind own = device_of(mica_device{kind, 0}).kind;
    int& found = checked(count, "count");
    const bool there = own == mica::DeviceKind::cpu || mica::cuda_available();
    found = there ? mica::runtime(own).device_count() : 0;
  });
}
mica_status mica_synchronize(mica_device device) {
  return guarded([&] { mica::synchronize(device_of(device)); });
}
mica_status mica_seed(uint64_t seed) {
  return guarded([&] { mica::manual_seed(seed); });
}
mica_status mica_set_threads(int threads) {
  return guarded([&] { mica::set_num_threads(threads); });
}

mica_status mica_tensor_new(const int64_t* shape, int rank, mica_dtype dtype, mica_device device,
                            mica_tensor** tensor) {
  return guarded([&] {
    checked(tensor, "tensor") = handle_of(mica::zeros(
        shape_of(shape, rank), {.dtype = dtype_of(dtype), .device = device_of(device)}));
  });
}

mica_status mica_tensor_from_host(const void* values, const int64_t* shape, int rank,
                                  mica_dtype dtype, mica_device device, mica_tensor** tensor) {
  return guarded([&] {
    const mica::Shape s = shape_of(shape, rank);
    mica::check(values != nullptr || mica::numel(s) == 0, "the values are NULL");
    checked(tensor, "tensor") = handle_of(mica::tensor_from_bytes(
        values, s, {.dtype = dtype_of(dtype), .device = device_of(device)}));
  });
}

mica_status mica_tensor_from_memory(void* memory, const int64_t* shape, const int64_t* strides,
                                    int rank, mica_dtype dtype, mica_device device,
                                    void (*release)(void* context), void* context,
                                    mica_tensor** tensor) {
  return guarded([&] {
    const mica::Shape s = shape_of(shape, rank);
    mica::Strides along;
    for (int i = 0; strides && i < rank; ++i) along.push_back(strides[i]);
    mica::Deleter deleter;
    if (release) deleter = [release, context](void*) { release(context); };
    checked(tensor, "tensor") = handle_of(mica::from_blob(
        memory, s, along, {.dtype = dtype_of(dtype), .device = device_of(device)}, deleter));
  });
}

mica_status mica_tensor_share(const mica_tensor* tensor, mica_tensor** other) {
  return guarded([&] { checked(other, "other") = handle_of(tensor_of(tensor)); });
}
void mica_tensor_free(mica_tensor* tensor) { delete tensor; }

int mica_tensor_rank(const mica_tensor* tensor) { return tensor ? tensor->tensor.rank() : 0; }
const int64_t* mica_tensor_shape(const mica_tensor* tensor) {
  return tensor ? tensor->tensor.shape().begin() : nullptr;
}
const int64_t* mica_tensor_strides(const mica_tensor* tensor) {
  return tensor ? tensor->tensor.strides().begin() : nullptr;
}
int64_t mica_tensor_numel(const mica_tensor* tensor) { return tensor ? tensor->tensor.numel() : 0; }
mica_dtype mica_tensor_dtype(const mica_tensor* tensor) {
  return tensor ? static_cast<mica_dtype>(tensor->tensor.dtype()) : mica_dtype{};
}
mica_device mica_tensor_device(const mica_tensor* tensor) {
  return tensor ? device_of(tensor->tensor.device()) : mica_device{};
}
size_t mica_dtype_size(mica_dtype dtype) {
  return dtype >= 0 && static_cast<int>(dtype) < mica::kDTypes
             ? mica::size_of(static_cast<mica::DType>(dtype))
             : 0;
}

mica_status mica_tensor_data(const mica_tensor* tensor, void** data) {
  return guarded([&] {
    const Tensor& t = tensor_of(tensor);
    t.storage()->hand_out();
    checked(data, "data") = t.data();
  });
}

mica_status mica_tensor_to_host(const mica_tensor* tensor, void* values, size_t bytes) {
  return guarded([&] {
    const Tensor t = mica::contiguous(tensor_of(tensor).detach());
    check_bytes(t, values, bytes);
    if (bytes > 0)
      mica::runtime(t.device()).copy_to_host(values, t.data(), bytes, t.device().index);
  });
}

mica_status mica_tensor_copy_from_host(mica_tensor* tensor, const void* values, size_t bytes) {
  return guarded([&] {
    const Tensor t = tensor_of(tensor).detach();
    check_bytes(t, values, bytes);
    mica::copy_(
        t, mica::tensor_from_bytes(values, t.shape(), {.dtype = t.dtype(), .device = t.device()}));
  });
}

mica_status mica_tensor_to_device(const mica_tensor* tensor, mica_device device,
                                  mica_tensor** other) {
  return guarded(
      [&] { checked(other, "other") = handle_of(tensor_of(tensor).to(device_of(device))); });
}

mica_status mica_tensor_item(const mica_tensor* tensor, double* value) {
  return guarded([&] { checked(value, "value") = tensor_of(tensor).item(); });
}

}  // extern "C"
