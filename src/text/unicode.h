#pragma once

#include <cstdint>
#include <string>
#include <string_view>

// Characters: UTF-8, and the properties that tokenizers ask for.
namespace mica::text {

// Classes of characters, one bit each.
inline constexpr uint8_t kLetter = 1;           ///< category L
inline constexpr uint8_t kNumber = 2;           ///< N
inline constexpr uint8_t kSpace = 4;            ///< property White_Space
inline constexpr uint8_t kPunctuation = 8;      ///< P
inline constexpr uint8_t kNonspacingMark = 16;  ///< Mn
inline constexpr uint8_t kOther = 32;           ///< Cc, Cf or Co

/// The bits of the classes that a character is in.
uint8_t classes_of(char32_t c);

/// The character at `at`, which moves behind it. The text must be UTF-8.
char32_t next_character(std::string_view text, size_t& at);
void append_character(std::string& text, char32_t c);

/// In lower case, by itself: no rule of a language or a word is applied.
void append_lower(std::string& text, char32_t c);
/// Its canonical decomposition without nonspacing marks: a letter without its accents.
void append_without_accents(std::string& text, char32_t c);

}  // namespace mica::text
