#pragma once

#include "mica/ops/fused/program.h"

namespace mica {

/// Several elementwise calls as one: it exists inside compiled functions, where a pass puts it in
/// the place of the calls.
const OpDef& fused_op();

/// The calls one after the other, each by its own kernel; on any device.
Kernel fused_composed_kernel();
/// Piece by piece through all calls, so that what passes between them stays in the cache; CPU.
Kernel fused_tiled_kernel();

}  // namespace mica
