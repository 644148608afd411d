#pragma once

#include "mica/ops/linalg/failures.h"
#include "mica/runtime/cuda/fault.h"

namespace mica {
class Encoder;

namespace linalg {

/// How a kernel says which matrix has no such factors: a Fault whose index is the number of the
/// matrix and, in its lower half, the info.
struct Complaint {
  Fault* fault = nullptr;  ///< null: nobody asks
  Fault found = {};        ///< without the index
};

/// Of a batch of `count` matrices on a stream.
Complaint complaint_of(const Encoder& encoder, Failure failure, int64_t count);

/// What the kernels before found wrong is raised now, as on the CPU. While a graph is recorded
/// nothing can be waited for: the next wait for the stream after a run raises it.
void raise_complaints(Encoder& encoder);

}  // namespace linalg
}  // namespace mica
