#include "mica/ops/sort/sort.h"

#include "mica/core/check.h"
#include "mica/op/dispatch.h"
#include "mica/op/function.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/gather/gather.h"
#include "mica/ops/sort/cpu.h"
#include "mica/ops/view/leading_axis.h"

namespace mica {
namespace {

/// The public functions normalise axes; a call past them must not reach outside a shape.
void check_axis(const char* op, const TensorSpec& x, int64_t axis) {
  check<IndexError>(axis >= 0 && axis < x.rank(), "{}: axis must be in [0, {}), got {}", op,
                    x.rank(), axis);
}

/// Values and where they came from, both row-major.
void add_sorted(OutSpecs& out, const Shape& shape, DType dtype) {
  out.add(shape, dtype);
  out.add(shape, DType::i64);
  for (TensorSpec& s : out.span()) s.strides = contiguous_strides(shape);
}

void infer_sort(const SortParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check_axis("sort", in[0], p.axis);
  add_sorted(out, in[0].shape, in[0].dtype);
}

void infer_topk(const TopkParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check_axis("topk", in[0], p.axis);
  const auto axis = static_cast<int>(p.axis);
  Shape shape = in[0].shape;
  check<ShapeError>(p.k >= 0 && p.k <= shape[axis],
                    "topk: k must be in [0, {}] for axis {} of {}, got {}", shape[axis], axis,
                    in[0].shape, p.k);
  shape[axis] = p.k;
  add_sorted(out, shape, in[0].dtype);
}

/// Each value's cotangent goes back to where the value came from.
template <class P>
Tensors vjp(const P& p, const VjpArgs& a) {
  const TensorSpec& x = a.in_specs[0];
  const Tensor zero = zeros(x.shape, {x.dtype, x.device});
  return {scatter_add(zero, p.axis, a.out[1], a.grad[0])};
}

/// Outputs: values and counts as long as x, of which the first ones are used; inverse; how many
/// values there are.
void infer_unique(const NoParams&, std::span<const TensorSpec> in, OutSpecs& out) {
  const int64_t n = in[0].numel();
  out.add({n}, in[0].dtype);
  out.add(in[0].shape, DType::i64);
  out[1].strides = contiguous_strides(in[0].shape);
  out.add({n}, DType::i64);
  out.add({}, DType::i64);
}

void infer_searchsorted(const SearchsortedParams&, std::span<const TensorSpec> in, OutSpecs& out) {
  const Shape& sorted = in[0].shape;
  const Shape& values = in[1].shape;
  check<DTypeError>(in[0].dtype == in[1].dtype,
                    "searchsorted: both inputs must have one dtype, got {} and {}", in[0].dtype,
                    in[1].dtype);
  check<ShapeError>(sorted.rank() > 0, "searchsorted: sorted must have at least one dimension");
  bool batched = sorted.rank() == values.rank();
  for (int i = 0; batched && i < sorted.rank() - 1; ++i) batched = sorted[i] == values[i];
  check<ShapeError>(sorted.rank() == 1 || batched,
                    "searchsorted: sorted must be 1-d or agree with values but for the last size, "
                    "got {} and {}",
                    sorted, values);
  out.add(values, DType::i64);
  out[0].strides = contiguous_strides(values);
}

}  // namespace

const OpDef& sort_op() {
  static OpDef def = Op<SortParams>("sort")
                         .inputs({"x"})
                         .outputs({"values", "indices"})
                         .infer<infer_sort>()
                         .vjp<vjp<SortParams>>({.out = {1}})
                         .cpu({sort_radix_kernel(), sort_reference_kernel()})
                         .build();
  return def;
}

const OpDef& topk_op() {
  static OpDef def = Op<TopkParams>("topk")
                         .inputs({"x"})
                         .outputs({"values", "indices"})
                         .infer<infer_topk>()
                         .vjp<vjp<TopkParams>>({.out = {1}})
                         .cpu({topk_selection_kernel(), topk_reference_kernel()})
                         .build();
  return def;
}

const OpDef& unique_op() {
  static OpDef def = Op<NoParams>("unique")
                         .inputs({"x"})
                         .outputs({"values", "inverse", "counts", "number"})
                         .infer<infer_unique>()
                         .no_gradient("which elements are equal does not change smoothly")
                         .cpu({unique_radix_kernel(), unique_reference_kernel()})
                         .build();
  return def;
}

const OpDef& searchsorted_op() {
  static OpDef def = Op<SearchsortedParams>("searchsorted")
                         .inputs({"sorted", "values"})
                         .outputs({"indices"})
                         .infer<infer_searchsorted>()
                         .no_gradient("an index does not change smoothly")
                         .cpu({searchsorted_reference_kernel()})
                         .build();
  return def;
}

Sorted sort(const Tensor& x, int64_t axis, bool descending) {
  return with_leading_axis(x, 1, [&](const Tensor& v) -> Sorted {
    const int along = normalize_axis(axis, v.rank(), "sort");
    const Outputs out = dispatch(sort_op(), SortParams{along, descending}, {v});
    return {out[0], out[1]};
  });
}

Tensor argsort(const Tensor& x, int64_t axis, bool descending) {
  return sort(x.detach(), normalize_axis(axis, std::max(x.rank(), 1), "argsort"), descending)
      .indices;
}

Sorted topk(const Tensor& x, int64_t k, int64_t axis, bool largest, bool sorted) {
  return with_leading_axis(x, 1, [&](const Tensor& v) -> Sorted {
    const int along = normalize_axis(axis, v.rank(), "topk");
    const Outputs out = dispatch(topk_op(), TopkParams{k, along, largest, sorted}, {v});
    return {out[0], out[1]};
  });
}

Unique unique(const Tensor& x) {
  const Outputs out = dispatch(unique_op(), NoParams{}, {x});
  const auto count = static_cast<int64_t>(out[3].item());
  return {clone(slice(out[0], 0, 0, count)), out[1], clone(slice(out[2], 0, 0, count))};
}

Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right) {
  const DType t = promote(sorted.dtype(), values.dtype());
  return dispatch(searchsorted_op(), SearchsortedParams{right},
                  {cast(sorted, t), cast(values, t)})[0];
}

Functions sort_functions() {
  const auto distinct = [](const Tensor& x, bool inverse, bool counts) -> Argument {
    const Unique u = unique(x);
    Tensors results = {u.values};
    if (inverse) results.push_back(u.inverse);
    if (counts) results.push_back(u.counts);
    return results.size() == 1 ? Argument(results[0]) : Argument(results);
  };
  return {
      {.name = "sort",
       .doc = "(values, indices), both of input's shape: the elements along dim in order and where "
              "each came from. Equal values stay in the order they had; NaN is the greatest.",
       .signatures = {{sort, {"input", {"dim", -1}, {"descending", false}}}}},
      {.name = "argsort",
       .doc = "The indices (int64, input's shape) that put the elements along dim in order. Equal "
              "values stay in the order they had; NaN is the greatest.",
       .signatures = {{argsort, {"input", {"dim", -1}, {"descending", false}}}}},
      {.name = "topk",
       .doc = "(values, indices): the k largest (or smallest) elements along dim, whose size "
              "becomes k, best first. Of equal ones the first count; NaN is the greatest. Without "
              "sorted their order is not defined.",
       .signatures = {{topk, {"input", "k", {"dim", -1}, {"largest", true}, {"sorted", true}}}}},
      {.name = "unique",
       .doc = "The distinct values of all of input in order, (n); every NaN is one of its own. "
              "With return_inverse and return_counts a tuple: also where each element's value is "
              "(input's shape), and how often each occurs (n), as int64.",
       .signatures =
           {{distinct,
             {"input", kKeywordOnly, {"return_inverse", false}, {"return_counts", false}}}}},
      {.name = "searchsorted",
       .doc = "Where each element of input would go in sorted_sequence, which rises along its last "
              "axis: before equal ones, or behind them with right. int64, input's shape; "
              "sorted_sequence is (n), or has input's sizes but for the last.",
       .signatures = {{searchsorted, {"sorted_sequence", "input", kKeywordOnly, {"right", false}}}},
       .offer = kModule},
  };
}

}  // namespace mica
