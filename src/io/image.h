#pragma once

#include <string>

#include "mica/core/dims.h"
#include "mica/core/tensor.h"
#include "mica/io/read_bytes.h"

namespace mica::io {

struct ImageOptions {
  /// 1 for grey, 3 for red, green and blue, 0 for what the file has. Colours become grey by their
  /// brightness (0.299, 0.587, 0.114). Transparency is left out.
  int64_t channels = 0;
  /// Where both are given: a JPEG file is decoded at a half, a quarter or an eighth of its size, as
  /// long as its height and width stay at least these. Who brings images to a size asks for that.
  Size2 at_least = 0;
};

/// A PNG or JPEG file, told apart by their first bytes, as u8 (C, H, W). Whatever is wrong with the
/// file raises IoError with its name; a build without the format's library raises Unsupported.
Tensor read_image(const std::string& path, const ImageOptions& options = {});

// The same from memory; errors begin with `name`.
Tensor decode_image(ByteSpan bytes, const std::string& name, const ImageOptions& options = {});
Tensor decode_png(ByteSpan bytes, const std::string& name = "decode_png");
Tensor decode_jpeg(ByteSpan bytes, const std::string& name = "decode_jpeg");

/// A u8 image (C, H, W) of 1 or 3 channels, or a grey one (H, W), as a PNG file.
std::vector<std::byte> encode_png(const Tensor& image);
void write_png(const std::string& path, const Tensor& image);

}  // namespace mica::io
