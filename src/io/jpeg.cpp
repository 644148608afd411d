#include <csetjmp>
#include <cstddef>
#include <cstdio>
// libjpeg's headers want the ones above.
#include <jerror.h>
#include <jpeglib.h>

#include <algorithm>
#include <array>

#include "mica/core/check.h"
#include "mica/io/limits.h"
#include "mica/io/pixels.h"

// libjpeg reports errors by a function that must not return: it longjmps, which must not pass over
// C++ objects. The functions that call setjmp below have none; what they reserve belongs to a
// Reader outside of them.
namespace mica::io {
namespace {

/// Each scan of a progressive file goes over the whole image, at about a nanosecond a pixel: a
/// small file with thousands of them would take hours.
constexpr double kMostPixelScans = 2.5e9;
constexpr int kMostScans = 500;

struct Reader {
  explicit Reader(ByteSpan bytes);
  ~Reader() { jpeg_destroy_decompress(&jpeg); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  jpeg_error_mgr errors{};
  ByteSpan bytes;
  std::jmp_buf jump{};
  std::array<char, JMSG_LENGTH_MAX> message{};
  jpeg_progress_mgr progress{};
  jpeg_decompress_struct jpeg{};
};

Reader& reader_of(j_common_ptr jpeg) { return *static_cast<Reader*>(jpeg->client_data); }

[[noreturn]] void on_error(j_common_ptr jpeg) {
  Reader& r = reader_of(jpeg);
  r.errors.format_message(jpeg, r.message.data());
  std::longjmp(r.jump, 1);
}

/// A warning says that libjpeg makes up what the file does not hold; all but these.
void on_message(j_common_ptr jpeg, int level) {
  if (level >= 0) return;
  const int code = jpeg->err->msg_code;
  if (code == JWRN_EXTRANEOUS_DATA || code == JWRN_JFIF_MAJOR || code == JWRN_ADOBE_XFORM) return;
  on_error(jpeg);
}

void on_progress(j_common_ptr jpeg) {
  const auto* d = reinterpret_cast<j_decompress_ptr>(jpeg);
  const double pixels = static_cast<double>(d->image_width) * d->image_height;
  const int most = static_cast<int>(std::min<double>(kMostScans, kMostPixelScans / pixels));
  if (d->input_scan_number <= std::max(most, 1)) return;
  Reader& r = reader_of(jpeg);
  std::snprintf(r.message.data(), r.message.size(), "more than %d scans of %u x %u pixels", most,
                d->image_width, d->image_height);
  std::longjmp(r.jump, 1);
}

Reader::Reader(ByteSpan source) : bytes(source) {
  jpeg.err = jpeg_std_error(&errors);
  jpeg.client_data = this;
  errors.error_exit = on_error;
  errors.emit_message = on_message;
  errors.output_message = [](j_common_ptr) {};  // not to stderr
  progress.progress_monitor = on_progress;
}

/// False when it fails before an image is there.
bool read_header(Reader& r) {
  if (setjmp(r.jump)) return false;
  jpeg_create_decompress(&r.jpeg);
  r.jpeg.progress = &r.progress;
  jpeg_mem_src(&r.jpeg, reinterpret_cast<const unsigned char*>(r.bytes.data()), r.bytes.size());
  jpeg_read_header(&r.jpeg, TRUE);
  return true;
}

/// How many bytes of the file are packed pixels: those after the headers of its scans.
uint64_t packed_bytes(ByteSpan file) {
  const auto byte = [&](size_t i) { return std::to_integer<unsigned>(file[i]); };
  constexpr unsigned kStartOfScan = 0xda;
  uint64_t sum = 0;
  for (size_t at = 2; at + 4 <= file.size();) {
    if (byte(at) != 0xff) {  // of a scan: its markers are stuffed, or restart it
      ++sum;
      ++at;
      continue;
    }
    const unsigned marker = byte(at + 1);
    if (marker == 0xff) {  // fills
      ++at;
      continue;
    }
    const bool alone = marker == 0 || marker == 1 || (marker & 0xf8) == 0xd0;
    if (alone) sum += 2;
    if (marker == 0xd9) break;
    at += alone ? 2 : 2 + (byte(at + 2) << 8 | byte(at + 3));
    if (marker != kStartOfScan && !alone && at < file.size() && byte(at) != 0xff) break;
  }
  return sum;
}

/// What libjpeg keeps where it reads several scans: each sample's coefficient.
uint64_t coefficient_bytes(jpeg_decompress_struct& jpeg) {
  if (!jpeg_has_multiple_scans(&jpeg)) return 0;
  uint64_t blocks = 0;
  for (int i = 0; i < jpeg.num_components; ++i) {
    const jpeg_component_info& c = jpeg.comp_info[i];
    blocks += uint64_t{c.width_in_blocks} * c.height_in_blocks;
  }
  return blocks * DCTSIZE2 * sizeof(JCOEF);
}

bool read_rows(Reader& r, uint8_t* to, size_t row) {
  if (setjmp(r.jump)) return false;
  jpeg_start_decompress(&r.jpeg);
  while (r.jpeg.output_scanline < r.jpeg.output_height) {
    JSAMPROW at = to + r.jpeg.output_scanline * row;
    jpeg_read_scanlines(&r.jpeg, &at, 1);
  }
  jpeg_finish_decompress(&r.jpeg);
  return true;
}

}  // namespace

Pixels parse_jpeg(ByteSpan bytes, const std::string& name, int64_t height, int64_t width) {
  check<IoError>(!bytes.empty(), "{}: expected a JPEG file, got 0 bytes", name);
  Reader r(bytes);
  const auto checked = [&](bool ok, const char* what) {
    check<IoError>(ok, "{}: damaged JPEG {}: {}", name, what, r.message.data());
  };
  checked(read_header(r), "header");
  const int components = r.jpeg.num_components;
  check<IoError>(components == 1 || components == 3,
                 "{}: expected 1 (grey) or 3 (colour) components, got {}", name, components);
  check<IoError>(!r.jpeg.arith_code, "{}: JPEG with arithmetic coding is not supported", name);

  Pixels out{.height = r.jpeg.image_height,
             .width = r.jpeg.image_width,
             .channels = components,
             .data = {}};
  // Huffman codes take a bit or more for each block of 8 by 8 pixels.
  const uint64_t packed = packed_bytes(bytes);
  check<IoError>(static_cast<uint64_t>(out.height * out.width) / (64 * 8) <= packed,
                 "{}: truncated: {} x {} pixels cannot be in a JPEG file with {} bytes of them",
                 name, out.width, out.height, packed);
  check_pixels(out, packed, coefficient_bytes(r.jpeg), name);

  r.jpeg.out_color_space = components == 1 ? JCS_GRAYSCALE : JCS_RGB;
  if (height > 0 && width > 0) {
    // libjpeg rounds sides up.
    unsigned part = 1;
    while (part < DCTSIZE && (out.height + 2 * part - 1) / (2 * part) >= height &&
           (out.width + 2 * part - 1) / (2 * part) >= width)
      part *= 2;
    r.jpeg.scale_num = 1;
    r.jpeg.scale_denom = part;
    out.height = (out.height + part - 1) / part;
    out.width = (out.width + part - 1) / part;
  }
  out.data.reset(new uint8_t[static_cast<size_t>(out.size())]);
  checked(read_rows(r, out.data.get(), static_cast<size_t>(out.width * out.channels)), "pixels");
  return out;
}

}  // namespace mica::io
