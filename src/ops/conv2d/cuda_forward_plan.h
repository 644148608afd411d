#pragma once

// How the forward convolution by tensor cores cuts its problem; made on the host, read by the
// kernel. Rows of its product are pixels of the convolution, columns are channels, the sum runs
// over taps (channel, i, j). Pixels come in windows: those of the pooling, or of one pixel each.
#include "mica/runtime/cuda/types.cuh"

namespace mica::implicit_gemm {

inline constexpr int kMostWarps = 16;
inline constexpr int kM = 2;  // products of 16 pixels in a warp's tile
inline constexpr int kSlots =
    2 * kM;  // pixels of a lane, of one pooling window where there is pooling

struct ForwardPlan {
  // Sizes of the convolution and its windows.
  int n = 0, c = 0, h = 0, w = 0;
  int o = 0, oh = 0, ow = 0;
  int kh = 0, kw = 0;
  int stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1;
  bool pool = false, relu = false;
  int window_h = 1, window_w = 1, window_stride_h = 1, window_stride_w = 1;
  int window_rows = 0, window_cols = 0;  ///< windows of an image
  // The pixels of a window: where they are in it, in bytes of shared memory, in positions.
  int slot_row[kSlots] = {}, slot_col[kSlots] = {}, slot_x[kSlots] = {}, slot_position[kSlots] = {};

  // How the work is cut: chunks of some images, or of a band of windows of one image; blocks of
  // channels; tiles of a warp; parts of the sum.
  int images = 1, rows = 0, bands = 1;  ///< of a chunk: images, rows of windows; of an image: bands
  int chunks = 0;
  int channel_blocks = 1;
  int tiles_n = 0;               ///< products of 8 channels in a warp's tile
  int block_tiles = 0;           ///< of 8 channels in a block
  int split = 1, split_log = 0;  ///< warps that share a tile's sum, a power of two
  int warps = 0;
  int grid = 0;  ///< blocks for the chunks; each takes every grid-th

  int items = 0;    ///< tiles of a chunk
  int windows = 0;  ///< of a chunk's tiles

  // Shared memory. Lane t of four takes the taps from t * section on.
  int taps = 0, section = 0, steps = 0, full_steps = 0;
  int step_bytes = 0;                       ///< of the weight
  int x_rows = 0, x_cols = 0, x_pitch = 0;  ///< of a channel
  int x_plane = 0, x_image = 0;             ///< floats of a channel, of an image
  int x_floats = 0;                         ///< of a chunk
  int skew[4] = {};                         ///< floats before each quarter of the channels
  // Threads side by side while loading, and how many such rows of them.
  int weight_lanes = 0, weight_rows = 0, x_lanes = 0, x_stride = 0;
  int bias_at = 0, taps_at = 0, x_at = 0, windows_at = 0;  ///< bytes
  size_t shared_bytes = 0;

  int64_t y_image_stride = 0;
  int y_image = 0, y_channel = 0, y_row = 0, y_col = 0;  ///< strides of y and the positions
  cuda::Divider by_window_cols, by_chunk_windows, by_window_w, by_channels, by_quarter, by_kw,
      by_window_taps, by_slots, by_weight_lanes, by_x_lanes, by_x_cols, by_bands, by_groups;
  float cost = 0;  ///< estimated cycles
};

}  // namespace mica::implicit_gemm
