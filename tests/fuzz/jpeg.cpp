// JPEG files.
#include "mica/io/pixels.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/image_samples.h"

namespace mica::fuzz {

std::vector<Bytes> seeds() {
  return {test::from_hex(test::kColourJpeg), test::from_hex(test::kProgressiveJpeg),
          test::from_hex(test::kGreyJpeg), test::from_hex(test::kCmykJpeg)};
}

void read(std::span<const std::byte> bytes) { (void)io::parse_jpeg(bytes, "file"); }

}  // namespace mica::fuzz
