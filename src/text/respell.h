#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "mica/text/vocabulary.h"

namespace mica::text {

/// Tokens with some names spelled otherwise: each distinct word of a capital letter and small ones
/// behind it with probability `part`, in one way wherever it stands, by letters of other such
/// words. A network that knows all names of its text by heart has no need to read what they are; of
/// these it has, and so can write names that it never saw. Equal seeds give equal spellings.
std::vector<int64_t> respelled(const Vocabulary& vocabulary, std::span<const int64_t> tokens,
                               double part, uint64_t seed);

}  // namespace mica::text
