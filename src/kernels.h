#pragma once

// Kernels of CUDA and C source, and operators of one's own in libraries.
#include "mica/custom/elementwise.h"
#include "mica/custom/kernel.h"
#include "mica/custom/load_ops.h"
