#include "mica/ops/fused/cuda_generated.h"
#include "mica/core/check.h"
#include "mica/ops/fused/fused.h"
#include "mica/ops/fused/generator.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/nvrtc.h"
#include "mica/runtime/cuda/programmatic_launch.h"

namespace mica {
namespace {

struct GeneratedState : KernelState {
  cudaKernel_t kernel = nullptr;
  fused::KernelArgs args{};
  unsigned grid = 0;
};

std::shared_ptr<GeneratedState> prepare(const FusedParams& p, const Specs& s) {
  const GeneratedKernel generated = generate_kernel(*p.program, s);
  check(generated.why_not.empty(), "fused: {}", generated.why_not);
  auto state = std::make_shared<GeneratedState>();
  state->kernel = load_generated("fused", generated.source, s.out[0].device.index);
  state->args = generated.args;
  state->grid = static_cast<unsigned>((generated.threads + fused::kThreads - 1) / fused::kThreads);
  return state;
}

Support supports(const FusedParams& p, const Specs& s) {
  const GeneratedKernel generated = generate_kernel(*p.program, s);
  if (!generated.why_not.empty()) return Support::no(generated.why_not);
  if (generated.threads > int64_t{fused::kThreads} * INT32_MAX)
    return Support::no("it has more blocks than a grid may");
  return Support::yes();
}

void run(const FusedParams&, const GeneratedState& state, const Call& c) {
  fused::KernelArgs args = state.args;
  for (size_t k = 0; k < c.in.size(); ++k) args.in[k] = c.in[k].data;
  for (size_t k = 0; k < c.out.size(); ++k) args.out[k] = c.out[k].data;
  const ProgrammaticLaunch overlap;
  c.encoder->launch(reinterpret_cast<void (*)(fused::KernelArgs)>(state.kernel), state.grid,
                    fused::kThreads, 0, args);
}

}  // namespace

cudaKernel_t load_generated(const char* op, const std::string& source, int device) {
  try {
    return cuda::load_kernel(source, embedded_headers(), "fused", device);
  } catch (const Error& e) {
    fail<Unsupported>("{}: {}", op, e.what());
  }
}

KernelList fused_cuda_kernels() {
  return {kernel<supports, prepare, run>("generated"), fused_composed_kernel()};
}

}  // namespace mica
