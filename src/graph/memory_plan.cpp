#include "mica/graph/memory_plan.h"

#include <algorithm>
#include <numeric>

namespace mica {
namespace {

/// Blocks that have their place, by address. Pieces of the list know when their blocks are needed,
/// so that a look for room passes over those that are needed at other times, and over those that
/// are all needed and leave no room between them.
class Placed {
 public:
  /// The lowest address with so much room from step `first` to step `last`.
  size_t room_for(size_t bytes, int first, int last) const {
    size_t at = 0;
    for (const Piece& piece : pieces_) {
      if (piece.last < first || last < piece.first) continue;
      if (at + bytes > piece.entries.front().begin && piece.widest_gap < bytes &&
          piece.latest_first <= last && first <= piece.earliest_last) {
        at = std::max(at, piece.end);
        continue;
      }
      for (const Entry& e : piece.entries) {
        if (e.last < first || last < e.first) continue;
        if (at + bytes <= e.begin) return at;
        at = std::max(at, e.end);
      }
    }
    return at;
  }

  void add(size_t begin, size_t bytes, int first, int last) {
    const auto after = [](size_t address, const Piece& p) {
      return address < p.entries.front().begin;
    };
    auto piece = std::upper_bound(pieces_.begin(), pieces_.end(), begin, after);
    if (piece != pieces_.begin()) --piece;
    if (piece == pieces_.end()) piece = pieces_.insert(piece, Piece());
    const auto place =
        std::upper_bound(piece->entries.begin(), piece->entries.end(), begin,
                         [](size_t address, const Entry& e) { return address < e.begin; });
    piece->entries.insert(place, {begin, begin + bytes, first, last});
    if (piece->entries.size() <= kMost) return piece->sum_up();
    Piece upper;
    const auto middle = piece->entries.begin() + kMost / 2;
    upper.entries.assign(middle, piece->entries.end());
    piece->entries.erase(middle, piece->entries.end());
    piece->sum_up();
    upper.sum_up();
    pieces_.insert(piece + 1, std::move(upper));
  }

 private:
  static constexpr size_t kMost = 128;
  struct Entry {
    size_t begin, end;
    int first, last;
  };
  struct Piece {
    std::vector<Entry> entries;
    int first = 0, last = 0;  ///< from the first of the blocks to be needed to the last
    int latest_first = 0, earliest_last = 0;  ///< all of them are needed in between
    size_t end = 0;
    size_t widest_gap = 0;  ///< between them
    void sum_up() {
      first = latest_first = entries[0].first;
      last = earliest_last = entries[0].last;
      end = entries[0].begin;
      widest_gap = 0;
      for (const Entry& e : entries) {
        first = std::min(first, e.first);
        latest_first = std::max(latest_first, e.first);
        last = std::max(last, e.last);
        earliest_last = std::min(earliest_last, e.last);
        if (e.begin > end) widest_gap = std::max(widest_gap, e.begin - end);
        end = std::max(end, e.end);
      }
    }
  };
  std::vector<Piece> pieces_;
};

}  // namespace

MemoryPlan plan_memory(const std::vector<Block>& blocks, size_t alignment) {
  MemoryPlan plan;
  plan.offset.resize(blocks.size());
  std::vector<size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return blocks[a].bytes > blocks[b].bytes; });
  Placed placed;
  int last = 0;
  for (const size_t i : order) {
    const Block& b = blocks[i];
    const size_t bytes = round_up(b.bytes, alignment);
    last = std::max(last, b.last);
    plan.offset[i] = placed.room_for(bytes, b.first, b.last);
    plan.bytes = std::max(plan.bytes, plan.offset[i] + bytes);
    placed.add(plan.offset[i], bytes, b.first, b.last);
  }
  std::vector<size_t> begins(static_cast<size_t>(last) + 2);
  std::vector<size_t> ends(begins.size());
  for (const Block& b : blocks) {
    begins[static_cast<size_t>(b.first)] += round_up(b.bytes, alignment);
    ends[static_cast<size_t>(b.last) + 1] += round_up(b.bytes, alignment);
  }
  size_t alive = 0;
  for (size_t t = 0; t < begins.size(); ++t) {
    alive += begins[t];
    alive -= ends[t];
    plan.live = std::max(plan.live, alive);
  }
  return plan;
}

}  // namespace mica
