#include "mica/core/version.h"

#include <string_view>

namespace mica {

static_assert(std::string_view(MICA_VERSION) == MICA_VERSION_STRING,
              "core/version.h and the project in CMakeLists.txt have different versions");

const char* version() { return MICA_VERSION; }

}  // namespace mica
