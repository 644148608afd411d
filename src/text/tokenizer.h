#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mica::text {

struct BpeTraining {
  int64_t vocabulary = 30000;
  int64_t min_frequency = 0;  ///< of a pair that is merged
  std::vector<std::string> special_tokens = {};
};
struct TokenizerState;  // text/tokenizer_state.h

/// Texts as numbers by byte-level BPE (GPT-2, Llama 3) or WordPiece (BERT), equal to Hugging Face's
/// tokenizers. A handle; copies share what it knows, which never changes, so that any number of
/// threads may use it.
class Tokenizer {
 public:
  /// From a file `tokenizer.json`; a BERT's `vocab.txt`; or a folder that has one of them, or
  /// GPT-2's `vocab.json` and `merges.txt`. What a file asks for that is not here raises
  /// Unsupported, and what is wrong with it IoError.
  static Tokenizer load(const std::string& path);
  /// From the contents of such files; errors speak of `name`, or of files in a folder `name`.
  static Tokenizer from_json(std::string_view json, const std::string& name = "tokenizer.json");
  static Tokenizer from_bpe(std::string_view vocab_json, std::string_view merges,
                            const std::string& name = "");
  static Tokenizer from_wordpiece(std::string_view vocab, bool lowercase = true,
                                  const std::string& name = "vocab.txt");
  /// A byte-level BPE with GPT-2's words, found in these texts.
  static Tokenizer train_bpe(std::span<const std::string_view> texts, const BpeTraining& options);

  /// The tokens of a text, between those that the tokenizer puts around one ([CLS], [SEP]) where
  /// `special`. Special tokens in the text are recognised. Raises where it is not UTF-8.
  std::vector<int64_t> encode(std::string_view text, bool special = true) const;
  /// The text of tokens, special ones left out. Tokens of a byte-level tokenizer that are cut
  /// within a character give bytes that are not UTF-8.
  std::string decode(std::span<const int64_t> tokens, bool skip_special = true) const;

  /// How many numbers there are: one more than the largest.
  int64_t size() const;
  /// -1 where there is no such token.
  int64_t token_to_id(std::string_view token) const;
  const std::string& id_to_token(int64_t token) const;

  /// As Hugging Face's `tokenizer.json`.
  std::string to_json() const;
  void save(const std::string& path) const;

 private:
  explicit Tokenizer(std::shared_ptr<const TokenizerState> state) : state_(std::move(state)) {}

  std::shared_ptr<const TokenizerState> state_;
};

}  // namespace mica::text
