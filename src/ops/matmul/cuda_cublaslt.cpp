// matmul and linear by cuBLASLt. The library is column-major, and a row-major matrix is its
// transpose in column-major order: out (M, N) = a (M, K) b (K, N) is computed as outᵀ (N, M) = bᵀ
// (N, K) aᵀ (K, M).
#include <limits>
#include <optional>
#include <vector>

#include "mica/core/check.h"
#include "mica/op/settings.h"
#include "mica/ops/matmul/cuda_kernels.h"
#include "mica/ops/matmul/problem.h"
#include "mica/runtime/cuda/check.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/runtime.h"

namespace mica {
namespace {

constexpr uint64_t kWorkspaceLimit = uint64_t{32} << 20;

struct LtState : KernelState {
  // Plain data of the library, copied for each run because the bias pointer is part of the
  // operation.
  cublasLtMatmulDescOpaque_t operation{};
  cublasLtMatrixLayoutOpaque_t a{};
  cublasLtMatrixLayoutOpaque_t b{};
  cublasLtMatrixLayoutOpaque_t out{};
  cublasLtMatmulAlgo_t algo{};
  MatmulProblem problem;
};

/// Makes one dimension of neighbouring batch dimensions that lie in one stride: the library takes
/// one.
void join_batch(MatmulProblem& p) {
  Dims batch, a_batch, b_batch;
  for (int d = 0; d < p.batch.rank(); ++d) {
    const int last = batch.rank() - 1;
    if (last >= 0 && a_batch[last] == p.batch[d] * p.a_batch[d] &&
        b_batch[last] == p.batch[d] * p.b_batch[d]) {
      batch[last] *= p.batch[d];
      a_batch[last] = p.a_batch[d];
      b_batch[last] = p.b_batch[d];
    } else {
      batch.push_back(p.batch[d]);
      a_batch.push_back(p.a_batch[d]);
      b_batch.push_back(p.b_batch[d]);
    }
  }
  p.batch = batch;
  p.a_batch = a_batch;
  p.b_batch = b_batch;
}

/// How a matrix with a unit stride lies in memory.
struct MatrixLayout {
  bool row_major;
  int64_t leading;  ///< elements from one row (or column) to the next
};

std::optional<MatrixLayout> layout_of(int64_t rows, int64_t cols, int64_t row_stride,
                                      int64_t col_stride) {
  const int64_t by_rows = rows == 1 ? cols : row_stride;
  if ((col_stride == 1 || cols == 1) && by_rows >= cols) return MatrixLayout{true, by_rows};
  const int64_t by_cols = cols == 1 ? rows : col_stride;
  if ((row_stride == 1 || rows == 1) && by_cols >= rows) return MatrixLayout{false, by_cols};
  return std::nullopt;
}

cudaDataType_t data_type(DType t) {
  switch (t) {
    case DType::f64:
      return CUDA_R_64F;
    case DType::f16:
      return CUDA_R_16F;
    case DType::bf16:
      return CUDA_R_16BF;
    default:
      return CUDA_R_32F;
  }
}

cublasComputeType_t compute_type(DType t) {
  if (t == DType::f64) return CUBLAS_COMPUTE_64F;
  if (t == DType::f32 && allow_tf32()) return CUBLAS_COMPUTE_32F_FAST_TF32;
  return CUBLAS_COMPUTE_32F;
}

template <class T>
void set(cublasLtMatmulDescOpaque_t& operation, cublasLtMatmulDescAttributes_t attribute, T value) {
  check_cublas(cublasLtMatmulDescSetAttribute(&operation, attribute,
                                              static_cast<const void*>(&value), sizeof value));
}
template <class T>
void set(cublasLtMatmulPreferenceOpaque_t& preference,
         cublasLtMatmulPreferenceAttributes_t attribute, T value) {
  check_cublas(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof value));
}

/// A column-major matrix, repeated along the innermost batch dimension.
cublasLtMatrixLayoutOpaque_t describe(DType dtype, int64_t rows, int64_t cols, int64_t leading,
                                      const Shape& batch, int64_t batch_stride) {
  cublasLtMatrixLayoutOpaque_t layout{};
  check_cublas(cublasLtMatrixLayoutInit(&layout, data_type(dtype), static_cast<uint64_t>(rows),
                                        static_cast<uint64_t>(cols), leading));
  if (!batch.empty()) {
    const auto count = static_cast<int32_t>(batch.back());
    check_cublas(cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                                  &count, sizeof count));
    check_cublas(cublasLtMatrixLayoutSetAttribute(
        &layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &batch_stride, sizeof batch_stride));
  }
  return layout;
}

/// The alignment in bytes (at most 16) of every matrix of a batch.
uint32_t alignment_of(const TensorSpec& spec, const Strides& batch) {
  const auto element = static_cast<int64_t>(size_of(spec.dtype));
  int64_t bytes = spec.aligned ? 16 : element;
  for (const int64_t stride : batch)
    while (bytes > element && stride * element % bytes != 0) bytes /= 2;
  return static_cast<uint32_t>(bytes);
}

const TensorSpec* bias_of(const Specs& specs) {
  return specs.in.size() > 2 && specs.in[2].defined ? &specs.in[2] : nullptr;
}

void* fake_pointer(uint32_t alignment) { return reinterpret_cast<void*>(uintptr_t{alignment}); }

/// Describes the product and asks the library how to compute it; null, with `reason` set, when it
/// cannot. Both operands have a unit stride in their rows or columns.
std::shared_ptr<LtState> make_state(MatmulProblem p, const Specs& specs, std::string& reason) {
  const DType dtype = specs.out[0].dtype;
  const auto a = layout_of(p.m, p.k, p.a_row, p.a_col);
  const auto b = layout_of(p.k, p.n, p.b_row, p.b_col);
  check(a && b, "cublaslt: operands without a unit stride: {}, {}", to_string(specs.in[0]),
        to_string(specs.in[1]));
  join_batch(p);
  const int64_t a_batch = p.batch.empty() ? 0 : p.a_batch.back();
  const int64_t b_batch = p.batch.empty() ? 0 : p.b_batch.back();
  auto state = std::make_shared<LtState>();
  state->problem = p;
  state->a = a->row_major ? describe(dtype, p.k, p.m, a->leading, p.batch, a_batch)
                          : describe(dtype, p.m, p.k, a->leading, p.batch, a_batch);
  state->b = b->row_major ? describe(dtype, p.n, p.k, b->leading, p.batch, b_batch)
                          : describe(dtype, p.k, p.n, b->leading, p.batch, b_batch);
  state->out = describe(dtype, p.n, p.m, p.n, p.batch, p.m * p.n);

  auto& operation = state->operation;
  check_cublas(cublasLtMatmulDescInit(&operation, compute_type(dtype),
                                      dtype == DType::f64 ? CUDA_R_64F : CUDA_R_32F));
  set(operation, CUBLASLT_MATMUL_DESC_TRANSA, b->row_major ? CUBLAS_OP_N : CUBLAS_OP_T);
  set(operation, CUBLASLT_MATMUL_DESC_TRANSB, a->row_major ? CUBLAS_OP_N : CUBLAS_OP_T);
  if (const TensorSpec* bias = bias_of(specs)) {
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    // The heuristic takes the alignment from the pointer's value.
    set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, fake_pointer(alignment_of(*bias, {})));
  }

  cublasLtMatmulPreferenceOpaque_t preference{};
  check_cublas(cublasLtMatmulPreferenceInit(&preference));
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceLimit);
  // Partial sums meet in the compute type: exact enough for f16, and in the same order each time.
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(specs.in[1], p.b_batch));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(specs.in[0], p.a_batch));
  const uint32_t out_alignment =
      alignment_of(specs.out[0], p.batch.empty() ? Dims{} : Dims{p.m * p.n});
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, out_alignment);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, out_alignment);

  Encoder* encoder = runtime(DeviceKind::cuda).encoder(specs.out[0].device.index);
  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(encoder->cublas_lt(), &operation, &state->b, &state->a,
                                     &state->out, &state->out, &preference, 1, &result, &found);
  if (status != CUBLAS_STATUS_SUCCESS || found == 0 || result.state != CUBLAS_STATUS_SUCCESS) {
    reason = fmt::format("cuBLASLt has no algorithm ({})", cublasLtGetStatusName(status));
    return nullptr;
  }
  state->algo = result.algo;
  state->workspace_bytes = result.workspaceSize;
  return state;
}

template <auto problem_of>
Support supports(const NoParams&, const Specs& specs) {
  std::vector<TensorSpec> in(specs.in.begin(), specs.in.end());
  const MatmulProblem p = problem_of(in[0], in[1]);
  if (specs.out[0].numel() == 0 || p.k == 0) return Support::no("there is nothing to multiply");
  if (p.batches() > std::numeric_limits<int32_t>::max())
    return Support::no("more than 2^31 matrices");
  uint32_t contiguous = 0;
  if (!layout_of(p.m, p.k, p.a_row, p.a_col)) contiguous |= 1;
  if (!layout_of(p.k, p.n, p.b_row, p.b_col)) contiguous |= 2;
  if (bias_of(specs) && !in[2].is_contiguous()) contiguous |= 4;
  for (size_t i = 0; i < in.size(); ++i)
    if (contiguous >> i & 1U)
      in[i] = TensorSpec::contiguous(in[i].shape, in[i].dtype, in[i].device);
  std::string reason;
  if (!make_state(problem_of(in[0], in[1]), {in, specs.out}, reason)) return Support::no(reason);
  return Support::yes().with_contiguous(contiguous);
}

template <auto problem_of>
std::shared_ptr<LtState> prepare(const NoParams&, const Specs& specs) {
  std::string reason;
  auto state = make_state(problem_of(specs.in[0], specs.in[1]), specs, reason);
  check<Unsupported>(state != nullptr, "matmul: cublaslt: {}", reason);
  return state;
}

void run(const NoParams&, const LtState& state, const Call& call) {
  auto operation = state.operation;
  auto a_layout = state.a;
  auto b_layout = state.b;
  auto out_layout = state.out;
  if (call.in.size() > 2 && call.in[2].defined())
    set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, call.in[2].data);
  const DType dtype = call.out[0].dtype();
  const auto element = static_cast<int64_t>(size_of(dtype));
  const float one_f32 = 1;
  const float zero_f32 = 0;
  const double one_f64 = 1;
  const double zero_f64 = 0;
  const bool f64 = dtype == DType::f64;
  const void* one = f64 ? static_cast<const void*>(&one_f64) : &one_f32;
  const void* zero = f64 ? static_cast<const void*>(&zero_f64) : &zero_f32;

  // The library takes the innermost batch dimension; the others are calls of their own.
  const MatmulProblem& p = state.problem;
  const int64_t per_call = p.batch.empty() ? 1 : p.batch.back();
  for (int64_t index = 0; index < p.batches(); index += per_call) {
    void* out = call.out[0].as<std::byte>() + index * p.m * p.n * element;
    check_cublas(cublasLtMatmul(call.encoder->cublas_lt(), &operation, one,
                                call.in[1].as<std::byte>() + p.b_offset(index) * element, &b_layout,
                                call.in[0].as<std::byte>() + p.a_offset(index) * element, &a_layout,
                                zero, out, &out_layout, out, &out_layout, &state.algo,
                                call.workspace, state.workspace_bytes, call.encoder->stream()));
  }
}

}  // namespace

KernelList matmul_cuda_kernels() {
  return {kernel<supports<matmul_problem>, prepare<matmul_problem>, run>("cublaslt"),
          matmul_tiled_kernel()};
}

KernelList linear_cuda_kernels() {
  return {kernel<supports<linear_problem>, prepare<linear_problem>, run>("cublaslt"),
          linear_tiled_kernel()};
}

}  // namespace mica
