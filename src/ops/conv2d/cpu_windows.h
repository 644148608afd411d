#pragma once

#include <algorithm>
#include <cstring>

#include "mica/ops/conv2d/geometry.h"

// im2col and its adjoint for one image and one group. Both work on the output rows [row, row +
// rows), that is on p = rows * ow windows; positions outside the image read as zero and take
// nothing.
namespace mica {

/// Output columns [first, last) whose window element `j` lies inside the image.
struct Columns {
  int64_t first;
  int64_t last;
};

inline Columns columns_inside(const Conv2dGeometry& g, int64_t j) {
  const int64_t shift = g.padding.w - j * g.dilation.w;  // input column = ow * stride - shift
  int64_t first = std::max<int64_t>(0, shift);
  int64_t last = std::max<int64_t>(0, g.w + shift);
  if (g.stride.w != 1) {  // divisions would cost as much as a short row
    first = (first + g.stride.w - 1) / g.stride.w;
    last = (last + g.stride.w - 1) / g.stride.w;
  }
  return {std::min(first, g.ow), std::clamp(last, std::min(first, g.ow), g.ow)};
}

/// Copies n elements; most runs are a few elements long, where a call of memcpy costs more than it
/// does.
template <class T>
void copy_run(const T* from, int64_t n, T* to) {
  constexpr int64_t kWide = 32 / sizeof(T);
  for (; n >= kWide; n -= kWide, from += kWide, to += kWide)
    std::memcpy(to, from, kWide * sizeof(T));
  if (n & 4) {
    std::memcpy(to, from, 4 * sizeof(T));
    from += 4;
    to += 4;
  }
  if (n & 2) {
    std::memcpy(to, from, 2 * sizeof(T));
    from += 2;
    to += 2;
  }
  if (n & 1) *to = *from;
}

/// Planes x (group_in, h, w) to col (group_in * kh * kw, p).
template <class T>
void gather_planes(const Conv2dGeometry& g, const T* x, int64_t row, int64_t rows, T* col) {
  for (int64_t c = 0; c < g.group_in(); ++c, x += g.h * g.w)
    for (int64_t i = 0; i < g.kh; ++i)
      for (int64_t j = 0; j < g.kw; ++j) {
        const auto [first, last] = columns_inside(g, j);
        const int64_t shift = g.padding.w - j * g.dilation.w;
        const int64_t top = row * g.stride.h - g.padding.h + i * g.dilation.h;
        const int64_t bottom = top + (rows - 1) * g.stride.h;
        if (g.stride.w == 1 && last - first == g.ow && top >= 0 && bottom < g.h) {
          const T* line = x + top * g.w - shift;
          for (int64_t r = 0; r < rows; ++r, col += g.ow, line += g.stride.h * g.w)
            copy_run(line, g.ow, col);
          continue;
        }
        for (int64_t r = row; r < row + rows; ++r, col += g.ow) {
          const int64_t h = r * g.stride.h - g.padding.h + i * g.dilation.h;
          if (h < 0 || h >= g.h || first == last) {
            std::fill_n(col, g.ow, T(0));
            continue;
          }
          const T* line = x + h * g.w - shift;
          for (int64_t ow = 0; ow < first; ++ow) col[ow] = T(0);
          if (g.stride.w == 1) {
            copy_run(line + first, last - first, col + first);
          } else {
            for (int64_t ow = first; ow < last; ++ow) col[ow] = line[ow * g.stride.w];
          }
          for (int64_t ow = last; ow < g.ow; ++ow) col[ow] = T(0);
        }
      }
}

/// Adds col (group_in * kh * kw, p) to the planes dx (group_in, h, w).
template <class T>
void scatter_planes(const Conv2dGeometry& g, const T* col, int64_t row, int64_t rows, T* dx) {
  for (int64_t c = 0; c < g.group_in(); ++c, dx += g.h * g.w)
    for (int64_t i = 0; i < g.kh; ++i)
      for (int64_t j = 0; j < g.kw; ++j) {
        const auto [first, last] = columns_inside(g, j);
        const int64_t shift = g.padding.w - j * g.dilation.w;
        for (int64_t r = row; r < row + rows; ++r, col += g.ow) {
          const int64_t h = r * g.stride.h - g.padding.h + i * g.dilation.h;
          if (h < 0 || h >= g.h || first == last) continue;
          T* line = dx + h * g.w - shift;
          if (g.stride.w == 1) {
            for (int64_t ow = first; ow < last; ++ow) line[ow] += col[ow];
          } else {
            for (int64_t ow = first; ow < last; ++ow) line[ow * g.stride.w] += col[ow];
          }
        }
      }
}

/// The group's channels of an image x (h, w, c) to col (p, kh * kw * group_in).
template <class T>
void gather_pixels(const Conv2dGeometry& g, const T* x, int64_t row, int64_t rows, T* col) {
  const int64_t channels = g.group_in();
  const bool whole_lines = g.dilation.w == 1 && channels == g.c;  // a window's row is one piece
  for (int64_t r = row; r < row + rows; ++r)
    for (int64_t ow = 0; ow < g.ow; ++ow)
      for (int64_t i = 0; i < g.kh; ++i, col += g.kw * channels) {
        const int64_t h = r * g.stride.h - g.padding.h + i * g.dilation.h;
        const int64_t w = ow * g.stride.w - g.padding.w;
        if (h < 0 || h >= g.h) {
          std::fill_n(col, g.kw * channels, T(0));
        } else if (whole_lines && w >= 0 && w + g.kw <= g.w) {
          copy_run(x + (h * g.w + w) * g.c, g.kw * channels, col);
        } else {
          for (int64_t j = 0; j < g.kw; ++j) {
            const int64_t at = w + j * g.dilation.w;
            if (at < 0 || at >= g.w) {
              std::fill_n(col + j * channels, channels, T(0));
            } else {
              copy_run(x + (h * g.w + at) * g.c, channels, col + j * channels);
            }
          }
        }
      }
}

/// Adds col (p, kh * kw * group_in) to the group's channels of an image dx (h, w, c).
template <class T>
void scatter_pixels(const Conv2dGeometry& g, const T* col, int64_t row, int64_t rows, T* dx) {
  const int64_t channels = g.group_in();
  const bool whole_lines = g.dilation.w == 1 && channels == g.c;
  for (int64_t r = row; r < row + rows; ++r)
    for (int64_t ow = 0; ow < g.ow; ++ow)
      for (int64_t i = 0; i < g.kh; ++i, col += g.kw * channels) {
        const int64_t h = r * g.stride.h - g.padding.h + i * g.dilation.h;
        const int64_t w = ow * g.stride.w - g.padding.w;
        if (h < 0 || h >= g.h) continue;
        if (whole_lines && w >= 0 && w + g.kw <= g.w) {
          T* line = dx + (h * g.w + w) * g.c;
          for (int64_t e = 0; e < g.kw * channels; ++e) line[e] += col[e];
          continue;
        }
        for (int64_t j = 0; j < g.kw; ++j) {
          const int64_t at = w + j * g.dilation.w;
          if (at < 0 || at >= g.w) continue;
          T* pixel = dx + (h * g.w + at) * g.c;
          for (int64_t c = 0; c < channels; ++c) pixel[c] += col[j * channels + c];
        }
      }
}

}  // namespace mica
