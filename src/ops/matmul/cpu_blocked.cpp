#include <algorithm>
#include <optional>

#include "mica/core/dtype_switch.h"
#include "mica/op/settings.h"
#include "mica/ops/anchored/program_pass.h"
#include "mica/ops/matmul/cpu_activation.h"
#include "mica/ops/matmul/cpu_gemm.h"
#include "mica/ops/matmul/problem.h"
#include "mica/runtime/cpu/convert.h"
#include "mica/runtime/cpu/parallel.h"

namespace mica {

const OpDef& matmul_op();
const OpDef& linear_op();

namespace {

// Work is cut into batches times ranges of rows or, where the result is wider than high, of
// columns.
struct State : KernelState {
  MatmulProblem problem;
  int64_t threads = 1;
  int64_t ranges = 1;  ///< per batch
  bool by_rows = true;
  size_t scratch = 0;  ///< elements per thread
  size_t result = 0;   ///< the same: a range of an f16 or bf16 result, before it is rounded
};

constexpr int64_t kFlopsPerThread = 1 << 18;  // below this a second thread costs more than it gives
constexpr int64_t kUnit = 48;  // ranges are whole tiles: lcm of 6 rows and 16 columns

// A whole number of cache lines, so that threads share none.
size_t padded(size_t elements) { return (elements + 15) / 16 * 16; }

std::shared_ptr<State> prepare_problem(const MatmulProblem& p, DType dtype) {
  auto state = std::make_shared<State>();
  state->problem = p;
  const int64_t work = 2 * p.batches() * p.m * p.n * p.k / kFlopsPerThread;
  state->threads = std::clamp<int64_t>(work, 1, num_threads());
  state->by_rows = p.m >= p.n;
  const int64_t units = (std::max(p.m, p.n) + kUnit - 1) / kUnit;
  const int64_t wanted = state->threads / std::max<int64_t>(p.batches(), 1);
  state->ranges = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(units, 1));
  const bool wide = dtype == DType::f64;
  state->scratch =
      padded(wide ? gemm_scratch<double>(p.m, p.n, p.k) : gemm_scratch<float>(p.m, p.n, p.k));
  if (size_of(dtype) == 2) {
    const int64_t most = (units / state->ranges + 1) * kUnit;
    state->result = padded(static_cast<size_t>(most * std::min(p.m, p.n)));
  }
  state->workspace_bytes = static_cast<size_t>(state->threads) * (state->scratch + state->result) *
                           (wide ? sizeof(double) : sizeof(float));
  return state;
}

template <class T>
struct Bias {
  const T* data = nullptr;
  int64_t stride = 0;

  explicit Bias(const Arg& arg) : data(arg.as<T>()), stride(arg.defined() ? arg.strides()[0] : 0) {}
  Bias() = default;
};

// Rows of c, activated and brought into the result's type.
template <class C, class T>
void finish(C* c, int64_t ldc, int64_t rows, int64_t cols, Activation activation, T* to,
            int64_t ldt) {
  for (int64_t i = 0; i < rows; ++i, c += ldc, to += ldt) {
    activate(activation, c, cols);
    if constexpr (!std::is_same_v<C, T>) store_run(c, cols, to, 1);
  }
}

template <class T>
void multiply(const State& state, const Call& call, Bias<T> bias, Activation activation) {
  using C = Compute<T>;
  constexpr bool kWiden = !std::is_same_v<C, T>;
  const MatmulProblem& p = state.problem;
  const int64_t tasks = p.batches() * state.ranges;
  const int64_t length = state.by_rows ? p.m : p.n;
  const int64_t units = (length + kUnit - 1) / kUnit;
  const auto bound = [&](int64_t range) {
    return std::min(length, units * range / state.ranges * kUnit);
  };
  parallel_for(state.threads, 1, [&](int64_t first, int64_t last) {
    C* scratch = static_cast<C*>(call.workspace) +
                 first * static_cast<int64_t>(state.scratch + state.result);
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
      T* out = call.out[0].as<T>() + (batch * p.m + row) * p.n + col;
      C* c;
      if constexpr (kWiden) {
        c = scratch + state.scratch;
      } else {
        c = out;
      }
      const int64_t ldc = kWiden ? cols : p.n;
      if (bias.data) fill_rows(c, rows, ldc, cols, bias.data + col * bias.stride, bias.stride);
      gemm<C, T>(rows, cols, p.k, {a, p.a_row, p.a_col}, {b, p.b_row, p.b_col}, c, ldc,
                 bias.data != nullptr, scratch);
      if (kWiden || activation != Activation::none)
        finish(c, ldc, rows, cols, activation, out, p.n);
    }
  });
}

std::shared_ptr<State> prepare_matmul(const NoParams&, const Specs& specs) {
  return prepare_problem(matmul_problem(specs.in[0], specs.in[1]), specs.out[0].dtype);
}

void run_matmul(const NoParams&, const State& state, const Call& call) {
  switch_float(call.out[0].dtype(), "matmul",
               [&]<class T>() { multiply<T>(state, call, {}, Activation::none); });
}

std::shared_ptr<State> prepare_linear(const NoParams&, const Specs& specs) {
  return prepare_problem(linear_problem(specs.in[0], specs.in[1]), specs.out[0].dtype);
}

void run_linear(const NoParams&, const State& state, const Call& call) {
  switch_float(call.out[0].dtype(), "linear",
               [&]<class T>() { multiply<T>(state, call, Bias<T>(call.in[2]), Activation::none); });
}

// With a program: an activation that is known goes with the product, others over its result.

struct CarryingState : State {
  explicit CarryingState(const State& state) : State(state) {}
  bool biased = false;
  Activation activation = Activation::none;
  std::optional<ProgramPass> pass;
};

const OpDef* anchor_of(const AnchoredParams& params) {
  const Anchored& a = *params.call;
  const bool mine = a.op == &linear_op() || a.op == &matmul_op();
  return mine && a.after.program && !a.before.program ? a.op : nullptr;
}

Support supports_carrying(const AnchoredParams& params, const Specs&) {
  return anchor_of(params) ? Support::yes() : Support::no("it carries programs after products");
}

std::shared_ptr<CarryingState> prepare_carrying(const AnchoredParams& params, const Specs& s) {
  const bool layer = anchor_of(params) == &linear_op();
  const TensorSpec& result = s.out[result_place(*params.call)];
  auto state = std::make_shared<CarryingState>(*prepare_problem(
      layer ? linear_problem(s.in[0], s.in[1]) : matmul_problem(s.in[0], s.in[1]), s.in[0].dtype));
  state->biased = layer && s.in[2].defined;
  const auto known = known_after(params, *params.call->op);
  const bool joins = known && known->added < 0 && known->saved < 0 && !params.call->keeps_result &&
                     can_activate(known->activation) && result.dtype == s.in[0].dtype;
  if (joins) {
    state->activation = known->activation;
  } else {
    state->pass.emplace(params, s);
  }
  return state;
}

void run_carrying(const AnchoredParams& params, const CarryingState& state, const Call& call) {
  const Arg& result = call.out[result_place(*params.call)];
  switch_float(call.in[0].dtype(), "linear", [&]<class T>() {
    multiply<T>(state, {call.in, {&result, 1}, call.workspace},
                state.biased ? Bias<T>(call.in[2]) : Bias<T>(), state.activation);
  });
  if (state.pass) state.pass->run(params, call);
}

}  // namespace

Kernel matmul_blocked_kernel() {
  return kernel<supports_all<NoParams>, prepare_matmul, run_matmul>("blocked");
}
Kernel linear_blocked_kernel() {
  return kernel<supports_all<NoParams>, prepare_linear, run_linear>("blocked");
}
KernelList matmul_carrying_kernels() {
  return {kernel<supports_carrying, prepare_carrying, run_carrying>("product_blocked")};
}

}  // namespace mica
