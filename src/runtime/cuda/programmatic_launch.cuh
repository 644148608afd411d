#pragma once

// For kernels: `wait_for_inputs`.
#include "mica/runtime/cuda/basics.cuh"
#include "mica/runtime/cuda/programmatic_launch.h"
