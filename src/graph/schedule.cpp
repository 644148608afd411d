#include "mica/graph/schedule.h"

#include <algorithm>

namespace mica {
namespace {

bool conflict(const Access& a, const Access& b) {
  return (a.writes || b.writes) && std::max(a.begin, b.begin) < std::min(a.end, b.end);
}

bool conflict(const std::vector<Access>& a, const std::vector<Access>& b) {
  return std::any_of(a.begin(), a.end(), [&](const Access& x) {
    return std::any_of(b.begin(), b.end(), [&](const Access& y) { return conflict(x, y); });
  });
}

}  // namespace

std::vector<std::vector<int>> schedule(const std::vector<std::vector<Access>>& steps) {
  const size_t n = steps.size();
  std::vector<std::vector<int>> after(n);
  std::vector<std::vector<bool>> reaches(n, std::vector<bool>(n));  // [i][j]: i runs after j
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = i; j-- > 0;) {  // nearest first: what they wait for need not be named again
      if (reaches[i][j] || !conflict(steps[i], steps[j])) continue;
      after[i].push_back(static_cast<int>(j));
      reaches[i][j] = true;
      for (size_t k = 0; k < j; ++k) reaches[i][k] = reaches[i][k] || reaches[j][k];
    }
  }
  return after;
}

}  // namespace mica
