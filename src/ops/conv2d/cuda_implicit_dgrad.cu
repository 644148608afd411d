// The input gradient of a convolution, of dy itself or of dy as a max-pooling's gradient gives it.
#include "mica/core/error.h"
#include "mica/op/settings.h"
#include "mica/ops/anchored/cuda_carried.h"
#include "mica/ops/conv2d/cuda_implicit_dgrad_plan.h"
#include "mica/ops/conv2d/implicit_gemm.h"
#include "mica/ops/device_table.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/runtime.h"

namespace mica {
namespace implicit_dgrad {
namespace {

struct State : KernelState {
  Choice choice;
  CarriedKernel carried;  ///< where a program follows
};

template <int MT, int NT, int Warps, int Floats>
__global__ void __launch_bounds__(Warps * 32, 1)
    dgrad_known(const __grid_constant__ Plan p, const float* __restrict__ dy,
                const int* __restrict__ positions, const float* __restrict__ weight, DgradEnd end) {
  conv2d_dgrad_rows<MT, NT, Warps, Floats>(p, dy, positions, weight, end);
}

/// Why not, from the sizes; empty where it can, if a block's operands fit into shared memory.
std::string refusal(const implicit_gemm::DgradProblem& problem, const Specs& specs) {
  constexpr int64_t kMost = int64_t{1} << 24;
  const Conv2dGeometry& g = problem.conv;
  const TensorSpec& dx = specs.out[0];
  if (problem.pool) {
    const Pool2dGeometry& pool = *problem.pool;
    if (pool.kernel != pool.stride || pool.padding != Size2(0) || pool.dilation != Size2(1))
      return "pooling windows that do not lie side by side";
  }
  if (implicit_gemm::is_for_library(g, dx.device)) return "large enough for the library";
  if (specs.in[0].dtype != DType::f32) return "only f32 is computed in TF32";
  if (!allow_tf32()) return "TF32 is not allowed";
  if (!dx.is_contiguous()) return "the output is not row-major";
  if (g.groups != 1) return "groups";
  if (g.stride != Size2(1)) return "a stride";
  if (g.dilation != Size2(1)) return "a dilation";
  if (g.kh > kSlack || g.kw > kSlack) return "a kernel of more than 16 rows or columns";
  if (g.padding.h >= g.kh || g.padding.w >= g.kw) return "padding as wide as the kernel";
  if (specs.in[0].shape.contains(0) || g.n * g.c * g.o * g.h * g.w == 0) return "a tensor is empty";
  if (g.n > kMost || g.c > kMost || g.o > kMost || g.h > kMost || g.w > kMost)
    return "an axis has more than 2^24 elements";
  return {};
}

std::vector<Choice> choices_of(const implicit_gemm::DgradProblem& problem, const Specs& specs,
                               size_t most) {
  const Conv2dGeometry& g = problem.conv;
  const Size2 window = problem.pool ? problem.pool->kernel : Size2(1);
  const Shape& given = specs.in[0].shape;
  const auto as_int = [](int64_t v) { return static_cast<int>(v); };
  Plan p;
  p.n = as_int(g.n);
  p.c = as_int(g.c);
  p.h = as_int(g.h);
  p.w = as_int(g.w);
  p.o = as_int(g.o);
  p.oh = as_int(g.oh);
  p.ow = as_int(g.ow);
  p.kh = as_int(g.kh);
  p.kw = as_int(g.kw);
  p.pad_h = as_int(g.padding.h);
  p.pad_w = as_int(g.padding.w);
  p.pool_h = as_int(window.h);
  p.pool_w = as_int(window.w);
  p.pooled_h = as_int(given[2]);
  p.pooled_w = as_int(given[3]);
  const int device = specs.out[0].device.index;
  int most_shared = 0;
  cudaDeviceGetAttribute(&most_shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  const int multiprocessors = runtime(DeviceKind::cuda).encoder(device)->multiprocessors();
  std::vector<Choice> all = choices(p, device_table(specs.out[0].device).dgrad, multiprocessors,
                                    static_cast<size_t>(most_shared), most);
  if (all.empty())
    throw Unsupported("implicit_gemm: a block's operands do not fit in shared memory");
  return all;
}

template <class End>
using DgradKernel = void (*)(Plan, const float*, const int*, const float*, End);

template <int Floats>
DgradKernel<DgradEnd> known_kernel(int tile) {
  constexpr DgradKernel<DgradEnd> kKernels[] = {
      dgrad_known<kTiles[0].m, kTiles[0].n, kTiles[0].warps, Floats>,
      dgrad_known<kTiles[1].m, kTiles[1].n, kTiles[1].warps, Floats>,
      dgrad_known<kTiles[2].m, kTiles[2].n, kTiles[2].warps, Floats>,
      dgrad_known<kTiles[3].m, kTiles[3].n, kTiles[3].warps, Floats>,
      dgrad_known<kTiles[4].m, kTiles[4].n, kTiles[4].warps, Floats>};
  static_assert(std::size(kKernels) == std::size(kTiles));
  return kKernels[tile];
}

template <class End>
void launch(const Choice& choice, const Plan& p, const Call& call, DgradKernel<End> kernel,
            const float* dy, const int* positions, const float* weight, const End& end) {
  const auto threads = static_cast<unsigned>(kTiles[choice.tile].warps * 32);
  const ProgrammaticLaunch overlap;
  call.encoder->launch(kernel, static_cast<unsigned>(choice.blocks), threads, choice.shared, p, dy,
                       positions, weight, end);
}

/// The inputs are dy, weight and perhaps x; where it was pooled dy, positions, weight and perhaps
/// x.
void run_choice(const Choice& choice, const Call& call) {
  const bool pooled = call.in.size() > 3;
  Plan p = choice.plan;
  const auto* dy = call.in[0].as<const float>();
  const auto* positions = pooled ? call.in[1].as<const int>() : nullptr;
  const auto* weight = call.in[pooled ? 2 : 1].as<const float>();
  const bool masked = call.in.size() > 2 && call.in.back().defined();
  const DgradEnd end{masked ? call.in.back().as<const float>() : nullptr, call.out[0].as<float>()};
  const int floats = set_vectors(p, dy, positions, weight);
  launch(choice, p, call, floats == 4 ? known_kernel<4>(choice.tile) : known_kernel<1>(choice.tile),
         dy, positions, weight, end);
}

/// With the plan as it is for addresses like those of the specs.
CarriedKernel carried_kernel(const AnchoredParams& program, Choice& choice, const Specs& specs) {
  const auto address = [&](int input) {
    return reinterpret_cast<const void*>(
        uintptr_t{specs.in[static_cast<size_t>(input)].aligned ? 16U : 4U});
  };
  const int floats = set_vectors(choice.plan, address(0), nullptr, address(1));
  const WarpTile& tile = kTiles[choice.tile];
  return load_carried(
      program, specs,
      {.header = "mica/ops/conv2d/cuda_implicit_dgrad.cuh",
       .parameters = "const __grid_constant__ mica::implicit_dgrad::Plan p, const float* dy, "
                     "const int* positions, const float* weight",
       .body = (TemplateCall("mica::implicit_dgrad::conv2d_dgrad_rows")
                << tile.m << tile.n << tile.warps << floats)
                   .text() +
               "(p, dy, positions, weight, "
               "mica::implicit_dgrad::ProgramEnd<Carried>{Carried{end}});",
       .bounds = std::to_string(tile.warps * 32) + ", 1"});
}

}  // namespace
}  // namespace implicit_dgrad

namespace implicit_gemm {

Support supports_dgrad(const DgradProblem& problem, const Specs& specs) {
  const std::string reason = implicit_dgrad::refusal(problem, specs);
  return reason.empty() ? Support::yes().with_contiguous(problem.program ? 0b11 : 0b1111)
                        : Support::no(reason);
}

std::vector<Candidate> dgrad_candidates(const DgradProblem& problem, const Specs& specs,
                                        const CandidateRequest& request) {
  std::vector<Candidate> found;
  for (implicit_dgrad::Choice& choice : implicit_dgrad::choices_of(
           problem, specs, request.count(problem.program ? kMostCompiled : kMostCandidates))) {
    const implicit_dgrad::Plan& p = choice.plan;
    std::string name = candidate_name({p.images, p.bands, p.splits, choice.tile});
    if (!request.only.empty() && request.only != name) continue;
    auto state = std::make_shared<implicit_dgrad::State>();
    state->choice = choice;
    if (problem.program)
      state->carried = implicit_dgrad::carried_kernel(*problem.program, state->choice, specs);
    add_candidate(found, request, {std::move(name), choice.cycles, std::move(state)});
  }
  return found;
}

void run_dgrad(const KernelState& state, const Call& call) {
  implicit_dgrad::run_choice(static_cast<const implicit_dgrad::State&>(state).choice, call);
}

void run_dgrad_carrying(const AnchoredParams& params, const KernelState& kernel_state,
                        const Call& call) {
  const auto& state = static_cast<const implicit_dgrad::State&>(kernel_state);
  if (!state.carried.kernel) return run_dgrad(kernel_state, call);
  implicit_dgrad::launch(
      state.choice, state.choice.plan, call,
      reinterpret_cast<implicit_dgrad::DgradKernel<fused::KernelArgs>>(state.carried.kernel),
      call.in[0].as<const float>(), nullptr, call.in[1].as<const float>(),
      state.carried.arguments(params, call));
}

}  // namespace implicit_gemm
}  // namespace mica
