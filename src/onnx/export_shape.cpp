// Shapes, reductions and indexing.
#include <algorithm>
#include <limits>
#include <numeric>

#include "mica/inference/network.h"
#include "mica/onnx/exporter.h"

namespace mica::onnx {
namespace {

using E = const Exported&;
using inference::Size;

void reshape(E e) {
  std::vector<Size> sizes = e.dynamic_sizes("dims");
  // One size that is not known is what is left for it.
  const auto dynamic = [](const Size& s) { return !s.is_fixed(); };
  const bool zero = std::ranges::any_of(sizes, [](const Size& s) { return s == Size(0); });
  if (!zero && std::ranges::count_if(sizes, dynamic) == 1)
    *std::ranges::find_if(sizes, dynamic) = Size(-1);
  if (zero) return e.emit("Reshape", {e.in[0], e.to.sizes(sizes)}, {{"allowzero", 1}});
  e.emit("Reshape", {e.in[0], e.to.sizes(sizes)});
}
void permute(E e) { e.emit("Transpose", e.in, {{"perm", e.ints("dims")}}); }
void expand(E e) { e.emit("Expand", {e.in[0], e.sizes("dims")}); }

void slice(E e) {
  e.emit("Slice", {e.in[0], e.sizes("start"), e.sizes("stop"), e.sizes("axis"), e.sizes("step")});
}

void flip(E e) {
  const std::vector<int64_t> axes = e.ints("axes");
  const std::vector<int64_t> minus(axes.size(), -1);
  const std::vector<int64_t> end(axes.size(), std::numeric_limits<int64_t>::min());
  e.emit("Slice", {e.in[0], e.to.numbers(minus), e.to.numbers(end), e.to.numbers(axes),
                   e.to.numbers(minus)});
}

void concat(E e) {
  e.emit("Concat", e.in_dtype(e.out_spec[0].dtype), {{"axis", e.param<int64_t>("axis")}});
}

void pad(E e) {
  const auto mode = e.param<std::string>("mode");
  const int rank = e.in_spec[0].rank();
  const auto whole = [&](const char* field) {
    std::vector<Size> all = e.dynamic_sizes(field);
    all.insert(all.begin(), static_cast<size_t>(rank) - all.size(), Size(0));
    return all;
  };
  std::vector<Size> pads = whole("before");
  for (const Size& after : whole("after")) pads.push_back(after);
  const std::string amounts = e.to.sizes(pads);
  if (mode == "constant")
    return e.emit(
        "Pad",
        {e.in[0], amounts, e.to.number(e.param<Number>("value").to_double(), e.out_spec[0].dtype)},
        {{"mode", "constant"}});
  e.expect(mode != "circular" || e.to.opset() >= 19, "circular padding needs opset 19");
  e.emit("Pad", {e.in[0], amounts},
         {{"mode", mode == "reflect"     ? "reflect"
                   : mode == "replicate" ? "edge"
                                         : "wrap"}});
}

template <bool upper>
void triangle(E e) {
  e.emit("Trilu", {e.in[0], e.sizes("diagonal")}, {{"upper", upper}});
}

void full(E e) {
  const DType dtype = e.out_spec[0].dtype;
  const bool dynamic_value =
      std::ranges::any_of(e.call.sizes, [](const auto& s) { return s.first == "value"; });
  if (dynamic_value) {
    const std::string value = e.to.cast(e.to.sizes(e.call.sizes[0].second), DType::i64, dtype);
    return e.emit("Reshape", {value, e.sizes("shape")});
  }
  const double value = e.param<Number>("value").to_double();
  e.emit("Expand", {e.to.number(value, dtype), e.sizes("shape")});
}

/// Axes are an input from `since` on.
void emit_reduction(E e, const char* op, int64_t since, const std::string& x,
                    const std::string& out, bool keepdim) {
  const std::vector<int64_t> axes = e.ints("axes");
  if (axes.empty()) return e.to.emit("Identity", {x}, {out});
  if (e.to.opset() >= since) {
    e.to.emit(op, {x, e.to.numbers(axes)}, {out}, {{"keepdims", keepdim}});
  } else {
    e.to.emit(op, {x}, {out}, {{"axes", axes}, {"keepdims", keepdim}});
  }
}
constexpr int64_t kSum = 13;     ///< the opset from which ReduceSum's axes are an input
constexpr int64_t kOthers = 18;  ///< and those of the others

constexpr char kReduceSum[] = "ReduceSum", kReduceProd[] = "ReduceProd", kReduceMax[] = "ReduceMax",
               kReduceMin[] = "ReduceMin", kReduceLogSumExp[] = "ReduceLogSumExp",
               kArgMax[] = "ArgMax", kArgMin[] = "ArgMin";

template <auto& op, int64_t since>
void reduces(E e) {
  e.only_first();
  const std::string x = e.to.cast(e.in[0], e.in_spec[0].dtype, e.out_spec[0].dtype);
  emit_reduction(e, op, since, x, e.out[0], e.param<bool>("keepdim"));
}

/// Of truth values: the largest or smallest number of 0 and 1.
template <auto& op>
void truth(E e) {
  const std::string flags = e.to.cast(e.in[0], e.in_spec[0].dtype, DType::boolean);
  const std::string numbers = e.to.cast(flags, DType::boolean, DType::i32);
  const std::string reduced = e.to.fresh(op);
  emit_reduction(e, op, kOthers, numbers, reduced, e.param<bool>("keepdim"));
  e.emit("Cast", {reduced}, {{"to", int64_t{info_of(DType::boolean).onnx}}});
}

/// The mean square distance from the mean, times n / (n - correction).
std::string variance(E e) {
  const std::string x = e.in_dtype(e.out_spec[0].dtype)[0];
  const auto mean = [&](const std::string& of, bool keepdim) {
    const std::string out = e.to.fresh("ReduceMean");
    emit_reduction(e, "ReduceMean", kOthers, of, out, keepdim);
    return out;
  };
  const std::string distance = e.to.node("Sub", {x, mean(x, true)});
  const std::string square = e.to.node("Mul", {distance, distance});
  const double correction = e.param<double>("correction");
  if (correction == 0) return mean(square, e.param<bool>("keepdim"));
  double n = 1;
  for (const int64_t axis : e.ints("axes"))
    n *= static_cast<double>(e.in_spec[0].shape[static_cast<int>(axis)]);
  e.expect(e.to.network().symbols.empty(), "with a correction and dynamic sizes");
  return e.to.node("Mul", {mean(square, e.param<bool>("keepdim")), e.number(n / (n - correction))});
}
void var(E e) { e.emit("Identity", {variance(e)}); }
void standard_deviation(E e) { e.emit("Sqrt", {variance(e)}); }

void norm(E e) {
  const double p = e.param<double>("p");
  e.expect(p == 1 || p == 2, "norms other than the first and the second");
  emit_reduction(e, p == 1 ? "ReduceL1" : "ReduceL2", kOthers, e.in_dtype(e.out_spec[0].dtype)[0],
                 e.out[0], e.param<bool>("keepdim"));
}

template <auto& op>
void position(E e) {
  e.emit(op, {e.in[0]},
         {{"axis", e.param<int64_t>("axis")}, {"keepdims", e.param<bool>("keepdim")}});
}

void cumsum(E e) {
  e.emit("CumSum",
         {e.in_dtype(e.out_spec[0].dtype)[0],
          e.to.constant(scalar(e.ints("axis")[0], {.dtype = DType::i64}))},
         {{"exclusive", e.param<bool>("exclusive")}, {"reverse", e.param<bool>("reverse")}});
}

void topk(E e) {
  e.to.emit("TopK", {e.in[0], e.sizes("k")}, e.out,
            {{"axis", e.param<int64_t>("axis")},
             {"largest", e.param<bool>("largest")},
             {"sorted", e.param<bool>("sorted")}});
}

void gather(E e) { e.emit("GatherElements", e.in, {{"axis", e.param<int64_t>("axis")}}); }
void index_select(E e) { e.emit("Gather", e.in, {{"axis", e.param<int64_t>("axis")}}); }
void embedding(E e) { e.emit("Gather", {e.in[1], e.in[0]}, {{"axis", 0}}); }
void index(E e) {
  const std::vector<int64_t> axes = e.ints("axes");
  e.expect(axes.size() == 1, "several tensors of indices");
  e.emit("Gather", e.in, {{"axis", axes[0]}});
}
void one_hot(E e) {
  const std::string hot =
      e.to.node("OneHot", {e.in[0], e.sizes("classes"), e.to.numbers({0, 1})}, {{"axis", -1}});
  e.emit("Cast", {hot}, {{"to", int64_t{info_of(e.out_spec[0].dtype).onnx}}});
}

}  // namespace

const ExportTable& shape_exports() {
  static const ExportTable table = {
      {"all", truth<kReduceMin>},
      {"any", truth<kReduceMax>},
      {"argmax", position<kArgMax>},
      {"argmin", position<kArgMin>},
      {"concat", concat},
      {"cumsum", cumsum},
      {"embedding", embedding},
      {"expand", expand},
      {"flip", flip},
      {"full", full},
      {"gather", gather},
      {"index", index},
      {"index_select", index_select},
      {"logsumexp", reduces<kReduceLogSumExp, kOthers>},
      {"max", reduces<kReduceMax, kOthers>},
      {"min", reduces<kReduceMin, kOthers>},
      {"norm", norm},
      {"one_hot", one_hot},
      {"pad", pad},
      {"permute", permute},
      {"prod", reduces<kReduceProd, kOthers>},
      {"reshape", reshape},
      {"slice", slice},
      {"std", standard_deviation},
      {"sum", reduces<kReduceSum, kSum>},
      {"topk", topk},
      {"tril", triangle<false>},
      {"triu", triangle<true>},
      {"var", var},
  };
  return table;
}

}  // namespace mica::onnx
