#include "mica/text/respell.h"

#include <algorithm>
#include <map>

#include "mica/core/check.h"
#include "mica/core/philox.h"
#include "mica/core/text.h"
#include "mica/text/unicode.h"

namespace mica::text {
namespace {

enum class Letter : uint8_t { none, capital, small };

Letter letter_of(const std::string& entry) {
  if (!is_utf8(entry)) return Letter::none;  // a byte that is no character
  size_t at = 0;
  const char32_t c = next_character(entry, at);
  if (at != entry.size() || !(classes_of(c) & kLetter)) return Letter::none;
  std::string lower;
  append_lower(lower, c);
  return lower == entry ? Letter::small : Letter::capital;
}

using Word = std::span<const int64_t>;

/// A capital letter and the small ones behind it, at least one.
std::vector<Word> capitalised_words(const Vocabulary& vocabulary, std::span<const int64_t> tokens) {
  std::vector<Letter> letters;
  for (const std::string& entry : vocabulary.entries()) letters.push_back(letter_of(entry));
  const auto is = [&](size_t at, Letter letter) {
    return letters[static_cast<size_t>(tokens[at])] == letter;
  };
  std::vector<Word> words;
  for (size_t at = 0; at < tokens.size();) {
    const size_t begin = at++;
    if (!is(begin, Letter::capital)) continue;
    while (at < tokens.size() && is(at, Letter::small)) ++at;
    if (at - begin > 1) words.push_back(tokens.subspan(begin, at - begin));
  }
  return words;
}

}  // namespace

std::vector<int64_t> respelled(const Vocabulary& vocabulary, std::span<const int64_t> tokens,
                               double part, uint64_t seed) {
  for (const int64_t token : tokens)
    check<IndexError>(token >= 0 && token < vocabulary.size(), "text: token {} is not in [0, {})",
                      token, vocabulary.size());
  check(part >= 0 && part <= 1, "text: expected a part in [0, 1], got {}", part);
  std::vector<int64_t> result(tokens.begin(), tokens.end());
  const std::vector<Word> words = capitalised_words(vocabulary, tokens);
  uint64_t drawn = 0;
  const auto draw = [&] { return philox(seed, drawn++); };
  const auto any_word = [&](unsigned int number) { return words[number % words.size()]; };
  const auto spelling_for = [&](Word word) {
    std::vector<int64_t> spelling;
    if (unit_float(draw().v[0]) >= static_cast<float>(part)) return spelling;
    spelling.push_back(any_word(draw().v[0])[0]);
    while (spelling.size() < word.size()) {
      const Philox4 random = draw();
      const Word other = any_word(random.v[0]).subspan(1);
      spelling.push_back(other[random.v[1] % other.size()]);
    }
    return spelling;
  };
  std::map<std::vector<int64_t>, std::vector<int64_t>> spellings;  // empty: as it is
  for (const Word word : words) {
    const auto [it, is_new] = spellings.try_emplace({word.begin(), word.end()});
    if (is_new) it->second = spelling_for(word);
    std::ranges::copy(it->second, result.begin() + (word.data() - tokens.data()));
  }
  return result;
}

}  // namespace mica::text
