#pragma once

namespace mica {

/// A header that is part of the library, which sources that are compiled at run time may include.
struct EmbeddedHeader {
  const char* name;
  const char* text;
};

}  // namespace mica
