#include <algorithm>
#include <dnnl.hpp>
#include <optional>
#include <string_view>

#include "mica/core/check.h"
#include "mica/op/settings.h"
#include "mica/ops/anchored/cpu_onednn.h"
#include "mica/ops/anchored/program_pass.h"
#include "mica/ops/matmul/cpu_activation.h"
#include "mica/ops/matmul/cpu_gemm.h"
#include "mica/ops/matmul/problem.h"
#include "mica/runtime/cpu/callers.h"
#include "mica/runtime/cpu/onednn.h"
#include "mica/runtime/cpu/parallel.h"

// Two ways: dnnl_sgemm, and oneDNN's matmul primitive, which is faster where the right operand lies
// transposed (as a layer's weight does) and there are rows enough to pay for its preparation. The
// primitive adds the bias and computes a program as it goes. Products of bf16 are its own, where
// the processor has them.
namespace mica {

const OpDef& matmul_op();
const OpDef& linear_op();

namespace {

using dnnl::memory;
using onednn::engine;
using onednn::stream;

constexpr int64_t kPrimitiveRows = 16;  // from here dnnl_sgemm is up to 8 times slower
constexpr int64_t kElementsPerThread = 1 << 15;
// A product of less takes about as long as waking a thread does.
constexpr int64_t kFlopsForThreads = 1 << 20;
constexpr int64_t kFlopsOfVectorForThreads = 1 << 19;  // each element of the matrix is read once

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
  dnnl::matmul primitive;  ///< empty where dnnl_sgemm computes
  memory::desc a_desc, b_desc, bias_desc, out_desc, scratch_desc;
  int64_t side_by_side = 1;  ///< products of a batch in bf16, each by one thread
  size_t scratch_stride = 0;
  // Of a product that carries a program: in the primitive, or after dnnl_sgemm.
  onednn::PostOps post;
  Activation activation = Activation::none;
  std::optional<ProgramPass> pass;
};

/// How many threads a product is worth.
int threads_for(const MatmulProblem& p) {
  return 2 * p.m * p.n * p.k < kFlopsForThreads ? 1 : num_threads();
}

State describe(const MatmulProblem& p) {
  State state;
  state.problem = p;
  state.a = blas_layout(p.m, p.k, p.a_row, p.a_col);
  state.b = blas_layout(p.k, p.n, p.b_row, p.b_col);
  return state;
}

Support supports_problem(const MatmulProblem& p, const Specs& specs, bool biased) {
  const DType dtype = specs.in[0].dtype;
  if (dtype == DType::bf16) {
    if (!onednn::has_bf16_products()) return Support::no("this processor has no products of bf16");
    if (p.k == 0 || specs.out[0].numel() == 0) return Support::no("there is nothing to multiply");
  } else if (dtype != DType::f32) {
    return Support::no("computes f32 and bf16 only");
  }
  const State state = describe(p);
  const uint32_t copies =
      (state.a.possible ? 0U : 1U) | (state.b.possible ? 0U : 2U) | (biased ? 4U : 0U);
  // Below this, many small products cost their calls.
  const bool tiny = p.batches() > 1 && p.m * p.n * p.k <= 16 * 16 * 16;
  // A vector's product that is worth threads is `blocked`'s: the library's own threads do not wait
  // for one that has lost its core, which a step of 10 µs would notice.
  const bool vector = p.batches() == 1 && (p.m == 1 || p.n == 1) && dtype == DType::f32 &&
                      2 * p.m * p.n * p.k >= kFlopsOfVectorForThreads;
  return (tiny || vector ? Support::possible() : Support::yes()).with_contiguous(copies);
}

// Makes the primitive of bf16, of one product of a batch, and what `post` has after it.
void add_bf16_primitive(State& s, bool bias) {
  const MatmulProblem& p = s.problem;
  const auto matrix = [](int64_t rows, int64_t cols, const BlasLayout& layout) {
    return memory::desc({rows, cols}, memory::data_type::bf16,
                        layout.transposed == 'N' ? memory::dims{layout.leading, 1}
                                                 : memory::dims{1, layout.leading});
  };
  s.a_desc = matrix(p.m, p.k, s.a);
  s.b_desc = matrix(p.k, p.n, s.b);
  s.out_desc = matrix(p.m, p.n, {true, 'N', p.n});
  if (bias) s.bias_desc = matrix(1, p.n, {true, 'N', p.n});
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attr.set_post_ops(s.post.ops);
  s.side_by_side = std::min<int64_t>(num_threads(), p.batches());
  const ThreadLimit limit(p.batches() > 1 ? 1 : threads_for(p));
  try {
    const dnnl::matmul::primitive_desc desc({s.a_desc, s.b_desc, s.bias_desc, s.out_desc}, attr,
                                            engine());
    check<Unsupported>(std::string_view(desc.impl_info_str()).find("brg") != std::string_view::npos,
                       "matmul: oneDNN has no such product of bf16");
    s.primitive = dnnl::matmul(desc);
    s.scratch_desc = desc.scratchpad_desc();
  } catch (const dnnl::error& e) {
    fail<Unsupported>("matmul: oneDNN has no such product of bf16: {}", e.what());
  }
  s.scratch_stride = (s.scratch_desc.get_size() + 63) / 64 * 64;
  s.workspace_bytes = s.scratch_stride * static_cast<size_t>(s.side_by_side);
}

void run_bf16(const State& s, const Call& call, bool biased, BFloat16* result) {
  const MatmulProblem& p = s.problem;
  const auto at = [](const memory::desc& desc, void* data) { return memory(desc, engine(), data); };
  const auto some = [&](int64_t begin, int64_t end, std::byte* scratch) {
    const ThreadLimit limit(p.batches() > 1 ? 1 : threads_for(p));
    memory a = at(s.a_desc, nullptr);
    memory b = at(s.b_desc, nullptr);
    memory out = at(s.out_desc, nullptr);
    std::unordered_map<int, memory> args = {{DNNL_ARG_SRC, a},
                                            {DNNL_ARG_WEIGHTS, b},
                                            {DNNL_ARG_DST, out},
                                            {DNNL_ARG_SCRATCHPAD, at(s.scratch_desc, scratch)}};
    if (biased) args.emplace(DNNL_ARG_BIAS, at(s.bias_desc, call.in[2].data));
    s.post.add_arguments(engine(), call, args);
    for (int64_t batch = begin; batch < end; ++batch) {
      a.set_data_handle(call.in[0].as<BFloat16>() + p.a_offset(batch));
      b.set_data_handle(call.in[1].as<BFloat16>() + p.b_offset(batch));
      out.set_data_handle(result + batch * p.m * p.n);
      s.primitive.execute(stream(), args);
    }
  };
  const int64_t parts = s.side_by_side;
  auto* workspace = static_cast<std::byte*>(call.workspace);
  if (parts == 1) return some(0, p.batches(), workspace);
  parallel_for(parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      some(p.batches() * i / parts, p.batches() * (i + 1) / parts,
           workspace + static_cast<size_t>(i) * s.scratch_stride);
  });
}

// Makes the primitive where it is the better way.
void add_primitive(State& s, bool bias, bool carries) {
  const MatmulProblem& p = s.problem;
  if (p.batches() != 1 || p.m < kPrimitiveRows || p.n == 0 || p.k == 0) return;
  // Measured against dnnl_sgemm: what the preparation of each operand costs must come back.
  const int64_t least_depth = s.a.transposed == 'T' ? 512 : 128;
  const bool faster = s.b.transposed == 'T' && p.k >= least_depth;
  const bool fused = carries && s.a.transposed == 'N';
  if (!faster && !fused) return;
  const auto matrix = [](int64_t rows, int64_t cols, int64_t row, int64_t col) {
    return memory::desc({rows, cols}, memory::data_type::f32, memory::dims{row, col});
  };
  s.a_desc = matrix(p.m, p.k, p.a_row, p.a_col);
  s.b_desc = matrix(p.k, p.n, p.b_row, p.b_col);
  s.out_desc = matrix(p.m, p.n, p.n, 1);
  if (bias) s.bias_desc = matrix(1, p.n, p.n, 1);
  dnnl::primitive_attr attr;
  // The caller gives the scratch memory, so that one primitive can run in several threads.
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attr.set_post_ops(s.post.ops);
  const ThreadLimit limit(threads_for(p));
  try {
    const dnnl::matmul::primitive_desc desc({s.a_desc, s.b_desc, s.bias_desc, s.out_desc}, attr,
                                            engine());
    if (std::string_view(desc.impl_info_str()).find("brg") == std::string_view::npos) return;
    s.primitive = dnnl::matmul(desc);
    s.scratch_desc = desc.scratchpad_desc();
    s.workspace_bytes = s.scratch_desc.get_size();
  } catch (const dnnl::error&) {
    s.primitive = {};  // sgemm takes everything
  }
}

void run_primitive(const State& s, const Call& call, bool biased, void* out) {
  const auto at = [](const memory::desc& desc, void* data) { return memory(desc, engine(), data); };
  std::unordered_map<int, memory> args = {
      {DNNL_ARG_SRC, at(s.a_desc, call.in[0].data)},
      {DNNL_ARG_WEIGHTS, at(s.b_desc, call.in[1].data)},
      {DNNL_ARG_DST, at(s.out_desc, out)},
      {DNNL_ARG_SCRATCHPAD, at(s.scratch_desc, call.workspace)}};
  if (biased) args.emplace(DNNL_ARG_BIAS, at(s.bias_desc, call.in[2].data));
  s.post.add_arguments(engine(), call, args);
  const ThreadLimit limit(threads_for(s.problem));
  s.primitive.execute(stream(), args);
}

void run_sgemm(const State& s, const Call& call, const float* bias, float* out) {
  const MatmulProblem& p = s.problem;
  if (bias || p.k == 0) {
    parallel_for(p.batches() * p.m, std::max<int64_t>(1, kElementsPerThread / p.n),
                 [&](int64_t begin, int64_t end) {
                   fill_rows(out + begin * p.n, end - begin, p.n, p.n, bias, 1);
                 });
  }
  if (p.k == 0) return;
  const ParallelCaller caller;
  const auto one = [&](int64_t batch) {
    const ThreadLimit limit(caller.threads(threads_for(p)));
    const dnnl_status_t status = dnnl_sgemm(s.a.transposed, s.b.transposed, p.m, p.n, p.k, 1.0F,
                                            call.in[0].as<float>() + p.a_offset(batch), s.a.leading,
                                            call.in[1].as<float>() + p.b_offset(batch), s.b.leading,
                                            bias ? 1.0F : 0.0F, out + batch * p.m * p.n, p.n);
    check(status == dnnl_success, "matmul: dnnl_sgemm failed with status {}",
          static_cast<int>(status));
  };
  // Products side by side, the rest one after the other with all threads at each.
  const int64_t batches = p.batches();
  const int64_t threads = num_threads();
  const int64_t rest = batches < 8 * threads ? batches % threads : 0;
  parallel_for(batches - rest, 1, [&](int64_t begin, int64_t end) {
    for (int64_t batch = begin; batch < end; ++batch) one(batch);
  });
  for (int64_t batch = batches - rest; batch < batches; ++batch) one(batch);
}

void run(const State& s, const Call& call, bool biased, const Arg& out) {
  if (out.numel() == 0) return;
  if (call.in[0].dtype() == DType::bf16) return run_bf16(s, call, biased, out.as<BFloat16>());
  if (s.primitive) return run_primitive(s, call, biased, out.data);
  run_sgemm(s, call, biased ? call.in[2].as<float>() : nullptr, out.as<float>());
}

void make_products(State& s, const Specs& specs, bool bias) {
  if (specs.in[0].dtype == DType::bf16) return add_bf16_primitive(s, bias);
  add_primitive(s, bias, false);
}

Support supports_matmul(const NoParams&, const Specs& specs) {
  return supports_problem(matmul_problem(specs.in[0], specs.in[1]), specs, false);
}

std::shared_ptr<State> prepare_matmul(const NoParams&, const Specs& specs) {
  auto state = std::make_shared<State>(describe(matmul_problem(specs.in[0], specs.in[1])));
  make_products(*state, specs, false);
  return state;
}

void run_matmul(const NoParams&, const State& state, const Call& call) {
  run(state, call, false, call.out[0]);
}

Support supports_linear(const NoParams&, const Specs& specs) {
  return supports_problem(linear_problem(specs.in[0], specs.in[1]), specs, true);
}

std::shared_ptr<State> prepare_linear(const NoParams&, const Specs& specs) {
  auto state = std::make_shared<State>(describe(linear_problem(specs.in[0], specs.in[1])));
  make_products(*state, specs, specs.in[2].defined);
  return state;
}

void run_linear(const NoParams&, const State& state, const Call& call) {
  run(state, call, call.in[2].defined(), call.out[0]);
}

// With a program.

bool is_mine(const AnchoredParams& params) {
  const Anchored& a = *params.call;
  return (a.op == &linear_op() || a.op == &matmul_op()) && a.after.program && !a.before.program;
}
bool is_layer(const AnchoredParams& params) { return params.call->op == &linear_op(); }

MatmulProblem problem_of(const AnchoredParams& params, const Specs& s) {
  return is_layer(params) ? linear_problem(s.in[0], s.in[1]) : matmul_problem(s.in[0], s.in[1]);
}

Support supports_carrying(const AnchoredParams& params, const Specs& specs) {
  if (!is_mine(params)) return Support::no("it carries programs after products");
  return supports_problem(problem_of(params, specs), specs, is_layer(params));
}

/// An operand of the program beside the (m, n) matrix that the result is.
std::optional<memory::desc> beside_result(const MatmulProblem& p, const TensorSpec& result,
                                          const TensorSpec& s) {
  const auto type = result.dtype == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
  const auto dense = [type](int64_t rows, int64_t cols) {
    return memory::desc({rows, cols}, type, memory::dims{cols, 1});
  };
  if (s.numel() == 1) return dense(1, 1);
  if (!s.is_contiguous()) return std::nullopt;
  if (s.shape == result.shape) return dense(p.m, p.n);
  if (s.numel() == p.n && s.shape.back() == p.n) return dense(1, p.n);
  return std::nullopt;
}

std::shared_ptr<State> prepare_carrying(const AnchoredParams& params, const Specs& specs) {
  auto state = std::make_shared<State>(describe(problem_of(params, specs)));
  const bool biased = is_layer(params) && specs.in[2].defined;
  auto post = onednn::post_ops_of(params, *params.call->op, specs, [&](const TensorSpec& s) {
    return beside_result(state->problem, specs.out[0], s);
  });
  if (specs.in[0].dtype == DType::bf16) {
    // Products of a batch run one by one: what their programs read lies beside the whole.
    if (post && !post->costly && (post->operands.empty() || state->problem.batches() == 1)) {
      state->post = std::move(*post);
    } else {
      state->pass.emplace(params, specs);
    }
    add_bf16_primitive(*state, biased);
    return state;
  }
  const bool fused = post && !post->costly;
  if (fused) state->post = std::move(*post);
  add_primitive(*state, biased, fused);
  if (fused && state->primitive) return state;
  const auto known = known_after(params, *params.call->op);
  if (known && known->added < 0 && known->saved < 0 && !params.call->keeps_result &&
      can_activate(known->activation)) {
    state->activation = known->activation;
  } else {
    state->pass.emplace(params, specs);
  }
  return state;
}

void run_carrying(const AnchoredParams& params, const State& s, const Call& call) {
  const Arg& out = call.out[result_place(*params.call)];
  run(s, call, is_layer(params) && call.in[2].defined(), out);
  if (s.pass) s.pass->run(params, call);
  if (s.activation == Activation::none) return;
  parallel_for(out.numel(), kElementsPerThread, [&](int64_t begin, int64_t end) {
    activate(s.activation, out.as<float>() + begin, end - begin);
  });
}

}  // namespace

Kernel matmul_onednn_kernel() {
  return kernel<supports_matmul, prepare_matmul, run_matmul>("onednn");
}
Kernel linear_onednn_kernel() {
  return kernel<supports_linear, prepare_linear, run_linear>("onednn");
}
Kernel linear_carrying_onednn_kernel() {
  return kernel<supports_carrying, prepare_carrying, run_carrying>("product_onednn");
}

}  // namespace mica
