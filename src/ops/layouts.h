#pragma once

#include "mica/op/kernel.h"

namespace mica {

/// A kernel that writes its first output row-major or channels_last: it wants `images` in the same
/// format, and the inputs `others` row-major.
inline Support supports_layouts(const Specs& specs, uint32_t images, uint32_t others = 0) {
  const TensorSpec& out = specs.out[0];
  if (out.is_contiguous()) return Support::yes().with_contiguous(images | others);
  if (out.is_channels_last())
    return Support::yes().with_channels_last(images).with_contiguous(others);
  return Support::no("writes row-major and channels_last results only");
}

}  // namespace mica
