#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "mica/core/check.h"
#include "mica/text/bpe.h"
#include "mica/text/tokenizer.h"
#include "mica/text/unicode.h"

namespace mica::text {
namespace {

using Pair = std::pair<int32_t, int32_t>;
struct PairHash {
  size_t operator()(const Pair& p) const {
    const auto key = static_cast<uint64_t>(static_cast<uint32_t>(p.first)) << 32 |
                     static_cast<uint32_t>(p.second);
    return static_cast<size_t>(key * 0x9e3779b97f4a7c15ULL >> 16);
  }
};
using Places = std::set<size_t>;

struct Entry {
  Pair pair;
  int64_t count;
  Places words;  ///< where it was seen

  /// The most frequent first, then the smallest.
  friend bool operator<(const Entry& a, const Entry& b) {
    return a.count != b.count ? a.count < b.count : a.pair > b.pair;
  }
};

struct Word {
  std::vector<int32_t> symbols;
  int64_t count;
};

/// Merges a pair in a word; tells of each pair that comes (1) or goes (-1).
template <class F>
void merge(std::vector<int32_t>& symbols, Pair pair, int32_t merged, F&& changed) {
  size_t kept = 0;
  for (size_t i = 0; i < symbols.size(); ++i) {
    const bool found =
        symbols[i] == pair.first && i + 1 < symbols.size() && symbols[i + 1] == pair.second;
    if (!found) {
      symbols[kept++] = symbols[i];
      continue;
    }
    if (kept > 0) {
      changed(Pair(symbols[kept - 1], pair.first), -1);
      changed(Pair(symbols[kept - 1], merged), 1);
    }
    if (i + 2 < symbols.size()) {
      changed(Pair(pair.second, symbols[i + 2]), -1);
      changed(Pair(merged, symbols[i + 2]), 1);
    }
    symbols[kept++] = merged;
    ++i;
  }
  symbols.resize(kept);
}

}  // namespace

TrainedBpe train_bpe(const std::unordered_map<std::string, int64_t>& words, const BpeTraining& o) {
  TrainedBpe result;
  std::vector<std::string> texts;
  std::unordered_map<std::string, int32_t> numbers;
  const auto number_of = [&](const std::string& text) {
    const auto [it, added] = numbers.emplace(text, static_cast<int32_t>(texts.size()));
    if (added) texts.push_back(text);
    return it->second;
  };
  for (const std::string& token : o.special_tokens) number_of(token);
  // In the order of their characters, which is that of the texts in UTF-8.
  std::array<std::string, 256> alphabet = byte_characters();
  std::ranges::sort(alphabet);
  for (const std::string& character : alphabet) number_of(character);
  check(o.vocabulary >= static_cast<int64_t>(texts.size()),
        "text: a vocabulary must hold the special tokens and 256 bytes, {} tokens, got {}",
        texts.size(), o.vocabulary);

  std::vector<Word> all;
  std::unordered_map<Pair, int64_t, PairHash> counts;
  std::unordered_map<Pair, Places, PairHash> places;
  for (const auto& [text, count] : words) {
    Word word{{}, count};
    for (const char c : text)
      word.symbols.push_back(
          numbers.at(byte_characters()[static_cast<size_t>(static_cast<unsigned char>(c))]));
    for (size_t i = 0; i + 1 < word.symbols.size(); ++i) {
      const Pair pair(word.symbols[i], word.symbols[i + 1]);
      counts[pair] += count;
      places[pair].insert(all.size());
    }
    all.push_back(std::move(word));
  }
  std::vector<Entry> waiting;  // a heap
  const auto push = [&](const Pair& pair, Places&& where) {
    if (counts[pair] <= 0) return;
    waiting.push_back({pair, counts[pair], std::move(where)});
    std::push_heap(waiting.begin(), waiting.end());
  };
  for (auto& [pair, where] : places) push(pair, std::move(where));

  std::vector<Pair> merges;
  while (static_cast<int64_t>(texts.size()) < o.vocabulary && !waiting.empty()) {
    std::pop_heap(waiting.begin(), waiting.end());
    Entry top = std::move(waiting.back());
    waiting.pop_back();
    if (top.count != counts[top.pair]) {
      push(top.pair, std::move(top.words));
      continue;
    }
    if (top.count < 1 || top.count < o.min_frequency) break;
    const auto [left, right] = top.pair;
    const int32_t merged =
        number_of(texts[static_cast<size_t>(left)] + texts[static_cast<size_t>(right)]);
    merges.push_back(top.pair);
    std::map<Pair, Places> added;
    for (const size_t i : top.words)
      merge(all[i].symbols, top.pair, merged, [&](const Pair& pair, int change) {
        counts[pair] += change * all[i].count;
        if (change > 0) added[pair].insert(i);
      });
    for (auto& [pair, where] : added) push(pair, std::move(where));
  }
  for (size_t i = 0; i < texts.size(); ++i)
    result.tokens.emplace_back(texts[i], static_cast<int64_t>(i));
  std::set<Pair> seen;
  for (const Pair& pair : merges)
    if (seen.insert(pair).second)
      result.merges.emplace_back(texts[static_cast<size_t>(pair.first)],
                                 texts[static_cast<size_t>(pair.second)]);
  return result;
}

}  // namespace mica::text
