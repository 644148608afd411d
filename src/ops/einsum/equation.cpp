#include "mica/ops/einsum/equation.h"

#include <algorithm>
#include <map>

#include "mica/core/check.h"

namespace mica {
namespace {

constexpr Label kFirstLetter = Dims::kMaxRank;  // below are the axes of "..."
constexpr Label kLetters = 26;

Label letter(char c) {
  return c >= 'a' ? kFirstLetter + kLetters + (c - 'a') : kFirstLetter + (c - 'A');
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// The labels of one operand or of the result, as written.
struct Term {
  Labels before, after;  ///< the ellipsis; all are before where there is none
  bool ellipsis = false;

  int letters() const { return static_cast<int>(before.size() + after.size()); }
  /// With `count` axes in place of the ellipsis.
  Labels expanded(int count) const {
    Labels labels = before;
    for (int i = 0; i < count; ++i) labels.push_back(kFirstLetter - count + i);
    labels.insert(labels.end(), after.begin(), after.end());
    return labels;
  }
};

Term parse_term(std::string_view equation, std::string_view text) {
  Term term;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '.') {
      check(text.substr(i, 3) == "...", "einsum: \"{}\": expected '...' at '{}'", equation,
            text.substr(i));
      check(!term.ellipsis, "einsum: \"{}\": '...' stands twice in '{}'", equation, text);
      term.ellipsis = true;
      i += 2;
      continue;
    }
    check(is_letter(text[i]), "einsum: \"{}\": '{}' is no label, which are letters", equation,
          text[i]);
    (term.ellipsis ? term.after : term.before).push_back(letter(text[i]));
  }
  return term;
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (size_t end; (end = text.find(at)) != std::string_view::npos; text.remove_prefix(end + 1))
    parts.push_back(text.substr(0, end));
  parts.push_back(text);
  return parts;
}

// Axes of "..." and labels that occur once, in order.
Labels implicit_result(const std::vector<Labels>& operands) {
  std::map<Label, int> count;
  for (const Labels& labels : operands)
    for (const Label l : labels) ++count[l];
  Labels result;
  for (const auto& [label, n] : count)
    if (label < kFirstLetter || n == 1) result.push_back(label);
  return result;
}

}  // namespace

std::string name_of_label(Label label) {
  if (label < kFirstLetter) return "...";
  const int at = label - kFirstLetter;
  return std::string(1, static_cast<char>(at < kLetters ? 'A' + at : 'a' + at - kLetters));
}

Equation parse_equation(std::string_view equation, const Tensors& operands) {
  std::string text(equation);
  std::erase(text, ' ');
  const std::string_view all = text;
  const size_t arrow = all.find("->");
  const auto terms = split(all.substr(0, arrow), ',');
  check(terms.size() == operands.size(), "einsum: \"{}\" has {} operands, got {}", equation,
        terms.size(), operands.size());

  Equation result;
  int most = 0;  // axes of the longest ellipsis
  for (size_t i = 0; i < terms.size(); ++i) {
    const Term term = parse_term(equation, terms[i]);
    const Shape& shape = operands[i].shape();
    const int rest = shape.rank() - term.letters();
    check<ShapeError>(term.ellipsis ? rest >= 0 : rest == 0,
                      "einsum: \"{}\": operand {} has {}{} labels, got {}", equation, i,
                      term.ellipsis ? "at least " : "", term.letters(), shape);
    result.operands.push_back(term.expanded(rest));
    most = std::max(most, rest);
  }
  if (arrow == std::string_view::npos) {
    result.result = implicit_result(result.operands);
  } else {
    const Term term = parse_term(equation, all.substr(arrow + 2));
    result.result = term.expanded(term.ellipsis ? most : 0);
  }
  LabelSet known = 0;
  for (const Labels& labels : result.operands) known |= set_of(labels);
  LabelSet seen = 0;
  for (const Label l : result.result) {
    check(contains(known, l), "einsum: \"{}\": the result's label {} is in no operand", equation,
          name_of_label(l));
    check(!contains(seen, l), "einsum: \"{}\": the result has label {} twice", equation,
          name_of_label(l));
    seen |= LabelSet{1} << l;
  }
  check<ShapeError>(result.result.size() <= Dims::kMaxRank,
                    "einsum: \"{}\": the result has {} axes, the most is {}", equation,
                    result.result.size(), Dims::kMaxRank);
  return result;
}

}  // namespace mica
