#pragma once

#include "mica/op/kernel.h"

namespace mica {

KernelList pad_grad_cpu_kernels();

}  // namespace mica
