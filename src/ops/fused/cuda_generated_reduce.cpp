#include "mica/core/check.h"
#include "mica/ops/fused/cuda_generated.h"
#include "mica/ops/fused/fused_reduce.h"
#include "mica/ops/fused/generator.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/programmatic_launch.h"

namespace mica {
namespace {

struct ReductionState : KernelState {
  cudaKernel_t kernel = nullptr;
  cudaKernel_t finish = nullptr;  ///< null where the first kernel does it all
  fused::KernelArgs args{};
  unsigned grid = 0;
  unsigned finish_grid = 0;
};

int64_t blocks(int64_t threads) { return (threads + fused::kThreads - 1) / fused::kThreads; }

std::shared_ptr<ReductionState> prepare(const FusedReduceParams& p, const Specs& s) {
  const GeneratedReduction generated = generate_reduction(p, s);
  check(generated.kernel.why_not.empty(), "fused_reduce: {}", generated.kernel.why_not);
  auto state = std::make_shared<ReductionState>();
  const int device = s.out[0].device.index;
  state->kernel = load_generated("fused_reduce", generated.kernel.source, device);
  state->args = generated.kernel.args;
  state->grid = static_cast<unsigned>(blocks(generated.kernel.threads));
  if (generated.finish.empty()) return state;
  state->finish = load_generated("fused_reduce", generated.finish, device);
  state->finish_grid = static_cast<unsigned>(blocks(generated.finish_threads));
  state->workspace_bytes =
      static_cast<size_t>(state->args.rows * state->args.parts) * size_of(generated.acc);
  return state;
}

Support supports(const FusedReduceParams& p, const Specs& s) {
  const GeneratedReduction generated = generate_reduction(p, s);
  if (!generated.kernel.why_not.empty()) return Support::no(generated.kernel.why_not);
  if (blocks(generated.kernel.threads) > INT32_MAX)
    return Support::no("it has more blocks than a grid may");
  return Support::yes();
}

void run(const FusedReduceParams&, const ReductionState& state, const Call& c) {
  fused::KernelArgs args = state.args;
  for (size_t k = 0; k < c.in.size(); ++k) args.in[k] = c.in[k].data;
  args.out[0] = state.finish ? c.workspace : c.out[0].data;
  const auto launch = [&](cudaKernel_t kernel, unsigned grid) {
    const ProgrammaticLaunch overlap;
    c.encoder->launch(reinterpret_cast<void (*)(fused::KernelArgs)>(kernel), grid, fused::kThreads,
                      0, args);
  };
  launch(state.kernel, state.grid);
  if (!state.finish) return;
  args.in[0] = c.workspace;
  args.out[0] = c.out[0].data;
  launch(state.finish, state.finish_grid);
}

}  // namespace

KernelList fused_reduce_cuda_kernels() {
  return {kernel<supports, prepare, run>("generated"), fused_reduce_composed_kernel()};
}

}  // namespace mica
