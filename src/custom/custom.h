#pragma once

// Kernels from source; libraries of operators are opened with mica/custom/load_ops.h.
#include "mica/custom/elementwise.h"
#include "mica/custom/kernel.h"
