#pragma once

#include "mica/ops/flip/axis_map.h"
#include "mica/ops/pad/pad.h"

namespace mica {

AxisMaps pad_maps(const PadParams& params, const Shape& shape);
/// The element that stands outside in constant mode, in the low bytes.
ElementWords pad_value(const PadParams& params, DType dtype);

}  // namespace mica
