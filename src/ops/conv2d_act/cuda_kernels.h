#pragma once

#include "mica/op/kernel.h"

namespace mica {

/// What the library's kernel is compared with, the composition last.
KernelList conv2d_act_own_kernels();

}  // namespace mica
