#pragma once

#include "mica/op/kernel.h"

namespace mica {

struct OpDef;

/// Any number of tensors, each copied as copy_op does: an op that exists inside compiled functions.
const OpDef& copies_op();

/// One copy after the other; on any device.
Kernel copies_composed_kernel();

}  // namespace mica
