#include "mica/ops/linalg/cuda_layout.h"

#include <algorithm>

#include "mica/ops/linalg/cuda_launch.cuh"
#include "mica/runtime/cuda/types.cuh"

namespace mica::linalg {
namespace {

constexpr int kTile = 32;
constexpr int kTileRows = 8;
constexpr int kThreads = 256;

template <class T>
__device__ bool is_finite(T x) {
  return group::real_part(x) * 0 == 0 && group::imaginary_part(x) * 0 == 0;
}

/// A block has a tile of each matrix: what it reads by rows it writes by rows.
template <class T>
__global__ void __launch_bounds__(kTile* kTileRows) copy_tiles(const MatrixCopy p) {
  __shared__ T tile[kTile][kTile + 1];
  const int64_t row = static_cast<int64_t>(blockIdx.y) * kTile;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kTile;
  const int64_t tx = threadIdx.x;
  for (int64_t b = blockIdx.z; b < p.count; b += gridDim.z) {
    const T* const from = static_cast<const T*>(p.from.data) + b * p.from.step;
    T* const to = static_cast<T*>(p.to.data) + b * p.to.step;
    for (int64_t r = threadIdx.y; r < kTile; r += kTileRows) {
      const int64_t i = row + r;
      const int64_t j = column + tx;
      if (i >= p.rows || j >= p.columns) continue;
      T value = from[i * p.from.ld + j];
      if (p.finite.fault != nullptr && !is_finite(value)) {
        group::note_info(p.finite, b, kNotFiniteInfo);
        value = T(0);
      }
      tile[r][tx] = p.conjugated ? group::conjugate(value) : value;
    }
    __syncthreads();
    for (int64_t r = threadIdx.y; r < kTile; r += kTileRows) {
      const int64_t i = p.transposed ? column + r : row + r;
      const int64_t j = p.transposed ? row + tx : column + tx;
      if (i >= (p.transposed ? p.columns : p.rows) || j >= (p.transposed ? p.rows : p.columns))
        continue;
      const bool kept = p.keep == Keep::all || (p.keep == Keep::lower ? j <= i : j >= i);
      to[i * p.to.ld + j] = kept ? (p.transposed ? tile[tx][r] : tile[r][tx]) : T(0);
    }
    __syncthreads();
  }
}

__global__ void __launch_bounds__(kThreads)
    complain(const int32_t* infos, int64_t count, const Complaint complaint) {
  for (int64_t b = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; b < count;
       b += static_cast<int64_t>(gridDim.x) * kThreads)
    group::note_info(complaint, b, infos[b]);
}

__global__ void __launch_bounds__(kThreads)
    narrow(const int64_t* from, int32_t* to, int64_t count) {
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += static_cast<int64_t>(gridDim.x) * kThreads)
    to[i] = static_cast<int32_t>(from[i]);
}

template <class R>
__global__ void __launch_bounds__(kThreads)
    unpack(const Complex<R>* values, const R* from, Complex<R>* to, int64_t n, int64_t count) {
  for (int64_t e = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; e < count;
       e += static_cast<int64_t>(gridDim.x) * kThreads) {
    const int64_t b = e / (n * n);
    const int64_t i = e / n % n;
    const int64_t j = e % n;
    const R* const own = from + b * n * n;
    const R im = values[b * n + j].im;
    // Of a pair the first has the positive imaginary part, and its column the real one.
    const int64_t first = im < 0 ? j - 1 : j;
    const R real = own[first * n + i];
    to[e] =
        im == 0 ? Complex<R>(real) : Complex<R>(real, own[(first + 1) * n + i] * (im < 0 ? -1 : 1));
  }
}

}  // namespace

void copy_matrices(Encoder& encoder, DType dtype, const MatrixCopy& copy) {
  constexpr int64_t kMostDeep = 65535;
  const dim3 grid(static_cast<unsigned>(cuda::ceil_div<int64_t>(copy.columns, kTile)),
                  static_cast<unsigned>(cuda::ceil_div<int64_t>(copy.rows, kTile)),
                  static_cast<unsigned>(std::min(copy.count, kMostDeep)));
  switch_element(dtype, [&]<class T>() {
    encoder.launch(copy_tiles<T>, grid, dim3(kTile, kTileRows), 0, copy);
  });
}

void note_infos(Encoder& encoder, const int32_t* infos, int64_t count, const Complaint& complaint) {
  encoder.launch(complain, cuda::grid_for(count, kThreads, encoder.multiprocessors()), kThreads, 0,
                 infos, count, complaint);
}

void narrow_pivots(Encoder& encoder, const int64_t* from, int32_t* to, int64_t count) {
  encoder.launch(narrow, cuda::grid_for(count, kThreads, encoder.multiprocessors()), kThreads, 0,
                 from, to, count);
}

void unpack_eigenvectors(Encoder& encoder, DType dtype, const void* values, const void* from,
                         void* to, int64_t n, int64_t count) {
  const int64_t all = n * n * count;
  const unsigned grid = cuda::grid_for(all, kThreads, encoder.multiprocessors());
  const auto launch = [&]<class R>() {
    encoder.launch(unpack<R>, grid, kThreads, 0, static_cast<const Complex<R>*>(values),
                   static_cast<const R*>(from), static_cast<Complex<R>*>(to), n, all);
  };
  dtype == DType::f64 ? launch.template operator()<double>() : launch.template operator()<float>();
}

}  // namespace mica::linalg
