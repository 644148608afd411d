#pragma once

// What products of matrices that are convolutions with windows of one pixel sum over their columns,
// the channels, for a batch norm. Run-time compilation takes this file as it is.
#include "mica/ops/matmul/cuda_wgmma.cuh"

namespace mica::wgmma {

inline constexpr int kColumnsTileN = 128;
inline constexpr int kGradOperands = 3;  ///< that the end of a gradient's product reads
inline constexpr int kGradStages = 4;

MICA_PORTABLE constexpr int grad_shared_bytes(int element_bytes) {
  return 1024 + kGradStages * stage_bytes(kColumnsTileN) + turned_bytes(element_bytes) +
         8 * room_bytes(kGradOperands);
}

/// What is added to a gradient, by whose sign it counts, and the input of a batch norm with the
/// mean of each channel. Of images with height and width `more` has each `apart`-th pixel.
struct GradOperands {
  int apart;
  unsigned height, width;
  const void* more;
  const void* y;
  const void* x;
  const float* mean;
};

#if defined(__CUDACC_RTC__) && defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// Count, mean and sum of squared deviations of some values of a column.
struct Moments {
  float n, mean, m2;

  __device__ static Moments shuffled(const Moments& m, int lanes) {
    return {__shfl_xor_sync(0xffffffffu, m.n, lanes), __shfl_xor_sync(0xffffffffu, m.mean, lanes),
            __shfl_xor_sync(0xffffffffu, m.m2, lanes)};
  }
  __device__ friend Moments combine(const Moments& a, const Moments& b) {
    const float n = a.n + b.n;
    if (n == 0.0f) return a;
    const float share = b.n / n;
    const float delta = b.mean - a.mean;
    return {n, a.mean + delta * share, a.m2 + b.m2 + delta * delta * a.n * share};
  }
};

/// Sums of dy and of dy · (x − mean).
struct GradSums {
  float dy, dy_x;

  __device__ static GradSums shuffled(const GradSums& s, int lanes) {
    return {__shfl_xor_sync(0xffffffffu, s.dy, lanes), __shfl_xor_sync(0xffffffffu, s.dy_x, lanes)};
  }
  __device__ friend GradSums combine(const GradSums& a, const GradSums& b) {
    return {a.dy + b.dy, a.dy_x + b.dy_x};
  }
};

/// Combines what the threads that multiply hold for their columns, and writes it as the block's
/// part of each: (n, parts).
template <class T, class Sums, int kParts, int V>
__device__ inline void write_columns(const Problem& p, const Sums (&mine)[kParts][V], T* turned,
                                     Sums* partial) {
  constexpr int kWarps = 8;
  static_assert(kParts * V * 8 == kColumnsTileN);
  static_assert(sizeof(Sums) * kColumnsTileN <= 16 * turned_pitch(sizeof(T)) * 4);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int thread = static_cast<int>(threadIdx.x) - 128;
  auto* const shared = reinterpret_cast<Sums*>(turned);
  asm volatile("bar.sync 3, 256;" ::: "memory");  // who turned something has read it
#pragma unroll
  for (int part = 0; part < kParts; ++part)
#pragma unroll
    for (int j = 0; j < V; ++j) {
      Sums all = mine[part][j];
      all = combine(all, Sums::shuffled(all, 8));
      all = combine(all, Sums::shuffled(all, 16));
      if (lane < 8) shared[thread / 32 * kColumnsTileN + (part * 8 + lane) * V + j] = all;
    }
  asm volatile("bar.sync 3, 256;" ::: "memory");
  if (thread >= kColumnsTileN) return;
  Sums all = shared[thread];
#pragma unroll
  for (int w = 1; w < kWarps; ++w) all = combine(all, shared[w * kColumnsTileN + thread]);
  const int block = static_cast<int>(blockIdx.x);
  const int cluster = block / kCluster;
  const int column = cluster % p.tiles_n * kColumnsTileN + thread;
  const int parts = static_cast<int>(gridDim.x) / p.tiles_n;
  if (column < p.n)
    partial[column * parts + cluster / p.tiles_n * kCluster + block % kCluster] = all;
}

/// Writes the product and takes its columns' moments, from sums of differences to the first value
/// of a thread.
template <class T>
struct WithMoments {
  static constexpr int V = 16 / static_cast<int>(sizeof(T));
  static constexpr int kParts = kColumnsTileN / (8 * V);
  static constexpr bool kBiased = false;
  using Offset = unsigned;
  static constexpr int kOperands = 0;

  void* y;
  Moments* partial;
  float count[kParts];
  float shift[kParts][V];
  float sum[kParts][V];
  float squares[kParts][V];

  __device__ WithMoments(void* y, void* partial) : y(y), partial(static_cast<Moments*>(partial)) {}
  __device__ void begin() {
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      count[part] = 0.0f;
#pragma unroll
      for (int j = 0; j < V; ++j) shift[part][j] = sum[part][j] = squares[part][j] = 0.0f;
    }
  }
  __device__ void begin_part(int) {}
  __device__ void fetch(const Problem&, int, int, u32, u32) const {}
  __device__ void take(int part, Offset at, T (&x)[V], const void*, u32) {
    fused::Vec<T, V> own;
    if (count[part] == 0.0f)
#pragma unroll
      for (int j = 0; j < V; ++j) shift[part][j] = fused::widen(x[j]);
    count[part] += 1.0f;
#pragma unroll
    for (int j = 0; j < V; ++j) {
      own.v[j] = x[j];
      const float delta = fused::widen(x[j]) - shift[part][j];
      sum[part][j] += delta;
      squares[part][j] += delta * delta;
    }
    fused::store<T, V>(y, at, own);
  }
  __device__ void finish(const Problem& p, T* turned) {
    Moments mine[kParts][V];
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const float n = count[part];
      const float share = n > 0.0f ? 1.0f / n : 0.0f;
#pragma unroll
      for (int j = 0; j < V; ++j) {
        const float mean = sum[part][j] * share;
        mine[part][j] = {n, shift[part][j] + mean,
                         fmaxf(squares[part][j] - sum[part][j] * mean, 0.0f)};
      }
    }
    write_columns<T>(p, mine, turned, partial);
  }
};

/// A gradient below a residual: adds to it, takes relu's gradient by what relu gave, writes that,
/// and sums what the gradient of the batch norm before needs.
template <class T>
struct WithGradSums {
  static constexpr int V = 16 / static_cast<int>(sizeof(T));
  static constexpr int kParts = kColumnsTileN / (8 * V);
  static constexpr bool kBiased = false;
  using Offset = unsigned;
  static constexpr int kOperands = kGradOperands;

  GradOperands in;
  void* dz;
  GradSums* partial;
  float centre[V];  ///< of the part
  GradSums sums[kParts][V];

  __device__ WithGradSums(const GradOperands& in, void* dz, void* partial)
      : in(in), dz(dz), partial(static_cast<GradSums*>(partial)) {}
  __device__ void begin() {
#pragma unroll
    for (int part = 0; part < kParts; ++part)
#pragma unroll
      for (int j = 0; j < V; ++j) sums[part][j] = {0.0f, 0.0f};
  }
  __device__ void begin_part(int col) {
#pragma unroll
    for (int j = 0; j < V; ++j) centre[j] = in.mean[col + j];
  }
  __device__ void fetch(const Problem& p, int row, int col, u32 to, u32 apart) const {
    const Offset at = static_cast<Offset>(row) * p.n + col;
    bool is_there = true;
    Offset at_more = at;
    if (in.apart > 1) {
      const unsigned step = in.apart;
      const unsigned line = row / in.width;
      const unsigned image = line / in.height;
      const unsigned h = line - image * in.height;
      const unsigned w = row - line * in.width;
      const unsigned lines = (in.height + step - 1) / step;
      const unsigned columns = (in.width + step - 1) / step;
      is_there = h % step == 0 && w % step == 0;
      at_more = is_there ? ((image * lines + h / step) * columns + w / step) * p.n + col : 0;
    }
    copy(to, in.more, at_more, is_there);
    copy(to + apart, in.y, at);
    copy(to + 2 * apart, in.x, at);
  }
  /// Zeros where it is not there.
  static __device__ void copy(u32 to, const void* from, Offset at, bool is_there = true) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to),
                 "l"(static_cast<const T*>(from) + at), "r"(is_there ? 16 : 0)
                 : "memory");
  }
  __device__ void take(int part, Offset at, T (&own)[V], const unsigned char* room, u32 apart) {
    const auto operand = [&](u32 k) {
      return *reinterpret_cast<const fused::Vec<T, V>*>(room + k * apart);
    };
    const auto some_more = operand(0);
    const auto some_y = operand(1);
    const auto some_x = operand(2);
    fused::Vec<T, V> z;
#pragma unroll
    for (int j = 0; j < V; ++j) {
      // Rounded as ones that are kept.
      const T sum = fused::Into<T>::from(fused::widen(own[j]) + fused::widen(some_more.v[j]));
      const bool counts = fused::widen(some_y.v[j]) > 0.0f;
      z.v[j] = counts ? sum : T{};
      const float slope = fused::widen(z.v[j]);
      sums[part][j].dy += slope;
      sums[part][j].dy_x += slope * (fused::widen(some_x.v[j]) - centre[j]);
    }
    fused::store<T, V>(dz, at, z);
  }
  __device__ void finish(const Problem& p, T* turned) {
    write_columns<T>(p, sums, turned, partial);
  }
};

/// The whole kernels. x w: the convolution and the moments of its channels.
template <class T>
__device__ void product_with_moments(const Problem& p, const TensorMap& x, const TensorMap& w,
                                     void* y, void* partial) {
  WithMoments<T> end(y, partial);
  product_in_order<T, kColumnsTileN, false, Columns<kColumnsTileN>>(p, x, w, end);
}

/// dy w: the gradient of the convolution's input, and what WithGradSums makes of it. w of f32 is
/// turned round.
template <class T>
__device__ void product_with_grad_sums(const Problem& p, const TensorMap& dy, const TensorMap& w,
                                       const GradOperands& operands, void* dz, void* partial) {
  constexpr bool kByRows = sizeof(T) == 2;
  WithGradSums<T> end(operands, dz, partial);
  product_in_order<T, kColumnsTileN, kByRows, Columns<kColumnsTileN>, WithGradSums<T>, kGradStages>(
      p, dy, w, end);
}

#endif

}  // namespace mica::wgmma
