#pragma once

#include "mica/core/dims.h"

namespace mica::nn {

// The sizes of one, two or three axes as a list.
inline Dims dims_of(int64_t n) { return {n}; }
inline Dims dims_of(Size2 s) { return {s.h, s.w}; }
inline Dims dims_of(Size3 s) { return {s.d, s.h, s.w}; }

}  // namespace mica::nn
