// The input gradient of a convolution, of dy itself or of dy as a max-pooling's gradient gives it.
#include "mica/op/cuda_trial.h"
#include "mica/op/settings.h"
#include "mica/ops/conv2d_pool/cuda_dgrad_plan.h"
#include "mica/ops/conv2d_pool/cuda_kernels.h"
#include "mica/ops/conv2d_pool/kernels.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/runtime.h"

namespace mica {
namespace pool_dgrad {
namespace {

struct State : KernelState {
  Choice choice;
};

/// Plans, or in words why there is none.
struct Answer {
  std::vector<Choice> choices;
  std::string refusal;
};

/// `pooled` is the given dy's shape.
Answer plan(const Conv2dGeometry& g, Size2 window, const Shape& pooled, const TensorSpec& dx,
            size_t most) {
  constexpr int64_t kMost = int64_t{1} << 24;
  const auto refuse = [](const char* why) { return Answer{{}, why}; };
  if (dx.dtype != DType::f32) return refuse("only f32 is computed in TF32");
  if (!allow_tf32()) return refuse("TF32 is not allowed");
  if (!dx.is_contiguous()) return refuse("the output is not row-major");
  if (g.groups != 1) return refuse("groups");
  if (g.stride != Size2(1)) return refuse("a stride");
  if (g.dilation != Size2(1)) return refuse("a dilation");
  if (g.kh > kSlack || g.kw > kSlack) return refuse("a kernel of more than 16 rows or columns");
  if (g.padding.h >= g.kh || g.padding.w >= g.kw) return refuse("padding as wide as the kernel");
  if (pooled.contains(0) || g.n * g.c * g.o * g.h * g.w == 0) return refuse("a tensor is empty");
  if (g.n > kMost || g.c > kMost || g.o > kMost || g.h > kMost || g.w > kMost)
    return refuse("an axis has more than 2^24 elements");
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
  p.pooled_h = as_int(pooled[2]);
  p.pooled_w = as_int(pooled[3]);
  int most_shared = 0;
  cudaDeviceGetAttribute(&most_shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, dx.device.index);
  const int multiprocessors = runtime(DeviceKind::cuda).encoder(dx.device.index)->multiprocessors();
  Answer answer{choices(p, multiprocessors, static_cast<size_t>(most_shared), most), {}};
  if (answer.choices.empty()) answer.refusal = "a block's operands do not fit into shared memory";
  return answer;
}

Answer plans(const Conv2dGradParams& params, const Specs& specs, size_t most) {
  const auto g = conv2d_geometry("conv2d_dgrad", params.conv, params.shape, specs.in[1].shape);
  if (!is_row_major(specs)) return {{}, "an input is not row-major"};
  if (large_enough_for_the_library(g)) return {{}, "large enough for the library"};
  return plan(g, 1, specs.in[0].shape, specs.out[0], most);
}

Answer plans(const Conv2dPoolGradParams& params, const Specs& specs, size_t most) {
  const auto g = conv2d_pool_geometry("conv2d_pool_dgrad", params.conv, params.pool, params.shape,
                                      specs.in[2].shape);
  const Pool2dGeometry& pool = g.pool;
  if (pool.kernel != pool.stride || pool.padding != Size2(0) || pool.dilation != Size2(1))
    return {{}, "pooling windows that do not lie side by side"};
  if (large_enough_for_the_library(g.conv)) return {{}, "large enough for the library"};
  return plan(g.conv, pool.kernel, specs.in[0].shape, specs.out[0], most);
}

template <class P>
Support supports(const P& params, const Specs& specs) {
  const Answer answer = plans(params, specs, 1);
  if (answer.choices.empty()) return Support::no(answer.refusal);
  return Support::yes().with_contiguous(0b1111);
}

template <int Floats>
void launch(const Choice& choice, const Plan& p, const Call& call, const float* dy,
            const int* positions, const float* weight, const float* x_relu) {
  constexpr void (*kKernels[])(Plan, const float*, const int*, const float*, const float*,
                               float*) = {
      conv2d_dgrad_rows<kTiles[0].m, kTiles[0].n, kTiles[0].warps, Floats>,
      conv2d_dgrad_rows<kTiles[1].m, kTiles[1].n, kTiles[1].warps, Floats>,
      conv2d_dgrad_rows<kTiles[2].m, kTiles[2].n, kTiles[2].warps, Floats>,
      conv2d_dgrad_rows<kTiles[3].m, kTiles[3].n, kTiles[3].warps, Floats>,
      conv2d_dgrad_rows<kTiles[4].m, kTiles[4].n, kTiles[4].warps, Floats>};
  static_assert(std::size(kKernels) == std::size(kTiles));
  const auto threads = static_cast<unsigned>(kTiles[choice.tile].warps * 32);
  const LaunchAhead ahead;
  call.encoder->launch(kKernels[choice.tile], static_cast<unsigned>(choice.blocks), threads,
                       choice.shared, p, dy, positions, weight, x_relu, call.out[0].as<float>());
}

/// The inputs are dy and weight, or where it was pooled dy, positions, weight and perhaps x.
void run(const Choice& choice, const Call& call) {
  const bool pooled = call.in.size() > 2;
  Plan p = choice.plan;
  const auto* dy = call.in[0].as<const float>();
  const auto* positions = pooled ? call.in[1].as<const int>() : nullptr;
  const auto* weight = call.in[pooled ? 2 : 1].as<const float>();
  const auto* x_relu = pooled && call.in[3].defined() ? call.in[3].as<const float>() : nullptr;
  set_vectors(p, dy, positions, weight) == 4
      ? launch<4>(choice, p, call, dy, positions, weight, x_relu)
      : launch<1>(choice, p, call, dy, positions, weight, x_relu);
}

template <class P>
std::shared_ptr<State> prepare(const P& params, const Specs& specs) {
  const Answer answer = plans(params, specs, ways_to_time());
  std::vector<KernelWay> ways;
  for (const Choice& choice : answer.choices) {
    const Plan& p = choice.plan;
    ways.push_back({way_name({p.images, p.bands, p.splits, choice.tile}), 0,
                    [&choice](const Call& call) { run(choice, call); }});
  }
  const std::string key =
      "dgrad " + ParamsRef::of(params).info->print(&params) + to_string(specs.in[0]);
  auto state = std::make_shared<State>();
  state->choice = answer.choices.at(fastest_way("implicit_gemm", key, specs, ways));
  return state;
}

template <class P>
void run(const P&, const State& state, const Call& call) {
  run(state.choice, call);
}

template <class P>
Kernel dgrad_kernel() {
  return kernel<supports<P>, prepare<P>, run<P>>("implicit_gemm");
}

}  // namespace
}  // namespace pool_dgrad

Kernel conv2d_dgrad_implicit_gemm_kernel() { return pool_dgrad::dgrad_kernel<Conv2dGradParams>(); }
Kernel conv2d_pool_dgrad_implicit_gemm_kernel() {
  return pool_dgrad::dgrad_kernel<Conv2dPoolGradParams>();
}

}  // namespace mica
