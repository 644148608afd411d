#pragma once

#include "mica/op/kernel.h"

namespace mica {

/// Copies `from` to `to`, broadcast and cast, with all threads. Any strides; the two do not
/// overlap.
void copy_elements(const Arg& to, const Arg& from);

}  // namespace mica
