#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "mica/core/check.h"

namespace mica {

/// What the mica command, which lies beside this program, prints; nothing where it was not built.
inline std::string output_of(const std::string& arguments) {
  const auto tool = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "mica";
  if (!std::filesystem::exists(tool)) return "";
  const std::string command = fmt::format("'{}' {}", tool.string(), arguments);
  const std::unique_ptr<FILE, int (*)(FILE*)> child(popen(command.c_str(), "r"), pclose);
  std::string text;
  char buffer[4096];
  while (child && std::fgets(buffer, sizeof buffer, child.get())) text += buffer;
  return text;
}

}  // namespace mica
