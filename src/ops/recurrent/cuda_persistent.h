#pragma once

#include <cstdint>

#include "mica/core/dtype.h"

// Kernels that stay on the chip for all steps (cuda_persistent.cuh): how they are called.
namespace mica {

class Encoder;

namespace persistent {

inline constexpr int kTile = 8;  ///< sequences that a tensor core instruction takes
/// Tiles that a cluster may have; in between they are rounded up.
inline constexpr int kTileCounts[] = {1, 2, 3, 5};

/// Pointers to T, f16 or bf16; slots of a unit lie together.
template <class T>
struct Forward {
  const T* w_hh;   ///< (G H, H) as the layer has it
  const T* gates;  ///< (T, N, H, 4): the input's sums with the biases
  const T *h0, *c0;
  const int64_t* lengths;  ///< or null
  T *y, *hn, *cn;
  T* kept;   ///< (T, N, H, 4), may be `gates`; null where no gradient is wanted
  T* cells;  ///< (T, N, H), likewise
  int steps, batch;
  bool reverse;
};

template <class T>
struct Backward {
  const T* w_hh;
  const T *gates, *cells, *y, *h0, *c0;
  const int64_t* lengths;
  const T *dy, *dhn, *dcn;  ///< each may be null
  T* dgates;                ///< (T, N, H, 4)
  T *dh0, *dc0;
  int steps, batch;
  bool reverse;
};

/// Whether there are kernels for this size.
constexpr bool has_kernels(int64_t hidden) {
  return hidden == 128 || hidden == 256 || hidden == 512;
}

/// How many tiles of sequences each cluster should have, so that all run at once where they can; 0
/// where the device runs no such cluster.
template <class T>
int choose_tiles(bool lstm, int64_t hidden, int64_t batch);

template <class T>
void run(bool lstm, int64_t hidden, int tiles, const Forward<T>& call, Encoder& encoder);
template <class T>
void run(bool lstm, int64_t hidden, int tiles, const Backward<T>& call, Encoder& encoder);

}  // namespace persistent
}  // namespace mica
