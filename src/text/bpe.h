#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace mica::text {

/// A token's text by its number, and the other way round.
class TokenTable {
 public:
  TokenTable(TokenTable&&) = default;
  TokenTable& operator=(TokenTable&&) = default;
  TokenTable(const TokenTable&) = delete;
  TokenTable& operator=(const TokenTable&) = delete;
  /// Raises where a number is there twice, is negative, or leaves most numbers unused.
  TokenTable(const std::vector<std::pair<std::string, int64_t>>& entries, const std::string& name);

  int64_t size() const { return static_cast<int64_t>(texts_.size()); }
  /// -1 where there is none.
  int64_t find(std::string_view text) const;
  /// Empty for a number that is not used.
  const std::string& text(int64_t token) const;
  /// The used ones, in order.
  std::vector<std::pair<std::string, int64_t>> entries() const;

 private:
  std::vector<std::string> texts_;
  std::unordered_map<std::string_view, int64_t> numbers_;  ///< views of texts_
  std::vector<bool> used_;
};

/// The characters that stand for bytes in the texts of byte-level tokens: those that can be
/// printed for themselves, others from U+0100 on.
const std::array<std::string, 256>& byte_characters();
/// The bytes that such a text stands for; one with another character stands for itself.
std::string bytes_of_token(std::string_view token);

/// Byte-pair encoding: of a word's bytes, neighbours are merged in the order in which training
/// found them.
class Bpe {
 public:
  using Merge = std::pair<std::string, std::string>;
  /// Raises where a merge speaks of tokens that are not there.
  Bpe(TokenTable table, std::vector<Merge> merges, bool ignore_merges, const std::string& name);

  const TokenTable& table() const { return table_; }
  const std::vector<Merge>& merges() const { return merges_; }
  /// A word that is a token is that token, whatever the merges say.
  bool ignores_merges() const { return ignore_merges_; }
  /// Appends the tokens of a word. Raises at a byte that has none.
  void encode(std::string_view word, std::vector<int64_t>& tokens) const;

 private:
  struct Rule {
    uint32_t rank;
    int32_t token;
  };
  /// Null where the two are not merged.
  const Rule* rule(int32_t left, int32_t right) const;

  TokenTable table_;
  std::vector<Merge> merges_;
  bool ignore_merges_;
  std::array<int32_t, 256> byte_tokens_;
  // Open addressing; a free place has the key kFree.
  static constexpr uint64_t kFree = ~uint64_t{0};
  std::vector<uint64_t> keys_;
  std::vector<Rule> rules_;
};

struct BpeTraining;  // text/tokenizer.h
/// Tokens and merges for words and how often they occur, as Hugging Face's trainer finds them: the
/// special tokens, the bytes, then the most frequent pair of neighbours again and again.
struct TrainedBpe {
  std::vector<std::pair<std::string, int64_t>> tokens;
  std::vector<Bpe::Merge> merges;
};
TrainedBpe train_bpe(const std::unordered_map<std::string, int64_t>& words,
                     const BpeTraining& options);

}  // namespace mica::text
