#pragma once

#include <string>
#include <string_view>

namespace mica {

/// The text for a message or a terminal: control characters, which a terminal would obey, and bytes
/// that are not UTF-8 as \\x1b; the ends of lines and tabs stay. File names, and names in files,
/// may hold anything.
std::string printable(std::string_view text);
/// Whether all of it is UTF-8.
bool is_utf8(std::string_view text);

}  // namespace mica
