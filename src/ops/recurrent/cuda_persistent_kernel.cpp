// LSTM and GRU of f16 and bf16 by kernels that run all steps (cuda_persistent.cuh); the products
// that do not wait for a step are single ones, as in `gemm`.
#include "mica/ops/recurrent/cuda_persistent.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "mica/core/check.h"
#include "mica/ops/recurrent/cuda_kernels.h"
#include "mica/ops/recurrent/gemm.h"
#include "mica/runtime/runtime.h"

namespace mica {
namespace {

struct State : RecurrentGemmState {
  using RecurrentGemmState::RecurrentGemmState;
  int tiles = 0;
};

template <class F>
decltype(auto) switch_half(DType dtype, F&& f) {
  if (dtype == DType::f16) return f.template operator()<__half>();
  return f.template operator()<__nv_bfloat16>();
}

Support supports_problem(const RecurrentProblem& p, const Specs& specs, int first_state) {
  const TensorSpec& x = specs.in[0];
  if (x.dtype != DType::f16 && x.dtype != DType::bf16) return Support::no("computes f16 and bf16");
  if (p.slots() != 4) return Support::no("computes LSTM and GRU");
  if (p.projected) return Support::no("does not project the state");
  if (!persistent::has_kernels(p.units))
    return Support::no("the hidden size is not 128, 256 or 512");
  if (runtime(DeviceKind::cuda).properties(x.device.index).compute_capability != 90)
    return Support::no("the GPU is not of compute capability 9.0");
  if (!specs.in[static_cast<size_t>(first_state)].aligned)
    return Support::no("the first state does not lie on a boundary of 16 bytes");
  return supports_recurrent_gemm(specs);
}

RecurrentProblem problem_of(const RecurrentParams& params, const Specs& s) {
  using namespace recurrent_io;
  return {params.mode, params.reverse, s.in[kX], s.in[kWHh], s.in[kWHr].defined};
}
RecurrentProblem problem_of(const RecurrentGradParams& params, const Specs& s) {
  using namespace recurrent_grad_io;
  return {params.mode, params.reverse, s.in[kX], s.in[kWHh], s.in[kWHr].defined};
}

Support supports(const RecurrentParams& params, const Specs& specs) {
  return supports_problem(problem_of(params, specs), specs, recurrent_io::kH0);
}
Support supports_grad(const RecurrentGradParams& params, const Specs& specs) {
  return supports_problem(problem_of(params, specs), specs, recurrent_grad_io::kH0);
}

int tiles_for(const RecurrentProblem& p, DType dtype) {
  const int tiles = switch_half(dtype, [&]<class T>() {
    return persistent::choose_tiles<T>(p.has_cells(), p.units, p.batch);
  });
  check<Unsupported>(tiles > 0, "recurrent: the GPU runs no cluster of {} blocks", p.units / 32);
  return tiles;
}

std::shared_ptr<State> prepare(const RecurrentParams& params, const Specs& specs) {
  using namespace recurrent_io;
  const TensorSpec& x = specs.in[kX];
  const RecurrentProblem p = problem_of(params, specs);
  RecurrentProducts products(recurrent_cuda_passes(), p, x.dtype, x.device);
  const bool bias = specs.in[kBIh].defined;
  products.add(RecurrentProduct::input, bias);
  auto state = std::make_shared<State>(std::move(products));
  state->tiles = tiles_for(p, x.dtype);
  const auto size = static_cast<int64_t>(size_of(x.dtype));
  WorkspaceParts parts;
  state->w_ih = parts.add(p.rows() * p.inputs * size);
  if (bias) state->bias = parts.add(p.rows() * size);
  if (!params.keep) state->gates = parts.add(p.steps * p.batch * p.rows() * size);
  state->library = parts.add(static_cast<int64_t>(state->products.workspace_bytes()));
  state->workspace_bytes = parts.bytes();
  return state;
}

void run(const RecurrentParams& params, const State& s, const Call& call) {
  using namespace recurrent_io;
  const RecurrentPasses& passes = s.products.passes;
  const RecurrentProblem& p = s.products.problem;
  const DType dtype = s.products.dtype;
  const auto part = [&](size_t at) { return static_cast<std::byte*>(call.workspace) + at; };
  const auto in = [&](int i) { return call.in[static_cast<size_t>(i)].data; };
  const auto out = [&](int i) { return call.out[static_cast<size_t>(i)].data; };
  const auto* lengths = static_cast<const int64_t*>(in(kLengths));
  passes.pack(p, dtype, in(kWIh), p.inputs, true, part(s.w_ih), call.encoder);
  const void* bias = nullptr;
  if (in(kBIh)) {
    passes.pack_bias(p, dtype, in(kBIh), in(kBHh), part(s.bias), call.encoder);
    bias = part(s.bias);
  }
  if (lengths) passes.check_lengths(p, lengths, call.encoder);
  void* gates = params.keep ? out(kGates) : part(s.gates);
  const RecurrentEngine engine(s.products, bias, nullptr, part(s.library), call.encoder);
  engine.product(RecurrentProduct::input, in(kX), part(s.w_ih), gates);
  switch_half(dtype, [&]<class T>() {
    const auto read = [&](void* at) { return static_cast<const T*>(at); };
    const auto write = [&](void* at) { return static_cast<T*>(at); };
    persistent::run<T>(
        p.has_cells(), p.units, s.tiles,
        {read(in(kWHh)), read(gates), read(in(kH0)), read(in(kC0)), lengths, write(out(kY)),
         write(out(kHn)), write(out(kCn)), params.keep ? write(gates) : nullptr, write(out(kCells)),
         static_cast<int>(p.steps), static_cast<int>(p.batch), p.reverse},
        *call.encoder);
  });
}

std::shared_ptr<State> prepare_grad(const RecurrentGradParams& params, const Specs& specs) {
  using namespace recurrent_grad_io;
  const TensorSpec& x = specs.in[kX];
  const RecurrentProblem p = problem_of(params, specs);
  RecurrentProducts products(recurrent_cuda_passes(), p, x.dtype, x.device);
  if (params.input) products.add(RecurrentProduct::input_back);
  products.add(RecurrentProduct::ih);
  products.add(RecurrentProduct::hh);
  auto state = std::make_shared<State>(std::move(products));
  state->tiles = tiles_for(p, x.dtype);
  const auto size = static_cast<int64_t>(size_of(x.dtype));
  WorkspaceParts parts;
  state->w_ih = parts.add(p.rows() * p.inputs * size);
  state->dw_ih = parts.add(p.rows() * p.inputs * size);
  state->dw_hh = parts.add(p.rows() * p.outputs * size);
  state->db = parts.add(p.rows() * size);
  state->unused = parts.add(p.rows() * size);
  state->dgates = parts.add(p.steps * p.batch * p.rows() * size);
  state->before = parts.add(p.steps * p.batch * p.outputs * size);
  state->library = parts.add(static_cast<int64_t>(state->products.workspace_bytes()));
  state->workspace_bytes = parts.bytes();
  return state;
}

void run_grad(const RecurrentGradParams& params, const State& s, const Call& call) {
  using namespace recurrent_grad_io;
  const RecurrentPasses& passes = s.products.passes;
  const RecurrentProblem& p = s.products.problem;
  const DType dtype = s.products.dtype;
  const auto part = [&](size_t at) {
    return static_cast<void*>(static_cast<std::byte*>(call.workspace) + at);
  };
  const auto in = [&](int i) { return call.in[static_cast<size_t>(i)].data; };
  const auto out = [&](int i) { return call.out[static_cast<size_t>(i)].data; };
  const auto* lengths = static_cast<const int64_t*>(in(kLengths));
  switch_half(dtype, [&]<class T>() {
    const auto read = [&](void* at) { return static_cast<const T*>(at); };
    const auto write = [&](void* at) { return static_cast<T*>(at); };
    persistent::run<T>(p.has_cells(), p.units, s.tiles,
                       {read(in(kWHh)), read(in(kGates)), read(in(kCells)), read(in(kY)),
                        read(in(kH0)), read(in(kC0)), lengths, read(in(kDy)), read(in(kDhn)),
                        read(in(kDcn)), write(part(s.dgates)), write(out(kDh0)), write(out(kDc0)),
                        static_cast<int>(p.steps), static_cast<int>(p.batch), p.reverse},
                       *call.encoder);
  });
  passes.states_before(p, dtype, in(kY), in(kH0), lengths, part(s.before), call.encoder);
  if (params.input) passes.pack(p, dtype, in(kWIh), p.inputs, true, part(s.w_ih), call.encoder);
  const RecurrentEngine engine(s.products, nullptr, part(s.unused), part(s.library), call.encoder);
  RecurrentBackward b{};
  b.x = in(kX);
  b.w_ih = part(s.w_ih);
  b.dx = params.input ? out(kDx) : nullptr;
  b.dgates = part(s.dgates);
  b.before = part(s.before);
  b.dw_ih = part(s.dw_ih);
  b.dw_hh = part(s.dw_hh);
  b.db = part(s.db);
  finish_backward(engine, p, b);
  passes.unpack(p, dtype, b.dw_ih, p.inputs, true, out(kDwIh), call.encoder);
  passes.unpack(p, dtype, b.dw_hh, p.outputs, false, out(kDwHh), call.encoder);
  if (!params.bias) return;
  passes.unpack(p, dtype, b.db, 1, true, out(kDbIh), call.encoder);
  passes.unpack(p, dtype, b.db, 1, false, out(kDbHh), call.encoder);
}

}  // namespace

Kernel recurrent_persistent_kernel() { return kernel<supports, prepare, run>("persistent"); }
Kernel recurrent_grad_persistent_kernel() {
  return kernel<supports_grad, prepare_grad, run_grad>("persistent");
}

}  // namespace mica
