#pragma once

#include "mica/op/kernel.h"

namespace mica {

KernelList cumsum_cpu_kernels();
KernelList cumprod_cpu_kernels();
KernelList linear_scan_cpu_kernels();

}  // namespace mica
