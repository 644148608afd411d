#include "mica/ops/einsum/einsum.h"

#include <algorithm>
#include <limits>

#include "mica/core/check.h"
#include "mica/op/function.h"
#include "mica/ops/einsum/equation.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/matmul/matmul.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/view/view.h"

namespace mica {
namespace {

/// A factor: a tensor with one label for each axis, all different.
struct Factor {
  Tensor tensor;
  Labels labels;

  int axis_of(Label label) const {
    return static_cast<int>(std::find(labels.begin(), labels.end(), label) - labels.begin());
  }
  int64_t size_of(Label label) const { return tensor.size(axis_of(label)); }
  int64_t stride_of(Label label) const { return tensor.strides()[axis_of(label)]; }
};

// An axis for each of `labels`, which are f's own in some order.
Tensor arranged(const Factor& f, const Labels& labels) {
  Dims axes;
  for (const Label l : labels) axes.push_back(f.axis_of(l));
  return permute(f.tensor, axes);
}

// Labels that stand twice become one, along the diagonal.
Factor without_repeats(std::string_view equation, size_t operand, Factor f) {
  for (size_t i = 0; i < f.labels.size(); ++i)
    for (size_t j = f.labels.size() - 1; j > i; --j) {
      if (f.labels[i] != f.labels[j]) continue;
      const auto a = static_cast<int>(i);
      const auto b = static_cast<int>(j);
      check<ShapeError>(f.tensor.size(a) == f.tensor.size(b),
                        "einsum: \"{}\": label {} has sizes {} and {} in operand {}", equation,
                        name_of_label(f.labels[i]), f.tensor.size(a), f.tensor.size(b), operand);
      f.tensor = movedim(diagonal(f.tensor, {.axis1 = a, .axis2 = b}), {-1}, {a});
      f.labels.erase(f.labels.begin() + b);
    }
  return f;
}

// Drops axes of size 1 whose label is longer elsewhere: they broadcast.
void drop_broadcast(std::string_view equation, std::vector<Factor>& factors) {
  LabelSet all = 0;
  for (const Factor& f : factors) all |= set_of(f.labels);
  for (Label label = 0; label < 64; ++label) {
    if (!contains(all, label)) continue;
    size_t longest = factors.size();
    for (size_t i = 0; i < factors.size(); ++i) {
      if (!contains(set_of(factors[i].labels), label) || factors[i].size_of(label) == 1) continue;
      if (longest == factors.size()) longest = i;
      check<ShapeError>(factors[i].size_of(label) == factors[longest].size_of(label),
                        "einsum: \"{}\": label {} is {} in operand {} and {} in operand {}",
                        equation, name_of_label(label), factors[longest].size_of(label), longest,
                        factors[i].size_of(label), i);
    }
    if (longest == factors.size()) continue;
    for (Factor& f : factors) {
      if (!contains(set_of(f.labels), label) || f.size_of(label) != 1) continue;
      f.tensor = squeeze(f.tensor, {f.axis_of(label)});
      f.labels.erase(f.labels.begin() + f.axis_of(label));
    }
  }
}

// Sums over the labels that nobody else wants.
Factor summed(const Factor& f, LabelSet wanted) {
  Dims axes;
  Labels rest;
  for (const Label l : f.labels) {
    if (contains(wanted, l)) {
      rest.push_back(l);
    } else {
      axes.push_back(f.axis_of(l));
    }
  }
  return axes.empty() ? f : Factor{sum(f.tensor, axes), rest};
}

// The labels of two factors by what becomes of them.
struct Roles {
  Labels both;        ///< in both and kept
  Labels contracted;  ///< in both and summed over
  Labels left, right;

  Roles(const Factor& a, const Factor& b, LabelSet kept) {
    const LabelSet in_a = set_of(a.labels);
    const LabelSet in_b = set_of(b.labels);
    for (const Label l : a.labels)
      (!contains(in_b, l) ? left : contains(kept, l) ? both : contracted).push_back(l);
    for (const Label l : b.labels)
      if (!contains(in_a, l)) right.push_back(l);
    // Axes are merged outermost first: then those of a dense tensor merge without a copy.
    order(left, a);
    order(right, b);
    order(contracted, a.tensor.numel() >= b.tensor.numel() ? a : b);
  }

  Labels result() const {
    Labels labels = both;
    labels.insert(labels.end(), left.begin(), left.end());
    labels.insert(labels.end(), right.begin(), right.end());
    return labels;
  }

 private:
  static void order(Labels& labels, const Factor& f) {
    std::stable_sort(labels.begin(), labels.end(),
                     [&](Label x, Label y) { return f.stride_of(x) > f.stride_of(y); });
  }
};

Shape sizes_of(const Factor& f, const Labels& labels) {
  Shape shape;
  for (const Label l : labels) shape.push_back(f.size_of(l));
  return shape;
}

// f with an axis for each of `labels`, of size 1 for those it has not.
Tensor spread(const Factor& f, const Labels& labels) {
  const LabelSet own = set_of(f.labels);
  Labels mine;
  Shape shape;
  for (const Label l : labels) {
    shape.push_back(contains(own, l) ? f.size_of(l) : 1);
    if (contains(own, l)) mine.push_back(l);
  }
  return reshape(arranged(f, mine), shape);
}

// f as matrices (batch…, rows, cols), each of the two merged from labels.
Tensor as_matrices(const Factor& f, const Labels& batch, const Labels& rows, const Labels& cols) {
  Labels labels = batch;
  labels.insert(labels.end(), rows.begin(), rows.end());
  labels.insert(labels.end(), cols.begin(), cols.end());
  // Batch axes stay as they are, where the rank allows it.
  Shape shape = sizes_of(f, batch);
  if (shape.rank() + 2 > Dims::kMaxRank) shape = {numel(shape)};
  shape.push_back(numel(sizes_of(f, rows)));
  shape.push_back(numel(sizes_of(f, cols)));
  return reshape(arranged(f, labels), shape);
}

Factor product(const Factor& a, const Factor& b, LabelSet kept) {
  const Roles roles(a, b, kept);
  const Labels labels = roles.result();
  if (roles.contracted.empty()) return {mul(spread(a, labels), spread(b, labels)), labels};
  if (roles.left.empty() && roles.right.empty() && !roles.both.empty()) {
    const Tensor all = mul(arranged(a, a.labels), arranged(b, a.labels));
    return summed({all, a.labels}, set_of(labels));
  }
  const Tensor c = matmul(as_matrices(a, roles.both, roles.left, roles.contracted),
                          as_matrices(b, roles.both, roles.contracted, roles.right));
  Shape shape;
  for (const Label l : labels)
    shape.push_back(contains(set_of(a.labels), l) ? a.size_of(l) : b.size_of(l));
  return {reshape(c, shape), labels};
}

// How much larger the product is than its two factors; infinite where it has too many axes.
double growth(const Factor& a, const Factor& b, LabelSet kept) {
  const Roles roles(a, b, kept);
  const Labels labels = roles.result();
  if (labels.size() > Dims::kMaxRank) return std::numeric_limits<double>::infinity();
  double size = 1;
  for (const Label l : labels)
    size *= static_cast<double>(contains(set_of(a.labels), l) ? a.size_of(l) : b.size_of(l));
  return size - static_cast<double>(a.tensor.numel()) - static_cast<double>(b.tensor.numel());
}

// Labels of the result and of all factors but two.
LabelSet wanted_beside(const std::vector<Factor>& factors, LabelSet result, size_t i, size_t j) {
  for (size_t k = 0; k < factors.size(); ++k)
    if (k != i && k != j) result |= set_of(factors[k].labels);
  return result;
}

}  // namespace

Tensor einsum(std::string_view equation, const Tensors& operands) {
  check(!operands.empty(), "einsum: \"{}\": expected at least one operand", equation);
  for (size_t i = 0; i < operands.size(); ++i) {
    check(operands[i].defined(), "einsum: \"{}\": operand {} is undefined", equation, i);
    check<DTypeError>(is_differentiable(operands[i].dtype()),
                      "einsum: \"{}\": expected a floating or complex dtype, got {}", equation,
                      operands[i].dtype());
    check<DTypeError>(operands[i].dtype() == operands[0].dtype(),
                      "einsum: \"{}\": operands must have one dtype, got {} and {}", equation,
                      operands[0].dtype(), operands[i].dtype());
  }
  const Equation parsed = parse_equation(equation, operands);
  std::vector<Factor> factors;
  factors.reserve(operands.size());
  for (size_t i = 0; i < operands.size(); ++i)
    factors.push_back(without_repeats(equation, i, {operands[i], parsed.operands[i]}));
  drop_broadcast(equation, factors);
  const LabelSet result = set_of(parsed.result);
  for (size_t i = 0; i < factors.size(); ++i)
    factors[i] = summed(factors[i], wanted_beside(factors, result, i, i));

  while (factors.size() > 1) {
    double least = std::numeric_limits<double>::infinity();
    size_t first = 0;
    size_t second = 0;
    for (size_t i = 0; i < factors.size(); ++i)
      for (size_t j = i + 1; j < factors.size(); ++j) {
        const double g = growth(factors[i], factors[j], wanted_beside(factors, result, i, j));
        if (g < least) least = g, first = i, second = j;
      }
    check<ShapeError>(second > 0, "einsum: \"{}\": a product on the way has more than {} axes",
                      equation, Dims::kMaxRank);
    factors[first] =
        product(factors[first], factors[second], wanted_beside(factors, result, first, second));
    factors.erase(factors.begin() + static_cast<std::ptrdiff_t>(second));
  }
  return arranged(factors[0], parsed.result);
}

Functions einsum_functions() {
  return {{.name = "einsum",
           .doc = "Sums of products in Einstein's notation: einsum('bij,bjk->bik', a, b). A label "
                  "that stands twice in one operand means its diagonal, ... any axes; without -> "
                  "the result has those axes and then, sorted, the labels that occur once. "
                  "Operands have one floating dtype.",
           .signatures = {{[](const std::string& equation, const Tensors& operands) {
                             return einsum(equation, operands);
                           },
                           {"equation", spread("operands")}}},
           .offer = kModule,
           .precision = Precision::low}};
}

}  // namespace mica
