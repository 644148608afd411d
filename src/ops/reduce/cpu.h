#pragma once

#include "mica/op/kernel.h"

namespace mica {

KernelList sum_cpu_kernels();
KernelList argmax_cpu_kernels();

}  // namespace mica
