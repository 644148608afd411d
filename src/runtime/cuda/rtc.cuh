#pragma once

// What kernels that NVRTC compiles get in the place of headers that it cannot take: it is embedded
// under the names of <cstdint>, <cuda_runtime.h>, runtime/cuda/types.cuh and
// runtime/cuda/programmatic_launch.cuh.
#define INFINITY __int_as_float(0x7f800000)

using int8_t = signed char;
using uint8_t = unsigned char;
using int32_t = int;
using uint32_t = unsigned;
using int64_t = long;
using uint64_t = unsigned long;

#include "mica/runtime/cuda/basics.cuh"
