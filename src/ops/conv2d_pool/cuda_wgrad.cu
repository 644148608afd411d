// Weight gradients of convolutions, also of those whose result was pooled, by TF32 tensor cores.
#include "mica/op/cuda_trial.h"
#include "mica/op/settings.h"
#include "mica/ops/conv2d/cuda_kernels.h"
#include "mica/ops/conv2d_pool/cuda_kernels.h"
#include "mica/ops/conv2d_pool/cuda_wgrad_plan.h"
#include "mica/ops/conv2d_pool/kernels.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/runtime.h"

namespace mica {
namespace wgrad {
namespace {

using Function = void (*)(Plan, const float*, const int*, const float*, float*, float*);

template <Kind K>
Function function_of(const Launch& l) {
  const auto is = [&](int tap_tiles, int channel_tiles) {
    return l.tap_tiles == tap_tiles && l.channel_tiles == channel_tiles;
  };
  if (is(1, 2)) return wgrad_tiles<1, 2, K>;
  if (is(1, 4)) return wgrad_tiles<1, 4, K>;
  if constexpr (vector_of(K) == 4) {
    if (is(2, 3)) return wgrad_tiles<2, 3, K>;
    if (is(2, 7)) return wgrad_tiles<2, 7, K>;
    if (is(3, 8)) return wgrad_tiles<3, 8, K>;
  }
  return wgrad_tiles<3, 4, K>;
}

Function function_of(const Launch& l) {
  switch (l.kind) {
    case Kind::pairs:
      return function_of<Kind::pairs>(l);
    case Kind::plain:
      return function_of<Kind::plain>(l);
    case Kind::scalar_pooled:
      return function_of<Kind::scalar_pooled>(l);
    case Kind::scalar_plain:
      break;
  }
  return function_of<Kind::scalar_plain>(l);
}

struct State : KernelState {
  Launch aligned, any;  ///< for tensors that start at multiples of 16 bytes, and for others
};

int as_int(int64_t v) { return static_cast<int>(v); }

int attribute(const Device& device, cudaDeviceAttr which) {
  int value = 0;
  cudaDeviceGetAttribute(&value, which, device.index);
  return value;
}

/// Why the convolution cannot be computed here; empty where it can.
std::string refusal(const Conv2dGeometry& g, const Specs& specs) {
  constexpr int64_t kMost = int64_t{1} << 30;
  if (specs.out[0].dtype != DType::f32) return "computes f32 only";
  if (!allow_tf32()) return "TF32 is not allowed";
  if (g.groups != 1) return "the convolution has groups";
  if (!specs.out[0].is_contiguous()) return "the output is not row-major";
  if (specs.out[0].numel() == 0 || g.n * g.pixels() == 0) return "a tensor is empty";
  if (g.n * g.pixels() >= kMost || g.c * g.h * g.w >= kMost || g.o * g.pixels() >= kMost ||
      specs.out[0].numel() >= kMost || g.padding.w >= kMost || g.padding.h >= kMost)
    return "an image, the batch or the weight is too large";
  if (attribute(specs.out[0].device, cudaDevAttrComputeCapabilityMajor) < 8)
    return "the device has no TF32";
  return {};
}

Problem problem_of(const Conv2dGeometry& g) {
  Problem q{};
  q.n = as_int(g.n), q.channels = as_int(g.c), q.h = as_int(g.h), q.w = as_int(g.w);
  q.out = as_int(g.o), q.oh = as_int(g.oh), q.ow = as_int(g.ow);
  q.kh = as_int(g.kh), q.kw = as_int(g.kw);
  q.stride_h = as_int(g.stride.h), q.stride_w = as_int(g.stride.w);
  q.pad_h = as_int(g.padding.h), q.pad_w = as_int(g.padding.w);
  q.dilation_h = as_int(g.dilation.h), q.dilation_w = as_int(g.dilation.w);
  q.pool_h = q.pool_w = 1;
  q.dy_h = q.oh, q.dy_w = q.ow;
  return q;
}

std::vector<Launch> launches_of(Problem q, bool aligned, const Specs& specs, size_t most) {
  const Device& device = specs.out[0].device;
  q.aligned = aligned;
  return launches(q, attribute(device, cudaDevAttrMultiProcessorCount),
                  static_cast<size_t>(attribute(device, cudaDevAttrMaxSharedMemoryPerBlockOptin)),
                  most);
}

bool fits(const Problem& q, const Specs& specs) {
  return !launches_of(q, true, specs, 1).empty() && !launches_of(q, false, specs, 1).empty();
}

/// The inputs are dy, positions where it was pooled, x.
void run(const Launch& l, const Call& call) {
  const bool pooled = call.in.size() == 3;
  const auto* dy = call.in[0].as<const float>();
  const auto* positions = pooled ? call.in[1].as<const int>() : nullptr;
  const auto* x = call.in[pooled ? 2 : 1].as<const float>();
  auto* dw = call.out[0].as<float>();
  auto* db = call.out.size() > 1 ? call.out[1].as<float>() : nullptr;
  const Plan& p = l.plan;
  const int weights = p.out * p.taps;
  auto* partial = static_cast<float*>(call.workspace);
  const bool parts = l.slices > 1;
  const LaunchAhead ahead;
  call.encoder->launch(function_of(l),
                       dim3(static_cast<unsigned>(l.slices), static_cast<unsigned>(p.tap_tiles),
                            static_cast<unsigned>(l.grid_channels)),
                       static_cast<unsigned>(l.threads), l.shared, p, dy, positions, x,
                       parts ? partial : dw, parts ? partial + weights : db);
  if (!parts) return;
  const int total = weights + (p.bias ? p.out : 0);
  call.encoder->launch(
      add_wgrad_parts, static_cast<unsigned>(cuda::ceil_div(total, 4 * kAddColumns)),
      dim3(kAddColumns, kAddRows), 0, weights, total, p.part_size, l.slices, partial, dw, db);
}

template <class P>
std::shared_ptr<State> prepare(const P& params, const Problem& q, const Specs& specs) {
  const std::vector<Launch> aligned = launches_of(q, true, specs, ways_to_time());
  std::vector<KernelWay> ways;
  for (const Launch& l : aligned)
    ways.push_back({way_name({l.tap_tiles, l.channel_tiles, l.slices, l.plan.bands,
                              l.plan.per_chunk, static_cast<int>(l.kind)}),
                    l.workspace_bytes(), [&l](const Call& call) { run(l, call); }});
  const std::string key = "wgrad " + ParamsRef::of(params).info->print(&params) +
                          to_string(specs.in[0]) + to_string(specs.in.back());
  auto state = std::make_shared<State>();
  state->aligned = aligned.at(fastest_way("implicit_gemm", key, specs, ways));
  state->any = launches_of(q, false, specs, 1).at(0);
  state->workspace_bytes = std::max(state->aligned.workspace_bytes(), state->any.workspace_bytes());
  return state;
}

template <class P>
void run(const P&, const State& state, const Call& call) {
  bool aligned = cuda::is_aligned(call.out[0].data, 16);
  for (const Arg& arg : call.in) aligned = aligned && cuda::is_aligned(arg.data, 16);  // or null
  run(aligned ? state.aligned : state.any, call);
}

Support supports_plain(const Conv2dGradParams& params, const Specs& specs) {
  const auto g = conv2d_geometry("conv2d_wgrad", params.conv, specs.in[1].shape, params.shape);
  if (const auto reason = refusal(g, specs); !reason.empty()) return Support::no(reason);
  if (!is_row_major(specs)) return Support::no("an input is not row-major");
  if (large_enough_for_the_library(g)) return Support::no("large enough for the library");
  if (!fits(problem_of(g), specs)) return Support::no("shared memory is too small");
  return Support::yes();
}

std::shared_ptr<State> prepare_plain(const Conv2dGradParams& params, const Specs& specs) {
  const auto g = conv2d_geometry("conv2d_wgrad", params.conv, specs.in[1].shape, params.shape);
  return prepare(params, problem_of(g), specs);
}

Problem pooled_problem(const Conv2dPoolGradParams& params, const Conv2dPoolGeometry& g,
                       const Specs& specs) {
  Problem q = problem_of(g.conv);
  q.bias = params.bias;
  if (!specs.in[1].defined) return q;
  q.pooled = true;
  q.pool_h = as_int(g.pool.kernel.h), q.pool_w = as_int(g.pool.kernel.w);
  q.dy_h = as_int(g.pool.oh), q.dy_w = as_int(g.pool.ow);
  return q;
}

Conv2dPoolGeometry pooled_geometry(const Conv2dPoolGradParams& params, const Specs& specs) {
  return conv2d_pool_geometry("conv2d_pool_wgrad", params.conv, params.pool, specs.in[2].shape,
                              params.shape);
}

Support supports_pooled(const Conv2dPoolGradParams& params, const Specs& specs) {
  const auto g = pooled_geometry(params, specs);
  if (const auto reason = refusal(g.conv, specs); !reason.empty()) return Support::no(reason);
  const Pool2dGeometry& pool = g.pool;
  if (!specs.in[1].defined && !is_row_major(specs)) return Support::no("an input is not row-major");
  if (specs.in[1].defined &&
      (pool.kernel != pool.stride || pool.padding != Size2(0) || pool.dilation != Size2(1)))
    return Support::no("pooling windows overlap, are padded or have gaps");
  if (pool.oh * pool.kernel.h > pool.h || pool.ow * pool.kernel.w > pool.w)
    return Support::no("pooling windows reach over the edge");
  if (pool.oh * pool.ow == 0) return Support::no("a tensor is empty");
  if (large_enough_for_the_library(g.conv)) return Support::no("large enough for the library");
  if (!fits(pooled_problem(params, g, specs), specs))
    return Support::no("shared memory is too small");
  return Support::yes().with_contiguous(0b111);
}

std::shared_ptr<State> prepare_pooled(const Conv2dPoolGradParams& params, const Specs& specs) {
  return prepare(params, pooled_problem(params, pooled_geometry(params, specs), specs), specs);
}

}  // namespace
}  // namespace wgrad

Kernel conv2d_wgrad_implicit_gemm_kernel() {
  return kernel<wgrad::supports_plain, wgrad::prepare_plain, wgrad::run<Conv2dGradParams>>(
      "implicit_gemm");
}

Kernel conv2d_pool_wgrad_implicit_gemm_kernel() {
  return kernel<wgrad::supports_pooled, wgrad::prepare_pooled, wgrad::run<Conv2dPoolGradParams>>(
      "implicit_gemm");
}

}  // namespace mica
