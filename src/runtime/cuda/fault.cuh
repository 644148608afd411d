#pragma once

#include "mica/runtime/cuda/fault.h"

namespace mica::cuda {

/// Keeps the first fault since the stream was waited for; of several at once, any.
__device__ inline void note_fault(Fault* fault, const Fault& found) {
  volatile Fault* noted = fault;
  if (noted->op != nullptr) return;
  noted->index = found.index;
  noted->axis = found.axis;
  noted->size = found.size;
  __threadfence_system();
  noted->op = found.op;
}

}  // namespace mica::cuda
