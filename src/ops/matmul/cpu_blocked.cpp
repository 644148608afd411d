#include <algorithm>

#include "mica/core/dtype_switch.h"
#include "mica/op/settings.h"
#include "mica/ops/matmul/cpu_gemm.h"
#include "mica/ops/matmul/problem.h"
#include "mica/runtime/cpu/parallel.h"

namespace mica {
namespace {

// Work is cut into batches times ranges of rows or, where the result is wider than high, of
// columns.
struct State : KernelState {
  MatmulProblem problem;
  int64_t threads = 1;
  int64_t ranges = 1;  ///< per batch
  bool by_rows = true;
  size_t scratch = 0;  ///< elements per thread
};

constexpr int64_t kFlopsPerThread = 1 << 18;  // below this a second thread costs more than it gives
constexpr int64_t kUnit = 48;  // ranges are whole tiles: lcm of 6 rows and 16 columns

template <class F>
decltype(auto) switch_dtype(DType dtype, F&& f) {
  if (dtype == DType::f64) return f.template operator()<double>();
  return f.template operator()<float>();
}

Support supports(const NoParams&, const Specs& specs) {
  const DType dtype = specs.out[0].dtype;
  if (dtype != DType::f32 && dtype != DType::f64) return Support::no("computes f32 and f64 only");
  return Support::yes();
}

std::shared_ptr<State> prepare_problem(const MatmulProblem& p, DType dtype) {
  auto state = std::make_shared<State>();
  state->problem = p;
  const int64_t work = 2 * p.batches() * p.m * p.n * p.k / kFlopsPerThread;
  state->threads = std::clamp<int64_t>(work, 1, num_threads());
  state->by_rows = p.m >= p.n;
  const int64_t units = (std::max(p.m, p.n) + kUnit - 1) / kUnit;
  const int64_t wanted = state->threads / std::max<int64_t>(p.batches(), 1);
  state->ranges = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(units, 1));
  switch_dtype(dtype, [&]<class T>() {
    // A whole number of cache lines, so that threads share none.
    state->scratch = (gemm_scratch<T>(p.m, p.n, p.k) * sizeof(T) + 63) / 64 * 64 / sizeof(T);
    state->workspace_bytes = static_cast<size_t>(state->threads) * state->scratch * sizeof(T);
  });
  return state;
}

template <class T>
void multiply(const State& state, const Call& call, const T* bias, int64_t bias_stride) {
  const MatmulProblem& p = state.problem;
  const int64_t tasks = p.batches() * state.ranges;
  const int64_t length = state.by_rows ? p.m : p.n;
  const int64_t units = (length + kUnit - 1) / kUnit;
  const auto bound = [&](int64_t range) {
    return std::min(length, units * range / state.ranges * kUnit);
  };
  parallel_for(state.threads, 1, [&](int64_t first, int64_t last) {
    T* scratch = static_cast<T*>(call.workspace) + first * static_cast<int64_t>(state.scratch);
    for (int64_t t = tasks * first / state.threads; t < tasks * last / state.threads; ++t) {
      const int64_t batch = t / state.ranges;
      const int64_t begin = bound(t % state.ranges);
      const int64_t end = bound(t % state.ranges + 1);
      const int64_t row = state.by_rows ? begin : 0;
      const int64_t rows = state.by_rows ? end - begin : p.m;
      const int64_t col = state.by_rows ? 0 : begin;
      const int64_t cols = state.by_rows ? p.n : end - begin;
      const T* a = call.in[0].as<T>() + p.a_offset(batch) + row * p.a_row;
      const T* b = call.in[1].as<T>() + p.b_offset(batch) + col * p.b_col;
      T* c = call.out[0].as<T>() + (batch * p.m + row) * p.n + col;
      if (bias) fill_rows(c, rows, p.n, cols, bias + col * bias_stride, bias_stride);
      gemm<T>(rows, cols, p.k, {a, p.a_row, p.a_col}, {b, p.b_row, p.b_col}, c, p.n,
              bias != nullptr, scratch);
    }
  });
}

std::shared_ptr<State> prepare_matmul(const NoParams&, const Specs& specs) {
  return prepare_problem(matmul_problem(specs.in[0], specs.in[1]), specs.out[0].dtype);
}

void run_matmul(const NoParams&, const State& state, const Call& call) {
  switch_dtype(call.out[0].dtype(), [&]<class T>() { multiply<T>(state, call, nullptr, 0); });
}

std::shared_ptr<State> prepare_linear(const NoParams&, const Specs& specs) {
  return prepare_problem(linear_problem(specs.in[0], specs.in[1]), specs.out[0].dtype);
}

void run_linear(const NoParams&, const State& state, const Call& call) {
  const Arg& bias = call.in[2];
  switch_dtype(call.out[0].dtype(), [&]<class T>() {
    multiply<T>(state, call, bias.as<T>(), bias.defined() ? bias.strides()[0] : 0);
  });
}

}  // namespace

Kernel matmul_blocked_kernel() { return kernel<supports, prepare_matmul, run_matmul>("blocked"); }
Kernel linear_blocked_kernel() { return kernel<supports, prepare_linear, run_linear>("blocked"); }

}  // namespace mica
