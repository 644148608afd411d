// What nn.functional has as compositions of operators, which layers use too.
#include "mica/nn/nn.h"
#include "python/src/def.h"
#include "python/src/inplace.h"

namespace mica::python {
namespace {

namespace function = nn::function;

void bind_shrinking(Functions& f) {
  f.def(
      "celu", [](const Tensor& x, double alpha, bool) { return function::celu(x, {alpha}); },
      "input"_a, "alpha"_a = 1.0, inplace(), ReleaseGil());
  f.def(
      "hardshrink", [](const Tensor& x, double lambd) { return function::hardshrink(x, {lambd}); },
      "input"_a, "lambd"_a = 0.5, ReleaseGil());
  f.def(
      "softshrink", [](const Tensor& x, double lambd) { return function::softshrink(x, {lambd}); },
      "input"_a, "lambd"_a = 0.5, ReleaseGil());
  f.def(
      "threshold",
      [](const Tensor& x, double threshold, double value, bool) {
        return function::threshold(x, {threshold, value});
      },
      "input"_a, "threshold"_a, "value"_a, inplace(), ReleaseGil());
}

void bind_gates(Functions& f) {
  f.def(
      "glu", [](const Tensor& x, int64_t dim) { return function::glu(x, {dim}); }, "input"_a,
      "dim"_a = -1, ReleaseGil());
  f.def(
      "gumbel_softmax",
      [](const Tensor& logits, double tau, bool hard, int64_t dim) {
        return function::gumbel_softmax(logits, {.tau = tau, .hard = hard, .axis = dim});
      },
      "logits"_a, "tau"_a = 1.0, "hard"_a = false, nb::kw_only(), "dim"_a = -1, ReleaseGil());
}

void bind_channel_dropouts(Functions& f) {
  using Dropout = Tensor (*)(const Tensor&, double, bool);
  for (const auto& [name, op] : {std::pair<const char*, Dropout>{"dropout1d", function::dropout1d},
                                 {"dropout2d", function::dropout2d},
                                 {"dropout3d", function::dropout3d}}) {
    f.def(
        name,
        [drop = op](const Tensor& x, double p, bool training, bool) {
          return drop(x, p, training);
        },
        "input"_a, "p"_a = 0.5, "training"_a = true, inplace(), ReleaseGil());
  }
}

}  // namespace

void bind_compositions(Scope& scope) {
  Functions& f = scope.functional;
  using Unary = Tensor (*)(const Tensor&);
  for (const auto& [name, op] : {std::pair<const char*, Unary>{"softsign", function::softsign},
                                 {"tanhshrink", function::tanhshrink}}) {
    f.def(name, op, "input"_a, ReleaseGil());
  }
  f.def(
      "relu6", [](const Tensor& x, bool) { return function::relu6(x); }, "input"_a, inplace(),
      ReleaseGil());
  f.def(
      "hardtanh",
      [](const Tensor& x, double low, double high, bool) {
        return function::hardtanh(x, {low, high});
      },
      "input"_a, "min_val"_a = -1.0, "max_val"_a = 1.0, inplace(), ReleaseGil());
  f.def("softmin", function::softmin, "input"_a, "dim"_a, ReleaseGil());
  bind_shrinking(f);
  bind_gates(f);
  bind_channel_dropouts(f);
  f.def(
      "normalize",
      [](const Tensor& x, double p, int64_t dim, double eps) {
        return function::normalize(x, {.p = p, .axis = dim, .eps = eps});
      },
      "input"_a, "p"_a = 2.0, "dim"_a = 1, "eps"_a = 1e-12, ReleaseGil());
  f.def(
      "scaled_dot_product_attention",
      [](const Tensor& query, const Tensor& key, const Tensor& value, const MaybeTensor& mask,
         double dropout, bool causal, std::optional<double> scale) {
        return function::scaled_dot_product_attention(
            query, key, value,
            {.mask = or_undefined(mask), .dropout = dropout, .causal = causal, .scale = scale});
      },
      "query"_a, "key"_a, "value"_a, "attn_mask"_a = nb::none(), "dropout_p"_a = 0.0,
      "is_causal"_a = false, nb::kw_only(), "scale"_a = nb::none(), ReleaseGil());
}

}  // namespace mica::python
