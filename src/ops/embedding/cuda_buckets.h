#pragma once

#include "mica/op/kernel.h"

namespace mica {

/// Adds up each row's own indices.
Kernel embedding_grad_buckets_kernel();

}  // namespace mica
