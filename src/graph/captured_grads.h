#pragma once

#include <deque>
#include <unordered_map>
#include <utility>

#include "mica/autograd/tape.h"

namespace mica {

/// The `.grad`s that a function touches while it is captured, as they were before.
class CapturedGrads {
 public:
  struct Touched {
    Tensor leaf;
    Tensor before;
    bool read;          ///< at first, not replaced
    Tensor input = {};  ///< what stands in the graph for the one that was there
  };

  /// True beside what it is when it is touched for the first time.
  std::pair<Touched*, bool> touch(const Tensor& leaf, bool reads) {
    const auto [at, fresh] = index_.try_emplace(leaf.impl(), all_.size());
    if (fresh) all_.push_back({leaf, peek_grad(leaf), reads});
    return {&all_[at->second], fresh};
  }
  const std::deque<Touched>& all() const { return all_; }

  /// All as they were.
  void put_back() {
    for (const Touched& g : all_) poke_grad(g.leaf, g.before);
  }

 private:
  std::deque<Touched> all_;
  std::unordered_map<const TensorImpl*, size_t> index_;
};

}  // namespace mica
