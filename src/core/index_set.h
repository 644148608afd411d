#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace mica {

/// A set of positions, such as those of inputs of a call; the first 64 take no memory of their own.
class IndexSet {
 public:
  IndexSet() = default;
  /// Bit i stands for position i: `0b101` are positions 0 and 2.
  IndexSet(uint64_t bits) : first_(bits) {}  // NOLINT(google-explicit-constructor)
  IndexSet(std::initializer_list<int> positions) {
    for (const int i : positions) insert(i);
  }

  void insert(int i) {
    if (i >= kWord && static_cast<size_t>(i / kWord) > more_.size())
      more_.resize(static_cast<size_t>(i / kWord));
    (i < kWord ? first_ : more_[static_cast<size_t>(i / kWord - 1)]) |= uint64_t{1} << i % kWord;
  }
  bool contains(int i) const {
    if (i < kWord) return (first_ >> i & 1) != 0;
    const auto word = static_cast<size_t>(i / kWord - 1);
    return word < more_.size() && (more_[word] >> i % kWord & 1) != 0;
  }
  /// A word of zeros is made for positions past 64 alone that something is inserted at.
  bool empty() const { return first_ == 0 && more_.empty(); }
  bool intersects(const IndexSet& other) const {
    if ((first_ & other.first_) != 0) return true;
    for (size_t i = 0; i < more_.size() && i < other.more_.size(); ++i)
      if ((more_[i] & other.more_[i]) != 0) return true;
    return false;
  }
  IndexSet& operator|=(const IndexSet& other) {
    first_ |= other.first_;
    if (other.more_.size() > more_.size()) more_.resize(other.more_.size());
    for (size_t i = 0; i < other.more_.size(); ++i) more_[i] |= other.more_[i];
    return *this;
  }

 private:
  static constexpr int kWord = 64;
  uint64_t first_ = 0;
  std::vector<uint64_t> more_;
};

}  // namespace mica
