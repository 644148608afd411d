#pragma once

#include <span>
#include <string>

#include "mica/ops/fused/device.h"
#include "mica/ops/fused/fused_reduce.h"
#include "mica/ops/fused/program.h"
#include "mica/runtime/embedded_header.h"

namespace mica {

/// A CUDA kernel for a program, as source. It depends on how the tensors lie and on what their
/// elements are, not on their sizes.
struct GeneratedKernel {
  std::string why_not;       ///< a reason, where there is no kernel
  std::string source;        ///< of `extern "C" __global__ void fused(KernelArgs)`
  fused::KernelArgs args{};  ///< without the addresses
  int64_t threads = 0;
};
GeneratedKernel generate_kernel(const Program& program, const Specs& specs);

/// A CUDA kernel for a program and the reduction of its result over its last axes. Where there are
/// more parts than one in a row it writes those, rows × parts numbers of type `acc`, and the kernel
/// `finish`, of as many threads as rows times a warp, makes results of them.
struct GeneratedReduction {
  GeneratedKernel kernel;
  std::string finish;
  DType acc = DType::f32;
  int64_t finish_threads = 0;
};
GeneratedReduction generate_reduction(const FusedReduceParams& params, const Specs& specs);

/// The headers that sources may include.
std::span<const EmbeddedHeader> embedded_headers();

}  // namespace mica
