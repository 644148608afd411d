#pragma once

// Convolutions and their gradients as implicit GEMM on TF32 tensor cores: f32, nothing unfolded in
// memory, a block's operands in shared memory. What a convolution carries and what conv2d_pool
// joins with it is part of the problem here; the ops' kernels are made of these functions.
#include <optional>
#include <vector>

#include "mica/op/choices.h"
#include "mica/ops/anchored/anchored.h"
#include "mica/ops/conv2d/geometry.h"
#include "mica/ops/pool/geometry.h"

namespace mica::implicit_gemm {

constexpr size_t kMostCandidates = 12;  ///< of a problem that are worth timing
constexpr size_t kMostCompiled = 3;     ///< the same, where a program has to be compiled with each

/// y = conv(x, weight, bias), then a program; or ReLU, then max-pooling, whose positions are a
/// second result.
struct ForwardProblem {
  Conv2dGeometry conv;
  std::optional<Pool2dGeometry> pool;
  bool relu = false;
  const AnchoredParams* program = nullptr;  ///< of an anchored call, without ReLU and pooling
};
Support supports_forward(const ForwardProblem& problem, const Specs& specs);
std::vector<Candidate> forward_candidates(const ForwardProblem& problem, const Specs& specs,
                                          const CandidateRequest& request);
void run_forward(const KernelState& state, const Call& call);
void run_forward_carrying(const AnchoredParams& params, const KernelState& state, const Call& call);

/// dx from dy and weight, where dy was pooled from dy, positions and weight; and, where the input
/// was a ReLU's result, from that, x; or followed by a program.
struct DgradProblem {
  Conv2dGeometry conv;
  std::optional<Pool2dGeometry> pool;
  const AnchoredParams* program = nullptr;  ///< of an anchored call, without pooling and x
};
Support supports_dgrad(const DgradProblem& problem, const Specs& specs);
std::vector<Candidate> dgrad_candidates(const DgradProblem& problem, const Specs& specs,
                                        const CandidateRequest& request);
void run_dgrad(const KernelState& state, const Call& call);
void run_dgrad_carrying(const AnchoredParams& params, const KernelState& state, const Call& call);

/// dw, and the bias's gradient where asked for, from dy and x, or dy, positions and x.
struct WgradProblem {
  Conv2dGeometry conv;
  std::optional<Pool2dGeometry> pool;
  bool bias = false;
};
Support supports_wgrad(const WgradProblem& problem, const Specs& specs);
std::vector<Candidate> wgrad_candidates(const WgradProblem& problem, const Specs& specs,
                                        const CandidateRequest& request);
void run_wgrad(const KernelState& state, const Call& call);

/// Whether a convolution is so large that the library's kernels are faster on this device.
bool is_for_library(const Conv2dGeometry& g, Device device);

/// Whether the inputs are row-major: a convolution alone is taken only as it lies, since to copy
/// its operands first would cost more than is gained.
bool is_row_major(const Specs& specs);

}  // namespace mica::implicit_gemm
