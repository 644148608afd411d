#pragma once

#include "mica/op/kernel.h"

namespace mica {

/// The ops that conv2d_act is made of, one after the other; on any device.
Kernel conv2d_act_composed_kernel();

}  // namespace mica
