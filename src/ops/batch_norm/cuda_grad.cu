// The gradient of batch norm in three launches, as batch norm itself. Relu's gradient before it is
// part of them: where y is given, the sums' pass writes the masked dy, which is the gradient of a
// residual, and the last pass reads that; otherwise both compute the sign of y again, which costs
// less than reading it. Where dy is the sum of two, as below a residual, the pass that masks it
// adds.
#include "mica/ops/batch_norm/cuda_channels.cuh"
#include "mica/ops/batch_norm/cuda_tail.h"

namespace mica {
namespace {

using namespace cuda::batch_norm;
using cuda::Compute;
using cuda::Vec;

/// Where dy counts.
enum class Mask {
  none,        ///< everywhere
  recomputed,  ///< where what x becomes is positive
  given,       ///< where y is positive
  given_sum,   ///< there, with something added to it
};
constexpr bool is_given(Mask mask) { return mask == Mask::given || mask == Mask::given_sum; }

/// How many items of a thread have their loads under way together, and how many blocks are to share
/// a multiprocessor at least, as they were fastest on an H200: each item is a load from every
/// tensor that is read. Items of one element are small.
constexpr int sums_depth(int width, Mask mask) { return width == 1 || !is_given(mask) ? 4 : 1; }
constexpr int sums_blocks(Mask mask) { return is_given(mask) ? 1 : 2; }
constexpr int input_depth(int width, bool recomputed) { return width == 1 || recomputed ? 4 : 2; }
constexpr int input_blocks(bool recomputed) { return recomputed ? 2 : kElementwiseBlocks; }
constexpr int64_t kGradSweep = 4;  // shorter blocks stream better, until their start costs too much

/// Sums over a channel of dy and of dy · (x − mean).
template <class C>
struct GradSums {
  C dy;
  C dy_x;

  __device__ static GradSums zero() { return {C(0), C(0)}; }
  __device__ GradSums shuffled(int lanes) const {
    return {__shfl_xor_sync(0xffffffffU, dy, lanes), __shfl_xor_sync(0xffffffffU, dy_x, lanes)};
  }
  __device__ friend GradSums combine(const GradSums& a, const GradSums& b) {
    return {a.dy + b.dy, a.dy_x + b.dy_x};
  }
};

/// What the mask is computed from; `dz` takes the masked dy, with `more` added to it before, where
/// y is given.
template <class T>
struct MaskArgs {
  PerChannel<Compute<T>> weight, invstd, bias;
  const T* y = nullptr;
  const T* more = nullptr;
  T* dz = nullptr;
};

/// Whether an element of y that is computed again is positive, as it was kept.
template <class T>
__device__ bool is_positive(Compute<T> value) {
  return cuda::to_compute(cuda::convert<T>(value)) > Compute<T>(0);
}

template <class T, bool kLast, int V, Mask kMask>
__global__ void __launch_bounds__(kThreads, sums_blocks(kMask))
    partial_grad_sums(Geometry g, const T* __restrict__ dy, const T* __restrict__ x,
                      PerChannel<Compute<T>> mean, MaskArgs<T> mask,
                      GradSums<Compute<T>>* partial) {
  wait_for_inputs();
  using C = Compute<T>;
  constexpr int kItems = sums_depth(V, kMask);
  constexpr bool kRecomputed = kMask == Mask::recomputed;
  constexpr bool kGiven = is_given(kMask);
  constexpr bool kSum = kMask == Mask::given_sum;
  const int64_t group = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t tiles = group < g.groups ? g.tiles : 0;
  C centre[V];
  C scale[V];
  C shift[V];
  GradSums<C> lanes[V];
#pragma unroll
  for (int j = 0; j < V; ++j) lanes[j] = GradSums<C>::zero();
  if (group < g.groups) {
    mean.template get<kLast, V>(centre, group, C(0));
    if constexpr (kRecomputed) {
      C inverse[V];
      mask.weight.template get<kLast, V>(scale, group, C(1));
      mask.invstd.template get<kLast, V>(inverse, group, C(1));
      mask.bias.template get<kLast, V>(shift, group, C(0));
#pragma unroll
      for (int j = 0; j < V; ++j) scale[j] *= inverse[j];
    }
  }
  for (int64_t tile = blockIdx.y; tile < tiles; tile += gridDim.y) {
    Vec<T, V> d[kItems];
    Vec<T, V> v[kItems];
    Vec<T, V> y[kGiven ? kItems : 1];
    Vec<T, V> more[kSum ? kItems : 1];
    for_items<kLast, V, kItems>(g, tile, group, [&](int k, int64_t at) {
      d[k] = cuda::load_vec<V>(dy + at);
      v[k] = cuda::load_vec<V>(x + at);
      if constexpr (kGiven) y[k] = cuda::load_vec<V>(mask.y + at);
      if constexpr (kSum) more[k] = cuda::load_vec<V>(mask.more + at);
    });
    for_items<kLast, V, kItems>(g, tile, group, [&](int k, [[maybe_unused]] int64_t at) {
#pragma unroll
      for (int j = 0; j < V; ++j) {
        C slope = cuda::to_compute(d[k].v[j]);
        const C deviation = cuda::to_compute(v[k].v[j]) - centre[j];
        if constexpr (kRecomputed)
          if (!is_positive<T>(normalised(deviation, scale[j], shift[j]))) slope = C(0);
        if constexpr (kGiven) {
          if constexpr (kSum)  // rounded as one that is kept
            slope = cuda::to_compute(cuda::convert<T>(slope + cuda::to_compute(more[k].v[j])));
          if (!(cuda::to_compute(y[k].v[j]) > C(0))) slope = C(0);
          d[k].v[j] = cuda::convert<T>(slope);
        }
        lanes[j].dy += slope;
        lanes[j].dy_x += slope * deviation;
      }
      if constexpr (kGiven) cuda::store_vec<V>(mask.dz + at, d[k]);
    });
  }
  write_partial<kLast, V>(g, group, lanes, partial);
}

template <class C>
__global__ void __launch_bounds__(kThreads)
    finish_grad_sums(Geometry g, const GradSums<C>* partial, PerChannel<C> invstd, C* dweight,
                     C* dbias) {
  wait_for_inputs();
  const int64_t c = blockIdx.x;
  const GradSums<C> all = combine_parts(g.splits, partial);
  if (threadIdx.x != 0) return;
  dweight[c] = all.dy_x * invstd.get(c, C(0));
  dbias[c] = all.dy;
}

/// dx = weight · invstd · (dy − dbias/n − x̂ · dweight/n); without the means when the statistics are
/// constants.
template <class T, bool kLast, int V, bool kRecomputed>
__global__ void __launch_bounds__(kThreads, input_blocks(kRecomputed))
    input_gradient(Geometry g, bool training, const T* __restrict__ dy, const T* __restrict__ x,
                   PerChannel<Compute<T>> mean, MaskArgs<T> mask, PerChannel<Compute<T>> dweight,
                   PerChannel<Compute<T>> dbias, T* __restrict__ dx) {
  wait_for_inputs();
  using C = Compute<T>;
  constexpr int kItems = input_depth(V, kRecomputed);
  const int64_t group = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (group >= g.groups) return;
  C centre[V];
  C scale[V];
  C mean_dy[V];
  C slope_x[V];
  C shift[V];
  C inverse[V];
  mean.template get<kLast, V>(centre, group, C(0));
  mask.weight.template get<kLast, V>(scale, group, C(1));
  mask.invstd.template get<kLast, V>(inverse, group, C(1));
  dbias.template get<kLast, V>(mean_dy, group, C(0));
  dweight.template get<kLast, V>(slope_x, group, C(0));
  if constexpr (kRecomputed) mask.bias.template get<kLast, V>(shift, group, C(0));
  const C share = training ? C(1) / static_cast<C>(g.count) : C(0);
#pragma unroll
  for (int j = 0; j < V; ++j) {
    scale[j] *= inverse[j];
    mean_dy[j] *= share;
    slope_x[j] = slope_x[j] * share * inverse[j];
  }
  for_tiles_backwards(g, [&](int64_t tile) {
    Vec<T, V> d[kItems];
    Vec<T, V> v[kItems];
    for_items<kLast, V, kItems>(g, tile, group, [&](int k, int64_t at) {
      d[k] = cuda::load_vec<V>(dy + at);
      v[k] = cuda::load_vec<V>(x + at);
    });
    for_items<kLast, V, kItems>(g, tile, group, [&](int k, int64_t at) {
      Vec<T, V> r;
#pragma unroll
      for (int j = 0; j < V; ++j) {
        const C deviation = cuda::to_compute(v[k].v[j]) - centre[j];
        C slope = cuda::to_compute(d[k].v[j]);
        if constexpr (kRecomputed)
          if (!is_positive<T>(normalised(deviation, scale[j], shift[j]))) slope = C(0);
        const C value = slope - mean_dy[j] - deviation * slope_x[j];
        r.v[j] = cuda::convert<T>(value * scale[j]);
      }
      cuda::store_vec<V>(dx + at, r);
    });
  });
}

template <Mask kMask>
void prepare_masked(BatchNormState& state, const Specs& specs, const BatchNormMask& given = {}) {
  const TensorSpec& out = specs.out[0];
  bool aligned = specs.in[0].aligned && specs.in[1].aligned && out.aligned;
  if (is_given(kMask)) aligned = aligned && specs.out[3].aligned;
  for (const int more : {given.y, given.added})
    if (more >= 0) aligned = aligned && specs.in[static_cast<size_t>(more)].aligned;
  const Geometry g = plan_geometry(out, aligned);
  const int processors = multiprocessors(out);
  constexpr bool kRecomputed = kMask == Mask::recomputed;
  const int depth = input_depth(g.width, kRecomputed);
  state.elementwise = kRecomputed ? with_residents(g, depth, input_blocks(kRecomputed) * processors)
                                  : with_sweeps(g, depth, kGradSweep, processors);
  switch_layout(out.dtype, g, [&]<class T, bool kLast, int V>() {
    plan_statistics(state, g, sums_depth(V, kMask),
                    reinterpret_cast<const void*>(partial_grad_sums<T, kLast, V, kMask>),
                    sizeof(GradSums<Compute<T>>), processors);
  });
}

template <class T>
MaskArgs<T> mask_args(const Call& call) {
  using C = Compute<T>;
  return {.weight = per_channel<C>(call.in[2]), .invstd = per_channel<C>(call.in[4]), .bias = {}};
}

/// Of (C, g.splits) parts.
template <class C>
void finish_sums(const Geometry& g, const Call& call, const GradSums<C>* partial) {
  call.encoder->launch(finish_grad_sums<C>, static_cast<unsigned>(g.channels), kThreads, 0, g,
                       partial, per_channel<C>(call.in[4]), call.out[1].as<C>(),
                       call.out[2].as<C>());
}

template <class T, bool kLast, int V, bool kRecomputed>
void run_input_gradient(const BatchNormParams& params, const Geometry& g, const Call& call,
                        const T* dy, const MaskArgs<T>& mask) {
  using C = Compute<T>;
  call.encoder->launch(input_gradient<T, kLast, V, kRecomputed>, elementwise_grid(g), block_of(g),
                       0, g, params.training, dy, call.in[1].as<const T>(),
                       per_channel<C>(call.in[3]), mask, per_channel<C>(call.out[1]),
                       per_channel<C>(call.out[2]), call.out[0].as<T>());
}

template <Mask kMask>
void run_masked(const BatchNormParams& params, const BatchNormState& state, const Call& call,
                const BatchNormMask& given = {}) {
  const ProgrammaticLaunch overlap;
  const Geometry& g = state.statistics;
  switch_layout(call.in[0].dtype(), g, [&]<class T, bool kLast, int V>() {
    using C = Compute<T>;
    const auto* dy = call.in[0].as<const T>();
    MaskArgs<T> mask = mask_args<T>(call);
    if (kMask == Mask::recomputed) mask.bias = per_channel<C>(input_or_none(call, given.bias));
    if (is_given(kMask)) {
      mask.y = input_or_none(call, given.y).as<const T>();
      if (kMask == Mask::given_sum) mask.more = input_or_none(call, given.added).as<const T>();
      mask.dz = call.out[3].as<T>();
    }
    auto* partial = static_cast<GradSums<C>*>(call.workspace);
    call.encoder->launch(partial_grad_sums<T, kLast, V, kMask>, statistics_grid(g), block_of(g), 0,
                         g, dy, call.in[1].as<const T>(), per_channel<C>(call.in[3]), mask,
                         partial);
    finish_sums<C>(g, call, partial);
    run_input_gradient<T, kLast, V, kMask == Mask::recomputed>(
        params, state.elementwise, call, is_given(kMask) ? mask.dz : dy, mask);
  });
}

Support supports_grad(const BatchNormParams&, const Specs& specs) {
  return supports_layout(specs, 0b11);  // dy and x
}
std::shared_ptr<BatchNormState> prepare_grad(const BatchNormParams&, const Specs& specs) {
  auto state = std::make_shared<BatchNormState>();
  prepare_masked<Mask::none>(*state, specs);
  return state;
}
void run_grad(const BatchNormParams& params, const BatchNormState& state, const Call& call) {
  run_masked<Mask::none>(params, state, call);
}

struct CarryingState : BatchNormState {
  BatchNormMask mask;
};

Support supports_carrying(const AnchoredParams& params, const Specs& specs) {
  const auto mask = batch_norm_mask(params, specs);
  if (!mask) return Support::no("it carries relu_grad, of a sum too, before batch_norm_grad");
  uint32_t big = 0b11;
  for (const int more : {mask->y, mask->added})
    if (more >= 0) big |= 1U << more;
  return supports_layout(specs, big);
}
std::shared_ptr<CarryingState> prepare_carrying(const AnchoredParams& params, const Specs& specs) {
  auto state = std::make_shared<CarryingState>();
  state->mask = *batch_norm_mask(params, specs);
  state->mask.recomputed   ? prepare_masked<Mask::recomputed>(*state, specs)
  : state->mask.added >= 0 ? prepare_masked<Mask::given_sum>(*state, specs, state->mask)
                           : prepare_masked<Mask::given>(*state, specs, state->mask);
  return state;
}
void run_carrying(const AnchoredParams& params, const CarryingState& state, const Call& call) {
  const BatchNormParams& norm = batch_norm_params(params);
  state.mask.recomputed   ? run_masked<Mask::recomputed>(norm, state, call, state.mask)
  : state.mask.added >= 0 ? run_masked<Mask::given_sum>(norm, state, call, state.mask)
                          : run_masked<Mask::given>(norm, state, call, state.mask);
}

}  // namespace

BatchNormGradTail::BatchNormGradTail(const Specs& specs) : state_(prepare_grad({}, specs)) {}

void BatchNormGradTail::run(const BatchNormParams& params, const Call& call, const void* sums,
                            int parts) const {
  const ProgrammaticLaunch overlap;
  const auto& state = static_cast<const BatchNormState&>(*state_);
  Geometry g = state.statistics;
  g.splits = parts;
  finish_sums<float>(g, call, static_cast<const GradSums<float>*>(sums));
  switch_layout(call.in[0].dtype(), g, [&]<class T, bool kLast, int V>() {
    run_input_gradient<T, kLast, V, false>(params, state.elementwise, call,
                                           call.in[0].as<const T>(), mask_args<T>(call));
  });
}

KernelList batch_norm_grad_cuda_kernels() {
  return {kernel<supports_grad, prepare_grad, run_grad>("split_reduction")};
}

Kernel batch_norm_grad_carrying_kernel() {
  return kernel<supports_carrying, prepare_carrying, run_carrying>(
      "batch_norm_grad_split_reduction");
}

}  // namespace mica
