#include "mica/ops/linalg/cuda_solver.h"

#include <dlfcn.h>

#include <map>
#include <memory>

#include "mica/core/check.h"

namespace mica::linalg {
namespace {

struct Library {
  void* handle = nullptr;
  std::string& missing;

  Library(std::initializer_list<const char*> names, const char* called, std::string& reason)
      : missing(reason) {
    for (const char* name : names)
      if (!handle) handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!handle && missing.empty())
      missing = fmt::format("{} was not found: {} is not where libraries are looked for", called,
                            *names.begin());
  }
  template <class F>
  void find(F& f, const std::string& name, bool needed = true) const {
    f = handle ? reinterpret_cast<F>(dlsym(handle, name.c_str())) : nullptr;
    if (!f && needed && missing.empty()) missing = fmt::format("there is no {}", name);
  }
  template <class F>
  void find_each(OfEachDType<F>& all, const char* prefix, std::array<const char*, 4> names) const {
    for (size_t i = 0; i < all.size(); ++i) find(all[i], std::string(prefix) + names[i]);
  }
};

Solver open_solver() {
  Solver s{};
  const Library solver({"libcusolver.so.12", "libcusolver.so.11"}, "cuSOLVER", s.missing);
  const auto both = [&](auto& size, auto& call, const std::string& name, bool needed = true) {
    solver.find(size, "cusolverDnX" + name + "_bufferSize", needed);
    solver.find(call, "cusolverDnX" + name, needed);
  };
  solver.find(s.create, "cusolverDnCreate");
  solver.find(s.set_stream, "cusolverDnSetStream");
  solver.find(s.create_params, "cusolverDnCreateParams");
  both(s.potrf_size, s.potrf, "potrf");
  both(s.getrf_size, s.getrf, "getrf");
  solver.find(s.getrs, "cusolverDnXgetrs");
  both(s.geqrf_size, s.geqrf, "geqrf");
  both(s.gesvd_size, s.gesvd, "gesvd");
  both(s.syevd_size, s.syevd, "syevd");
  both(s.geev_size, s.geev, "geev", false);
  solver.find_each(
      s.orgqr_size, "cusolverDn",
      {"Sorgqr_bufferSize", "Dorgqr_bufferSize", "Cungqr_bufferSize", "Zungqr_bufferSize"});
  solver.find_each(s.orgqr, "cusolverDn", {"Sorgqr", "Dorgqr", "Cungqr", "Zungqr"});

  const Library blas({"libcublas.so.13", "libcublas.so.12"}, "cuBLAS", s.missing);
  blas.find(s.create_blas, "cublasCreate_v2");
  blas.find(s.set_blas_stream, "cublasSetStream_v2");
  blas.find_each(s.trsm, "cublas", {"Strsm_v2", "Dtrsm_v2", "Ctrsm_v2", "Ztrsm_v2"});
  return s;
}

}  // namespace

const Solver& Solver::get() {
  static const auto* const library = new Solver(open_solver());
  return *library;
}

size_t number_of(DType t) {
  return (real_dtype(t) == DType::f64 ? 1 : 0) + (is_complex(t) ? 2 : 0);
}
int type_of(DType t) {
  constexpr std::array<int, 4> kTypes = {0, 1, 4, 5};  // CUDA_R_32F, CUDA_R_64F, CUDA_C_32F, …
  return kTypes[number_of(t)];
}

void check_solver(int status, const char* call) {
  check<DeviceError>(status == 0, "{} failed with status {}", call, status);
}

/// They last as long as the process, as streams do.
struct SolverSession::Handles {
  std::mutex mutex;
  SolverHandle solver = nullptr;
  Solver::Params params = nullptr;
  BlasHandle blas = nullptr;
  std::vector<std::byte> host;
};

SolverSession::Handles& SolverSession::handles_of(cudaStream_t stream) {
  static auto& mutex = *new std::mutex;
  static auto& all = *new std::map<cudaStream_t, std::unique_ptr<Handles>>;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Handles>& own = all[stream];
  if (own) return *own;
  const Solver& s = Solver::get();
  auto made = std::make_unique<Handles>();
  check_solver(s.create(&made->solver), "cusolverDnCreate");
  check_solver(s.set_stream(made->solver, stream), "cusolverDnSetStream");
  check_solver(s.create_params(&made->params), "cusolverDnCreateParams");
  check_solver(s.create_blas(&made->blas), "cublasCreate");
  check_solver(s.set_blas_stream(made->blas, stream), "cublasSetStream");
  own = std::move(made);
  return *own;
}

SolverSession::SolverSession(cudaStream_t stream, bool recording)
    : handles_(handles_of(recording ? nullptr : stream)), alone_(handles_.mutex) {
  solver = handles_.solver;
  params = handles_.params;
  blas = handles_.blas;
  if (!recording) return;
  check_solver(Solver::get().set_stream(solver, stream), "cusolverDnSetStream");
  check_solver(Solver::get().set_blas_stream(blas, stream), "cublasSetStream");
}

void* SolverSession::host(size_t bytes) {
  if (handles_.host.size() < bytes) handles_.host.resize(bytes);
  return handles_.host.data();
}

}  // namespace mica::linalg
