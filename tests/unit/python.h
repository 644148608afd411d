#pragma once

#include <fmt/core.h>

#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>

namespace mica {

/// The Python environment that scripts/setup makes, above the folder of this program.
class Python {
 public:
  Python() {
    const auto program = std::filesystem::read_symlink("/proc/self/exe");
    for (auto folder = program; folder.has_relative_path() && root_.empty();) {
      folder = folder.parent_path();
      if (std::filesystem::exists(folder / ".venv/bin/python")) root_ = folder;
    }
  }

  /// False too where there is no Python.
  bool has(const std::string& packages) const {
    return !root_.empty() && run(fmt::format("-c 'import {}' 2>&1", packages)).has_value();
  }

  /// What a script of this folder prints; nothing when it fails.
  std::optional<std::string> script(const std::string& name, const std::string& arguments) const {
    return run(fmt::format("'{}/tests/unit/{}' {}", root_.string(), name, arguments));
  }

 private:
  std::optional<std::string> run(const std::string& arguments) const {
    // A sanitizer that this program was started with is not for Python, which frees little at its
    // end.
    const auto command =
        fmt::format("env -u LD_PRELOAD '{}/.venv/bin/python' {}", root_.string(), arguments);
    FILE* child = popen(command.c_str(), "r");
    if (!child) return {};
    std::string text;
    char buffer[4096];
    while (std::fgets(buffer, sizeof buffer, child)) text += buffer;
    return pclose(child) == 0 ? std::optional(text) : std::nullopt;
  }

  std::filesystem::path root_;
};

}  // namespace mica
