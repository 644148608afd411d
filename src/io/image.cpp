#include "mica/io/image.h"

#include <algorithm>
#include <array>

#include "mica/core/check.h"
#include "mica/io/file.h"
#include "mica/io/pixels.h"
#include "mica/ops/copy/copy.h"

namespace mica::io {
namespace {

bool begins_with(ByteSpan bytes, std::initializer_list<unsigned char> magic) {
  return bytes.size() >= magic.size() &&
         std::equal(magic.begin(), magic.end(), bytes.begin(),
                    [](unsigned char m, std::byte b) { return std::byte{m} == b; });
}

bool is_png(ByteSpan bytes) { return begins_with(bytes, {0x89, 'P', 'N', 'G'}); }
bool is_jpeg(ByteSpan bytes) { return begins_with(bytes, {0xff, 0xd8, 0xff}); }

/// By its first bytes.
void check_format(ByteSpan bytes, const std::string& name) {
  if (is_png(bytes) || is_jpeg(bytes)) return;
  std::string first;
  for (const std::byte b : bytes.first(std::min<size_t>(4, bytes.size())))
    first += fmt::format(" {:02x}", std::to_integer<unsigned>(b));
  fail<IoError>("{}: expected a PNG or JPEG file, got {}{}", name,
                first.empty() ? "0 bytes" : "one that begins with", first);
}

Pixels parse_image(ByteSpan bytes, const std::string& name, Size2 at_least) {
  check_format(bytes, name);
  return is_png(bytes) ? parse_png(bytes, name) : parse_jpeg(bytes, name, at_least.h, at_least.w);
}

/// (H, W, C) becomes (C, H, W).
Tensor to_planes(const Pixels& pixels, int64_t channels) {
  const int64_t area = pixels.height * pixels.width;
  const uint8_t* in = pixels.data.get();
  Tensor image = empty({channels, pixels.height, pixels.width}, {.dtype = DType::u8});
  auto* out = static_cast<uint8_t*>(image.data());
  if (channels == 1 && pixels.channels == 3) {
    for (int64_t i = 0; i < area; ++i, in += 3)
      out[i] = static_cast<uint8_t>((299 * in[0] + 587 * in[1] + 114 * in[2] + 500) / 1000);
    return image;
  }
  const int64_t step = pixels.channels;
  for (int64_t c = 0; c < channels; ++c, out += area) {
    const uint8_t* from = in + std::min(c, step - 1);
    for (int64_t i = 0; i < area; ++i) out[i] = from[i * step];
  }
  return image;
}

}  // namespace

Tensor decode_image(ByteSpan bytes, const std::string& name, const ImageOptions& options) {
  const int64_t channels = options.channels;
  check<ShapeError>(channels == 0 || channels == 1 || channels == 3,
                    "read_image: expected 0, 1 or 3 channels, got {}", channels);
  const Pixels pixels = parse_image(bytes, name, options.at_least);
  return to_planes(pixels, channels == 0 ? pixels.channels : channels);
}

Tensor read_image(const std::string& path, const ImageOptions& options) {
  return decode_image(read_bytes(path, [&](ByteSpan first) { check_format(first, path); }), path,
                      options);
}

Tensor decode_png(ByteSpan bytes, const std::string& name) {
  const Pixels pixels = parse_png(bytes, name);
  return to_planes(pixels, pixels.channels);
}

Tensor decode_jpeg(ByteSpan bytes, const std::string& name) {
  const Pixels pixels = parse_jpeg(bytes, name);
  return to_planes(pixels, pixels.channels);
}

std::vector<std::byte> encode_png(const Tensor& image) {
  const int rank = image.rank();
  const int64_t channels = rank == 3 ? image.size(0) : 1;
  check<ShapeError>(image.dtype() == DType::u8 && (rank == 2 || rank == 3) &&
                        (channels == 1 || channels == 3) && image.numel() > 0,
                    "encode_png: expected u8 (C, H, W) with 1 or 3 channels, or (H, W), got {}",
                    image.spec());
  const Tensor planes = contiguous(to(image, Device::cpu()));
  Pixels pixels{.height = image.size(rank - 2),
                .width = image.size(rank - 1),
                .channels = channels,
                .data = {}};
  constexpr int64_t kMost = 0x7fffffff;
  check<ShapeError>(pixels.height <= kMost && pixels.width <= kMost,
                    "encode_png: expected at most {} rows and columns, got {}", kMost,
                    image.shape());
  pixels.data.reset(new uint8_t[static_cast<size_t>(pixels.size())]);
  const auto* in = static_cast<const uint8_t*>(planes.data());
  const int64_t area = pixels.height * pixels.width;
  for (int64_t i = 0; i < area; ++i)
    for (int64_t c = 0; c < channels; ++c)
      pixels.data[static_cast<size_t>(i * channels + c)] = in[c * area + i];
  return build_png(pixels);
}

void write_png(const std::string& path, const Tensor& image) {
  const auto bytes = encode_png(image);
  write_file_atomically(path, [&](File& file) { file.write(bytes); });
}

}  // namespace mica::io
