#include <optional>

#include "mica/core/switch_bytes.h"
#include "mica/op/settings.h"
#include "mica/ops/gather/cuda_indexed.cuh"

// Adding to a table.
namespace mica::cuda {
namespace {

/// What atomics add T in; where it is another type the sums stand in the workspace.
template <class T>
struct AtomicType {
  using type = std::conditional_t<!std::is_integral_v<T>, Compute<T>,
                                  std::conditional_t<sizeof(T) == 8, unsigned long long, unsigned>>;
};

bool sums_apart(DType t) { return size_of(t) < 4; }

template <class To, class From>
__global__ void __launch_bounds__(kIndexThreads) convert_all(const From* in, To* out, int64_t n) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kIndexThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kIndexThreads + threadIdx.x; i < n; i += step)
    out[i] = convert<To>(in[i]);
}

constexpr int kInFlight = 4;  ///< elements a thread waits for together

template <class T, class S>
__global__ void __launch_bounds__(kIndexThreads)
    add_atomically(const __grid_constant__ StridedLoop<3> loop,
                   const __grid_constant__ IndexReader index, const T* dense, S* sums) {
  constexpr int64_t kPerBlock = int64_t{kIndexThreads} * kInFlight;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * kPerBlock + threadIdx.x;
       first < loop.count; first += static_cast<int64_t>(gridDim.x) * kPerBlock) {
    int64_t to[kInFlight];
    T x[kInFlight];
#pragma unroll
    for (int j = 0; j < kInFlight; ++j) {
      to[j] = -1;
      if (first + j * kIndexThreads >= loop.count) continue;
      int64_t at[3];
      loop.offsets(first + j * kIndexThreads, at);
      const int64_t offset = index.offset(at[2]);
      if (offset >= 0) to[j] = at[1] + offset;
      x[j] = dense[at[0]];
    }
#pragma unroll
    for (int j = 0; j < kInFlight; ++j)
      if (to[j] >= 0) atomicAdd(sums + to[j], convert<S>(x[j]));
  }
}

/// A warp to 32 neighbours of the loop's first dimension, each of which is one sum. Where they
/// share their indices, as the elements of a row do, the lanes look at 32 of them at once.
template <class T>
__global__ void __launch_bounds__(kIndexThreads)
    add_in_order(const __grid_constant__ StridedLoop<4> loop,
                 const __grid_constant__ StridedLoop<3> along,
                 const __grid_constant__ IndexReader index, const T* dense, T* out, int64_t length,
                 bool shared) {
  constexpr int kWarps = kIndexThreads / 32;
  constexpr unsigned kAll = 0xffffffffU;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t pieces = ceil_div<int64_t>(length, 32);
  const int64_t works = loop.count / length * pieces;
  for (int64_t w = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32; w < works;
       w += static_cast<int64_t>(gridDim.x) * kWarps) {
    const int64_t row = w / pieces;
    const int64_t i = (w - row * pieces) * 32 + lane;
    int64_t at[4];
    loop.offsets(row * length + ::min(i, length - 1), at);
    Compute<T> sum = to_compute(out[at[0]]);
    for (int64_t first = 0; first < along.count; first += shared ? 32 : 1) {
      const int64_t a = first + (shared ? lane : 0);
      int64_t from[3] = {};
      bool hit = false;
      if (a < along.count) {
        along.offsets(a, from);
        hit = index.offset(at[2] + from[2]) == at[3];
      }
      if (!shared) {
        if (hit) sum += to_compute(dense[at[1] + from[1]]);
        continue;
      }
      for (unsigned hits = __ballot_sync(kAll, hit); hits != 0; hits &= hits - 1) {
        const int64_t found = __shfl_sync(kAll, from[1], __ffs(static_cast<int>(hits)) - 1);
        sum += to_compute(dense[at[1] + found]);
      }
    }
    if (i < length) out[at[0]] = convert<T>(sum);
  }
}

}  // namespace

Support supports_atomic_add(const TensorSpec& out) {
  if (deterministic() && is_floating(real_dtype(out.dtype)) && out.numel() > 0)
    return Support::no("atomics add floats in no fixed order");
  return Support::yes();
}

Pairs::Pairs(const Indexed& indexed, const TensorSpec& whole) : how(indexed), out(whole) {
  if (how.shape.rank() == Dims::kMaxRank || out.rank() == Dims::kMaxRank)
    throw Unsupported("complex numbers of eight axes leave no room for one of their parts");
  const auto doubled = [](Strides& strides, int64_t between) {
    for (int i = 0; i < strides.rank(); ++i) strides[i] *= 2;
    strides.push_back(between);
  };
  doubled(how.dense, 1);
  doubled(how.table, 1);
  how.index.push_back(0);
  how.dense_axes.push_back(how.shape.rank());
  how.shape.push_back(2);
  how.scale *= 2;
  doubled(out.strides, 1);
  out.shape.push_back(2);
  out.dtype = real_dtype(out.dtype);
}

AddPlan::AddPlan(const Indexed& how, const TensorSpec& x, const TensorSpec& out)
    : start(x, out),
      elements(out.numel()),
      dtype(real_dtype(out.dtype)),
      pairs(is_complex(out.dtype)) {
  const auto loop_over = [](const Indexed& h) {
    return strided_loop<3>(h.shape, {h.dense, h.table, h.index});
  };
  loop = pairs ? loop_over(Pairs(how, out).how) : loop_over(how);
}

size_t AddPlan::workspace_bytes() const {
  return sums_apart(dtype) ? static_cast<size_t>(elements) * sizeof(float) : 0;
}

void AddPlan::run(Encoder& encoder, const IndexReader& index, const Arg& x, const Arg& dense,
                  const Arg& out, void* workspace) const {
  start.run(encoder, x, out);
  const unsigned grid =
      grid_for(loop.count, int64_t{kIndexThreads} * kInFlight, encoder.multiprocessors());
  const unsigned all = grid_for(elements, kIndexThreads, encoder.multiprocessors());
  const auto add = [&]<class T>() {
    using S = typename AtomicType<T>::type;
    auto* sums = static_cast<S*>(sums_apart(dtype) ? workspace : out.data);
    if constexpr (sizeof(T) < 4)
      encoder.launch(convert_all<S, T>, all, kIndexThreads, 0, out.as<const T>(), sums, elements);
    encoder.launch(add_atomically<T, S>, grid, kIndexThreads, 0, loop,
                   pairs ? Pairs::reader(index) : index, dense.as<const T>(), sums);
    if constexpr (sizeof(T) < 4)
      encoder.launch(convert_all<T, S>, all, kIndexThreads, 0, sums, out.as<T>(), elements);
  };
  // Sums modulo 2^n are the same with a sign and without.
  if (is_floating(dtype)) return cuda_switch_float(dtype, index.axis.op, add);
  switch_bytes(size_of(dtype), add);
}

Support supports_ordered_add(const TensorSpec& out) {
  if (!is_floating(real_dtype(out.dtype))) return Support::no("atomics add integers exactly");
  if (out.numel() == 0) return Support::no("no element would look at the indices");
  return Support::yes();
}

OrderedAddPlan::OrderedAddPlan(const Indexed& given, const TensorSpec& x, const TensorSpec& whole)
    : start(x, whole), dtype(real_dtype(whole.dtype)), pairs(is_complex(whole.dtype)) {
  const std::optional<Pairs> parts = pairs ? std::optional<Pairs>({given, whole}) : std::nullopt;
  const Indexed& how = parts ? parts->how : given;
  const TensorSpec& out = parts ? parts->out : whole;
  // An index may be smaller than the table off its axis: what lies past it is not reached.
  Shape reached = out.shape;
  Strides dense = Dims::filled(out.rank(), 0);
  Strides index = dense;
  Strides offset = dense;
  for (int i = 0; i < out.rank(); ++i) {
    const auto axis = static_cast<int>(how.dense_axes[i]);
    if (axis < 0) {
      offset[i] = out.strides[i];
      continue;
    }
    reached[i] = how.shape[axis];
    dense[i] = how.dense[axis];
    index[i] = how.index[axis];
  }
  loop = strided_loop<4>(reached, {out.strides, dense, index, offset});
  Shape own;
  std::array<Strides, 3> strides;
  for (int i = 0; i < how.shape.rank(); ++i) {
    if (how.dense_axes.contains(i)) continue;
    own.push_back(how.shape[i]);
    strides[1].push_back(how.dense[i]);
    strides[2].push_back(how.index[i]);
  }
  strides[0] = contiguous_strides(own);  // keeps the loop in row-major order
  along = strided_loop<3>(own, strides);
}

void OrderedAddPlan::run(Encoder& encoder, const IndexReader& index, const Arg& x, const Arg& dense,
                         const Arg& out) const {
  const int64_t length = loop.rank == 0 ? 1 : loop.size[0];
  const bool shared = loop.rank == 0 || (loop.stride[2][0] == 0 && loop.stride[3][0] == 0);
  const int64_t works = loop.count / length * ceil_div<int64_t>(length, 32);
  const unsigned grid = grid_for(works, kIndexThreads / 32, encoder.multiprocessors());
  start.run(encoder, x, out);
  cuda_switch_float(dtype, index.axis.op, [&]<class T>() {
    encoder.launch(add_in_order<T>, along.count == 0 ? 0 : grid, kIndexThreads, 0, loop, along,
                   pairs ? Pairs::reader(index) : index, dense.as<const T>(), out.as<T>(), length,
                   shared);
  });
}

}  // namespace mica::cuda
