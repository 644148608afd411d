// In place of png.cpp in a build without libpng.
#include "mica/core/check.h"
#include "mica/io/pixels.h"

namespace mica::io {

Pixels parse_png(ByteSpan, const std::string& name) {
  fail<Unsupported>("{}: this build of mica has no PNG (Debian: libpng-dev)", name);
}

std::vector<std::byte> build_png(const Pixels&) {
  fail<Unsupported>("encode_png: this build of mica has no PNG (Debian: libpng-dev)");
}

}  // namespace mica::io
