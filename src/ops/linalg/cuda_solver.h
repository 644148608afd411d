#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "mica/core/dtype.h"

// cuSOLVER and cuBLAS, opened when a matrix on CUDA is first given to them. Their functions stand
// here by their C signatures, so that who builds mica need not have their headers.
namespace mica::linalg {

using SolverHandle = void*;
using BlasHandle = void*;

enum class Fill : int { lower = 0, upper = 1 };
enum class Transposed : int { no = 0, plain = 1, conjugate = 2 };
enum class Side : int { left = 0, right = 1 };

/// One of each dtype: float, double, complex numbers of them.
template <class F>
using OfEachDType = std::array<F, 4>;

struct Solver {
  using Params = void*;
  using Type = int;  ///< cudaDataType
  using Bytes = size_t*;

  int (*create)(SolverHandle*);
  int (*set_stream)(SolverHandle, cudaStream_t);
  int (*create_params)(Params*);
  int (*potrf_size)(SolverHandle, Params, Fill, int64_t n, Type, const void* a, int64_t lda, Type,
                    Bytes device, Bytes host);
  int (*potrf)(SolverHandle, Params, Fill, int64_t n, Type, void* a, int64_t lda, Type, void*,
               size_t, void*, size_t, int* info);
  int (*getrf_size)(SolverHandle, Params, int64_t m, int64_t n, Type, const void* a, int64_t lda,
                    Type, Bytes, Bytes);
  int (*getrf)(SolverHandle, Params, int64_t m, int64_t n, Type, void* a, int64_t lda,
               int64_t* pivots, Type, void*, size_t, void*, size_t, int* info);
  int (*getrs)(SolverHandle, Params, Transposed, int64_t n, int64_t sides, Type, const void* a,
               int64_t lda, const int64_t* pivots, Type, void* b, int64_t ldb, int* info);
  int (*geqrf_size)(SolverHandle, Params, int64_t m, int64_t n, Type, const void* a, int64_t lda,
                    Type, const void* tau, Type, Bytes, Bytes);
  int (*geqrf)(SolverHandle, Params, int64_t m, int64_t n, Type, void* a, int64_t lda, Type,
               void* tau, Type, void*, size_t, void*, size_t, int* info);
  int (*gesvd_size)(SolverHandle, Params, signed char, signed char, int64_t m, int64_t n, Type,
                    const void* a, int64_t lda, Type, const void* s, Type, const void* u,
                    int64_t ldu, Type, const void* vt, int64_t ldvt, Type, Bytes, Bytes);
  int (*gesvd)(SolverHandle, Params, signed char, signed char, int64_t m, int64_t n, Type, void* a,
               int64_t lda, Type, void* s, Type, void* u, int64_t ldu, Type, void* vt, int64_t ldvt,
               Type, void*, size_t, void*, size_t, int* info);
  int (*syevd_size)(SolverHandle, Params, int vectors, Fill, int64_t n, Type, const void* a,
                    int64_t lda, Type, const void* w, Type, Bytes, Bytes);
  int (*syevd)(SolverHandle, Params, int vectors, Fill, int64_t n, Type, void* a, int64_t lda, Type,
               void* w, Type, void*, size_t, void*, size_t, int* info);
  // Of CUDA 12.8 and later: null where it is not there.
  int (*geev_size)(SolverHandle, Params, int left, int right, int64_t n, Type, const void* a,
                   int64_t lda, Type, const void* w, Type, const void* vl, int64_t ldvl, Type,
                   const void* vr, int64_t ldvr, Type, Bytes, Bytes);
  int (*geev)(SolverHandle, Params, int left, int right, int64_t n, Type, void* a, int64_t lda,
              Type, void* w, Type, void* vl, int64_t ldvl, Type, void* vr, int64_t ldvr, Type,
              void*, size_t, void*, size_t, int* info);
  OfEachDType<int (*)(SolverHandle, int m, int n, int k, const void* a, int lda, const void* tau,
                      int* size)>
      orgqr_size;
  OfEachDType<int (*)(SolverHandle, int m, int n, int k, void* a, int lda, const void* tau,
                      void* work, int size, int* info)>
      orgqr;

  int (*create_blas)(BlasHandle*);
  int (*set_blas_stream)(BlasHandle, cudaStream_t);
  OfEachDType<int (*)(BlasHandle, Side, Fill, Transposed, int unit, int m, int n, const void* alpha,
                      const void* a, int lda, void* b, int ldb)>
      trsm;

  std::string missing;  ///< why they cannot be used

  static const Solver& get();
};

/// The place of a dtype in OfEachDType, and what the libraries call it.
size_t number_of(DType t);
int type_of(DType t);
inline int real_type_of(DType t) { return type_of(real_dtype(t)); }

/// Raises DeviceError.
void check_solver(int status, const char* call);

/// The handles that work on one stream, for one thread: others wait while this lives. None are made
/// while a graph is recorded: those of the null stream, which `prepare` asked for, serve then.
struct SolverSession {
  explicit SolverSession(cudaStream_t stream, bool recording = false);

  SolverHandle solver;
  Solver::Params params;
  BlasHandle blas;
  /// Memory of the host that a call asked for.
  void* host(size_t bytes);

 private:
  struct Handles;
  static Handles& handles_of(cudaStream_t stream);
  Handles& handles_;
  std::unique_lock<std::mutex> alone_;
};

}  // namespace mica::linalg
