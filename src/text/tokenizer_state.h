#pragma once

#include <optional>
#include <variant>

#include "mica/text/split.h"
#include "mica/text/tokenizer.h"
#include "mica/text/wordpiece.h"

namespace mica::text {

/// A token that is looked for in the text itself, before any word is.
struct AddedToken {
  std::string content;
  int64_t id = 0;
  bool special = false;
  bool normalized = false;   ///< looked for in the text after cleaning
  bool single_word = false;  ///< not within a word
  bool left_strip = false;   ///< takes the white space before it
  bool right_strip = false;  ///< and after it
};

/// What a tokenizer knows.
struct TokenizerState {
  std::variant<Bpe, WordPiece> model;
  WordPattern pattern = WordPattern::gpt2;  ///< of a BPE
  bool prefix_space = false;                ///< of a BPE: a blank before a text that has none
  std::optional<BertCleaning> cleaning = {};
  bool clean_up = true;  ///< of a WordPiece: no blank before punctuation in decode
  std::vector<AddedToken> added = {};
  std::vector<int64_t> before = {}, after = {};  ///< what stands around a text

  const TokenTable& table() const {
    return std::visit([](const auto& m) -> const TokenTable& { return m.table(); }, model);
  }
  const AddedToken* find_added(int64_t id) const {
    for (const AddedToken& token : added)
      if (token.id == id) return &token;
    return nullptr;
  }
};

}  // namespace mica::text
