// The gradient of batch norm in three launches, as batch norm itself. Relu's gradient before it is
// part of them: where y is given, the sums' pass writes the masked dy, which is the gradient of a
// residual, and the last pass reads that; otherwise both compute the sign of y again, which costs
// less than reading it.
#include "mica/ops/batch_norm/cuda_channels.cuh"

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
};

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

/// What the mask is computed from; `dz` takes the masked dy where y is given.
template <class T>
struct MaskArgs {
  PerChannel<Compute<T>> weight, invstd, bias;
  const T* y;
  T* dz;
};

/// Whether an element of y that is computed again is positive, as it was kept.
template <class T>
__device__ bool is_positive(Compute<T> value) {
  return cuda::to_compute(cuda::convert<T>(value)) > Compute<T>(0);
}

template <class T, bool kLast, int V, Mask kMask>
__global__ void __launch_bounds__(kThreads)
    partial_grad_sums(Geometry g, const T* __restrict__ dy, const T* __restrict__ x,
                      PerChannel<Compute<T>> mean, MaskArgs<T> mask,
                      GradSums<Compute<T>>* partial) {
  using C = Compute<T>;
  constexpr int kItems = grad_depth(V);
  constexpr bool kRecomputed = kMask == Mask::recomputed;
  constexpr bool kGiven = kMask == Mask::given;
  const int64_t group = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t tiles = group < g.groups ? g.tiles : 0;
  C centre[V];
  C scale[kRecomputed ? V : 1];
  C shift[kRecomputed ? V : 1];
  GradSums<C> lanes[V];
  for (int j = 0; j < V; ++j) {
    const int64_t c = channel_of<kLast, V>(group, j);
    const bool inside = group < g.groups;
    centre[j] = inside ? mean.get(c, C(0)) : C(0);
    if constexpr (kRecomputed) {
      scale[j] = inside ? mask.weight.get(c, C(1)) * mask.invstd.get(c, C(1)) : C(0);
      shift[j] = inside ? mask.bias.get(c, C(0)) : C(0);
    }
    lanes[j] = GradSums<C>::zero();
  }
  for (int64_t tile = blockIdx.y; tile < tiles; tile += gridDim.y) {
    Vec<T, V> d[kItems];
    Vec<T, V> v[kItems];
    Vec<T, V> y[kGiven ? kItems : 1];
    for_items<kLast, V, kItems>(g, tile, group, [&](int k, int64_t at) {
      d[k] = cuda::load_vec<V>(dy + at);
      v[k] = cuda::load_vec<V>(x + at);
      if constexpr (kGiven) y[k] = cuda::load_vec<V>(mask.y + at);
    });
    for_items<kLast, V, kItems>(g, tile, group, [&](int k, [[maybe_unused]] int64_t at) {
#pragma unroll
      for (int j = 0; j < V; ++j) {
        C slope = cuda::to_compute(d[k].v[j]);
        const C deviation = cuda::to_compute(v[k].v[j]) - centre[j];
        if constexpr (kRecomputed)
          if (!is_positive<T>(normalised(deviation, scale[j], shift[j]))) slope = C(0);
        if constexpr (kGiven) {
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
  const int64_t c = blockIdx.x;
  const GradSums<C> all = combine_parts(g.splits, partial);
  if (threadIdx.x != 0) return;
  dweight[c] = all.dy_x * invstd.get(c, C(0));
  dbias[c] = all.dy;
}

/// dx = weight · invstd · (dy − dbias/n − x̂ · dweight/n); without the means when the statistics are
/// constants.
template <class T, bool kLast, int V, bool kRecomputed>
__global__ void __launch_bounds__(kThreads, kElementwiseBlocks)
    input_gradient(Geometry g, bool training, const T* __restrict__ dy, const T* __restrict__ x,
                   PerChannel<Compute<T>> mean, MaskArgs<T> mask,
                   const Compute<T>* __restrict__ dweight, const Compute<T>* __restrict__ dbias,
                   T* __restrict__ dx) {
  using C = Compute<T>;
  constexpr int kItems = grad_depth(V);
  const int64_t group = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (group >= g.groups) return;
  C centre[V];
  C scale[V];
  C mean_dy[V];
  C slope_x[V];
  C shift[kRecomputed ? V : 1];
  for (int j = 0; j < V; ++j) {
    const int64_t c = channel_of<kLast, V>(group, j);
    const C inverse = mask.invstd.get(c, C(1));
    const C share = training ? C(1) / static_cast<C>(g.count) : C(0);
    centre[j] = mean.get(c, C(0));
    scale[j] = mask.weight.get(c, C(1)) * inverse;
    mean_dy[j] = dbias[c] * share;
    slope_x[j] = dweight[c] * share * inverse;
    if constexpr (kRecomputed) shift[j] = mask.bias.get(c, C(0));
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
std::shared_ptr<BatchNormState> prepare_masked(const Specs& specs, size_t y = 0) {
  const size_t bytes =
      specs.out[0].dtype == DType::f64 ? sizeof(GradSums<double>) : sizeof(GradSums<float>);
  bool aligned = specs.in[0].aligned && specs.in[1].aligned && specs.out[0].aligned;
  if (kMask == Mask::given) aligned = aligned && specs.in[y].aligned && specs.out[3].aligned;
  return prepare_layout(specs, aligned, true, bytes, [&]<class T, bool kLast, int V>() {
    return reinterpret_cast<const void*>(partial_grad_sums<T, kLast, V, kMask>);
  });
}

template <Mask kMask>
void run_masked(const BatchNormParams& params, const BatchNormState& state, const Call& call,
                const BatchNormMask& given = {}) {
  const Geometry& g = state.geometry;
  Encoder& encoder = *call.encoder;
  switch_layout(call.in[0].dtype(), g, [&]<class T, bool kLast, int V>() {
    using C = Compute<T>;
    const auto* dy = call.in[0].as<const T>();
    const auto* x = call.in[1].as<const T>();
    const auto mean = per_channel<C>(call.in[3]);
    const auto invstd = per_channel<C>(call.in[4]);
    MaskArgs<T> mask{per_channel<C>(call.in[2]), invstd, {}, nullptr, nullptr};
    if (kMask == Mask::recomputed) mask.bias = per_channel<C>(input_or_none(call, given.bias));
    if (kMask == Mask::given) {
      mask.y = input_or_none(call, given.y).as<const T>();
      mask.dz = call.out[3].as<T>();
    }
    auto* dweight = call.out[1].as<C>();
    auto* dbias = call.out[2].as<C>();
    auto* partial = static_cast<GradSums<C>*>(call.workspace);
    encoder.launch(partial_grad_sums<T, kLast, V, kMask>, statistics_grid(g), block_of(g), 0, g, dy,
                   x, mean, mask, partial);
    encoder.launch(finish_grad_sums<C>, static_cast<unsigned>(g.channels), kThreads, 0, g, partial,
                   invstd, dweight, dbias);
    encoder.launch(input_gradient < T, kLast, V, kMask == Mask::recomputed >, elementwise_grid(g),
                   block_of(g), 0, g, params.training, kMask == Mask::given ? mask.dz : dy, x, mean,
                   mask, dweight, dbias, call.out[0].as<T>());
  });
}

Support supports_grad(const BatchNormParams&, const Specs& specs) {
  return supports_layout(specs, 0b11);  // dy and x
}
std::shared_ptr<BatchNormState> prepare_grad(const BatchNormParams&, const Specs& specs) {
  return prepare_masked<Mask::none>(specs);
}
void run_grad(const BatchNormParams& params, const BatchNormState& state, const Call& call) {
  run_masked<Mask::none>(params, state, call);
}

struct CarryingState : BatchNormState {
  explicit CarryingState(const BatchNormState& state) : BatchNormState(state) {}
  BatchNormMask mask;
};

Support supports_carrying(const AnchoredParams& params, const Specs& specs) {
  const auto mask = batch_norm_mask(params, specs);
  if (!mask) return Support::no("it carries relu_grad before batch_norm_grad");
  return supports_layout(specs, mask->y < 0 ? 0b11U : 0b11U | 1U << mask->y);
}
std::shared_ptr<CarryingState> prepare_carrying(const AnchoredParams& params, const Specs& specs) {
  const BatchNormMask mask = *batch_norm_mask(params, specs);
  auto state = std::make_shared<CarryingState>(
      *(mask.recomputed ? prepare_masked<Mask::recomputed>(specs)
                        : prepare_masked<Mask::given>(specs, static_cast<size_t>(mask.y))));
  state->mask = mask;
  return state;
}
void run_carrying(const AnchoredParams& params, const CarryingState& state, const Call& call) {
  const BatchNormParams& norm = batch_norm_params(params);
  state.mask.recomputed ? run_masked<Mask::recomputed>(norm, state, call, state.mask)
                        : run_masked<Mask::given>(norm, state, call, state.mask);
}

}  // namespace

KernelList batch_norm_grad_cuda_kernels() {
  return {kernel<supports_grad, prepare_grad, run_grad>("split_reduction")};
}

Kernel batch_norm_grad_carrying_kernel() {
  return kernel<supports_carrying, prepare_carrying, run_carrying>(
      "batch_norm_grad_split_reduction");
}

}  // namespace mica
