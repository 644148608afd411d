#pragma once

// How the forward convolution by tensor cores is planned.
#include <cstddef>
#include <string>
#include <vector>

#include "mica/ops/conv2d/cuda_forward_plan.h"
#include "mica/ops/conv2d/geometry.h"
#include "mica/ops/pool/geometry.h"

namespace mica::implicit_gemm {

struct Target {
  int multiprocessors = 0;
  size_t shared_bytes = 0;  ///< that a block may have
};

/// Why the convolution cannot be computed this way, from its sizes; empty where it can, if a block
/// fits in shared memory. `pool` is null for a convolution without pooling.
std::string forward_refusal(const Conv2dGeometry& g, const Pool2dGeometry* pool);

/// Plans of a problem that is not refused, best first, `most` of them; raises Unsupported where
/// none fits in shared memory.
std::vector<ForwardPlan> forward_plans(const Conv2dGeometry& g, const Pool2dGeometry* pool,
                                       const Target& target, size_t most);

}  // namespace mica::implicit_gemm
