#pragma once

#include <string>
#include <string_view>
#include <vector>

// How texts are cut into words before a model makes tokens of these. All texts are UTF-8.
namespace mica::text {

using Words = std::vector<std::string_view>;

/// The patterns of byte-level tokenizers.
enum class WordPattern {
  whole,         ///< no cuts
  gpt2,          ///< 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  three_digits,  ///< that of Llama 3, whose numbers have at most three digits
  one_digit,     ///< the same with numbers of one digit, of Qwen 2
};
/// The regular expression by which files name a pattern; empty for `whole`.
std::string_view expression_of(WordPattern pattern);

/// The text cut by a pattern, nothing left out.
Words split_words(std::string_view text, WordPattern pattern);

/// What BERT does to a text first.
struct BertCleaning {
  bool clean_text = true;            ///< leaves control characters out; every space is a blank
  bool handle_chinese_chars = true;  ///< blanks around ideographs
  bool strip_accents = true;
  bool lowercase = true;

  bool operator==(const BertCleaning&) const = default;
};
std::string cleaned(std::string_view text, const BertCleaning& how);

/// Cut at white space, which is left out, and around each mark of punctuation.
Words split_bert_words(std::string_view text);

}  // namespace mica::text
