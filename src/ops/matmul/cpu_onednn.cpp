#include <dnnl.h>

#include <algorithm>

#include "mica/core/check.h"
#include "mica/ops/matmul/cpu_gemm.h"
#include "mica/ops/matmul/problem.h"
#include "mica/runtime/cpu/parallel.h"

namespace mica {
namespace {

// How dnnl_sgemm is told of a (rows, cols) matrix.
struct BlasLayout {
  bool possible = false;
  char transposed = 'N';
  int64_t leading = 1;
};

BlasLayout blas_layout(int64_t rows, int64_t cols, int64_t row, int64_t col) {
  if ((cols <= 1 || col == 1) && (rows <= 1 || row >= std::max<int64_t>(cols, 1)))
    return {true, 'N', rows <= 1 ? std::max<int64_t>(cols, 1) : row};
  if ((rows <= 1 || row == 1) && (cols <= 1 || col >= std::max<int64_t>(rows, 1)))
    return {true, 'T', cols <= 1 ? std::max<int64_t>(rows, 1) : col};
  return {};
}

struct State : KernelState {
  MatmulProblem problem;
  BlasLayout a;
  BlasLayout b;
};

State describe(const MatmulProblem& p) {
  State state;
  state.problem = p;
  state.a = blas_layout(p.m, p.k, p.a_row, p.a_col);
  state.b = blas_layout(p.k, p.n, p.b_row, p.b_col);
  return state;
}

Support supports_problem(const MatmulProblem& p, const Specs& specs) {
  if (specs.out[0].dtype != DType::f32) return Support::no("dnnl_sgemm computes f32 only");
  const State state = describe(p);
  return Support::yes().with_contiguous((state.a.possible ? 0U : 1U) |
                                        (state.b.possible ? 0U : 2U));
}

void multiply(const State& state, const Call& call, const float* bias, int64_t bias_stride) {
  const MatmulProblem& p = state.problem;
  float* out = call.out[0].as<float>();
  if (call.out[0].numel() == 0) return;
  if (bias || p.k == 0) {
    parallel_for(p.batches() * p.m, std::max<int64_t>(1, (1 << 15) / p.n),
                 [&](int64_t begin, int64_t end) {
                   fill_rows(out + begin * p.n, end - begin, p.n, p.n, bias, bias_stride);
                 });
  }
  if (p.k == 0) return;
  const auto one = [&](int64_t batch) {
    const dnnl_status_t status =
        dnnl_sgemm(state.a.transposed, state.b.transposed, p.m, p.n, p.k, 1.0F,
                   call.in[0].as<float>() + p.a_offset(batch), state.a.leading,
                   call.in[1].as<float>() + p.b_offset(batch), state.b.leading, bias ? 1.0F : 0.0F,
                   out + batch * p.m * p.n, p.n);
    check(status == dnnl_success, "matmul: dnnl_sgemm failed with status {}",
          static_cast<int>(status));
  };
  if (p.batches() == 1) return one(0);  // uses all threads itself
  parallel_for(p.batches(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t batch = begin; batch < end; ++batch) one(batch);
  });
}

Support supports_matmul(const NoParams&, const Specs& specs) {
  return supports_problem(matmul_problem(specs.in[0], specs.in[1]), specs);
}

std::shared_ptr<State> prepare_matmul(const NoParams&, const Specs& specs) {
  return std::make_shared<State>(describe(matmul_problem(specs.in[0], specs.in[1])));
}

void run_matmul(const NoParams&, const State& state, const Call& call) {
  multiply(state, call, nullptr, 0);
}

Support supports_linear(const NoParams&, const Specs& specs) {
  return supports_problem(linear_problem(specs.in[0], specs.in[1]), specs);
}

std::shared_ptr<State> prepare_linear(const NoParams&, const Specs& specs) {
  return std::make_shared<State>(describe(linear_problem(specs.in[0], specs.in[1])));
}

void run_linear(const NoParams&, const State& state, const Call& call) {
  const Arg& bias = call.in[2];
  multiply(state, call, bias.as<float>(), bias.defined() ? bias.strides()[0] : 0);
}

}  // namespace

Kernel matmul_onednn_kernel() {
  return kernel<supports_matmul, prepare_matmul, run_matmul>("onednn");
}
Kernel linear_onednn_kernel() {
  return kernel<supports_linear, prepare_linear, run_linear>("onednn");
}

}  // namespace mica
