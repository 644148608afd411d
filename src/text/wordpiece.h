#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mica/text/bpe.h"

namespace mica::text {

/// BERT's tokens: of a word the longest beginning that is one, then the longest of the rest with
/// "##" before it, and so on.
class WordPiece {
 public:
  struct Options {
    std::string unknown = "[UNK]";
    std::string continuing = "##";
    int64_t most_characters = 100;  ///< of a word that is not unknown
  };
  /// Raises where there is no unknown token.
  WordPiece(TokenTable table, const Options& options, const std::string& name);

  const TokenTable& table() const { return table_; }
  const Options& options() const { return options_; }
  /// Appends the tokens of a word: one unknown where any part of it has none.
  void encode(std::string_view word, std::vector<int64_t>& tokens) const;

 private:
  TokenTable table_;
  Options options_;
  int64_t unknown_;
  size_t longest_ = 0;  ///< bytes of a token
};

}  // namespace mica::text
