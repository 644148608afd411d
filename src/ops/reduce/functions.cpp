#include "mica/op/function.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/gather/gather.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/sort/sort.h"
#include "mica/ops/view/view.h"

namespace mica {
namespace {

using Reducer = Tensor (*)(const Tensor&, const Dims&, bool);
using ArgReducer = Tensor (*)(const Tensor&, int64_t, bool);
using Moment = Tensor (*)(const Tensor&, const Dims&, bool, double);

/// Over some axes, or over all for None.
Function reduction(const char* name, Reducer f, const char* doc, const char* op = nullptr) {
  return {.name = name,
          .doc = doc,
          .signatures = {{f, {"input", {"dim", kNone}, {"keepdim", false}}}},
          .op = op};
}

template <ArgReducer f>
Tensor arg_over_axis(const Tensor& x, std::optional<int64_t> dim, bool keepdim) {
  return dim ? f(x, *dim, keepdim) : f(flatten(x), 0, false);
}
Function arg_reduction(const char* name, Tensor (*f)(const Tensor&, std::optional<int64_t>, bool),
                       const char* doc) {
  return {
      .name = name, .doc = doc, .signatures = {{f, {"input", {"dim", kNone}, {"keepdim", false}}}}};
}

template <Reducer f>
Tensor whole(const Tensor& x) {
  return f(x, {}, false);
}
/// The values where `f` finds them, and where that is.
template <ArgReducer f>
Sorted along(const Tensor& x, int64_t dim, bool keepdim) {
  const Tensor at = f(x, dim, true);
  const Tensor found = gather(x, dim, at);
  return keepdim ? Sorted{found, at} : Sorted{squeeze(found, {dim}), squeeze(at, {dim})};
}
/// max(x), max(x, dim) with the indices, and max(x, y).
Function extreme(const char* name, Tensor (*of_all)(const Tensor&),
                 Sorted (*of_axis)(const Tensor&, int64_t, bool),
                 Tensor (*of_two)(const Tensor&, const Tensor&), const char* doc) {
  return {.name = name,
          .doc = doc,
          .signatures = {{of_all, {"input"}},
                         {of_axis, {"input", "dim", {"keepdim", false}}},
                         {of_two, {"input", "other"}}}};
}

template <Moment f>
Tensor of_axes(const Tensor& x, const Dims& dim, double correction, bool keepdim) {
  return f(x, dim, keepdim, correction);
}
template <Moment f>
std::pair<Tensor, Tensor> with_mean(const Tensor& x, const Dims& dim, double correction,
                                    bool keepdim) {
  return {f(x, dim, keepdim, correction), mean(x, dim, keepdim)};
}
Function moment(const char* name, Tensor (*f)(const Tensor&, const Dims&, double, bool),
                const char* doc) {
  return {
      .name = name,
      .doc = doc,
      .signatures = {
          {f, {"input", {"dim", kNone}, kKeywordOnly, {"correction", 1.0}, {"keepdim", false}}}}};
}
Function moments(const char* name,
                 std::pair<Tensor, Tensor> (*f)(const Tensor&, const Dims&, double, bool),
                 const char* doc) {
  return {
      .name = name,
      .doc = doc,
      .signatures =
          {{f, {"input", {"dim", kNone}, kKeywordOnly, {"correction", 1.0}, {"keepdim", false}}}},
      .offer = kModule,
      .precision = Precision::f32};
}

}  // namespace

Functions reduce_functions() {
  return {
      reduction("sum", sum,
                "The sum over dim: one axis, several, or all for None. They are dropped, or stay "
                "with a size of 1 with keepdim. Integers and bool give int64."),
      reduction("mean", mean,
                "The mean over dim: one axis, several, or all for None. They are dropped, or stay "
                "with a size of 1 with keepdim. Of a floating dtype; NaN for no elements."),
      reduction(
          "prod", prod,
          "The product over dim: one axis, several, or all for None. They are dropped, or stay "
          "with a size of 1 with keepdim. Integers and bool give int64; of no elements it is 1."),
      reduction(
          "any", any,
          "Whether some element is not zero (NaN is not), as bool, over dim: one axis, several, or "
          "all for None. They are dropped, or stay with a size of 1 with keepdim."),
      reduction("all", all,
                "Whether no element is zero (NaN is not), as bool, over dim: one axis, several, or "
                "all for None. They are dropped, or stay with a size of 1 with keepdim."),
      reduction(
          "count_nonzero", count_nonzero,
          "How many elements are not zero (NaN is not), as int64, over dim: one axis, several, or "
          "all for None. They are dropped, or stay with a size of 1 with keepdim."),
      reduction(
          "amax", max,
          "The largest value over dim: one axis, several, or all for None. They are dropped, or "
          "stay with a size of 1 with keepdim. NaN wins; equal values share the gradient evenly.",
          "max"),
      reduction(
          "amin", min,
          "The smallest value over dim: one axis, several, or all for None. They are dropped, or "
          "stay with a size of 1 with keepdim. NaN wins; equal values share the gradient evenly.",
          "min"),
      reduction("logsumexp", logsumexp,
                "log of the sum of exp(input), without overflow, over dim: one axis, several, or "
                "all for None. They are dropped, or stay with a size of 1 with keepdim. -infinity "
                "for no elements; of a floating dtype."),
      arg_reduction("argmax", arg_over_axis<argmax>,
                    "Where along dim the largest value is, as int64: the first of equals, and NaN "
                    "wins. dim is dropped, or stays with a size of 1 with keepdim; without dim it "
                    "is the place in the flattened input, 0-d."),
      arg_reduction("argmin", arg_over_axis<argmin>,
                    "Where along dim the smallest value is, as int64: the first of equals, and NaN "
                    "wins. dim is dropped, or stays with a size of 1 with keepdim; without dim it "
                    "is the place in the flattened input, 0-d."),
      extreme("max", whole<max>, along<argmax>, maximum,
              "max(input): the largest value, 0-d. max(input, dim): (values, indices) along dim, "
              "the first of equals. max(input, other): the larger of two, as maximum. NaN wins."),
      extreme("min", whole<min>, along<argmin>, minimum,
              "min(input): the smallest value, 0-d. min(input, dim): (values, indices) along dim, "
              "the first of equals. min(input, other): the smaller of two, as minimum. NaN wins."),
      moment("var", of_axes<var>,
             "Squared deviations from the mean, summed and divided by n - correction, over dim: "
             "one axis, several, or all for None. They are dropped, or stay with a size of 1 with "
             "keepdim. Of a floating dtype."),
      moment("std", of_axes<mica::std>,
             "The square root of var: over dim, one axis, several, or all for None. They are "
             "dropped, or stay with a size of 1 with keepdim. The gradient where it is 0 is 0."),
      moments("var_mean", with_mean<var>,
              "(var, mean) over dim: one axis, several, or all for None. They are dropped, or stay "
              "with a size of 1 with keepdim."),
      moments("std_mean", with_mean<mica::std>,
              "(std, mean) over dim: one axis, several, or all for None. They are dropped, or stay "
              "with a size of 1 with keepdim."),
      {.name = "norm",
       .doc = "(sum of |input|^p)^(1/p) over dim: one axis, several, or all for None. They are "
              "dropped, or stay with a size of 1 with keepdim. p = 0 counts nonzero elements, p = "
              "±infinity takes the largest or smallest |input|; of a floating dtype.",
       .signatures = {{norm, {"input", {"p", 2.0}, {"dim", kNone}, {"keepdim", false}}}}},
  };
}

}  // namespace mica
