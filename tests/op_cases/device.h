#pragma once

#include "mica/core/device.h"

namespace mica::cases {

/// The device the suite runs on, from `--device`.
Device& tested_device();

}  // namespace mica::cases
