#include "mica/text/split.h"

#include <algorithm>
#include <array>

#include "mica/text/unicode.h"

namespace mica::text {
namespace {

constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kThreeDigits =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kOneDigit =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::array<std::string_view, 7> kEndings = {"s", "t", "re", "ve", "m", "ll", "d"};

bool is_newline(char c) { return c == '\r' || c == '\n'; }

/// Finds the end of the word at a place of a text.
class Cutter {
 public:
  Cutter(std::string_view text, WordPattern pattern) : text_(text), pattern_(pattern) {}

  size_t end_of_word(size_t at) const {
    return pattern_ == WordPattern::gpt2 ? gpt2_end(at) : newer_end(at);
  }

 private:
  /// The class that matters here: letter, number, space, or 0.
  uint8_t kind(size_t at, size_t& behind) const {
    behind = at;
    return classes_of(next_character(text_, behind)) & (kLetter | kNumber | kSpace);
  }
  /// The end of the run of characters of this kind, of at most so many.
  size_t end_of_run(size_t at, uint8_t wanted, size_t most = SIZE_MAX) const {
    for (size_t behind = at; at < text_.size() && most > 0; at = behind, --most)
      if (kind(at, behind) != wanted) break;
    return at;
  }

  /// Behind 's and the like; `at` where there is none.
  size_t end_of_ending(size_t at, bool any_case) const {
    if (text_[at] != '\'') return at;
    const std::string_view rest = text_.substr(at + 1);
    // The long s is an s to expressions that ignore the case.
    if (any_case && rest.starts_with("\xc5\xbf")) return at + 3;
    for (const std::string_view ending : kEndings) {
      const auto same = [&](char a, char b) {
        return a == b || (any_case && b >= 'A' && b <= 'Z' && a == b - 'A' + 'a');
      };
      if (rest.size() >= ending.size() &&
          std::equal(ending.begin(), ending.end(), rest.begin(), same))
        return at + 1 + ending.size();
    }
    return at;
  }

  size_t end_of_spaces(size_t at) const {
    const size_t end = end_of_run(at, kSpace);
    if (end == text_.size()) return end;
    size_t last = at;  // where the last space begins: it belongs to what follows
    for (size_t i = at; i < end;) {
      last = i;
      next_character(text_, i);
    }
    return last > at ? last : end;
  }

  size_t gpt2_end(size_t at) const {
    if (const size_t end = end_of_ending(at, false); end > at) return end;
    size_t first = at;
    if (text_[at] == ' ' && at + 1 < text_.size()) ++first;
    size_t behind = 0;
    const uint8_t what = kind(first, behind);
    if (!(what & kSpace)) return end_of_run(first, what);
    return end_of_spaces(at);
  }

  size_t newer_end(size_t at) const {
    if (const size_t end = end_of_ending(at, true); end > at) return end;
    size_t behind = 0;
    const uint8_t what = kind(at, behind);
    if (what == kLetter) return end_of_run(at, kLetter);
    if (what != kNumber && !is_newline(text_[at]))
      if (const size_t end = end_of_run(behind, kLetter); end > behind) return end;
    if (what == kNumber)
      return end_of_run(at, kNumber, pattern_ == WordPattern::three_digits ? 3 : 1);
    const size_t first = text_[at] == ' ' ? at + 1 : at;
    if (size_t end = end_of_run(first, 0); end > first) {
      while (end < text_.size() && is_newline(text_[end])) ++end;
      return end;
    }
    const size_t spaces = end_of_run(at, kSpace);
    for (size_t i = spaces; i > at; --i)
      if (is_newline(text_[i - 1])) return i;
    return end_of_spaces(at);
  }

  std::string_view text_;
  WordPattern pattern_;
};

bool is_ideograph(char32_t c) {
  constexpr char32_t kRanges[][2] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF},
                                     {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF},
                                     {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  return std::ranges::any_of(kRanges, [&](const auto& r) { return c >= r[0] && c <= r[1]; });
}

bool is_blank(char32_t c) { return c == '\t' || c == '\n' || c == '\r'; }

bool is_mark(char32_t c) {
  const bool ascii = (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
                     (c >= 123 && c <= 126);
  return ascii || (classes_of(c) & kPunctuation);
}

/// What `change` appends for each character.
template <class F>
std::string changed(std::string_view text, F&& change) {
  std::string result;
  result.reserve(text.size());
  for (size_t at = 0; at < text.size();) change(result, next_character(text, at));
  return result;
}

}  // namespace

std::string_view expression_of(WordPattern pattern) {
  switch (pattern) {
    case WordPattern::gpt2:
      return kGpt2;
    case WordPattern::three_digits:
      return kThreeDigits;
    case WordPattern::one_digit:
      return kOneDigit;
    case WordPattern::whole:
      break;
  }
  return {};
}

Words split_words(std::string_view text, WordPattern pattern) {
  if (text.empty()) return {};
  if (pattern == WordPattern::whole) return {text};
  Words words;
  const Cutter cutter(text, pattern);
  for (size_t at = 0; at < text.size();) {
    const size_t end = cutter.end_of_word(at);
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

std::string cleaned(std::string_view text, const BertCleaning& how) {
  std::string result(text);
  if (how.clean_text)
    result = changed(result, [](std::string& out, char32_t c) {
      const uint8_t classes = classes_of(c);
      if (c == 0 || c == 0xFFFD || ((classes & kOther) && !is_blank(c))) return;
      append_character(out, is_blank(c) || (classes & kSpace) ? U' ' : c);
    });
  if (how.handle_chinese_chars)
    result = changed(result, [](std::string& out, char32_t c) {
      const bool alone = is_ideograph(c);
      if (alone) out += ' ';
      append_character(out, c);
      if (alone) out += ' ';
    });
  if (how.strip_accents) result = changed(result, append_without_accents);
  if (how.lowercase) result = changed(result, append_lower);
  return result;
}

Words split_bert_words(std::string_view text) {
  Words words;
  size_t begin = 0;
  const auto close = [&](size_t end) {
    if (end > begin) words.push_back(text.substr(begin, end - begin));
  };
  for (size_t at = 0; at < text.size();) {
    const size_t here = at;
    const char32_t c = next_character(text, at);
    const bool space = classes_of(c) & kSpace;
    if (!space && !is_mark(c)) continue;
    close(here);
    begin = here;
    if (!space) close(at);
    begin = at;
  }
  close(text.size());
  return words;
}

}  // namespace mica::text
