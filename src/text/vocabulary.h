#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mica::text {

/// The characters of a text, or all bytes, as numbers from 0.
class Vocabulary {
 public:
  /// All 256: every text can be written with them.
  static Vocabulary bytes();
  /// The characters of a UTF-8 text, in the order of their code points. Raises where it is not
  /// UTF-8.
  static Vocabulary characters(std::string_view text);
  /// From what `entries` gave.
  static Vocabulary from_entries(std::vector<std::string> entries);

  int64_t size() const { return static_cast<int64_t>(entries_.size()); }
  /// A character or byte for each number.
  const std::vector<std::string>& entries() const { return entries_; }
  /// Raises, naming it, at a character that is not among them.
  std::vector<int64_t> encode(std::string_view text) const;
  std::string decode(std::span<const int64_t> tokens) const;

 private:
  explicit Vocabulary(std::vector<std::string> entries);

  std::vector<std::string> entries_;
  std::map<std::string, int64_t, std::less<>> numbers_;
  bool is_bytes_ = false;
};

}  // namespace mica::text
