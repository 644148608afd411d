// The one file that compiles {fmt}; the others include its light header and link to this. Compiling
// it everywhere would double the build's time.
#define FMT_HEADER_ONLY
#include <fmt/format.h>

namespace mica {

/// Naming the functions makes the compiler emit them.
struct FormatFunctions {
  std::string (*vformat)(fmt::string_view, fmt::format_args);
  void (*vprint)(fmt::string_view, fmt::format_args);
  void (*vprint_to)(std::FILE*, fmt::string_view, fmt::format_args);
};
extern const FormatFunctions kFormatFunctions;
const FormatFunctions kFormatFunctions = {&fmt::vformat, &fmt::vprint, &fmt::vprint};

}  // namespace mica
