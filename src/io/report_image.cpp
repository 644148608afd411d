#include <zlib.h>

#include <vector>

#include "mica/core/check.h"
#include "mica/io/report_parts.h"

namespace mica::io {
namespace {

void append_big_endian(std::string& to, uint32_t v) {
  for (int shift = 24; shift >= 0; shift -= 8) to += static_cast<char>(v >> shift & 0xff);
}

void append_chunk(std::string& to, std::string_view name, std::string_view content) {
  append_big_endian(to, static_cast<uint32_t>(content.size()));
  const size_t begin = to.size();
  (to += name) += content;
  const auto* bytes = reinterpret_cast<const Bytef*>(to.data() + begin);
  append_big_endian(
      to, static_cast<uint32_t>(crc32(0, bytes, static_cast<uInt>(name.size() + content.size()))));
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t three = 0;
    for (size_t k = 0; k < 3; ++k)
      three = three << 8 | (i + k < bytes.size() ? static_cast<uint8_t>(bytes[i + k]) : 0U);
    for (size_t k = 0; k < 4; ++k)
      text += i + k > bytes.size() ? '=' : kDigits[three >> (18 - 6 * k) & 63];
  }
  return text;
}

}  // namespace

std::string png_address(std::span<const uint8_t> pixels, uint32_t width, uint32_t height,
                        int channels) {
  const size_t row = size_t{width} * static_cast<size_t>(channels);
  check(pixels.size() == row * height && (channels == 1 || channels == 3),
        "png_address: expected {} x {} pixels of 1 or 3 channels, got {} bytes", width, height,
        pixels.size());
  std::vector<uint8_t> rows;
  for (size_t y = 0; y < height; ++y) {
    rows.push_back(0);  // no filter
    rows.insert(rows.end(), pixels.begin() + static_cast<ptrdiff_t>(y * row),
                pixels.begin() + static_cast<ptrdiff_t>((y + 1) * row));
  }
  uLongf size = compressBound(rows.size());
  std::string packed(size, '\0');
  const int status = compress2(reinterpret_cast<Bytef*>(packed.data()), &size, rows.data(),
                               rows.size(), Z_BEST_COMPRESSION);
  check<OutOfMemory>(status == Z_OK, "report: no memory to pack an image of {} x {} pixels", width,
                     height);  // its buffer is always large enough
  packed.resize(size);

  std::string header;
  append_big_endian(header, width);
  append_big_endian(header, height);
  header += '\x08';
  header += channels == 1 ? '\x00' : '\x02';
  header.append(3, '\0');
  std::string file = "\x89PNG\r\n\x1a\n";
  append_chunk(file, "IHDR", header);
  append_chunk(file, "IDAT", packed);
  append_chunk(file, "IEND", "");
  return "data:image/png;base64," + base64(file);
}

}  // namespace mica::io
