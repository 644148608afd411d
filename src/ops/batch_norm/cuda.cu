// Batch norm in three launches: partial statistics of parts of each channel, their combination in a
// fixed order, and the elementwise pass, which may add a residual and take the relu, or is
// generated with any program that follows.
#include "mica/ops/batch_norm/cuda_channels.cuh"
#include "mica/ops/batch_norm/cuda_tail.h"
#include "mica/ops/fused/cuda_generated.h"

namespace mica {
namespace {

using namespace cuda::batch_norm;
using cuda::Compute;
using cuda::Vec;

/// Count, mean and sum of squared deviations of some values.
template <class C>
struct Moments {
  C n;
  C mean;
  C m2;

  __device__ static Moments zero() { return {C(0), C(0), C(0)}; }
  __device__ Moments shuffled(int lanes) const {
    return {__shfl_xor_sync(0xffffffffU, n, lanes), __shfl_xor_sync(0xffffffffU, mean, lanes),
            __shfl_xor_sync(0xffffffffU, m2, lanes)};
  }
  __device__ friend Moments combine(const Moments& a, const Moments& b) {
    const C n = a.n + b.n;
    if (n == C(0)) return a;
    const C share = b.n / n;
    const C delta = b.mean - a.mean;
    return {n, a.mean + delta * share, a.m2 + b.m2 + delta * delta * a.n * share};
  }
};

/// A thread takes the moments from sums of differences to its first value, which lose nothing to a
/// large mean and cost less than a running mean.
template <class T, bool kLast, int V>
__global__ void __launch_bounds__(kThreads)
    partial_moments(Geometry g, const T* __restrict__ x, Moments<Compute<T>>* partial) {
  wait_for_inputs();
  using C = Compute<T>;
  const int64_t group = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t tiles = group < g.groups ? g.tiles : 0;
  C n = 0;
  C shift[V] = {};
  C sum[V] = {};
  C squares[V] = {};
  for (int64_t tile = blockIdx.y; tile < tiles; tile += gridDim.y) {
    Vec<T, V> v[kDepth];
    for_items<kLast, V, kDepth>(g, tile, group,
                                [&](int k, int64_t at) { v[k] = cuda::load_vec<V>(x + at); });
    if (n == C(0))
#pragma unroll
      for (int j = 0; j < V; ++j) shift[j] = cuda::to_compute(v[0].v[j]);
    for_items<kLast, V, kDepth>(g, tile, group, [&](int k, int64_t) {
      n += C(1);
#pragma unroll
      for (int j = 0; j < V; ++j) {
        const C delta = cuda::to_compute(v[k].v[j]) - shift[j];
        sum[j] += delta;
        squares[j] += delta * delta;
      }
    });
  }
  Moments<C> lanes[V];
  const C share = n > C(0) ? C(1) / n : C(0);
#pragma unroll
  for (int j = 0; j < V; ++j) {
    const C mean = sum[j] * share;
    const C m2 = squares[j] - sum[j] * mean;
    lanes[j] = {n, n > C(0) ? shift[j] + mean : C(0), m2 < C(0) ? C(0) : m2};
  }
  write_partial<kLast, V>(g, group, lanes, partial);
}

template <class C>
__global__ void __launch_bounds__(kThreads)
    finish_moments(Geometry g, double eps, double momentum, const Moments<C>* partial,
                   PerChannel<C> running_mean, PerChannel<C> running_var, C* mean, C* invstd) {
  wait_for_inputs();
  const int64_t c = blockIdx.x;
  const Moments<C> all = combine_parts(g.splits, partial);
  if (threadIdx.x != 0) return;
  const C n = g.count > 0 ? static_cast<C>(g.count) : C(1);
  mean[c] = all.mean;
  invstd[c] = C(1) / sqrt(all.m2 / n + static_cast<C>(eps));
  if (g.count < 2) return;
  const C fresh = static_cast<C>(momentum);
  if (running_mean.data) {
    C& r = running_mean.data[c * running_mean.stride];
    r = (C(1) - fresh) * r + fresh * all.mean;
  }
  if (running_var.data) {
    C& r = running_var.data[c * running_var.stride];
    r = (C(1) - fresh) * r + fresh * (all.m2 / (n - C(1)));
  }
}

/// Inference: the statistics are the running ones.
template <class C>
__global__ void take_running(int64_t channels, double eps, PerChannel<C> running_mean,
                             PerChannel<C> running_var, C* mean, C* invstd) {
  wait_for_inputs();
  const int64_t c = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (c >= channels) return;
  mean[c] = running_mean.get(c, C(0));
  invstd[c] = C(1) / sqrt(running_var.get(c, C(1)) + static_cast<C>(eps));
}

template <class T, bool kLast, int V, bool kResidual>
__global__ void __launch_bounds__(kThreads, kElementwiseBlocks)
    normalise(Geometry g, bool relu, const T* __restrict__ x, const T* __restrict__ residual,
              PerChannel<Compute<T>> weight, PerChannel<Compute<T>> bias,
              PerChannel<Compute<T>> mean, PerChannel<Compute<T>> invstd, T* __restrict__ y) {
  wait_for_inputs();
  using C = Compute<T>;
  const int64_t group = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (group >= g.groups) return;
  C centre[V];
  C scale[V];
  C shift[V];
  C inverse[V];
  mean.template get<kLast, V>(centre, group, C(0));
  invstd.template get<kLast, V>(inverse, group, C(1));
  weight.template get<kLast, V>(scale, group, C(1));
  bias.template get<kLast, V>(shift, group, C(0));
#pragma unroll
  for (int j = 0; j < V; ++j) scale[j] *= inverse[j];
  // Two tensors at once: half the items of a tile at a time, or registers do not suffice.
  constexpr int kItems = kResidual ? kDepth / 2 : kDepth;
  constexpr int kParts = kDepth / kItems;
  const auto normalise_items = [&](int64_t part) {
    Vec<T, V> v[kItems];
    Vec<T, V> more[kResidual ? kItems : 1];
    for_items<kLast, V, kItems>(g, part, group, [&](int k, int64_t at) {
      v[k] = cuda::load_vec<V>(x + at);
      if constexpr (kResidual) more[k] = cuda::load_vec<V>(residual + at);
    });
    for_items<kLast, V, kItems>(g, part, group, [&](int k, int64_t at) {
      Vec<T, V> r;
#pragma unroll
      for (int j = 0; j < V; ++j) {
        C value = normalised(cuda::to_compute(v[k].v[j]) - centre[j], scale[j], shift[j]);
        if constexpr (kResidual) value += cuda::to_compute(more[k].v[j]);
        if (relu && value < C(0)) value = C(0);
        r.v[j] = cuda::convert<T>(value);
      }
      cuda::store_vec<V>(y + at, r);
    });
  };
  for_tiles_backwards(g, [&](int64_t tile) {
#pragma unroll 1
    for (int part = kParts - 1; part >= 0; --part) normalise_items(tile * kParts + part);
  });
}

std::shared_ptr<BatchNormState> prepare_end(const BatchNormParams& params, const Specs& specs,
                                            const BatchNormEnd& end) {
  const TensorSpec& out = specs.out[0];
  const bool aligned = specs.in[0].aligned && out.aligned &&
                       (end.added < 0 || specs.in[static_cast<size_t>(end.added)].aligned);
  const Geometry g = plan_geometry(out, aligned);
  const int processors = multiprocessors(out);
  auto state = std::make_shared<BatchNormState>();
  state->statistics = with_tiles(g, kDepth);
  state->elementwise = with_sweeps(g, kDepth, kSweep, processors);
  if (params.training)
    switch_layout(out.dtype, g, [&]<class T, bool kLast, int V>() {
      plan_statistics(*state, g, kDepth,
                      reinterpret_cast<const void*>(partial_moments<T, kLast, V>),
                      sizeof(Moments<Compute<T>>), processors);
    });
  return state;
}

/// Mean and 1/std, which the call's result `first` and the next are, of (C, g.splits) parts.
template <class C>
void finish_statistics(const BatchNormParams& params, const Geometry& g, const Call& call,
                       size_t first, const Moments<C>* partial) {
  call.encoder->launch(finish_moments<C>, static_cast<unsigned>(g.channels), kThreads, 0, g,
                       params.eps, params.momentum, partial, per_channel<C>(call.in[3]),
                       per_channel<C>(call.in[4]), call.out[first].as<C>(),
                       call.out[first + 1].as<C>());
}

/// The same of x.
void run_statistics(const BatchNormParams& params, const BatchNormState& state, const Call& call,
                    size_t first) {
  const Geometry& g = state.statistics;
  Encoder& encoder = *call.encoder;
  switch_layout(call.in[0].dtype(), g, [&]<class T, bool kLast, int V>() {
    using C = Compute<T>;
    if (params.training) {
      auto* partial = static_cast<Moments<C>*>(call.workspace);
      encoder.launch(partial_moments<T, kLast, V>, statistics_grid(g), block_of(g), 0, g,
                     call.in[0].as<const T>(), partial);
      finish_statistics<C>(params, g, call, first, partial);
    } else {
      encoder.launch(
          take_running<C>, static_cast<unsigned>(cuda::ceil_div<int64_t>(g.channels, kThreads)),
          kThreads, 0, g.channels, params.eps, per_channel<C>(call.in[3]),
          per_channel<C>(call.in[4]), call.out[first].as<C>(), call.out[first + 1].as<C>());
    }
  });
}

/// The elementwise pass.
void run_normalise(const BatchNormState& state, const Call& call, const BatchNormEnd& end) {
  const Geometry& g = state.elementwise;
  switch_layout(call.in[0].dtype(), g, [&]<class T, bool kLast, int V>() {
    using C = Compute<T>;
    const bool adds = end.added >= 0;
    call.encoder->launch(adds ? normalise<T, kLast, V, true> : normalise<T, kLast, V, false>,
                         elementwise_grid(g), block_of(g), 0, g, end.relu, call.in[0].as<const T>(),
                         adds ? call.in[static_cast<size_t>(end.added)].as<const T>() : nullptr,
                         per_channel<C>(call.in[1]), per_channel<C>(call.in[2]),
                         per_channel<C>(call.out[1]), per_channel<C>(call.out[2]),
                         call.out[0].as<T>());
  });
}

void run_end(const BatchNormParams& params, const BatchNormState& state, const Call& call,
             const BatchNormEnd& end) {
  const ProgrammaticLaunch overlap;
  run_statistics(params, state, call, 1);
  run_normalise(state, call, end);
}

Support supports(const BatchNormParams&, const Specs& specs) {
  return supports_layout(specs, 0b1);  // x
}
std::shared_ptr<BatchNormState> prepare(const BatchNormParams& params, const Specs& specs) {
  return prepare_end(params, specs, {});
}
void run(const BatchNormParams& params, const BatchNormState& state, const Call& call) {
  run_end(params, state, call, {});
}

Support supports_carrying(const AnchoredParams& params, const Specs& specs) {
  const auto end = batch_norm_end(params, specs);
  if (!end) return Support::no("it carries a sum and relu after batch_norm");
  return supports_layout(specs, end->added < 0 ? 0b1U : 0b1U | 1U << end->added);
}
std::shared_ptr<BatchNormState> prepare_carrying(const AnchoredParams& params, const Specs& specs) {
  return prepare_end(batch_norm_params(params), specs, *batch_norm_end(params, specs));
}
void run_carrying(const AnchoredParams& params, const BatchNormState& state, const Call& call) {
  const auto known = known_after(params, *params.call->op);
  run_end(batch_norm_params(params), state, call,
          {known->added, known->activation == Activation::relu});
}

// Any program: with the normalisation it is one generated pass.

struct PassState : BatchNormState {
  std::vector<int> from;
  GeneratedLaunch pass;
};

GeneratedKernel generate_pass(const BatchNormPass& pass, const AnchoredParams& params,
                              const Specs& specs) {
  return generate_kernel(pass.program,
                         {pass.in, specs.out.first(static_cast<size_t>(params.call->results()))});
}

Support supports_program(const AnchoredParams& params, const Specs& specs) {
  const auto pass = batch_norm_pass(params, specs);
  if (!pass) return Support::no("it carries programs of some calls after batch_norm");
  if (specs.out[0].numel() == 0) return Support::no("there is nothing to compute");
  const GeneratedKernel generated = generate_pass(*pass, params, specs);
  if (!generated.why_not.empty()) return Support::no(generated.why_not);
  if (generated.threads > int64_t{fused::kThreads} * INT32_MAX)
    return Support::no("it has more blocks than a grid may");
  return supports_layout(specs, 0b1);
}
std::shared_ptr<PassState> prepare_program(const AnchoredParams& params, const Specs& specs) {
  const auto pass = batch_norm_pass(params, specs);
  const auto statistics = prepare_end(batch_norm_params(params), specs, {});
  auto state = std::make_shared<PassState>();
  static_cast<BatchNormState&>(*state) = *statistics;
  state->from = pass->from;
  state->pass =
      GeneratedLaunch("anchored", generate_pass(*pass, params, specs), specs.out[0].device.index);
  return state;
}
/// The elementwise pass, where the call has `results` before mean and 1/std.
void run_pass(const PassState& state, const Call& call, size_t results) {
  fused::KernelArgs args = state.pass.args;
  for (size_t k = 0; k < state.from.size(); ++k) {
    const int from = state.from[k];
    args.in[k] = from >= 0 ? call.in[static_cast<size_t>(from)].data
                           : call.out[results + static_cast<size_t>(-from - 1)].data;
  }
  for (size_t k = 0; k < results; ++k) args.out[k] = call.out[k].data;
  state.pass.run(*call.encoder, args);
}

void run_program(const AnchoredParams& params, const PassState& state, const Call& call) {
  const ProgrammaticLaunch overlap;
  const auto results = static_cast<size_t>(params.call->results());
  run_statistics(batch_norm_params(params), state, call, results);
  run_pass(state, call, results);
}

}  // namespace

Support BatchNormTail::supports(const AnchoredParams* carried, const Specs& specs) {
  if (!carried) return supports_layout(specs, 0b1);
  const Support written = supports_carrying(*carried, specs);
  return written.kind == Support::Kind::no ? supports_program(*carried, specs) : written;
}

BatchNormTail::BatchNormTail(const BatchNormParams& params, const AnchoredParams* carried,
                             const Specs& specs)
    : params_(params) {
  if (carried) {
    const auto end = batch_norm_end(*carried, specs);
    results_ = static_cast<size_t>(carried->call->results());
    generated_ = !end;
    if (end) end_ = *end;
  }
  if (generated_) {
    state_ = prepare_program(*carried, specs);
  } else {
    state_ = prepare_end(params, specs, end_);
  }
}

void BatchNormTail::run(const Call& call, const void* moments, int parts) const {
  const ProgrammaticLaunch overlap;
  const auto& state = static_cast<const BatchNormState&>(*state_);
  Geometry g = state.statistics;
  g.splits = parts;
  finish_statistics<float>(params_, g, call, results_, static_cast<const Moments<float>*>(moments));
  generated_ ? run_pass(static_cast<const PassState&>(state), call, results_)
             : run_normalise(state, call, end_);
}

KernelList batch_norm_cuda_kernels() { return {kernel<supports, prepare, run>("split_reduction")}; }

KernelList batch_norm_carrying_cuda_kernels() {
  return {kernel<supports_carrying, prepare_carrying, run_carrying>("batch_norm_split_reduction"),
          kernel<supports_program, prepare_program, run_program>("batch_norm_generated"),
          batch_norm_grad_carrying_kernel()};
}

}  // namespace mica
