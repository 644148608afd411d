// matmul and linear without a library, for what cuBLASLt refuses: any strides, an empty K; and the
// pass after a product for what its epilogue cannot do.
#include <algorithm>

#include "mica/ops/matmul/cuda_activation.cuh"
#include "mica/ops/matmul/cuda_kernels.h"
#include "mica/ops/matmul/problem.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/types.cuh"

namespace mica {
namespace {

using cuda::Compute;

constexpr int kTile = 64;      // a block computes 64 × 64 elements of one matrix
constexpr int kDepth = 16;     // of K at a time
constexpr int kThreads = 256;  // 16 × 16 threads of 4 × 4 elements
constexpr int kEach = 4;

/// MatmulProblem as a kernel argument.
struct Problem {
  int64_t m;
  int64_t n;
  int64_t k;
  int64_t a_row;
  int64_t a_col;
  int64_t b_row;
  int64_t b_col;
  int64_t bias_stride;
  int64_t row_tiles;
  int64_t col_tiles;
  int64_t batches;
  Activation activation;
  int rank;
  int64_t batch[Dims::kMaxRank];
  int64_t a_batch[Dims::kMaxRank];
  int64_t b_batch[Dims::kMaxRank];
};

__device__ int64_t batch_offset(const Problem& p, const int64_t* strides, int64_t index) {
  int64_t offset = 0;
  for (int d = p.rank - 1; d >= 0; --d) {
    offset += index % p.batch[d] * strides[d];
    index /= p.batch[d];
  }
  return offset;
}

/// Reads a kTile × kDepth part of a matrix (rows by K) into shared memory, zeros outside. Threads
/// that are neighbours read along the axis with the smaller stride.
template <class T>
__device__ void load_tile(Compute<T> (&tile)[kDepth][kTile + 1], const T* x, int64_t row_stride,
                          int64_t k_stride, int64_t row0, int64_t k0, int64_t rows, int64_t depth) {
  const bool along_k = k_stride < row_stride;
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kDepth; i += kThreads) {
    const int r = along_k ? i / kDepth : i % kTile;
    const int k = along_k ? i % kDepth : i / kTile;
    const bool inside = row0 + r < rows && k0 + k < depth;
    tile[k][r] =
        inside ? cuda::to_compute(x[(row0 + r) * row_stride + (k0 + k) * k_stride]) : Compute<T>(0);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    tiled_product(Problem p, const T* a, const T* b, const T* bias, T* out) {
  using C = Compute<T>;
  __shared__ C a_tile[kDepth][kTile + 1];
  __shared__ C b_tile[kDepth][kTile + 1];
  const int tx = static_cast<int>(threadIdx.x) % 16;
  const int ty = static_cast<int>(threadIdx.x) / 16;
  const int64_t tiles = p.batches * p.row_tiles * p.col_tiles;
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int64_t col0 = tile % p.col_tiles * kTile;
    const int64_t row0 = tile / p.col_tiles % p.row_tiles * kTile;
    const int64_t batch = tile / p.col_tiles / p.row_tiles;
    const T* a_batch = a + batch_offset(p, p.a_batch, batch);
    const T* b_batch = b + batch_offset(p, p.b_batch, batch);
    C sum[kEach][kEach] = {};
    for (int64_t k0 = 0; k0 < p.k; k0 += kDepth) {
      load_tile(a_tile, a_batch, p.a_row, p.a_col, row0, k0, p.m, p.k);
      load_tile(b_tile, b_batch, p.b_col, p.b_row, col0, k0, p.n, p.k);
      __syncthreads();
      for (int k = 0; k < kDepth; ++k) {
        C left[kEach];
        C right[kEach];
        for (int i = 0; i < kEach; ++i) left[i] = a_tile[k][ty + 16 * i];
        for (int j = 0; j < kEach; ++j) right[j] = b_tile[k][tx + 16 * j];
        for (int i = 0; i < kEach; ++i)
          for (int j = 0; j < kEach; ++j) sum[i][j] += left[i] * right[j];
      }
      __syncthreads();
    }
    T* out_batch = out + batch * p.m * p.n;
    for (int i = 0; i < kEach; ++i) {
      const int64_t row = row0 + ty + 16 * i;
      for (int j = 0; j < kEach; ++j) {
        const int64_t col = col0 + tx + 16 * j;
        if (row >= p.m || col >= p.n) continue;
        const C add = bias ? cuda::to_compute(bias[col * p.bias_stride]) : C(0);
        out_batch[row * p.n + col] = cuda::convert<T>(activated(p.activation, sum[i][j] + add));
      }
    }
  }
}

/// V elements per step; where there is a bias, n is a multiple of V.
template <class T, int V>
__global__ void __launch_bounds__(kThreads)
    finish(int64_t vectors, int64_t n, const T* bias, int64_t bias_stride, Activation activation,
           T* y) {
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < vectors; i += step) {
    cuda::Vec<T, V> v = cuda::load_vec<V>(y + i * V);
    const int64_t col = bias ? i * V % n : 0;
#pragma unroll
    for (int j = 0; j < V; ++j) {
      Compute<T> x = cuda::to_compute(v.v[j]);
      if (bias) x += cuda::to_compute(bias[(col + j) * bias_stride]);
      v.v[j] = cuda::convert<T>(activated(activation, x));
    }
    cuda::store_vec<V>(y + i * V, v);
  }
}

template <auto problem_of>
void multiply(const Call& call, Activation activation) {
  if (call.out[0].numel() == 0) return;
  const MatmulProblem problem = problem_of(*call.in[0].spec, *call.in[1].spec);
  const bool biased = call.in.size() > 2 && call.in[2].defined();
  Problem p{};
  p.m = problem.m;
  p.n = problem.n;
  p.k = problem.k;
  p.a_row = problem.a_row;
  p.a_col = problem.a_col;
  p.b_row = problem.b_row;
  p.b_col = problem.b_col;
  p.bias_stride = biased ? call.in[2].strides()[0] : 0;
  p.row_tiles = cuda::ceil_div<int64_t>(p.m, kTile);
  p.col_tiles = cuda::ceil_div<int64_t>(p.n, kTile);
  p.batches = problem.batches();
  p.activation = activation;
  p.rank = problem.batch.rank();
  std::copy(problem.batch.begin(), problem.batch.end(), p.batch);
  std::copy(problem.a_batch.begin(), problem.a_batch.end(), p.a_batch);
  std::copy(problem.b_batch.begin(), problem.b_batch.end(), p.b_batch);
  const unsigned grid =
      cuda::grid_for(p.batches * p.row_tiles * p.col_tiles, 1, call.encoder->multiprocessors());
  cuda::cuda_switch_float(call.out[0].dtype(), "matmul", [&]<class T>() {
    call.encoder->launch(tiled_product<T>, grid, kThreads, 0, p, call.in[0].as<const T>(),
                         call.in[1].as<const T>(), biased ? call.in[2].as<const T>() : nullptr,
                         call.out[0].as<T>());
  });
}

template <auto problem_of>
void run(const NoParams&, const Call& call) {
  multiply<problem_of>(call, Activation::none);
}

Support supports_carrying(const AnchoredParams& params, const Specs& specs) {
  return ending_activation(params, specs)
             ? Support::yes()
             : Support::no("it carries an activation after a linear layer");
}
void run_carrying(const AnchoredParams& params, const Call& call) {
  multiply<linear_problem>(call, known_after(params, *params.call->op)->activation);
}

}  // namespace

Kernel matmul_tiled_kernel() {
  return kernel<supports_all<NoParams>, run<matmul_problem>>("tiled");
}
Kernel linear_tiled_kernel() {
  return kernel<supports_all<NoParams>, run<linear_problem>>("tiled");
}
Kernel linear_carrying_tiled_kernel() {
  return kernel<supports_carrying, run_carrying>("linear_tiled");
}

void run_wgrad_product_tiled(const Call& call) {
  multiply<linear_wgrad_problem>(call, Activation::none);
}

void finish_linear(Encoder& encoder, const Arg& y, const Arg* bias, Activation activation) {
  const int64_t n = y.shape().back();
  cuda::cuda_switch_float(y.dtype(), "linear", [&]<class T>() {
    const auto launch = [&]<int V>() {
      const int64_t vectors = y.numel() / V;
      encoder.launch(finish<T, V>, cuda::grid_for(vectors, kThreads, encoder.multiprocessors()),
                     kThreads, 0, vectors, n, bias ? bias->as<const T>() : nullptr,
                     bias ? bias->strides()[0] : 0, activation, y.as<T>());
    };
    constexpr int kWidth = cuda::kVec16<T>;
    const bool wide =
        cuda::is_aligned(y.data, 16) && y.numel() % kWidth == 0 && (!bias || n % kWidth == 0);
    wide ? launch.template operator()<kWidth>() : launch.template operator()<1>();
  });
}

}  // namespace mica
