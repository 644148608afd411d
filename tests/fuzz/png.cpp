// PNG files: as they come, and with the checksums of their chunks put right, which few changes
// would get past otherwise.
#include <zlib.h>

#include "mica/io/pixels.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/image_samples.h"

namespace mica::fuzz {
namespace {

uint32_t big_endian(const std::byte* b) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | std::to_integer<uint32_t>(b[i]);
  return value;
}

void repair_checksums(Bytes& file) {
  constexpr size_t kSignature = 8;
  constexpr size_t kAround = 12;  // length, type, checksum
  for (size_t at = kSignature; at + kAround <= file.size();) {
    const size_t length = big_endian(&file[at]);
    if (length > file.size() - at - kAround) return;
    const auto crc = static_cast<uint32_t>(crc32(
        0, reinterpret_cast<const unsigned char*>(&file[at + 4]), static_cast<uInt>(length + 4)));
    for (size_t i = 0; i < 4; ++i)
      file[at + 8 + length + i] = static_cast<std::byte>(crc >> (24 - 8 * i));
    at += length + kAround;
  }
}

Bytes made(int64_t channels) {
  io::Pixels pixels{.height = 3, .width = 5, .channels = channels, .data = {}};
  pixels.data.reset(new uint8_t[static_cast<size_t>(pixels.size())]);
  for (int64_t i = 0; i < pixels.size(); ++i)
    pixels.data[static_cast<size_t>(i)] = static_cast<uint8_t>(i * 11);
  return io::build_png(pixels);
}

}  // namespace

std::vector<Bytes> seeds() {
  return {made(1),
          made(3),
          test::from_hex(test::kPalettePng),
          test::from_hex(test::kBitPng),
          test::from_hex(test::kDeepPng),
          test::from_hex(test::kInterlacedPng)};
}

void read(std::span<const std::byte> bytes) {
  Bytes repaired(bytes.begin(), bytes.end());
  repair_checksums(repaired);
  try {
    (void)io::parse_png(repaired, "file");
  } catch (const IoError&) {
  }
  (void)io::parse_png(bytes, "file");
}

}  // namespace mica::fuzz
