#pragma once

#include "mica/runtime/cuda/fault.h"

namespace mica {

/// Adds a kind of fault with an error of its own, which lasts as long as the process: what comes
/// back is the `axis` of such faults, below -2. `raise` throws.
int64_t add_fault_kind(void (*raise)(const Fault& fault));

}  // namespace mica
