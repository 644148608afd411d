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
  GeneratedLaunch launch;
};

std::shared_ptr<GeneratedState> prepare(const FusedParams& p, const Specs& s) {
  const GeneratedKernel generated = generate_kernel(*p.program, s);
  check(generated.why_not.empty(), "fused: {}", generated.why_not);
  auto state = std::make_shared<GeneratedState>();
  state->launch = GeneratedLaunch("fused", generated, s.out[0].device.index);
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
  fused::KernelArgs args = state.launch.args;
  for (size_t k = 0; k < c.in.size(); ++k) args.in[k] = c.in[k].data;
  for (size_t k = 0; k < c.out.size(); ++k) args.out[k] = c.out[k].data;
  state.launch.run(*c.encoder, args);
}

}  // namespace

cudaKernel_t load_generated(const char* op, const std::string& source, int device,
                            bool few_digits) {
  try {
    return cuda::load_kernel(source, embedded_headers(), "fused", device, few_digits);
  } catch (const Error& e) {
    fail<Unsupported>("{}: {}", op, e.what());
  }
}

GeneratedLaunch::GeneratedLaunch(const char* op, const GeneratedKernel& generated, int device)
    : kernel(load_generated(op, generated.source, device)),
      args(generated.args),
      grid(static_cast<unsigned>((generated.threads + fused::kThreads - 1) / fused::kThreads)) {}

void GeneratedLaunch::run(Encoder& encoder, const fused::KernelArgs& all) const {
  const ProgrammaticLaunch overlap;
  encoder.launch(reinterpret_cast<void (*)(fused::KernelArgs)>(kernel), grid, fused::kThreads, 0,
                 all);
}

KernelList fused_cuda_kernels() {
  return {kernel<supports, prepare, run>("generated"), fused_composed_kernel()};
}

}  // namespace mica
