// Gradients of linear layers and the optimizer's step in one launch: a block makes a tile of a
// weight's gradient by TF32 tensor cores, while parameter and states are on their way, and takes
// the step on it at once. Blocks after those take the step on parameters whose gradient is given.
#include <limits>

#include "mica/op/settings.h"
#include "mica/ops/device_table.h"
#include "mica/ops/matmul/cuda_small.cuh"
#include "mica/ops/optimizer_update/cuda_step.cuh"
#include "mica/ops/optimizer_update/linear_update.h"
#include "mica/runtime/cuda/async_copy.cuh"
#include "mica/runtime/cuda/tf32.cuh"

namespace mica {
namespace {

using namespace mica::update;
using small_product::to_tf32;

// A warp computes 16 × 16 elements of a tile, a block of four 32 × 32.
constexpr int kThreads = 128;
constexpr int kTileOut = 32;
constexpr int kTileIn = 32;
constexpr int kRows = 32;  ///< of dy and x that a stage of the pipeline holds
constexpr int kStages = 3;
// What lies between rows in shared memory keeps lanes that read at once in different banks.
constexpr int kPitchOut = kTileOut + 8;
constexpr int kPitchIn = kTileIn + 8;

// Of one launch; more go into another.
constexpr int kMostLayers = 16;
constexpr int kMostOthers = 64;

template <int kStates>
struct Layer {
  const float* dy;
  const float* x;
  float* weight[1 + kStates];  ///< the parameter, then its states
  float* bias[1 + kStates];
  int rows, out, in;
  int across;     ///< tiles along `in`
  bool dy_quads;  ///< dy can be read 16 bytes at a time
  bool quads;     ///< so can x, weight and its states
};

template <int kStates>
struct Work {
  int layers = 0;
  int others = 0;
  unsigned layer_end[kMostLayers];  ///< one past the last block of each
  unsigned other_end[kMostOthers];
  Layer<kStates> layer[kMostLayers];
  Entry<float, kStates> other[kMostOthers];
};

/// Where a thread copies from: quads of a matrix (rows, width), one below the other.
template <int kTile, int kPitch>
struct Source {
  static constexpr int kAcross = kTile / 4;
  static constexpr int kEach = kThreads / kAcross;  ///< rows of one turn
  static_assert(kRows % kEach == 0);
  const float* from;  ///< of the first quad
  int rows, width;
  int row;     ///< of the first quad
  int inside;  ///< of its elements
  int place;   ///< in shared memory
  bool quads;

  __device__ Source(const float* matrix, int all_rows, int all_columns, int col0, bool has_quads)
      : rows(all_rows), width(all_columns), quads(has_quads) {
    const int col = static_cast<int>(threadIdx.x) % kAcross * 4;
    row = static_cast<int>(threadIdx.x) / kAcross;
    inside = min(max(width - col0 - col, 0), 4);
    place = row * kPitch + col;
    // What is not inside is not read; the address stays in the matrix.
    from = matrix + int64_t{min(row, rows - 1)} * width + (inside > 0 ? col0 + col : 0);
  }

  /// Starts to copy kRows rows from `row0`; what lies outside becomes zero.
  __device__ void load(float* to, int row0) const {
    const float* source = from + int64_t{row0} * width;
#pragma unroll
    for (int i = 0; i < kRows; i += kEach) {
      const int count = row0 + row + i < rows ? inside : 0;
      float* target = to + place + i * kPitch;
      const float* at = count > 0 ? source + int64_t{i} * width : from;
      if (quads) {
        copy_async<16>(target, at, count * 4);
      } else {
#pragma unroll
        for (int e = 0; e < 4; ++e)
          copy_async<4>(target + e, at + (e < count ? e : 0), e < count ? 4 : 0);
      }
    }
  }
};

struct alignas(16) Stage {
  float dy[kRows * kPitchOut];
  float x[kRows * kPitchIn];
};

/// One tile of a weight, and where it is a first one the elements of the bias beside it.
/// `make_shared()` has one thread make the constants; a barrier comes before they are read.
template <class Step, bool kQuads, class F>
__device__ void step_tile(const Layer<Step::kStates>& l, int tile, Stage* stages,
                          const F& make_shared) {
  constexpr int kStates = Step::kStates;
  const int tid = static_cast<int>(threadIdx.x);
  const int lane = tid % 32;
  const int g = lane / 4;
  const int t = lane % 4;
  const int row0 = tile / l.across * kTileOut;
  const int col0 = tile % l.across * kTileIn;
  const int warp_row = tid / 64 * 16;
  const int warp_col = tid / 32 % 2 * 16;

  const int chunks = ceil_div(l.rows, kRows);
  const Source<kTileOut, kPitchOut> dy(l.dy, l.rows, l.out, row0, l.dy_quads);
  const Source<kTileIn, kPitchIn> x(l.x, l.rows, l.in, col0, kQuads);
  const auto load = [&](int chunk) {
    if (chunk < chunks) {
      Stage& to = stages[chunk % kStages];
      dy.load(to.dy, chunk * kRows);
      x.load(to.x, chunk * kRows);
    }
    commit_copies();
  };
#pragma unroll
  for (int i = 0; i < kStages - 1; ++i) load(i);

  // A thread owns four columns of two rows of the tile.
  const int row = row0 + warp_row + 2 * g;
  const int col = col0 + warp_col + 4 * t;
  // What lies outside is read at the tensor's first element, and dropped: without branches no load
  // waits for another.
  float value[1 + kStates][2][4];
#pragma unroll
  for (int s = 0; s <= kStates; ++s)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int inside = row + h < l.out ? l.in - col : 0;
      const int at = (row + h) * l.in + col;
      float(&v)[4] = value[s][h];
      if constexpr (kQuads) {
        const float4 four = *reinterpret_cast<const float4*>(l.weight[s] + (inside > 0 ? at : 0));
        v[0] = four.x, v[1] = four.y, v[2] = four.z, v[3] = four.w;
      } else {
#pragma unroll
        for (int j = 0; j < 4; ++j) v[j] = l.weight[s][inside > j ? at + j : 0];
      }
    }
  const bool sums = col0 == 0 && warp_col == 0;
  const int bias_row = row + t;
  const bool has_bias = sums && t < 2 && bias_row < l.out;
  float bias[1 + kStates];
#pragma unroll
  for (int s = 0; s <= kStates; ++s) bias[s] = l.bias[s][has_bias ? bias_row : 0];
  const Shared<Step, float>& shared = make_shared();

  // Of two products side by side the n-th column of the j-th is column 2 n + j, so that what a lane
  // reads and owns lies together; likewise rows.
  float acc[2][4] = {};
  float sum[2] = {};
  const int at_dy = t * kPitchOut + warp_row + 2 * g;
  const int at_x = t * kPitchIn + warp_col + 2 * g;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    wait_copies<kStages - 2>();
    __syncthreads();
    load(chunk + kStages - 1);
    const Stage& stage = stages[chunk % kStages];
#pragma unroll
    for (int k = 0; k < kRows; k += 8) {
      float2 a[2];
      float2 b[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        a[i] = *reinterpret_cast<const float2*>(stage.dy + at_dy + (k + 4 * i) * kPitchOut);
        b[i] = *reinterpret_cast<const float2*>(stage.x + at_x + (k + 4 * i) * kPitchIn);
      }
      if (sums) {
        sum[0] += a[0].x + a[1].x;
        sum[1] += a[0].y + a[1].y;
      }
      const uint32_t left[4] = {to_tf32(a[0].x), to_tf32(a[0].y), to_tf32(a[1].x), to_tf32(a[1].y)};
      tf32::mma(acc[0], left, to_tf32(b[0].x), to_tf32(b[1].x));
      tf32::mma(acc[1], left, to_tf32(b[0].y), to_tf32(b[1].y));
    }
  }

  if (shared.skips) return;  // a barrier was in the loop: a product has rows
  const typename Step::template Factors<float>& factors = shared.factors;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      float states[kStates + 1];
#pragma unroll
      for (int s = 0; s < kStates; ++s) states[s] = value[1 + s][h][j];
      Step::apply(factors, value[0][h][j], acc[j % 2][2 * h + j / 2], states);
#pragma unroll
      for (int s = 0; s < kStates; ++s) value[1 + s][h][j] = states[s];
    }
    if (row + h >= l.out || col >= l.in) continue;
#pragma unroll
    for (int s = 0; s <= kStates; ++s) {
      float* to = l.weight[s] + ((row + h) * l.in + col);
      const float(&v)[4] = value[s][h];
      if constexpr (kQuads) {
        *reinterpret_cast<float4*>(to) = make_float4(v[0], v[1], v[2], v[3]);
      } else {
#pragma unroll
        for (int j = 0; j < 4; ++j)
          if (col + j < l.in) to[j] = v[j];
      }
    }
  }
  if (!sums) return;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    sum[h] += __shfl_xor_sync(0xffffffffU, sum[h], 1);
    sum[h] += __shfl_xor_sync(0xffffffffU, sum[h], 2);
  }
  if (!has_bias) return;
  Step::apply(factors, bias[0], t == 0 ? sum[0] : sum[1], bias + 1);
#pragma unroll
  for (int s = 0; s <= kStates; ++s) l.bias[s][bias_row] = bias[s];
}

template <class Step, class Params>
__global__ void __launch_bounds__(kThreads, Step::kStates <= 2 ? 5 : 4)
    take_linear_step(const __grid_constant__ Work<Step::kStates> work, Scalars scalars,
                     const __grid_constant__ Params params) {
  __shared__ Stage stages[kStages];
  __shared__ Shared<Step, float> shared;
  const unsigned tiles = work.layers == 0 ? 0 : work.layer_end[work.layers - 1];
  const bool in_layer = blockIdx.x < tiles;
  const unsigned block = in_layer ? blockIdx.x : blockIdx.x - tiles;
  const unsigned* end = in_layer ? work.layer_end : work.other_end;
  const int k = owner_of(block, end, in_layer ? work.layers : work.others);
  const unsigned part = block - (k == 0 ? 0 : end[k - 1]);
  wait_for_inputs();
  const auto now = scalars.load<Step::kNumbers>();
  // One thread computes them; there is a barrier before they are read.
  const auto make_shared = [&]() -> const auto& {
    if (threadIdx.x == 0) shared = {now.template factors<Step, float>(params), now.skips};
    return shared;
  };
  if (in_layer) {
    const Layer<Step::kStates>& layer = work.layer[k];
    const int tile = static_cast<int>(part);
    if (layer.quads) {
      step_tile<Step, true>(layer, tile, stages, make_shared);
    } else {
      step_tile<Step, false>(layer, tile, stages, make_shared);
    }
  } else {
    const Entry<float, Step::kStates> entry = work.other[k];
    step_chunk<Step, float, kThreads>(entry, part, [&]() -> const auto& {
      make_shared();
      __syncthreads();
      return shared;
    });
  }
}

template <class O>
Support supports(const WithLayers<typename O::Params>& p, const Specs& s) {
  if (!allow_tf32()) return Support::no("TF32 is not allowed");
  const auto count = static_cast<size_t>(p.update.count);
  const size_t of_layers = 2 * static_cast<size_t>(p.layers);
  const DeviceTable::LinearUpdate& limits = device_table(s.in[0].device).linear_update;
  bool small = true;  // else a library's product and the plain update may be faster
  for (size_t i = kFirst; i < s.in.size(); ++i) {
    const TensorSpec& spec = s.in[i];
    if (spec.dtype != DType::f32) return Support::no("it is not f32");
    const size_t k = (i - kFirst) % count;
    if ((i - kFirst) / count != 1 || k >= of_layers) {
      if (!spec.lies_like(s.in[kFirst + k]))
        return Support::no("a gradient is laid out otherwise than its parameter");
      if (k < of_layers && spec.numel() > std::numeric_limits<int32_t>::max())
        return Support::no("a weight is too large");
      small = small && (k >= of_layers || spec.numel() <= limits.most_weights);
      continue;
    }
    if (!spec.is_contiguous()) return Support::no("an operand of a gradient is not row-major");
    if (spec.numel() == 0) return Support::no("there is nothing to multiply");
    if (spec.shape[0] > std::numeric_limits<int32_t>::max() / 2)
      return Support::no("there are too many rows");
    small = small && spec.shape[0] <= limits.most_rows;
  }
  return small ? Support::yes() : Support::possible();
}

template <int kStates>
Layer<kStates> layer_of(const Call& c, size_t count, size_t k) {
  const Arg* at = &c.in[kFirst + k];
  const Arg& dy = at[count];
  const Arg& x = at[count + 1];
  Layer<kStates> l{};
  l.dy = dy.as<const float>();
  l.x = x.as<const float>();
  l.rows = static_cast<int>(dy.shape()[0]);
  l.out = static_cast<int>(dy.shape()[1]);
  l.in = static_cast<int>(x.shape()[1]);
  l.across = ceil_div(l.in, kTileIn);
  l.dy_quads = l.out % 4 == 0 && is_aligned(l.dy, 16);
  l.quads = l.in % 4 == 0 && is_aligned(l.x, 16);
  for (size_t s = 0; s <= kStates; ++s) {
    const size_t list = s == 0 ? 0 : (1 + s) * count;
    l.weight[s] = at[list].as<float>();
    l.bias[s] = at[list + 1].as<float>();
    l.quads = l.quads && is_aligned(l.weight[s], 16);
  }
  return l;
}

template <class O>
void run(const WithLayers<typename O::Params>& p, const Call& c) {
  O::visit(p.update, [&]<class Step>() {
    const auto count = static_cast<size_t>(p.update.count);
    const size_t of_layers = 2 * static_cast<size_t>(p.layers);
    size_t layer = 0;
    size_t other = of_layers;
    while (layer < of_layers || other < count) {
      Work<Step::kStates> work;
      unsigned tiles = 0;
      for (; layer < of_layers && work.layers < kMostLayers; layer += 2) {
        const Layer<Step::kStates> l = layer_of<Step::kStates>(c, count, layer);
        tiles += static_cast<unsigned>(l.across) * static_cast<unsigned>(ceil_div(l.out, kTileOut));
        work.layer_end[work.layers] = tiles;
        work.layer[work.layers++] = l;
      }
      unsigned blocks = 0;
      for (; other < count && work.others < kMostOthers; ++other) {
        const auto e = entry_of<float, Step::kStates>(c, count, other);
        if (e.n == 0) continue;
        blocks += static_cast<unsigned>(ceil_div(e.n, kChunk<float, kThreads>));
        work.other_end[work.others] = blocks;
        work.other[work.others++] = e;
      }
      const ProgrammaticLaunch overlap;
      c.encoder->launch(take_linear_step<Step, typename O::Params>, tiles + blocks, kThreads, 0,
                        work, Scalars(c), p.update);
    }
  });
}

template <class O>
KernelList kernels() {
  return {kernel<supports<O>, run<O>>("gradient_tiles"), composed_kernel<O>()};
}

}  // namespace

KernelList linear_sgd_update_cuda_kernels() { return kernels<LinearSgd>(); }
KernelList linear_adam_update_cuda_kernels() { return kernels<LinearAdam>(); }
KernelList linear_rmsprop_update_cuda_kernels() { return kernels<LinearRmsprop>(); }
KernelList linear_adagrad_update_cuda_kernels() { return kernels<LinearAdagrad>(); }

}  // namespace mica
