#include "mica/ops/fft/cuda_scale.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/types.cuh"

namespace mica::fft {
namespace {

constexpr int kThreads = 256;

template <class T>
__global__ void __launch_bounds__(kThreads) scale(T* values, int64_t n, T by) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < n; i += step)
    values[i] *= by;
}

}  // namespace

void scale_values(Encoder& encoder, void* values, int64_t n, bool wide, double by) {
  const unsigned grid = cuda::grid_for(n, kThreads, encoder.multiprocessors());
  if (wide) {
    encoder.launch(scale<double>, grid, kThreads, 0, static_cast<double*>(values), n, by);
  } else {
    encoder.launch(scale<float>, grid, kThreads, 0, static_cast<float*>(values), n,
                   static_cast<float>(by));
  }
}

}  // namespace mica::fft
