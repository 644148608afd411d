// A profile as one page for a browser.
#include <string_view>

#include "mica/io/file.h"
#include "mica/profile/profile.h"
#include "profile_page.h"  // kProfilePage: page.html, embedded by CMake

namespace mica::profiler {

void write_report(const Profile& profile, const std::string& path) {
  constexpr std::string_view kPlace = "{{profile}}";
  std::string page = kProfilePage;
  // Inside a script element nothing may look like its end.
  std::string data;
  for (const char c : to_json(profile))
    data += c == '<' ? std::string("\\u003c") : std::string(1, c);
  page.replace(page.find(kPlace), kPlace.size(), data);
  io::write_file_atomically(path, [&](io::File& file) { file.write(page); });
}

}  // namespace mica::profiler
