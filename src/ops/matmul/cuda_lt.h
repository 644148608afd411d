#pragma once

#include <cublasLt.h>

#include "mica/op/choices.h"
#include "mica/ops/matmul/problem.h"

namespace mica {

/// A product of cuBLASLt: out (…, M, N) = a (…, M, K) b (…, K, N), row-major, and what is done to
/// it on the way out.
struct LtProduct {
  MatmulProblem problem;
  TensorSpec a, b, out;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  TensorSpec vector = {};  ///< dense: the bias that the epilogue adds, or the sum that it writes
  /// Dense, of the result's shape: what the epilogue writes before an activation, or reads for the
  /// gradient of one. For a single matrix.
  TensorSpec beside = {};
  TensorSpec added = {};  ///< dense, of the result's shape: added to the product before all else

  /// The inputs of `problem` that do not have a unit stride in their rows or columns: bit 0 is a,
  /// bit 1 is b.
  static uint32_t without_unit_stride(const MatmulProblem& p);
};

struct LtState : KernelState {
  // Plain data of the library, copied for each run because the vector's pointer is part of the
  // operation.
  cublasLtMatmulDescOpaque_t operation{};
  cublasLtMatrixLayoutOpaque_t a{};
  cublasLtMatrixLayoutOpaque_t b{};
  cublasLtMatrixLayoutOpaque_t out{};
  cublasLtMatmulAlgo_t algo{};
  MatmulProblem problem;
  DType dtype = DType::f32;
};

/// One of the library's algorithms for a product, best first by its own estimate.
struct LtAnswer {
  std::string name;  ///< the algorithm's bits
  std::shared_ptr<LtState> state;
};
/// Asks the library how to compute a product: `request.most` ways (up to 16), or the one of a name.
/// Empty where there is none.
std::vector<LtAnswer> find_lt_answers(const LtProduct& product, const CandidateRequest& request);

/// `vector` and `beside` are null for an epilogue without them. `added`, where it is not null, is
/// dense, of the result's shape, and added to the product before the epilogue.
void run_lt(const LtState& state, Encoder& encoder, const void* a, const void* b, void* vector,
            void* out, void* workspace, void* beside = nullptr, const void* added = nullptr);

}  // namespace mica
