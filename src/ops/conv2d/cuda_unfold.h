#pragma once

#include <cstddef>

#include "mica/op/kernel.h"
#include "mica/ops/conv2d/geometry.h"

namespace mica {

/// Of the matrix that unfold_windows makes.
inline int64_t unfolded_bytes(const Conv2dGeometry& g, size_t element_bytes) {
  return g.n * g.oh * g.ow * g.kh * g.kw * g.c * static_cast<int64_t>(element_bytes);
}

/// The windows of dense channels_last images (N, C, H, W) as rows (N · H' · W', kH · kW · C), zeros
/// outside of them. Channels are whole vectors of 16 bytes; for less than 2^31 of them.
void unfold_windows(Encoder& encoder, const Conv2dGeometry& g, size_t element_bytes, const void* x,
                    void* rows);

}  // namespace mica
