#include "mica/text/bpe.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <queue>

#include "mica/core/check.h"
#include "mica/core/text.h"
#include "mica/text/unicode.h"

namespace mica::text {
namespace {

/// Of the characters in byte_characters, the last is U+0143.
constexpr char32_t kCharactersEnd = 0x144;

std::array<std::string, 256> make_byte_characters() {
  std::array<std::string, 256> all;
  char32_t next = 0x100;
  for (char32_t b = 0; b < 256; ++b) {
    const bool printed = (b >= '!' && b <= '~') || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
    append_character(all[b], printed ? b : next++);
  }
  return all;
}

uint64_t key_of(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}
size_t hash_of(uint64_t key) { return static_cast<size_t>(key * 0x9e3779b97f4a7c15ULL >> 20); }

}  // namespace

const std::array<std::string, 256>& byte_characters() {
  static const std::array<std::string, 256> all = make_byte_characters();
  return all;
}

std::string bytes_of_token(std::string_view token) {
  static const std::array<int, kCharactersEnd> bytes = [] {
    std::array<int, kCharactersEnd> found;
    found.fill(-1);
    for (int b = 0; b < 256; ++b) {
      size_t at = 0;
      found[next_character(byte_characters()[static_cast<size_t>(b)], at)] = b;
    }
    return found;
  }();
  std::string result;
  for (size_t at = 0; at < token.size();) {
    const char32_t c = next_character(token, at);
    if (c >= kCharactersEnd || bytes[c] < 0) return std::string(token);
    result += static_cast<char>(bytes[c]);
  }
  return result;
}

TokenTable::TokenTable(const std::vector<std::pair<std::string, int64_t>>& entries,
                       const std::string& name) {
  int64_t largest = -1;
  for (const auto& [text, number] : entries) largest = std::max(largest, number);
  const int64_t most = 4 * static_cast<int64_t>(entries.size()) + 1024;
  check<IoError>(!entries.empty() && largest < most,
                 "{}: expected tokens with numbers from 0 on, got {} tokens and the number {}",
                 name, entries.size(), largest);
  texts_.resize(static_cast<size_t>(largest) + 1);
  used_.resize(texts_.size());
  numbers_.reserve(entries.size());
  for (const auto& [text, number] : entries) {
    check<IoError>(number >= 0 && !used_[static_cast<size_t>(number)],
                   "{}: the token '{}' has the number {}, which is negative or another's", name,
                   printable(text), number);
    used_[static_cast<size_t>(number)] = true;
    texts_[static_cast<size_t>(number)] = text;
  }
  for (size_t i = 0; i < texts_.size(); ++i)
    if (used_[i])
      check<IoError>(numbers_.emplace(texts_[i], static_cast<int64_t>(i)).second,
                     "{}: the token '{}' is there twice", name, printable(texts_[i]));
}

int64_t TokenTable::find(std::string_view text) const {
  const auto it = numbers_.find(text);
  return it == numbers_.end() ? -1 : it->second;
}

const std::string& TokenTable::text(int64_t token) const {
  check<IndexError>(token >= 0 && token < size(), "text: token {} is not in [0, {})", token,
                    size());
  return texts_[static_cast<size_t>(token)];
}

std::vector<std::pair<std::string, int64_t>> TokenTable::entries() const {
  std::vector<std::pair<std::string, int64_t>> all;
  for (size_t i = 0; i < texts_.size(); ++i)
    if (used_[i]) all.emplace_back(texts_[i], static_cast<int64_t>(i));
  return all;
}

Bpe::Bpe(TokenTable table, std::vector<Merge> merges, bool ignore_merges, const std::string& name)
    : table_(std::move(table)), merges_(std::move(merges)), ignore_merges_(ignore_merges) {
  for (size_t b = 0; b < 256; ++b)
    byte_tokens_[b] = static_cast<int32_t>(table_.find(byte_characters()[b]));
  keys_.assign(std::bit_ceil(2 * merges_.size() + 2), kFree);
  rules_.resize(keys_.size());
  for (size_t rank = 0; rank < merges_.size(); ++rank) {
    const auto& [left, right] = merges_[rank];
    const auto number = [&](const std::string& text) {
      const int64_t token = table_.find(text);
      check<IoError>(token >= 0, "{}: merge {}, '{} {}', speaks of '{}', which is no token", name,
                     rank, printable(left), printable(right), printable(text));
      return static_cast<int32_t>(token);
    };
    const uint64_t key = key_of(number(left), number(right));
    size_t place = hash_of(key) & (keys_.size() - 1);
    while (keys_[place] != kFree && keys_[place] != key) place = (place + 1) & (keys_.size() - 1);
    keys_[place] = key;
    rules_[place] = {static_cast<uint32_t>(rank), number(left + right)};
  }
}

const Bpe::Rule* Bpe::rule(int32_t left, int32_t right) const {
  const uint64_t key = key_of(left, right);
  for (size_t place = hash_of(key) & (keys_.size() - 1); keys_[place] != kFree;
       place = (place + 1) & (keys_.size() - 1))
    if (keys_[place] == key) return &rules_[place];
  return nullptr;
}

void Bpe::encode(std::string_view word, std::vector<int64_t>& tokens) const {
  if (ignore_merges_) {
    std::string text;
    for (const char c : word) text += byte_characters()[static_cast<unsigned char>(c)];
    if (const int64_t token = table_.find(text); token >= 0) {
      tokens.push_back(token);
      return;
    }
  }
  struct Symbol {
    int32_t token, before, after;  ///< neighbours by place, -1 at the ends
  };
  std::vector<Symbol> symbols(word.size());
  const auto count = static_cast<int32_t>(word.size());
  for (int32_t i = 0; i < count; ++i) {
    const auto byte = static_cast<unsigned char>(word[static_cast<size_t>(i)]);
    check(byte_tokens_[byte] >= 0, "text: the vocabulary has no token for the byte {}", byte);
    symbols[static_cast<size_t>(i)] = {byte_tokens_[byte], i - 1, i + 1 < count ? i + 1 : -1};
  }
  struct Candidate {
    uint32_t rank;
    int32_t place, left, right;
    int32_t token;
    bool operator>(const Candidate& o) const {
      return rank != o.rank ? rank > o.rank : place > o.place;
    }
  };
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> waiting;
  const auto at = [&](int32_t i) -> Symbol& { return symbols[static_cast<size_t>(i)]; };
  const auto consider = [&](int32_t place) {
    if (place < 0 || at(place).after < 0) return;
    const int32_t left = at(place).token, right = at(at(place).after).token;
    if (const Rule* r = rule(left, right)) waiting.push({r->rank, place, left, right, r->token});
  };
  for (int32_t i = 0; i + 1 < count; ++i) consider(i);
  while (!waiting.empty()) {
    const Candidate next = waiting.top();
    waiting.pop();
    Symbol& left = at(next.place);
    // Either may have been merged with another neighbour since.
    if (left.token != next.left || left.after < 0 || at(left.after).token != next.right) continue;
    Symbol& right = at(left.after);
    left.token = next.token;
    left.after = right.after;
    if (right.after >= 0) at(right.after).before = next.place;
    right.token = -1;
    consider(left.before);
    consider(next.place);
  }
  for (int32_t i = count > 0 ? 0 : -1; i >= 0; i = at(i).after) tokens.push_back(at(i).token);
}

}  // namespace mica::text
