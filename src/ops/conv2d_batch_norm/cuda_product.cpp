// Convolutions with windows of one pixel are products of matrices. By ops/matmul/cuda_wgmma.cuh
// they take the sums over channels that a batch norm needs while results are in registers, so that
// these are not read again for them.
#include <algorithm>
#include <optional>

#include "mica/core/check.h"
#include "mica/op/dispatch.h"
#include "mica/op/select.h"
#include "mica/op/settings.h"
#include "mica/ops/anchored/anchored.h"
#include "mica/ops/batch_norm/cuda_tail.h"
#include "mica/ops/conv/options.h"
#include "mica/ops/conv2d/geometry.h"
#include "mica/ops/conv2d_batch_norm/conv2d_batch_norm.h"
#include "mica/ops/conv2d_batch_norm/cuda_columns.cuh"
#include "mica/ops/conv2d_batch_norm/kernels.h"
#include "mica/ops/fused/cuda_generated.h"
#include "mica/ops/matmul/cuda_wgmma.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/programmatic_launch.h"
#include "mica/runtime/runtime.h"

namespace mica {

const OpDef& batch_norm_op();
const OpDef& conv2d_batch_norm_op();

namespace {

using wgmma::TensorMap;

/// out (m, n) = a (m, k) b, where b is the weight (n, k), or (k, n) in a gradient.
struct ColumnsProduct {
  wgmma::Problem problem{};
  DType dtype = DType::f32;
  int64_t k = 0;
  unsigned grid = 0;
  int parts = 0;  ///< that blocks make of a column
  size_t partial_bytes(size_t sums) const {
    return static_cast<size_t>(problem.n) * static_cast<size_t>(parts) * sums * sizeof(float);
  }
};

ColumnsProduct columns_product(const TensorSpec& out, const TensorSpec& a) {
  const auto blocks = [](int64_t n, int64_t of) { return static_cast<int>((n + of - 1) / of); };
  const Shape& shape = out.shape;
  ColumnsProduct c;
  c.dtype = a.dtype;
  c.k = a.shape[1];
  wgmma::Problem& p = c.problem;
  p.m = static_cast<int>(shape[0] * shape[2] * shape[3]);
  p.n = static_cast<int>(shape[1]);
  p.k_blocks = blocks(c.k * static_cast<int64_t>(size_of(a.dtype)), wgmma::kStageRowBytes);
  p.pairs_m = blocks(p.m, int64_t{wgmma::kTileM} * wgmma::kCluster);
  p.tiles_n = blocks(p.n, wgmma::kColumnsTileN);
  const int clusters =
      runtime(DeviceKind::cuda).encoder(out.device.index)->multiprocessors() / wgmma::kCluster;
  const int of_column = std::max(1, std::min(clusters / p.tiles_n, p.pairs_m));
  c.parts = of_column * wgmma::kCluster;
  c.grid = static_cast<unsigned>(c.parts * p.tiles_n);
  return c;
}

std::string why_not(DType dtype) {
  if (dtype == DType::f64) return "computes f16 and bf16, and f32 as TF32";
  return dtype == DType::f32 && !allow_tf32() ? "TF32 is not allowed" : "";
}

/// Whether a convolution of a (N, k, H, W) to `out` is such a product of operands that the kernel
/// can read.
Support supports_product(const Conv2dParams& conv, const TensorSpec& a, const TensorSpec& weight,
                         const TensorSpec& out) {
  // Measured on an H200: what is spared is to read results from memory, not from the cache, and is
  // more than what the library's product is faster by while that is not long.
  constexpr int64_t kLeastBytes = int64_t{1} << 25;
  constexpr int64_t kLongest = 512;
  constexpr int64_t kLeastChannels = 128;
  constexpr int64_t kMostBytes = int64_t{1} << 32;
  constexpr int64_t kMostChannels = 4096;
  if (runtime(DeviceKind::cuda).properties(out.device.index).compute_capability != 90)
    return Support::no("the GPU is not of compute capability 9.0");
  if (weight.shape[2] != 1 || weight.shape[3] != 1 || conv.stride != Size2(1) ||
      conv.padding != Size2(0) || conv.groups != 1)
    return Support::no("it has a window of one pixel, and takes each");
  const auto vector = static_cast<int64_t>(16 / size_of(a.dtype));
  if (weight.shape[0] % vector != 0 || weight.shape[1] % vector != 0)
    return Support::no("channels that are not whole vectors");
  if (!out.is_channels_last_dense() || !out.aligned || !a.aligned || !weight.aligned)
    return Support::no("the images are not channels_last");
  const int64_t bytes = out.numel() * static_cast<int64_t>(size_of(out.dtype));
  if (bytes == 0) return Support::no("there is nothing to compute");
  if (bytes >= kMostBytes || out.shape[1] > kMostChannels) return Support::no("it is too large");
  const bool gains =
      bytes >= kLeastBytes && a.shape[1] <= kLongest && out.shape[1] >= kLeastChannels;
  return gains ? Support::yes() : Support::possible();
}

/// The kernel with this body, compiled when it is first asked for.
cudaKernel_t load(const char* op, DType dtype, const char* function, const char* parameters,
                  const char* arguments, int device) {
  return load_generated(
      op,
      fmt::format("#include \"mica/ops/conv2d_batch_norm/cuda_columns.cuh\"\n"
                  "using namespace mica::wgmma;\n"
                  "using mica::fused::f16;\n"
                  "using mica::fused::bf16;\n"
                  "extern \"C\" __global__ void __launch_bounds__(kThreads, 1)\n"
                  "    fused(const __grid_constant__ Problem p, const __grid_constant__ TensorMap "
                  "a,\n          const __grid_constant__ TensorMap b, {}) {{\n"
                  "  mica::wait_for_inputs();\n"
                  "  {}<{}>(p, a, b, {});\n}}\n",
                  parameters, function, info_of(dtype).source, arguments),
      device, true);
}

// Forward.

/// The call's batch norm: its program, specs and arguments without the convolution.
struct NormCall {
  std::optional<AnchoredParams> carried;
  std::vector<TensorSpec> in, out;
  Specs specs() const { return {in, out}; }

  NormCall(const Conv2dBatchNormParams& p, const AnchoredParams* whole, const Specs& s)
      : in(s.in.begin() + kConv - 1, s.in.end()), out(s.out.begin(), s.out.end() - 1) {
    in[0] = s.out.back();
    if (!whole) return;
    Anchored norm = *whole->call;
    norm.op = &batch_norm_op();
    norm.params = AnyParams(ParamsRef::of(p.norm));
    norm.by_channel >>= kConv - 1;
    carried = AnchoredParams{intern(norm)};
  }
  const AnchoredParams* program() const { return carried ? &*carried : nullptr; }

  static constexpr int kConv = 3;  ///< inputs of the convolution
};

struct ForwardState : KernelState {
  ColumnsProduct product;
  cudaKernel_t kernel = nullptr;
  std::optional<BatchNormTail> tail;
};

Support supports_whole(const Conv2dBatchNormParams& p, const AnchoredParams* whole,
                       const Specs& s) {
  const DType dtype = s.in[0].dtype;
  if (!p.norm.training) return Support::no("the statistics are given");
  if (s.in[2].defined) return Support::no("the convolution has a bias");
  if (const std::string reason = why_not(dtype); !reason.empty()) return Support::no(reason);
  const TensorSpec& product = s.out.back();
  Support support = supports_product(p.conv, s.in[0], s.in[1], product);
  if (support.kind == Support::Kind::no) return support;
  const NormCall norm(p, whole, s);
  const Support tail = BatchNormTail::supports(norm.program(), norm.specs());
  if (tail.kind == Support::Kind::no) return tail;
  IndexSet images = 0b1;
  for (int i = 1; i < static_cast<int>(norm.in.size()); ++i)
    if (tail.channels_last.contains(i)) images |= IndexSet{i + NormCall::kConv - 1};
  return std::move(support).with_channels_last(images).with_contiguous(0b10);
}

std::shared_ptr<ForwardState> prepare_whole(const Conv2dBatchNormParams& p,
                                            const AnchoredParams* whole, const Specs& s) {
  auto state = std::make_shared<ForwardState>();
  const TensorSpec& product = s.out.back();
  state->product = columns_product(product, s.in[0]);
  state->kernel = load("conv2d_batch_norm", s.in[0].dtype, "product_with_moments",
                       "void* y, void* partial", "y, partial", product.device.index);
  const NormCall norm(p, whole, s);
  state->tail.emplace(p.norm, norm.program(), norm.specs());
  state->workspace_bytes = state->product.partial_bytes(3);
  return state;
}

void run_whole(const ForwardState& state, const Call& call) {
  const ColumnsProduct& c = state.product;
  const wgmma::Problem& p = c.problem;
  const char* const op = "conv2d_batch_norm";
  const TensorMap a = wgmma::map_of(op, {call.in[0].data, c.dtype, p.m, c.k, c.k}, wgmma::kTileM);
  const TensorMap b = wgmma::map_of(op, {call.in[1].data, c.dtype, p.n, c.k, c.k},
                                    wgmma::kColumnsTileN / wgmma::kCluster);
  {
    const ProgrammaticLaunch overlap;
    call.encoder->launch_clusters(
        reinterpret_cast<void (*)(wgmma::Problem, TensorMap, TensorMap, void*, void*)>(
            state.kernel),
        c.grid, wgmma::kThreads,
        static_cast<size_t>(
            wgmma::shared_bytes(wgmma::kColumnsTileN, static_cast<int>(size_of(c.dtype)))),
        wgmma::kCluster, p, a, b, call.out.back().data, call.workspace);
  }
  std::vector<Arg> in(call.in.begin() + NormCall::kConv - 1, call.in.end());
  in[0] = call.out.back();
  state.tail->run({in, call.out.first(call.out.size() - 1), nullptr, call.encoder}, call.workspace,
                  c.parts);
}

Support supports(const Conv2dBatchNormParams& p, const Specs& s) {
  return supports_whole(p, nullptr, s);
}
std::shared_ptr<ForwardState> prepare(const Conv2dBatchNormParams& p, const Specs& s) {
  return prepare_whole(p, nullptr, s);
}
void run(const Conv2dBatchNormParams&, const ForwardState& state, const Call& call) {
  run_whole(state, call);
}

const Conv2dBatchNormParams& params_of(const AnchoredParams& params) {
  return params.call->params.as<Conv2dBatchNormParams>();
}
Support supports_carrying(const AnchoredParams& params, const Specs& s) {
  if (params.call->op != &conv2d_batch_norm_op())
    return Support::no("it carries programs after conv2d_batch_norm");
  return supports_whole(params_of(params), &params, s);
}
std::shared_ptr<ForwardState> prepare_carrying(const AnchoredParams& params, const Specs& s) {
  return prepare_whole(params_of(params), &params, s);
}
void run_carrying(const AnchoredParams&, const ForwardState& state, const Call& call) {
  run_whole(state, call);
}

// Backward.

/// The weight of f32 the other way round: only matrices of 16 bits may lie by rows.
struct TurnedWeight {
  AnyParams params;
  TensorSpec from, to;
  std::shared_ptr<const Prepared> copy;
  size_t at = 0;  ///< in the workspace

  TurnedWeight(const TensorSpec& weight, size_t place)
      : params(params_info<NoParams>()),
        from(weight),
        to(TensorSpec::contiguous({weight.shape[1], weight.shape[0]}, weight.dtype, weight.device)),
        at(place) {
    from.shape = to.shape;
    from.strides = {1, weight.shape[1]};
    to.defined = true;
    params = layout_copy_params(to);
    copy = select(layout_copy_op(), params.ref(), {{&from, 1}, {&to, 1}}, weight.device);
  }
  void run(const Arg& weight, const Call& call) const {
    const Arg in{weight.data, &from};
    const Arg out{static_cast<std::byte*>(call.workspace) + at, &to};
    copy->run(params.ref().data, {{&in, 1}, {&out, 1}, nullptr, call.encoder});
  }
};

struct BackwardState : KernelState {
  ColumnsProduct product;
  cudaKernel_t kernel = nullptr;
  std::optional<TurnedWeight> turned;
  std::optional<BatchNormGradTail> tail;
};

enum { kDy, kWeight, kMore, kRelu, kX, kScale, kMean, kInvstd };

Support supports_grad(const Conv2dBatchNormGradParams& p, const Specs& s) {
  const DType dtype = s.in[kDy].dtype;
  if (const std::string reason = why_not(dtype); !reason.empty()) return Support::no(reason);
  for (const int i : {kMore, kRelu, kX})
    if (!s.in[static_cast<size_t>(i)].aligned)
      return Support::no("an operand does not lie on a 16-byte boundary");
  Support support = supports_product(p.conv.conv, s.in[kDy], s.in[kWeight], s.out[0]);
  if (support.kind == Support::Kind::no) return support;
  if (!s.out[3].is_channels_last_dense() || !s.out[3].aligned)
    return Support::no("the images are not channels_last");
  return std::move(support)
      .with_channels_last({kDy, kMore, kRelu, kX})
      .with_contiguous({kWeight, kMean});
}

std::shared_ptr<BackwardState> prepare_grad(const Conv2dBatchNormGradParams&, const Specs& s) {
  auto state = std::make_shared<BackwardState>();
  state->product = columns_product(s.out[0], s.in[kDy]);
  state->kernel = load("conv2d_dgrad_batch_norm_grad", s.in[kDy].dtype, "product_with_grad_sums",
                       "const __grid_constant__ GradOperands operands, void* dz, void* partial",
                       "operands, dz, partial", s.out[0].device.index);
  const TensorSpec in[] = {s.out[3], s.in[kX], s.in[kScale], s.in[kMean], s.in[kInvstd]};
  state->tail.emplace(Specs{in, s.out.first(3)});
  state->workspace_bytes = state->product.partial_bytes(2);
  if (s.in[kDy].dtype == DType::f32) {
    constexpr size_t kAlignment = 256;
    const size_t place = (state->workspace_bytes + kAlignment - 1) / kAlignment * kAlignment;
    state->turned.emplace(s.in[kWeight], place);
    state->workspace_bytes =
        place + static_cast<size_t>(s.in[kWeight].numel()) * size_of(DType::f32);
  }
  return state;
}

void run_grad(const Conv2dBatchNormGradParams& params, const BackwardState& state,
              const Call& call) {
  const ColumnsProduct& c = state.product;
  const wgmma::Problem& p = c.problem;
  const char* const op = "conv2d_dgrad_batch_norm_grad";
  const auto bytes = static_cast<int>(size_of(c.dtype));
  const TensorMap a = wgmma::map_of(op, {call.in[kDy].data, c.dtype, p.m, c.k, c.k}, wgmma::kTileM);
  if (state.turned) state.turned->run(call.in[kWeight], call);
  const TensorMap b =
      state.turned ? wgmma::map_of(op,
                                   {static_cast<std::byte*>(call.workspace) + state.turned->at,
                                    c.dtype, p.n, c.k, c.k},
                                   wgmma::kColumnsTileN / wgmma::kCluster)
                   : wgmma::map_of(op, {call.in[kWeight].data, c.dtype, c.k, p.n, p.n},
                                   wgmma::kStageRowBytes / bytes);
  const Shape& shape = params.conv.shape;
  const wgmma::GradOperands operands{static_cast<int>(params.apart),
                                     static_cast<unsigned>(shape[2]),
                                     static_cast<unsigned>(shape[3]),
                                     call.in[kMore].data,
                                     call.in[kRelu].data,
                                     call.in[kX].data,
                                     call.in[kMean].as<const float>()};
  {
    const ProgrammaticLaunch overlap;
    call.encoder->launch_clusters(
        reinterpret_cast<void (*)(wgmma::Problem, TensorMap, TensorMap, wgmma::GradOperands, void*,
                                  void*)>(state.kernel),
        c.grid, wgmma::kThreads, static_cast<size_t>(wgmma::grad_shared_bytes(bytes)),
        wgmma::kCluster, p, a, b, operands, call.out[3].data, call.workspace);
  }
  const Arg in[] = {call.out[3], call.in[kX], call.in[kScale], call.in[kMean], call.in[kInvstd]};
  state.tail->run(params.norm, {in, call.out.first(3), nullptr, call.encoder}, call.workspace,
                  c.parts);
}

}  // namespace

KernelList conv2d_batch_norm_cuda_kernels() {
  return {kernel<supports, prepare, run>("product_wgmma"), conv2d_batch_norm_composed_kernel()};
}
KernelList conv2d_batch_norm_carrying_cuda_kernels() {
  return {
      kernel<supports_carrying, prepare_carrying, run_carrying>("conv2d_batch_norm_product_wgmma")};
}
KernelList conv2d_dgrad_batch_norm_grad_cuda_kernels() {
  return {kernel<supports_grad, prepare_grad, run_grad>("product_wgmma"),
          conv2d_dgrad_batch_norm_grad_composed_kernel()};
}

}  // namespace mica
