#pragma once

#include <cublasLt.h>

#include "mica/op/kernel.h"
#include "mica/ops/matmul/problem.h"

namespace mica {

/// A product of cuBLASLt: out (…, M, N) = a (…, M, K) b (…, K, N), row-major, and what is done to
/// it on the way out.
struct LtProduct {
  MatmulProblem problem;
  TensorSpec a, b, out;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  TensorSpec vector = {};  ///< dense: the bias that the epilogue adds, or the sum that it writes

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

/// Asks the library how to compute a product; null, with `reason` set, when it cannot.
std::shared_ptr<LtState> find_lt_state(const LtProduct& product, std::string& reason);
/// The same with the fastest of its answers where the settings ask for timing.
std::shared_ptr<LtState> prepare_lt_state(const LtProduct& product, std::string& reason);

/// `vector` is null for an epilogue without one.
void run_lt(const LtState& state, Encoder& encoder, const void* a, const void* b, void* vector,
            void* out, void* workspace);

}  // namespace mica
