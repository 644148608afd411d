#include "mica/text/unicode.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <vector>

namespace mica::text {
namespace {

struct Range {
  char32_t first, last;
};
struct LowerRange {
  char32_t first, last, step;
  uint32_t difference;  ///< modulo 2^32
};
struct Base {
  char32_t character, base;
};
struct Parts {
  char32_t character, first, second, third;
};

#include "mica/text/unicode_tables.inc"

constexpr char32_t kPlaneEnd = 0x10000;  ///< of the characters that have a table of their own

struct ClassRanges {
  uint8_t bit;
  std::span<const Range> ranges;
};
const ClassRanges kClasses[] = {{kLetter, kLetterRanges},
                                {kNumber, kNumberRanges},
                                {kSpace, kSpaceRanges},
                                {kPunctuation, kPunctuationRanges},
                                {kNonspacingMark, kNonspacingMarkRanges},
                                {kOther, kOtherRanges}};

/// The last of sorted entries that does not begin behind c; null where there is none.
template <class Entry>
const Entry* entry_before(std::span<const Entry> entries, char32_t c, char32_t Entry::* first) {
  const auto it = std::ranges::upper_bound(entries, c, {}, first);
  return it == entries.begin() ? nullptr : &*std::prev(it);
}

std::vector<uint8_t> make_plane() {
  std::vector<uint8_t> plane(kPlaneEnd);
  for (const auto& [bit, ranges] : kClasses)
    for (const auto& [first, last] : ranges)
      for (char32_t c = first; c <= last && c < kPlaneEnd; ++c)
        plane[c] = static_cast<uint8_t>(plane[c] | bit);
  return plane;
}

}  // namespace

uint8_t classes_of(char32_t c) {
  static const std::vector<uint8_t> plane = make_plane();
  if (c < kPlaneEnd) return plane[c];
  uint8_t bits = 0;
  for (const auto& [bit, ranges] : kClasses) {
    const Range* range = entry_before(ranges, c, &Range::first);
    if (range && c <= range->last) bits = static_cast<uint8_t>(bits | bit);
  }
  return bits;
}

char32_t next_character(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const char32_t first = byte(at++);
  if (first < 0x80) return first;
  const int more = first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
  char32_t c = first & (0x3fU >> more);
  for (int i = 0; i < more && at < text.size(); ++i) c = c << 6 | (byte(at++) & 0x3fU);
  return c;
}

void append_character(std::string& text, char32_t c) {
  const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xc0 | c >> 6);
    put(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    put(0xe0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3f));
    put(0x80 | (c & 0x3f));
  } else {
    put(0xf0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3f));
    put(0x80 | (c >> 6 & 0x3f));
    put(0x80 | (c & 0x3f));
  }
}

void append_lower(std::string& text, char32_t c) {
  if (c < 0x80) {
    text.push_back(static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c));
    return;
  }
  if (c == 0x130) {  // the one that becomes two: i and the dot that stays above it
    text += "i\xcc\x87";
    return;
  }
  const auto* range =
      entry_before(std::span<const LowerRange>(kLowerRanges), c, &LowerRange::first);
  const bool has_lower = range && c <= range->last && (c - range->first) % range->step == 0;
  append_character(text, has_lower ? static_cast<char32_t>(c + range->difference) : c);
}

void append_without_accents(std::string& text, char32_t c) {
  constexpr char32_t kSyllables = 0xac00, kLeads = 0x1100, kVowels = 0x1161, kTrails = 0x11a7;
  constexpr char32_t kTrailCount = 28, kVowelCount = 21;
  if (c < 0x80) {
    text.push_back(static_cast<char>(c));
  } else if (c >= kSyllables && c <= 0xd7a3) {
    const char32_t i = c - kSyllables;
    append_character(text, kLeads + i / (kVowelCount * kTrailCount));
    append_character(text, kVowels + i / kTrailCount % kVowelCount);
    if (i % kTrailCount) append_character(text, kTrails + i % kTrailCount);
  } else if (classes_of(c) & kNonspacingMark) {
    return;
  } else if (const auto* one = entry_before(std::span<const Base>(kBases), c, &Base::character);
             one && one->character == c) {
    append_character(text, one->base);
  } else if (const auto* all = entry_before(std::span<const Parts>(kParts), c, &Parts::character);
             all && all->character == c) {
    for (const char32_t part : {all->first, all->second, all->third})
      if (part) append_character(text, part);
  } else {
    append_character(text, c);
  }
}

}  // namespace mica::text
