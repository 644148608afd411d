#pragma once

#include "mica/runtime/runtime.h"

namespace mica {

/// Raises Unsupported once, at first use, when the processor lacks x86-64-v3.
void check_cpu();

DeviceRuntime& cpu_runtime();

}  // namespace mica
