#include "mica/text/wordpiece.h"

#include <algorithm>

#include "mica/core/check.h"
#include "mica/core/text.h"

namespace mica::text {
namespace {

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

}  // namespace

WordPiece::WordPiece(TokenTable table, const Options& o, const std::string& name)
    : table_(std::move(table)), options_(o), unknown_(table_.find(o.unknown)) {
  check<IoError>(unknown_ >= 0, "{}: the token '{}' for unknown words is not there", name,
                 printable(o.unknown));
  for (const auto& [text, number] : table_.entries()) longest_ = std::max(longest_, text.size());
}

void WordPiece::encode(std::string_view word, std::vector<int64_t>& tokens) const {
  const size_t before = tokens.size();
  if (std::ranges::count_if(word, begins_character) > options_.most_characters) {
    tokens.push_back(unknown_);
    return;
  }
  std::string piece;
  for (size_t at = 0; at < word.size();) {
    const size_t most = std::min(word.size() - at, longest_);
    piece.assign(at > 0 ? options_.continuing : "");
    const size_t prefix = piece.size();
    piece.append(word.substr(at, most));
    int64_t found = -1;
    for (; found < 0 && piece.size() > prefix; piece.pop_back()) {
      const size_t end = at + piece.size() - prefix;
      if (end < word.size() && !begins_character(word[end])) continue;
      found = table_.find(piece);
      if (found >= 0) {
        at = end;
        break;
      }
    }
    if (found < 0) {
      tokens.resize(before);
      tokens.push_back(unknown_);
      return;
    }
    tokens.push_back(found);
  }
}

}  // namespace mica::text
