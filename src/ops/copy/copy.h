#pragma once

#include "mica/core/tensor.h"
#include "mica/op/fields.h"

namespace mica {

enum class MemoryFormat : uint8_t { contiguous, channels_last };

struct CopyParams {
  DType dtype = DType::f32;
  bool channels_last = false;  ///< format of the result, else row-major

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("dtype", self.dtype);
    f("channels_last", self.channels_last);
  }
};

/// The same values in another dtype, in the same memory format. Floats become integers by
/// truncation.
Tensor cast(const Tensor& x, DType dtype);
/// x itself when it has this format, else a copy that has.
Tensor contiguous(const Tensor& x, MemoryFormat format = MemoryFormat::contiguous);
/// A copy with memory of its own.
Tensor clone(const Tensor& x);
struct TransferOptions {
  /// Returns before the values have arrived. A CPU tensor is read later only if it is pinned, and
  /// must not be written to until then; a result on the CPU is pinned, and its values are there
  /// when the stream has been waited for.
  bool non_blocking = false;
};
/// x itself when it is there, else a copy on that device.
Tensor to(const Tensor& x, Device device, TransferOptions options = {});
/// x itself when it is pinned, else a copy of this CPU tensor in pinned memory, from which
/// non-blocking transfers to CUDA devices read. Raises DeviceError where there is no CUDA.
Tensor pin_memory(const Tensor& x);

/// Overwrites `destination` with source, broadcast and cast. Op inputs: destination (mutated),
/// source.
void copy_(const Tensor& destination, const Tensor& source);
/// destination += source, element by element.
void add_(const Tensor& destination, const Tensor& source);

}  // namespace mica
