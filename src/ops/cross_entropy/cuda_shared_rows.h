#pragma once

#include "mica/op/kernel.h"

namespace mica {

/// Of many classes: rows of logits stay in shared memory.
Kernel cross_entropy_with_grad_shared_kernel();

}  // namespace mica
