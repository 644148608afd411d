#include <png.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>

#include "mica/core/check.h"
#include "mica/io/limits.h"
#include "mica/io/pixels.h"

// libpng reports errors by longjmp, which must not pass over C++ objects: the functions that call
// setjmp below have none, and what they reserve belongs to a Reader or Writer outside of them.
namespace mica::io {
namespace {

struct Message {
  std::array<char, 160> text{};
};

[[noreturn]] void on_error(png_structp png, png_const_charp text) {
  auto& message = static_cast<Message*>(png_get_error_ptr(png))->text;
  std::strncpy(message.data(), text, message.size() - 1);
  png_longjmp(png, 1);
}
void on_warning(png_structp, png_const_charp) {}  // not to stderr

struct Reader {
  explicit Reader(ByteSpan bytes) : rest(bytes) {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &message, on_error, on_warning);
    info = png ? png_create_info_struct(png) : nullptr;
  }
  ~Reader() { png_destroy_read_struct(&png, &info, nullptr); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  ByteSpan rest;
  Message message;
  png_structp png = nullptr;
  png_infop info = nullptr;
};

void read_some(png_structp png, png_bytep to, size_t count) {
  auto& rest = static_cast<Reader*>(png_get_io_ptr(png))->rest;
  if (rest.size() < count) png_error(png, "truncated");
  std::memcpy(to, rest.data(), count);
  rest = rest.subspan(count);
}

/// How many bytes of the file are packed pixels: those of its IDAT chunks.
uint64_t packed_bytes(ByteSpan file) {
  constexpr size_t kSignature = 8;
  constexpr size_t kAround = 12;  // length, type, checksum
  uint64_t sum = 0;
  for (size_t at = kSignature; at < file.size() && file.size() - at >= kAround;) {
    uint64_t length = 0;
    for (size_t i = 0; i < 4; ++i) length = length << 8 | std::to_integer<uint64_t>(file[at + i]);
    length = std::min<uint64_t>(length, file.size() - at - kAround);
    if (std::memcmp(&file[at + 4], "IDAT", 4) == 0) sum += length;
    at += length + kAround;
  }
  return sum;
}

/// Everything before the pixels. What comes out is 8 bits of grey or of red, green and blue.
bool read_header(Reader& r) {
  if (setjmp(png_jmpbuf(r.png))) return false;
  png_set_read_fn(r.png, &r, read_some);
  // Chunks that say nothing of the pixels (texts, profiles) are neither unpacked nor kept.
  png_set_keep_unknown_chunks(r.png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_read_info(r.png, r.info);
  return true;
}

bool start_rows(Reader& r) {
  if (setjmp(png_jmpbuf(r.png))) return false;
  png_set_expand(r.png);  // palettes to colours, 1, 2 and 4 bits to 8
  png_set_scale_16(r.png);
  png_set_strip_alpha(r.png);
  png_set_interlace_handling(r.png);
  png_read_update_info(r.png, r.info);
  return true;
}

bool read_rows(Reader& r, uint8_t* to, size_t row, int passes) {
  if (setjmp(png_jmpbuf(r.png))) return false;
  const png_uint_32 height = png_get_image_height(r.png, r.info);
  for (int pass = 0; pass < passes; ++pass)
    for (png_uint_32 i = 0; i < height; ++i) png_read_row(r.png, to + i * row, nullptr);
  png_read_end(r.png, nullptr);
  return true;
}

struct Writer {
  Writer() {
    png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &message, on_error, on_warning);
    info = png ? png_create_info_struct(png) : nullptr;
  }
  ~Writer() { png_destroy_write_struct(&png, &info); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  std::vector<std::byte> bytes;
  Message message;
  png_structp png = nullptr;
  png_infop info = nullptr;
};

void write_some(png_structp png, png_bytep from, size_t count) {
  auto& bytes = static_cast<Writer*>(png_get_io_ptr(png))->bytes;
  bool full = false;
  try {
    const auto* begin = reinterpret_cast<const std::byte*>(from);
    bytes.insert(bytes.end(), begin, begin + count);
  } catch (const std::exception&) {
    full = true;
  }
  if (full) png_error(png, "out of memory");
}

bool write_image(Writer& w, const Pixels& pixels) {
  if (setjmp(png_jmpbuf(w.png))) return false;
  png_set_write_fn(w.png, &w, write_some, nullptr);
  png_set_IHDR(w.png, w.info, static_cast<png_uint_32>(pixels.width),
               static_cast<png_uint_32>(pixels.height), 8,
               pixels.channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(w.png, w.info);
  for (int64_t i = 0; i < pixels.height; ++i)
    png_write_row(w.png, pixels.data.get() + i * pixels.width * pixels.channels);
  png_write_end(w.png, nullptr);
  return true;
}

}  // namespace

Pixels parse_png(ByteSpan bytes, const std::string& name) {
  Reader r(bytes);
  check<IoError>(r.info, "{}: libpng failed to start", name);
  const auto checked = [&](bool ok, const char* what) {
    check<IoError>(ok, "{}: damaged PNG {}: {}", name, what, r.message.text.data());
  };
  checked(read_header(r), "header");

  Pixels out{.height = png_get_image_height(r.png, r.info),
             .width = png_get_image_width(r.png, r.info),
             .channels = png_get_color_type(r.png, r.info) & PNG_COLOR_MASK_COLOR ? 3 : 1,
             .data = {}};
  // libpng takes at most a million rows and columns: the products fit.
  const uint64_t unpacked = png_get_rowbytes(r.png, r.info) * static_cast<uint64_t>(out.height);
  const uint64_t packed = packed_bytes(bytes);
  check<IoError>(unpacked / kDeflateRatio <= packed,
                 "{}: truncated: {} x {} pixels cannot be in a PNG file with {} bytes of them",
                 name, out.width, out.height, packed);
  check_pixels(out, packed, 0, name);

  checked(start_rows(r), "header");
  const auto row = static_cast<size_t>(out.width * out.channels);
  check<IoError>(png_get_rowbytes(r.png, r.info) == row,
                 "{}: expected rows of {} bytes, libpng gives {}", name, row,
                 png_get_rowbytes(r.png, r.info));
  out.data.reset(new uint8_t[static_cast<size_t>(out.size())]);
  const int passes = png_get_interlace_type(r.png, r.info) == PNG_INTERLACE_NONE ? 1 : 7;
  checked(read_rows(r, out.data.get(), row, passes), "pixels");
  return out;
}

std::vector<std::byte> build_png(const Pixels& pixels) {
  Writer w;
  check<IoError>(w.info, "encode_png: libpng failed to start");
  check<IoError>(write_image(w, pixels), "encode_png: {}", w.message.text.data());
  return std::move(w.bytes);
}

}  // namespace mica::io
