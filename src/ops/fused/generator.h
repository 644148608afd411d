#pragma once

#include <span>
#include <string>

#include "mica/ops/fused/carrying_source.h"
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

/// What becomes of a program's result in the kernel that carries it.
struct Carries {
  bool returns = false;  ///< the kernel goes on with it
  bool stores = true;
};
/// A program as part of a kernel of another op, which has its first input in registers: the source
/// of `Carried`, to be made of the arguments, whose `operator()(at, x)` takes some values beside
/// each other, the first of them element `at` of the results in memory, and stores the results.
/// One more output than the program has keeps the first input.
GeneratedKernel generate_carried(const Program& program, const Specs& specs, Carries how);

/// The source of `fused(parameters, KernelArgs end)` for a generated program.
std::string carrying_kernel(const CarryingSource& source, const GeneratedKernel& program);

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
