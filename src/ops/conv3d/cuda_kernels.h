#pragma once

#include "mica/op/kernel.h"

namespace mica {

/// What the library's kernels are compared with, the reference last.
KernelList conv3d_own_kernels();
KernelList conv3d_dgrad_own_kernels();
KernelList conv3d_wgrad_own_kernels();

}  // namespace mica
