#include "mica/custom/source_text.h"

#include <algorithm>
#include <cctype>

#include "mica/core/check.h"

namespace mica::cuda {

std::vector<std::string> identifiers(const std::string& list, const std::string& what) {
  std::vector<std::string> names;
  std::string name;
  for (const char c : list + ",") {
    if (c == ' ' || c == '\n') continue;
    if (c != ',') {
      name += c;
      continue;
    }
    const bool valid = !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
                       std::all_of(name.begin(), name.end(), [](unsigned char l) {
                         return std::isalnum(l) != 0 || l == '_';
                       });
    check(valid, "{}: expected names as in \"x, y\", got \"{}\"", what, list);
    check(std::find(names.begin(), names.end(), name) == names.end(), "{}: \"{}\" stands twice",
          what, name);
    names.push_back(std::move(name));
    name.clear();
  }
  return names;
}

std::string memory_type(DType t) {
  const char* type = info_of(t).source;
  check<DTypeError>(type != nullptr, "kernels from source do not take {}", t);
  return type;
}

std::string compute_type(DType t) { return memory_type(info_of(t).carrier); }

std::string user_lines(const std::string& text, const std::string& name) {
  return fmt::format("\n#line 1 \"{}\"\n{}\n#line 1 \"generated\"\n", name, text);
}

}  // namespace mica::cuda
