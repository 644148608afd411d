#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mica/core/tensor.h"

namespace mica {

/// A label of an equation: a letter, or an axis that "..." stands for. They sort as implicit
/// results want them: those axes, then capital letters, then small ones.
using Label = int;
using Labels = std::vector<Label>;
using LabelSet = uint64_t;

inline LabelSet set_of(const Labels& labels) {
  LabelSet set = 0;
  for (const Label l : labels) set |= LabelSet{1} << l;
  return set;
}
inline bool contains(LabelSet set, Label label) { return (set >> label & 1) != 0; }

/// An equation with "..." written out for the operands' shapes: one label for each axis.
struct Equation {
  std::vector<Labels> operands;
  Labels result;
};

/// Raises an Error that quotes the equation where it is not well formed or does not fit.
Equation parse_equation(std::string_view text, const Tensors& operands);

/// "i", or "..." for an axis of that kind.
std::string name_of_label(Label label);

}  // namespace mica
