#include "mica/graph/schedule.h"

#include <algorithm>
#include <cstdint>
#include <map>

namespace mica {
namespace {

/// Who touched a range of bytes last: the step that wrote it, and those that read it since.
struct Range {
  const std::byte* end = nullptr;
  int writer = -1;
  std::vector<int> readers;
};

/// Ranges that do not overlap, by where they begin.
class Touched {
 public:
  /// Adds the steps that must come before one that touches these bytes, and notes that it did.
  void touch(const Access& access, int step, std::vector<int>& before) {
    if (access.begin >= access.end) return;
    split(access.begin);
    split(access.end);
    const std::byte* at = access.begin;
    auto it = ranges_.lower_bound(access.begin);
    while (at < access.end) {
      if (it == ranges_.end() || it->first > at) {
        const std::byte* end = it == ranges_.end() ? access.end : std::min(access.end, it->first);
        it = ranges_.emplace_hint(it, at, Range{end, -1, {}});
      }
      Range& range = it->second;
      if (range.writer >= 0) before.push_back(range.writer);
      if (access.writes) {
        before.insert(before.end(), range.readers.begin(), range.readers.end());
        range.writer = step;
        range.readers.clear();
      } else if (range.readers.empty() || range.readers.back() != step) {
        range.readers.push_back(step);
      }
      at = range.end;
      ++it;
    }
  }

 private:
  /// No range reaches over `at` afterwards.
  void split(const std::byte* at) {
    auto it = ranges_.lower_bound(at);
    if (it == ranges_.begin()) return;
    --it;
    if (it->second.end <= at) return;
    Range rest = it->second;
    it->second.end = at;
    ranges_.emplace(at, std::move(rest));
  }

  std::map<const std::byte*, Range> ranges_;
};

}  // namespace

std::vector<std::vector<int>> schedule(const std::vector<std::vector<Access>>& steps) {
  constexpr size_t kBits = 64;
  const size_t n = steps.size();
  const size_t words = (n + kBits - 1) / kBits;
  std::vector<std::vector<int>> after(n);
  std::vector<std::vector<uint64_t>> reaches(n);  // [i], bit j: i runs after j
  Touched touched;
  std::vector<int> before;
  for (size_t i = 0; i < n; ++i) {
    before.clear();
    // What a step reads it may write over: reads first, so that it does not wait for itself.
    for (const bool writes : {false, true})
      for (const Access& access : steps[i])
        if (access.writes == writes) touched.touch(access, static_cast<int>(i), before);
    std::sort(before.begin(), before.end(), std::greater<>());
    before.erase(std::unique(before.begin(), before.end()), before.end());
    reaches[i].resize(words);
    for (const int step : before) {  // nearest first: what they wait for need not be named again
      const auto j = static_cast<size_t>(step);
      if (j == i || (reaches[i][j / kBits] >> j % kBits & 1) != 0) continue;
      after[i].push_back(step);
      reaches[i][j / kBits] |= uint64_t{1} << j % kBits;
      for (size_t w = 0; w <= j / kBits; ++w) reaches[i][w] |= reaches[j][w];
    }
  }
  return after;
}

}  // namespace mica
