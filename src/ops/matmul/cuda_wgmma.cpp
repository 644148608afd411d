// Large products with any program after them, by a kernel of ours for compute capability 9.0. A
// convolution of single pixels, whose channels lie together, is one too.
#include <cuda.h>

#include <algorithm>
#include <cstring>

#include "mica/core/check.h"
#include "mica/op/choices.h"
#include "mica/op/settings.h"
#include "mica/ops/anchored/cuda_carried.h"
#include "mica/ops/conv2d/conv2d.h"
#include "mica/ops/matmul/cuda_kernels.h"
#include "mica/ops/matmul/cuda_wgmma.h"
#include "mica/ops/matmul/problem.h"
#include "mica/runtime/cuda/check.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/programmatic_launch.h"
#include "mica/runtime/runtime.h"

namespace mica {

const OpDef& matmul_op();
const OpDef& linear_op();
const OpDef& conv2d_op();

namespace {

using wgmma::TensorMap;

struct WgmmaState : KernelState {
  wgmma::Problem problem{};
  DType dtype = DType::f32;
  int64_t k = 0, a_pitch = 0, b_pitch = 0;
  int tile_n = 0;
  unsigned grid = 0;
  bool biased = false;
  CarriedKernel carried;
};

bool is_conv(const AnchoredParams& params) { return params.call->op == &conv2d_op(); }

const OpDef& anchor_of(const AnchoredParams& params) {
  return is_conv(params)                   ? conv2d_op()
         : params.call->op == &matmul_op() ? matmul_op()
                                           : linear_op();
}

MatmulProblem problem_of(const AnchoredParams& params, const Specs& s) {
  if (!is_conv(params))
    return params.call->op == &matmul_op() ? matmul_problem(s.in[0], s.in[1])
                                           : linear_problem(s.in[0], s.in[1]);
  MatmulProblem p;
  p.n = s.in[1].shape[0];
  p.k = p.a_row = p.b_col = s.in[1].shape[1];
  p.m = s.out[0].numel() / p.n;
  p.a_col = p.b_row = 1;
  return p;
}

bool is_biased(const AnchoredParams& params, const Specs& s) {
  return params.call->op != &matmul_op() && s.in[2].defined;
}

/// Why a convolution is no product of matrices as they lie; empty where it is.
std::string why_no_product(const AnchoredParams& params, const Specs& s) {
  const auto& p = params.call->params.as<Conv2dParams>();
  const Shape& weight = s.in[1].shape;
  if (weight[2] != 1 || weight[3] != 1 || p.stride.h != 1 || p.stride.w != 1 || p.padding.h != 0 ||
      p.padding.w != 0 || p.groups != 1)
    return "it takes windows of one pixel, of stride 1";
  if (!s.in[0].is_channels_last_dense() || !s.out[0].is_channels_last_dense())
    return "the images are not channels_last";
  return {};
}

Support supports(const AnchoredParams& params, const Specs& s) {
  constexpr int64_t kLeast = 1 << 14;  // results
  constexpr int64_t kLarge = 1 << 20;  // below which tiles are few
  constexpr int64_t kLongest = 1 << 30;
  const std::string reason = why_not_carried(params, anchor_of(params), s);
  if (!reason.empty()) return Support::no(reason);
  const DType dtype = s.in[0].dtype;
  if (dtype == DType::f64) return Support::no("computes f16 and bf16, and f32 as TF32");
  if (dtype == DType::f32 && !allow_tf32()) return Support::no("TF32 is not allowed");
  if (runtime(DeviceKind::cuda).properties(s.out[0].device.index).compute_capability != 90)
    return Support::no("the GPU is not of compute capability 9.0");
  if (is_conv(params))
    if (const std::string why = why_no_product(params, s); !why.empty()) return Support::no(why);
  const MatmulProblem p = problem_of(params, s);
  const auto vector = static_cast<int64_t>(16 / size_of(dtype));
  if (!p.batch.empty() || p.m > kLongest || p.n > kLongest || p.k > kLongest)
    return Support::no("more than one matrix, or too large ones");
  if (p.k < vector || p.m * p.n < kLeast) return Support::no("the product is small");
  if (p.a_col != 1 || p.b_row != 1) return Support::no("K does not lie together in the operands");
  if (p.a_row % vector != 0 || p.b_col % vector != 0 || p.n % vector != 0 || p.a_row < p.k ||
      p.b_col < p.k)
    return Support::no("rows that are not whole vectors");
  for (size_t i = 0; i < (is_biased(params, s) ? 3 : 2); ++i)
    if (!s.in[i].aligned) return Support::no("an operand does not lie on a 16-byte boundary");
  if (!is_conv(params) && !s.out[0].is_contiguous())
    return Support::no("the result is not row-major");
  // A library computes a single activation as fast or faster. Measured on an H200, 8192 rows of 768
  // by 3072, in µs: bf16 ReLU by cuBLASLt 56, by this kernel 65, SiLU 72; TF32 108, 111 and 122.
  const auto known = known_after(params, anchor_of(params));
  const bool simple = known && known->saved < 0 && !params.call->keeps_result &&
                      s.out[0].dtype == dtype && params.call->op == &linear_op();
  // A library multiplies as fast; where little is multiplied of what is read this kernel is at the
  // rate of memory.
  constexpr int64_t kFewProducts = 256;
  if (is_conv(params) && p.k > kFewProducts) return Support::no("a library's kernels are as fast");
  const bool others_first = simple || is_conv(params) || p.m * p.n < kLarge;
  Support support = others_first ? Support::possible() : Support::yes();
  if (is_conv(params)) {
    support.contiguous |= 0b10;
    for (size_t i = 3; i < s.in.size(); ++i)
      if (s.in[i].shape == s.out[0].shape) support.channels_last.insert(static_cast<int>(i));
  }
  return std::move(support).with_contiguous(is_biased(params, s) ? 0b100 : 0);
}

CarriedKernel load(const AnchoredParams& params, const Specs& s, int tile_n) {
  const char* const type = info_of(s.in[0].dtype).source;
  return load_carried(params, s,
                      {.header = "mica/ops/matmul/cuda_wgmma.cuh",
                       .parameters = "const __grid_constant__ mica::wgmma::Problem p, "
                                     "const __grid_constant__ mica::wgmma::TensorMap a, "
                                     "const __grid_constant__ mica::wgmma::TensorMap b",
                       .body = fmt::format("mica::wait_for_inputs();\n  "
                                           "mica::wgmma::product<{}, {}>(p, a, b, Carried{{end}});",
                                           type, tile_n),
                       .bounds = fmt::format("{}, 1", wgmma::kThreads),
                       .few_digits = true});
}

std::vector<Candidate> candidates(const AnchoredParams& params, const Specs& s,
                                  const CandidateRequest& request) {
  const MatmulProblem p = problem_of(params, s);
  const int multiprocessors =
      runtime(DeviceKind::cuda).encoder(s.out[0].device.index)->multiprocessors();
  const auto blocks = [](int64_t n, int64_t of) { return static_cast<int>((n + of - 1) / of); };
  std::vector<std::pair<double, std::shared_ptr<WgmmaState>>> ways;
  for (const int tile_n : {192, 128}) {
    if (!request.only.empty() && request.only != candidate_name({tile_n})) continue;
    auto state = std::make_shared<WgmmaState>();
    wgmma::Problem& own = state->problem;
    own.m = static_cast<int>(p.m);
    own.n = static_cast<int>(p.n);
    own.k_blocks =
        blocks(p.k * static_cast<int64_t>(size_of(s.in[0].dtype)), wgmma::kStageRowBytes);
    own.pairs_m = blocks(p.m, int64_t{wgmma::kTileM} * wgmma::kCluster);
    own.tiles_n = blocks(p.n, tile_n);
    state->dtype = s.in[0].dtype;
    state->k = p.k;
    state->a_pitch = p.a_row;
    state->b_pitch = p.b_col;
    state->tile_n = tile_n;
    state->biased = is_biased(params, s);
    const int64_t tiles = int64_t{own.pairs_m} * own.tiles_n * wgmma::kCluster;
    const int resident = multiprocessors / wgmma::kCluster * wgmma::kCluster;
    state->grid = static_cast<unsigned>(std::min<int64_t>(tiles, resident));
    // Stages of shared memory that a multiprocessor writes and reads.
    const int64_t rounds = (tiles + resident - 1) / resident;
    const double cost = static_cast<double>(rounds) * own.k_blocks * (tile_n == 192 ? 1.3 : 1);
    ways.emplace_back(cost, std::move(state));
  }
  std::sort(ways.begin(), ways.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  ways.resize(request.count(is_conv(params) && request.only.empty() ? 1 : ways.size()));
  std::vector<Candidate> found;
  for (auto& [cost, state] : ways) {
    state->carried = load(params, s, state->tile_n);
    const std::string name = candidate_name({state->tile_n});
    found.push_back({name, cost, std::move(state)});
  }
  return found;
}

using Encode = decltype(&cuTensorMapEncodeTiled);

Encode encode_function() {
  static const Encode function = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    check_cuda(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000,
                                                cudaEnableDefault, &result));
    check<DeviceError>(found != nullptr, "CUDA: the driver has no cuTensorMapEncodeTiled");
    return reinterpret_cast<Encode>(found);
  }();
  return function;
}

void run(const AnchoredParams& params, const KernelState& kernel_state, const Call& call) {
  const auto& state = static_cast<const WgmmaState&>(kernel_state);
  wgmma::Problem p = state.problem;
  if (state.biased) p.bias = call.in[2].data;
  const TensorMap a = wgmma::map_of(
      "anchored", {call.in[0].data, state.dtype, p.m, state.k, state.a_pitch}, wgmma::kTileM);
  const TensorMap b =
      wgmma::map_of("anchored", {call.in[1].data, state.dtype, p.n, state.k, state.b_pitch},
                    state.tile_n / wgmma::kCluster);
  const ProgrammaticLaunch overlap;
  call.encoder->launch_clusters(
      reinterpret_cast<void (*)(wgmma::Problem, TensorMap, TensorMap, fused::KernelArgs)>(
          state.carried.kernel),
      state.grid, wgmma::kThreads,
      static_cast<size_t>(
          wgmma::shared_bytes(state.tile_n, static_cast<int>(size_of(state.dtype)))),
      wgmma::kCluster, p, a, b, state.carried.arguments(params, call));
}

}  // namespace

wgmma::TensorMap wgmma::map_of(const char* op, const Operand& operand, int rows) {
  const auto bytes = static_cast<cuuint64_t>(size_of(operand.dtype));
  const CUtensorMapDataType type = operand.dtype == DType::f32   ? CU_TENSOR_MAP_DATA_TYPE_TFLOAT32
                                   : operand.dtype == DType::f16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                                                 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  const cuuint64_t sizes[] = {static_cast<cuuint64_t>(operand.columns),
                              static_cast<cuuint64_t>(operand.rows)};
  const cuuint64_t strides[] = {static_cast<cuuint64_t>(operand.pitch) * bytes};
  const cuuint32_t box[] = {static_cast<cuuint32_t>(kStageRowBytes / bytes),
                            static_cast<cuuint32_t>(rows)};
  const cuuint32_t steps[] = {1, 1};
  CUtensorMap map;
  const CUresult result =
      encode_function()(&map, type, 2, const_cast<void*>(operand.data), sizes, strides, box, steps,
                        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  check<DeviceError>(result == CUDA_SUCCESS, "{}: the driver refuses an operand's map: {}", op,
                     static_cast<int>(result));
  TensorMap own;
  static_assert(sizeof own == sizeof map);
  std::memcpy(&own, &map, sizeof own);
  return own;
}

Kernel product_carrying_wgmma_kernel() {
  return kernel_with_candidates<supports, candidates, run>("product_wgmma");
}

}  // namespace mica
