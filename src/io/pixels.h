#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "mica/io/read_bytes.h"

// The image formats by themselves, without tensors. Errors begin with `name`, the file's.
namespace mica::io {

/// An image row by row, the channels of a pixel together.
struct Pixels {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;             ///< 1 grey, 3 red, green and blue
  std::unique_ptr<uint8_t[]> data;  ///< height · width · channels

  int64_t size() const { return height * width * channels; }
};

/// Raises where an image is more than `packed` bytes of pixels may become (limits.h), or takes more
/// than the budget: its pixels, the tensor made of them, and `beside` bytes.
void check_pixels(const Pixels& image, uint64_t packed, uint64_t beside, const std::string& name);

/// Whatever is wrong with the bytes raises IoError, and Unsupported in a build without the library.
/// Memory is reserved only when the bytes can hold what the header claims, and no more than
/// most_unpacked (limits.h) of them.
Pixels parse_png(ByteSpan bytes, const std::string& name);
/// Where height and width are given, at the smallest of 1, 1/2, 1/4 and 1/8 of the size that has
/// them.
Pixels parse_jpeg(ByteSpan bytes, const std::string& name, int64_t height = 0, int64_t width = 0);

/// A PNG file of 8-bit pixels.
std::vector<std::byte> build_png(const Pixels& pixels);

}  // namespace mica::io
