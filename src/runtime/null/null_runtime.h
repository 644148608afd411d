#pragma once

#include "mica/runtime/runtime.h"

namespace mica {

/// A device without memory: shapes, capture and planning without hardware.
DeviceRuntime& null_runtime();

}  // namespace mica
