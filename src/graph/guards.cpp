// What a plan asks for before it serves a call.
#include <algorithm>

#include "mica/autograd/tape.h"
#include "mica/core/check.h"
#include "mica/graph/capture.h"

namespace mica {

bool Guards::NoGradient::holds() const { return !peek_grad(leaf).defined(); }

bool Guards::Leaf::holds() const {
  return tensor.storage() == storage && tensor.requires_grad() == requires_grad &&
         storage->replacements() == replacements && hooks_stamp(tensor) == hooks;
}

bool Guards::hold() const {
  const auto holds = [](const auto& guard) { return guard.holds(); };
  return std::all_of(no_gradients.begin(), no_gradients.end(), holds) &&
         std::all_of(leaves.begin(), leaves.end(), holds) &&
         std::all_of(flags.begin(), flags.end(), holds);
}

std::vector<std::string> Guards::broken() const {
  std::vector<std::string> all;
  for (const NoGradient& g : no_gradients)
    if (!g.holds())
      all.push_back(fmt::format("the .grad of a leaf {} is there now", g.leaf.spec()));
  for (const Leaf& l : leaves) {
    if (l.tensor.storage() != l.storage)
      all.push_back(fmt::format("a tensor {} from outside lies elsewhere", l.tensor.spec()));
    if (l.storage->replacements() != l.replacements)
      all.push_back(fmt::format("a module has another tensor in the place of {}, or beside it",
                                l.tensor.spec()));
    if (l.tensor.requires_grad() != l.requires_grad)
      all.push_back(fmt::format("a tensor {} from outside {} a gradient now", l.tensor.spec(),
                                l.requires_grad ? "does not require" : "requires"));
    if (hooks_stamp(l.tensor) != l.hooks)
      all.push_back(fmt::format("a tensor {} from outside has other hooks", l.tensor.spec()));
  }
  for (const Flag& f : flags) {
    if (f.holds()) continue;
    all.emplace_back(*f.flag ? "a module went to training mode"
                             : "a module went to evaluation mode, or has other parts or hooks");
    break;  // one call switches them all
  }
  return all;
}

bool ArgumentInPlace::is(const Tensor& other) const {
  return other.storage() == tensor.storage() && other.offset() == tensor.offset() &&
         other.spec() == tensor.spec();
}

}  // namespace mica
