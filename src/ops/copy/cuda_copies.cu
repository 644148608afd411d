// Copies of many small tensors in one launch. A tensor is copied as it lies, or as matrices that
// are turned over: the window of a weight moves from behind the channels to before them, or back.
#include <algorithm>

#include "mica/op/kernel.h"
#include "mica/ops/copy/copies.h"
#include "mica/ops/copy/copy.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/programmatic_launch.cuh"
#include "mica/runtime/cuda/types.cuh"

namespace mica {
namespace {

using namespace mica::cuda;

constexpr int kThreads = 256;
constexpr int kVector = 8;                          ///< elements of a thread at once
constexpr int64_t kChunk = 4 * kThreads * kVector;  ///< elements of a block, where none are turned
constexpr int64_t kMostTurned = 8192;               ///< elements of matrices that a block turns
constexpr int64_t kLeastTurned = 4096;              ///< where there are as many
constexpr size_t kMostBytes = 32764 - 256;          ///< of the parameters of a launch

/// `matrices` of (rows, columns), which become (columns, rows); one row where none are turned.
struct Entry {
  const void* in;
  void* out;
  int64_t matrices;
  int rows, columns;
  int each;  ///< matrices of a block
  bool vectors;
};
constexpr int kMost = static_cast<int>(kMostBytes / (sizeof(Entry) + sizeof(unsigned)));

struct Group {
  int tensors = 0;
  unsigned end[kMost];  ///< one past the last block of each tensor
  Entry entries[kMost];
};

/// Elements from row to row of a matrix in shared memory that has `rows` of the result's columns:
/// an odd number of words, so that neither writing nor reading it meets a bank twice.
template <class T>
__host__ __device__ constexpr int pitch_of(int rows) {
  constexpr int kPerWord = sizeof(T) < 4 ? 4 / sizeof(T) : 1;
  return ((rows + kPerWord - 1) / kPerWord | 1) * kPerWord;
}

template <class To, class From>
__device__ void copy_chunk(const Entry& e, int64_t chunk) {
  const int64_t n = e.matrices * e.columns;
  const auto* in = static_cast<const From*>(e.in);
  auto* out = static_cast<To*>(e.out);
  for (int64_t at = chunk * kChunk + threadIdx.x * kVector; at < min(n, (chunk + 1) * kChunk);
       at += kThreads * kVector) {
    if (e.vectors && at + kVector <= n) {
      const Vec<From, kVector> x = load_vec<kVector>(in + at);
      Vec<To, kVector> y;
#pragma unroll
      for (int j = 0; j < kVector; ++j) y.v[j] = convert<To>(x.v[j]);
      store_vec<kVector>(out + at, y);
    } else {
      for (int64_t i = at; i < min(n, at + kVector); ++i) out[i] = convert<To>(in[i]);
    }
  }
}

template <class To, class From>
__device__ void turn_matrices(const Entry& e, int64_t chunk, To* shared) {
  const int size = e.rows * e.columns;
  const int pitch = pitch_of<To>(e.rows);
  const int64_t first = chunk * e.each;
  const int count = static_cast<int>(min(int64_t{e.each}, e.matrices - first));
  const From* in = static_cast<const From*>(e.in) + first * size;
  To* out = static_cast<To*>(e.out) + first * size;
  for (int i = static_cast<int>(threadIdx.x); i < count * size; i += kThreads) {
    const int row = i / e.columns;  // over all matrices
    const int m = row / e.rows;
    shared[(m * e.columns + i - row * e.columns) * pitch + row - m * e.rows] = convert<To>(in[i]);
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < count * size; i += kThreads) {
    const int column = i / e.rows;
    out[i] = shared[column * pitch + i - column * e.rows];
  }
}

template <class To, class From>
__global__ void __launch_bounds__(kThreads) copy_all(const __grid_constant__ Group group) {
  extern __shared__ __align__(16) unsigned char turned[];
  int k = 0;
  for (int last = group.tensors - 1; k < last;) {
    const int middle = (k + last) / 2;
    if (blockIdx.x < group.end[middle]) {
      last = middle;
    } else {
      k = middle + 1;
    }
  }
  wait_for_inputs();
  const Entry& e = group.entries[k];
  const int64_t chunk = blockIdx.x - (k == 0 ? 0 : group.end[k - 1]);
  if (e.rows == 1) {
    copy_chunk<To, From>(e, chunk);
  } else {
    turn_matrices<To, From>(e, chunk, reinterpret_cast<To*>(turned));
  }
}

/// How a tensor is copied, without the addresses; no matrices where it cannot be.
Entry entry_of(const TensorSpec& out, const TensorSpec& in) {
  Entry e{};
  if (in.lies_like(out)) {
    e.matrices = 1;
    e.rows = 1;
    e.columns = static_cast<int>(in.numel());
    e.vectors = in.aligned && out.aligned;
    return e;
  }
  if (in.rank() != 4) return {};
  const auto channels = static_cast<int>(in.shape[1]);
  const auto window = static_cast<int>(in.shape[2] * in.shape[3]);
  if (in.is_contiguous() && out.is_channels_last_dense()) {
    e.rows = channels, e.columns = window;
  } else if (in.is_channels_last_dense() && out.is_contiguous()) {
    e.rows = window, e.columns = channels;
  } else {
    return {};
  }
  const int64_t size = int64_t{e.rows} * e.columns;
  if (size > kMostTurned) return {};
  e.matrices = in.shape[0];
  e.each = static_cast<int>(std::clamp<int64_t>(kLeastTurned / size, 1, e.matrices));
  return e;
}

struct CopiesState : KernelState {
  std::vector<Entry> entries;
  size_t shared_bytes = 0;
};

Support supports(const CopyParams& p, const Specs& s) {
  for (size_t k = 0; k < s.in.size(); ++k) {
    if (s.in[k].dtype != s.in[0].dtype) return Support::no("the tensors have several dtypes");
    if (s.in[k].numel() == 0 || s.in[k].numel() > INT32_MAX)
      return Support::no("a tensor is empty, or too large");
    if (entry_of(s.out[k], s.in[k]).matrices == 0)
      return Support::no("a tensor is neither copied as it lies nor turned in shared memory");
  }
  if (s.in[0].dtype == DType::f64 || p.dtype == DType::f64)
    return Support::no("it has kernels of f32 and narrower");
  return Support::yes();
}

std::shared_ptr<CopiesState> prepare(const CopyParams& p, const Specs& s) {
  auto state = std::make_shared<CopiesState>();
  cuda_switch_float(p.dtype, "copies", [&]<class To>() {
    for (size_t k = 0; k < s.in.size(); ++k) {
      const Entry e = entry_of(s.out[k], s.in[k]);
      state->entries.push_back(e);
      if (e.rows == 1) continue;
      const size_t bytes = static_cast<size_t>(e.each) * static_cast<size_t>(e.columns) *
                           static_cast<size_t>(pitch_of<To>(e.rows)) * sizeof(To);
      state->shared_bytes = std::max(state->shared_bytes, bytes);
    }
  });
  return state;
}

template <class To, class From>
void run_as(const CopiesState& state, const Call& call) {
  const ProgrammaticLaunch overlap;
  for (size_t k = 0; k < state.entries.size();) {
    Group group;
    unsigned blocks = 0;
    for (; k < state.entries.size() && group.tensors < kMost; ++k) {
      Entry e = state.entries[k];
      e.in = call.in[k].data;
      e.out = call.out[k].data;
      blocks += static_cast<unsigned>(e.rows == 1 ? ceil_div<int64_t>(e.columns, kChunk)
                                                  : ceil_div<int64_t>(e.matrices, e.each));
      group.entries[group.tensors] = e;
      group.end[group.tensors++] = blocks;
    }
    call.encoder->launch(copy_all<To, From>, blocks, kThreads, state.shared_bytes, group);
  }
}

void run(const CopyParams& p, const CopiesState& state, const Call& call) {
  cuda_switch_float(p.dtype, "copies", [&]<class To>() {
    cuda_switch_float(call.in[0].dtype(), "copies", [&]<class From>() {
      if constexpr (sizeof(To) <= 4 && sizeof(From) <= 4) run_as<To, From>(state, call);
    });
  });
}

}  // namespace

KernelList copies_cuda_kernels() {
  return {kernel<supports, prepare, run>("multi_tensor"), copies_composed_kernel()};
}

}  // namespace mica
