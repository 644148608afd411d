// Products by cuBLASLt. The library is column-major, and a row-major matrix is its transpose in
// column-major order: out (M, N) = a (M, K) b (K, N) is computed as outᵀ (N, M) = bᵀ (N, K) aᵀ (K,
// M).
#include "mica/ops/matmul/cuda_lt.h"

#include <optional>
#include <vector>

#include "mica/core/check.h"
#include "mica/op/settings.h"
#include "mica/runtime/cuda/check.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/runtime.h"

namespace mica {
namespace {

constexpr uint64_t kWorkspaceLimit = uint64_t{32} << 20;
constexpr size_t kMostAnswers = 16;

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

void* fake_pointer(uint32_t alignment) { return reinterpret_cast<void*>(uintptr_t{alignment}); }

cublasLtHandle_t handle_of(const LtProduct& product) {
  return runtime(DeviceKind::cuda).encoder(product.out.device.index)->cublas_lt();
}

/// The product in the library's words, without an algorithm.
LtState describe(const LtProduct& product) {
  const DType dtype = product.out.dtype;
  LtState state;
  state.problem = product.problem;
  state.dtype = dtype;
  MatmulProblem& p = state.problem;
  const auto a = layout_of(p.m, p.k, p.a_row, p.a_col);
  const auto b = layout_of(p.k, p.n, p.b_row, p.b_col);
  check(a && b, "cublaslt: operands without a unit stride: {}, {}", to_string(product.a),
        to_string(product.b));
  join_batch(p);
  const int64_t a_batch = p.batch.empty() ? 0 : p.a_batch.back();
  const int64_t b_batch = p.batch.empty() ? 0 : p.b_batch.back();
  state.a = a->row_major ? describe(dtype, p.k, p.m, a->leading, p.batch, a_batch)
                         : describe(dtype, p.m, p.k, a->leading, p.batch, a_batch);
  state.b = b->row_major ? describe(dtype, p.n, p.k, b->leading, p.batch, b_batch)
                         : describe(dtype, p.k, p.n, b->leading, p.batch, b_batch);
  state.out = describe(dtype, p.n, p.m, p.n, p.batch, p.m * p.n);

  auto& operation = state.operation;
  check_cublas(cublasLtMatmulDescInit(&operation, compute_type(dtype),
                                      dtype == DType::f64 ? CUDA_R_64F : CUDA_R_32F));
  set(operation, CUBLASLT_MATMUL_DESC_TRANSA, b->row_major ? CUBLAS_OP_N : CUBLAS_OP_T);
  set(operation, CUBLASLT_MATMUL_DESC_TRANSB, a->row_major ? CUBLAS_OP_N : CUBLAS_OP_T);
  set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, product.epilogue);
  // The heuristic takes the alignment from the pointer's value.
  if (product.vector.defined)
    set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
        fake_pointer(alignment_of(product.vector, {})));
  if (product.beside.defined) {
    check(p.batch.empty(), "cublaslt: an epilogue with another matrix is for one product");
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
        fake_pointer(alignment_of(product.beside, {})));
    set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.n);
  }
  return state;
}

std::string to_hex(const cublasLtMatmulAlgo_t& algo) {
  std::string text;
  for (const uint64_t word : algo.data) text += fmt::format("{:016x}", word);
  return text;
}

/// The library's first answers, `most` of them.
std::vector<LtAnswer> first_answers(const LtProduct& product, size_t most) {
  LtState state = describe(product);
  const MatmulProblem& p = state.problem;
  cublasLtMatmulPreferenceOpaque_t preference{};
  check_cublas(cublasLtMatmulPreferenceInit(&preference));
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceLimit);
  // Partial sums meet in the compute type: exact enough for f16, and in the same order each time.
  // Where K is split, partial sums are added in the type of the sums; in that of the output where
  // it is as good, or need not be. Then blocks add as they come.
  const bool in_output = !deterministic() && (product.out.dtype == DType::f32 || allow_tf32());
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      uint32_t{in_output ? CUBLASLT_REDUCTION_SCHEME_MASK
                         : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(product.b, p.b_batch));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(product.a, p.a_batch));
  const uint32_t out_alignment =
      alignment_of(product.out, p.batch.empty() ? Dims{} : Dims{p.m * p.n});
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
      product.added.defined ? alignment_of(product.added, {}) : out_alignment);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, out_alignment);

  std::vector<cublasLtMatmulHeuristicResult_t> results(most);
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle_of(product), &state.operation, &state.b, &state.a, &state.out, &state.out, &preference,
      static_cast<int>(most), results.data(), &found);
  std::vector<LtAnswer> answers;
  for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < found; ++i) {
    const auto& result = results[static_cast<size_t>(i)];
    if (result.state != CUBLAS_STATUS_SUCCESS) continue;
    state.algo = result.algo;
    state.workspace_bytes = result.workspaceSize;
    answers.push_back({to_hex(state.algo), std::make_shared<LtState>(state)});
  }
  return answers;
}

/// The state of an answer by its name; null where the library does not take it.
std::shared_ptr<LtState> recall(const LtProduct& product, const std::string& answer) {
  auto state = std::make_shared<LtState>(describe(product));
  constexpr size_t kDigits = 16;
  if (answer.size() != kDigits * std::size(state->algo.data) ||
      answer.find_first_not_of("0123456789abcdef") != std::string::npos)
    return nullptr;
  for (size_t i = 0; i < std::size(state->algo.data); ++i)
    state->algo.data[i] = std::stoull(answer.substr(i * kDigits, kDigits), nullptr, 16);
  cublasLtMatmulHeuristicResult_t result{};
  if (cublasLtMatmulAlgoCheck(handle_of(product), &state->operation, &state->b, &state->a,
                              &state->out, &state->out, &state->algo,
                              &result) != CUBLAS_STATUS_SUCCESS ||
      result.workspaceSize > kWorkspaceLimit)
    return nullptr;
  state->workspace_bytes = result.workspaceSize;
  return state;
}

}  // namespace

uint32_t LtProduct::without_unit_stride(const MatmulProblem& p) {
  return (layout_of(p.m, p.k, p.a_row, p.a_col) ? 0U : 1U) |
         (layout_of(p.k, p.n, p.b_row, p.b_col) ? 0U : 2U);
}

std::vector<LtAnswer> find_lt_answers(const LtProduct& product, const CandidateRequest& request) {
  if (request.only.empty()) return first_answers(product, request.count(kMostAnswers));
  auto state = recall(product, request.only);
  if (!state) return {};
  return {{request.only, std::move(state)}};
}

void run_lt(const LtState& state, Encoder& encoder, const void* a, const void* b, void* vector,
            void* out, void* workspace, void* beside, const void* added) {
  auto operation = state.operation;
  auto a_layout = state.a;
  auto b_layout = state.b;
  auto out_layout = state.out;
  if (vector) set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector);
  if (beside) set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, beside);
  const auto element = static_cast<int64_t>(size_of(state.dtype));
  const float one_f32 = 1;
  const float zero_f32 = 0;
  const double one_f64 = 1;
  const double zero_f64 = 0;
  const bool f64 = state.dtype == DType::f64;
  const void* one = f64 ? static_cast<const void*>(&one_f64) : &one_f32;
  const void* zero = f64 ? static_cast<const void*>(&zero_f64) : &zero_f32;

  // The library takes the innermost batch dimension; the others are calls of their own.
  const MatmulProblem& p = state.problem;
  const int64_t per_call = p.batch.empty() ? 1 : p.batch.back();
  for (int64_t index = 0; index < p.batches(); index += per_call) {
    const int64_t place = index * p.m * p.n * element;
    std::byte* to = static_cast<std::byte*>(out) + place;
    const std::byte* from = added ? static_cast<const std::byte*>(added) + place : to;
    check_cublas(cublasLtMatmul(encoder.cublas_lt(), &operation, one,
                                static_cast<const std::byte*>(b) + p.b_offset(index) * element,
                                &b_layout,
                                static_cast<const std::byte*>(a) + p.a_offset(index) * element,
                                &a_layout, added ? one : zero, from, &out_layout, to, &out_layout,
                                &state.algo, workspace, state.workspace_bytes, encoder.stream()));
  }
}

}  // namespace mica
