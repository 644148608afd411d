#include "mica/text/vocabulary.h"

#include <set>

#include "mica/core/check.h"
#include "mica/core/text.h"

namespace mica::text {
namespace {

/// Of the character that begins with this byte.
size_t utf8_length(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

std::vector<std::string> all_bytes() {
  std::vector<std::string> bytes;
  for (int i = 0; i < 256; ++i) bytes.emplace_back(1, static_cast<char>(i));
  return bytes;
}

/// One after the other. Raises where it is not UTF-8.
std::vector<std::string_view> characters_of(std::string_view text) {
  check(is_utf8(text), "text: expected UTF-8");
  std::vector<std::string_view> all;
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8_length(text[at]);
    all.push_back(text.substr(at, length));
    at += length;
  }
  return all;
}

}  // namespace

Vocabulary::Vocabulary(std::vector<std::string> entries) : entries_(std::move(entries)) {
  is_bytes_ = entries_ == all_bytes();
  for (size_t i = 0; i < entries_.size(); ++i) {
    check(!entries_[i].empty(), "text: entry {} of a vocabulary is empty", i);
    check(numbers_.emplace(entries_[i], static_cast<int64_t>(i)).second,
          "text: entry {} of a vocabulary is there twice", i);
  }
}

Vocabulary Vocabulary::bytes() { return Vocabulary(all_bytes()); }

Vocabulary Vocabulary::characters(std::string_view text) {
  std::set<std::string_view> seen;  // of UTF-8 the order of bytes is that of code points
  for (const std::string_view c : characters_of(text)) seen.insert(c);
  return Vocabulary({seen.begin(), seen.end()});
}

Vocabulary Vocabulary::from_entries(std::vector<std::string> entries) {
  return Vocabulary(std::move(entries));
}

std::vector<int64_t> Vocabulary::encode(std::string_view text) const {
  std::vector<int64_t> tokens;
  tokens.reserve(text.size());
  if (is_bytes_) {
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  }
  for (const std::string_view c : characters_of(text)) {
    const auto it = numbers_.find(c);
    check(it != numbers_.end(), "text: the vocabulary has no '{}'", printable(c));
    tokens.push_back(it->second);
  }
  return tokens;
}

std::string Vocabulary::decode(std::span<const int64_t> tokens) const {
  std::string text;
  for (const int64_t token : tokens) {
    check<IndexError>(token >= 0 && token < size(), "text: token {} is not in [0, {})", token,
                      size());
    text += entries_[static_cast<size_t>(token)];
  }
  return text;
}

}  // namespace mica::text
