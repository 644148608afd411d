#include "mica/core/memory.h"

#include "mica/core/check.h"
#include "mica/runtime/runtime.h"

namespace mica {

void record_stream(const Tensor& tensor, const Stream& stream) {
  check<DeviceError>(tensor.device() == stream.device(),
                     "record_stream: the tensor is on {}, the stream on {}", tensor.device(),
                     stream.device());
  Storage& storage = *tensor.storage();
  runtime(storage.device()).record_stream(storage.data(), storage.device().index, stream.state());
}

Tensor empty_pinned(const TensorSpec& spec) {
  auto impl = make_ref<TensorImpl>();
  impl->spec = spec;
  impl->spec.defined = true;
  impl->spec.aligned = true;
  impl->spec.device = Device::cpu();
  impl->storage = Storage::pinned(static_cast<size_t>(spec.numel()) * size_of(spec.dtype));
  return Tensor(std::move(impl));
}

bool is_pinned(const Tensor& tensor) { return tensor.storage()->is_pinned(); }

}  // namespace mica
