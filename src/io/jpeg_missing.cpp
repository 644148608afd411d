// In place of jpeg.cpp in a build without libjpeg.
#include "mica/core/check.h"
#include "mica/io/pixels.h"

namespace mica::io {

Pixels parse_jpeg(ByteSpan, const std::string& name, int64_t, int64_t) {
  fail<Unsupported>("{}: this build of mica has no JPEG (Debian: libjpeg62-turbo-dev)", name);
}

}  // namespace mica::io
