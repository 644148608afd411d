#pragma once

#include <cstdint>

#include "mica/runtime/portable.h"

namespace mica {

/// The targets of a sequence with a blank before, between and after them: 2 L + 1 states.
struct CtcLabels {
  const int64_t* targets;
  int64_t blank;

  MICA_PORTABLE int64_t operator[](int64_t s) const { return s % 2 == 0 ? blank : targets[s / 2]; }
  /// Whether state s may follow state s - 2.
  MICA_PORTABLE bool skips(int64_t s) const {
    return s % 2 == 1 && s >= 3 && targets[s / 2] != targets[s / 2 - 1];
  }
};

}  // namespace mica
