// Memory that is shared through DLPack.
#include "mica/c/handles.h"
#include "mica/core/make_tensor.h"

// The memory layout of the standard, whose names these are.
extern "C" {
struct DLDevice {
  int32_t device_type;
  int32_t device_id;
};
struct DLDataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};
}

namespace {

using mica::DType;
using mica::Tensor;

constexpr int32_t kCpu = 1;
constexpr int32_t kCuda = 2;
constexpr int32_t kCudaHost = 3;

struct Exported {
  DLManagedTensor managed{};
  Tensor tensor;
};

DType dtype_of(DLDataType d) {
  for (const mica::DTypeInfo& i : mica::kDTypeTable)
    if (i.dlpack == d.code && 8 * i.size == d.bits && d.lanes == 1) return i.dtype;
  mica::fail<mica::DTypeError>("DLPack's type of code {}, {} bits and {} lanes is none of mica's",
                               static_cast<int>(d.code), static_cast<int>(d.bits),
                               static_cast<int>(d.lanes));
}

Tensor adopt(DLManagedTensor* managed) {
  const std::shared_ptr<DLManagedTensor> owner(managed, [](DLManagedTensor* m) {
    if (m->deleter) m->deleter(m);
  });
  const DLTensor& t = managed->dl_tensor;
  const int32_t where = t.device.device_type;
  mica::check<mica::DeviceError>(where == kCpu || where == kCuda || where == kCudaHost,
                                 "memory of DLPack's device type {} is unknown", where);
  const mica::Device device =
      where == kCuda ? mica::Device::cuda(t.device.device_id) : mica::Device::cpu();
  const mica::Shape shape = mica::c::shape_of(t.shape, t.ndim);
  mica::Strides strides;
  for (int i = 0; t.strides && i < t.ndim; ++i) {
    mica::check<mica::ShapeError>(t.strides[i] >= 0, "stride {} is negative", t.strides[i]);
    strides.push_back(t.strides[i]);
  }
  return mica::from_blob(static_cast<char*>(t.data) + t.byte_offset, shape, strides,
                         {.dtype = dtype_of(t.dtype), .device = device}, [owner](void*) {});
}

}  // namespace

extern "C" {

mica_status mica_tensor_to_dlpack(const mica_tensor* tensor, DLManagedTensor** managed) {
  return mica::c::guarded([&] {
    DLManagedTensor*& result = mica::c::checked(managed, "managed");
    const Tensor& t = mica::c::tensor_of(tensor);
    t.storage()->hand_out();
    auto exported = std::make_unique<Exported>();
    exported->tensor = t.detach();  // whose sizes do not change with the handle's
    mica::TensorSpec& spec = exported->tensor.impl()->spec;
    exported->managed.dl_tensor = {
        t.data(),
        {t.device().is_cuda() ? kCuda : kCpu, t.device().index},
        t.rank(),
        {mica::info_of(t.dtype()).dlpack, static_cast<uint8_t>(8 * size_of(t.dtype())), 1},
        spec.shape.begin(),
        spec.strides.begin(),
        0};
    exported->managed.manager_ctx = exported.get();
    exported->managed.deleter = [](DLManagedTensor* self) {
      delete static_cast<Exported*>(self->manager_ctx);
    };
    result = &exported.release()->managed;
  });
}

mica_status mica_tensor_from_dlpack(DLManagedTensor* managed, mica_tensor** tensor) {
  return mica::c::guarded([&] {
    mica::check(managed != nullptr, "managed is NULL");
    Tensor t = adopt(managed);
    mica::c::checked(tensor, "tensor") = mica::c::handle_of(std::move(t));
  });
}

}  // extern "C"
