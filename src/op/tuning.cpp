#include "mica/op/tuning.h"

#include <array>
#include <atomic>
#include <filesystem>
#include <mutex>
#include <sstream>
#include <unordered_map>

#include "mica/core/check.h"
#include "mica/core/fork.h"
#include "mica/runtime/disk_cache.h"

namespace mica {
namespace {

constexpr const char* kFile = "autotune.txt";

/// Empty where answers are not kept on disk.
std::filesystem::path file_of_answers() {
  const std::filesystem::path directory = cache_directory();
  return directory.empty() ? directory : directory / kFile;
}

class Answers {
 public:
  std::optional<std::string> find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    load();
    const auto it = answers_.find(key);
    return it == answers_.end() ? std::nullopt : std::optional(it->second);
  }

  void keep(const std::string& key, const std::string& answer) {
    const std::lock_guard lock(mutex_);
    load();
    answers_[key] = answer;
    if (file_.empty()) return;
    const std::string pair = key + '\t' + answer;
    // It starts with the end of a line too: one that a killed process cut short ends here.
    const std::string line = fmt::format("\n{}\t{}\n", checksum(pair), pair);
    append_to_cache_file(kFile, line);
  }

 private:
  /// Reads the file, at first and whenever the environment names another.
  void load() {
    const std::filesystem::path file = file_of_answers();
    if (loaded_ && file == file_) return;
    loaded_ = true;
    file_ = file;
    answers_.clear();
    if (file.empty()) return;
    std::istringstream in(read_cache_file(kFile).value_or(""));
    for (std::string line; std::getline(in, line);) {
      const size_t first = line.find('\t');
      const size_t second = first == std::string::npos ? first : line.find('\t', first + 1);
      if (second == std::string::npos) continue;
      if (line.substr(0, first) != checksum(line.substr(first + 1))) continue;
      answers_[line.substr(first + 1, second - first - 1)] = line.substr(second + 1);
    }
  }

  Mutex mutex_;
  bool loaded_ = false;
  std::filesystem::path file_;
  std::unordered_map<std::string, std::string> answers_;
};

std::array<std::atomic<std::string (*)(int)>, kDeviceKinds> g_environments;

Answers& answers() {
  static Answers a;
  return a;
}

}  // namespace

std::string tuning_environment(Device device) {
  const auto describe = g_environments[static_cast<size_t>(device.kind)].load();
  return describe ? describe(device.index) : "";
}

void set_tuning_environment(DeviceKind kind, std::string (*describe)(int index)) {
  g_environments[static_cast<size_t>(kind)] = describe;
}

std::optional<std::string> find_tuned(const std::string& key) { return answers().find(key); }

void keep_tuned(const std::string& key, const std::string& answer) {
  check((key + answer).find_first_of("\t\n") == std::string::npos,
        "keep_tuned: a tab or the end of a line in '{}' or '{}'", key, answer);
  answers().keep(key, answer);
}

}  // namespace mica
