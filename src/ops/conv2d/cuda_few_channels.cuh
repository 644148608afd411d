#pragma once

// What convolutions of few channels (a network's first layer) and their weight gradients share. The
// sum of a window is too short there for the libraries' tiles; here a band of the image lies in
// shared memory. In f32 a thread keeps four neighbouring pixels times four channels (for the
// gradient: a row of a window times four channels) in registers; f16 and bf16 go to tensor cores.
#include <string>

#include "mica/op/kernel.h"
#include "mica/ops/conv2d/geometry.h"
#include "mica/runtime/cuda/types.cuh"

namespace mica::few {

constexpr int kEach = 4;  // pixels, and channels, of a thread
constexpr size_t kMostShared = 48 * 1024;

/// How an image is cut into bands of output rows. The input rows of a band lie in shared memory
/// with the padding around them, `pitch` elements each.
struct Bands {
  int channels = 0;  ///< of x
  int h = 0, w = 0;
  int out = 0;  ///< channels of y
  int oh = 0, ow = 0;
  int pad_h = 0, pad_w = 0;
  int count = 0;   ///< bands of an image
  int rows = 0;    ///< of y in a band
  int quads = 0;   ///< groups of four pixels in a row of y
  int groups = 0;  ///< groups of four channels of y
  int x_rows = 0;
  int pitch = 0;
  int64_t x[4] = {}, weight[4] = {}, y[4] = {};  // strides
  cuda::Divider by_pitch, by_x_rows, by_quads, by_rows, by_out;

  int x_size() const { return channels * x_rows * pitch; }
};

/// A band of an image, from row `first` of y on, into shared memory; zeros outside the image.
template <class T>
__device__ void load_x(const Bands& b, const T* image, int first, T* xs) {
  const int total = b.channels * b.x_rows * b.pitch;
  for (auto i = static_cast<int>(threadIdx.x); i < total; i += static_cast<int>(blockDim.x)) {
    const uint32_t line = b.by_pitch.quotient(static_cast<uint32_t>(i));
    const uint32_t c = b.by_x_rows.quotient(line);
    const int col = i - static_cast<int>(line) * b.pitch - b.pad_w;
    const int row = static_cast<int>(line - c * b.by_x_rows.divisor) + first - b.pad_h;
    const bool inside = row >= 0 && row < b.h && col >= 0 && col < b.w;
    xs[i] = inside ? image[c * b.x[1] + row * b.x[2] + col * b.x[3]] : cuda::convert<T>(0.0F);
  }
}

__device__ inline void load_four(const float* from, float* to) {
  const float4 v = *reinterpret_cast<const float4*>(from);
  to[0] = v.x;
  to[1] = v.y;
  to[2] = v.z;
  to[3] = v.w;
}

extern __shared__ __align__(16) float few_shared[];

/// Bands of at most `most_rows` rows, of about one size.
Bands bands_of(const Conv2dGeometry& g, int64_t most_rows);

/// Why these kernels cannot take a convolution, or leave it to the library; `out` is of their
/// result.
std::string refusal(const Conv2dGeometry& g, const TensorSpec& out);

inline void set_strides(Bands& b, const Arg& x, const Arg& weight, const Arg& y) {
  for (int d = 0; d < 4; ++d) {
    b.x[d] = x.strides()[d];
    b.weight[d] = weight.strides()[d];
    b.y[d] = y.strides()[d];
  }
}

/// Whether four neighbours along `axis` of a tensor (N, C, H, W) are one aligned access.
inline bool fours_along(int axis, const Arg& t) {
  if (t.strides()[axis] != 1 || t.shape()[axis] % kEach != 0) return false;
  for (int d = 0; d < 4; ++d)
    if (d != axis && t.shape()[d] != 1 && t.strides()[d] % kEach != 0) return false;
  return cuda::is_aligned(t.data, size_of(t.dtype()) * kEach);
}

/// Whether 8 elements of y of 16 bits, counted through the rows of a plane, are one access.
inline bool planes_of_eights(const Bands& b, const Arg& y) {
  const Strides& s = y.strides();
  return s[3] == 1 && s[2] == b.ow && s[1] % 8 == 0 && s[0] % 8 == 0 && b.rows * b.ow % 8 == 0 &&
         b.oh * b.ow % 8 == 0 && cuda::is_aligned(y.data, 16);
}

/// dw, row-major, from `parts` parts of f32, (parts, C_out, C_in, kh, kw).
void add_parts(Encoder& encoder, int parts, const float* partial, const Arg& dw);

}  // namespace mica::few
