#pragma once

#include "mica/op/kernel.h"

namespace mica {

/// The order of a sum does not matter, gaps do.
inline Support total_norm_supports(const NoParams&, const Specs& s) {
  for (const TensorSpec& spec : s.in)
    if (!spec.is_contiguous() && !spec.is_channels_last()) return Support::no("a tensor has gaps");
  return Support::yes();
}

}  // namespace mica
