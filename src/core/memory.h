#pragma once

#include "mica/core/tensor.h"
#include "mica/runtime/stream.h"

namespace mica {

/// Says that work on `stream` uses the tensor's memory, which was made on another stream: when it
/// is freed, it is not used again before what was sent to `stream` until then is done.
void record_stream(const Tensor& tensor, const Stream& stream);

/// A CPU tensor whose memory CUDA copies can read and write while the program goes on, with the
/// strides of `spec`, which must be dense. Raises DeviceError where there is no CUDA.
Tensor empty_pinned(const TensorSpec& spec);
bool is_pinned(const Tensor& tensor);

}  // namespace mica
