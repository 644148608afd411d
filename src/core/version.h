#pragma once

#define MICA_VERSION_MAJOR 0
#define MICA_VERSION_MINOR 1
#define MICA_VERSION_PATCH 0
#define MICA_VERSION_STRING "0.1.0"

namespace mica {

/// Of the library that runs, "0.1.0"; MICA_VERSION_STRING is that of the headers.
const char* version();

}  // namespace mica
