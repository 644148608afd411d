#include <cmath>

#include "mica/op/kernel.h"
#include "mica/ops/optimizer_update/total_norm.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/types.cuh"

namespace mica {
namespace {

using namespace mica::cuda;

constexpr int kThreads = 256;
constexpr int64_t kChunk = 8192;  ///< elements of a block, which adds up one partial sum
constexpr int kMost = 1024;       ///< tensors of a launch

template <class T>
struct Group {
  int tensors = 0;
  unsigned end[kMost];  ///< one past the last block of each tensor
  const T* data[kMost];
  int64_t n[kMost];
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    sum_squares(const __grid_constant__ Group<T> group, double* sums) {
  constexpr int kV = kVec16<T>;
  int k = 0;  // the first tensor that ends after this block
  for (int last = group.tensors - 1; k < last;) {
    const int middle = (k + last) / 2;
    if (blockIdx.x < group.end[middle]) {
      last = middle;
    } else {
      k = middle + 1;
    }
  }
  const unsigned block = blockIdx.x - (k == 0 ? 0 : group.end[k - 1]);
  const T* x = group.data[k] + block * kChunk;
  const int64_t n = ::min(kChunk, group.n[k] - block * kChunk);
  const int64_t whole = is_aligned(x, 16) ? n / kV * kV : 0;
  double sum = 0;
  const auto add = [&](T value) {
    const auto v = static_cast<double>(to_compute(value));
    sum += v * v;
  };
  for (int64_t i = static_cast<int64_t>(threadIdx.x) * kV; i < whole; i += kThreads * kV) {
    const Vec<T, kV> values = load_vec<kV>(x + i);
#pragma unroll
    for (int j = 0; j < kV; ++j) add(values.v[j]);
  }
  for (int64_t i = whole + threadIdx.x; i < n; i += kThreads) add(x[i]);
  sum = block_sum<kThreads>(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kThreads)
    norm_of_sums(const double* sums, int64_t n, void* out, bool wide) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < n; i += kThreads) sum += sums[i];
  sum = ::sqrt(block_sum<kThreads>(sum));
  if (threadIdx.x != 0) return;
  if (wide) {
    *static_cast<double*>(out) = sum;
  } else {
    *static_cast<float*>(out) = static_cast<float>(sum);
  }
}

/// How many blocks there are; their sums are the workspace.
struct Blocks : KernelState {
  int64_t count = 0;
};

std::shared_ptr<Blocks> prepare(const NoParams&, const Specs& s) {
  auto state = std::make_shared<Blocks>();
  for (const TensorSpec& spec : s.in) state->count += ceil_div(spec.numel(), kChunk);
  state->workspace_bytes = static_cast<size_t>(state->count) * sizeof(double);
  return state;
}

/// Adds up the tensors of type T and returns the number of sums.
template <class T>
int64_t run_as(const Call& c, DType dtype, double* sums) {
  size_t k = 0;
  int64_t done = 0;
  while (k < c.in.size()) {
    Group<T> group;
    unsigned count = 0;
    for (; k < c.in.size() && group.tensors < kMost; ++k) {
      const int64_t n = c.in[k].numel();
      if (n == 0 || c.in[k].dtype() != dtype) continue;
      group.data[group.tensors] = c.in[k].as<const T>();
      group.n[group.tensors] = n;
      count += static_cast<unsigned>(ceil_div(n, kChunk));
      group.end[group.tensors++] = count;
    }
    c.encoder->launch(sum_squares<T>, count, kThreads, 0, group, sums + done);
    done += count;
  }
  return done;
}

void run(const NoParams&, const Blocks& blocks, const Call& c) {
  auto* sums = static_cast<double*>(c.workspace);
  int64_t done = 0;
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16})
    cuda_switch_float(dtype, "total_norm",
                      [&]<class T>() { done += run_as<T>(c, dtype, sums + done); });
  c.encoder->launch(norm_of_sums, 1, kThreads, 0, sums, blocks.count, c.out[0].data,
                    c.out[0].dtype() == DType::f64);
}

}  // namespace

KernelList total_norm_cuda_kernels() {
  return {kernel<total_norm_supports, prepare, run>("two_pass")};
}

}  // namespace mica
