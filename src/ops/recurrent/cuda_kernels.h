#pragma once

#include "mica/op/kernel.h"

namespace mica {

Kernel recurrent_cudnn_kernel();
Kernel recurrent_persistent_kernel();
Kernel recurrent_grad_persistent_kernel();

}  // namespace mica
