// Losses, with PyTorch's argument names.
#include "mica/nn/losses.h"

#include "python/src/def.h"

namespace mica::python {
namespace {

using Word = const std::string&;
namespace function = nn::function;

Reduction reduction_of(const char* op, Word word) {
  const std::string what = fmt::format("{}: reduction", op);
  return parse_word<Reduction>(
      what.c_str(), word,
      {{"mean", Reduction::mean}, {"sum", Reduction::sum}, {"none", Reduction::none}});
}

void bind_plain(Functions& f) {
  using Loss = Tensor (*)(const Tensor&, const Tensor&, Reduction);
  for (const auto& [name, op] : {std::pair<const char*, Loss>{"mse_loss", mse_loss},
                                 {"l1_loss", l1_loss},
                                 {"soft_margin_loss", soft_margin_loss}}) {
    f.def(
        name,
        [name, loss = op](const Tensor& input, const Tensor& target, Word reduction) {
          return loss(input, target, reduction_of(name, reduction));
        },
        "input"_a, "target"_a, nb::kw_only(), "reduction"_a = "mean", ReleaseGil());
  }
  f.def(
      "smooth_l1_loss",
      [](const Tensor& input, const Tensor& target, Word reduction, double beta) {
        return smooth_l1_loss(
            input, target, {.beta = beta, .reduction = reduction_of("smooth_l1_loss", reduction)});
      },
      "input"_a, "target"_a, nb::kw_only(), "reduction"_a = "mean", "beta"_a = 1.0, ReleaseGil());
  f.def(
      "huber_loss",
      [](const Tensor& input, const Tensor& target, Word reduction, double delta) {
        return huber_loss(input, target,
                          {.delta = delta, .reduction = reduction_of("huber_loss", reduction)});
      },
      "input"_a, "target"_a, nb::kw_only(), "reduction"_a = "mean", "delta"_a = 1.0, ReleaseGil());
}

void bind_probabilities(Functions& f) {
  f.def(
      "binary_cross_entropy",
      [](const Tensor& input, const Tensor& target, const MaybeTensor& weight, Word reduction) {
        return binary_cross_entropy(input, target,
                                    {.weight = or_undefined(weight),
                                     .reduction = reduction_of("binary_cross_entropy", reduction)});
      },
      "input"_a, "target"_a, "weight"_a = nb::none(), nb::kw_only(), "reduction"_a = "mean",
      ReleaseGil());
  f.def(
      "binary_cross_entropy_with_logits",
      [](const Tensor& input, const Tensor& target, const MaybeTensor& weight, Word reduction,
         const MaybeTensor& pos_weight) {
        return binary_cross_entropy_with_logits(
            input, target,
            {.weight = or_undefined(weight),
             .pos_weight = or_undefined(pos_weight),
             .reduction = reduction_of("binary_cross_entropy_with_logits", reduction)});
      },
      "input"_a, "target"_a, "weight"_a = nb::none(), nb::kw_only(), "reduction"_a = "mean",
      "pos_weight"_a = nb::none(), ReleaseGil());
  f.def(
      "kl_div",
      [](const Tensor& input, const Tensor& target, Word reduction, bool log_target) {
        // The sum of each row, as mathematics has it, averaged over the rows.
        const bool by_row = reduction == "batchmean";
        const Reduction over = by_row ? Reduction::sum : reduction_of("kl_div", reduction);
        const Tensor loss = kl_div(input, target, {.log_target = log_target, .reduction = over});
        return by_row && input.rank() > 0 ? div(loss, static_cast<double>(input.shape()[0])) : loss;
      },
      "input"_a, "target"_a, nb::kw_only(), "reduction"_a = "mean", "log_target"_a = false,
      ReleaseGil());
}

void bind_classes(Functions& f) {
  f.def(
      "nll_loss",
      [](const Tensor& input, const Tensor& target, const MaybeTensor& weight, int64_t ignore_index,
         Word reduction) {
        return nll_loss(input, target,
                        {.weight = or_undefined(weight),
                         .ignore_index = ignore_index,
                         .reduction = reduction_of("nll_loss", reduction)});
      },
      "input"_a, "target"_a, "weight"_a = nb::none(), nb::kw_only(), "ignore_index"_a = -100,
      "reduction"_a = "mean", ReleaseGil());
  f.def(
      "cross_entropy",
      [](const Tensor& input, const Tensor& target, const MaybeTensor& weight, int64_t ignore_index,
         Word reduction, double label_smoothing) {
        return cross_entropy(input, target,
                             {.weight = or_undefined(weight),
                              .ignore_index = ignore_index,
                              .label_smoothing = label_smoothing,
                              .reduction = reduction_of("cross_entropy", reduction)});
      },
      "input"_a, "target"_a, "weight"_a = nb::none(), nb::kw_only(), "ignore_index"_a = -100,
      "reduction"_a = "mean", "label_smoothing"_a = 0.0, ReleaseGil());
}

void bind_likelihoods(Functions& f) {
  f.def(
      "poisson_nll_loss",
      [](const Tensor& input, const Tensor& target, bool log_input, bool full, double eps,
         Word reduction) {
        return function::poisson_nll_loss(
            input, target,
            {.log_input = log_input,
             .full = full,
             .eps = eps,
             .reduction = reduction_of("poisson_nll_loss", reduction)});
      },
      "input"_a, "target"_a, "log_input"_a = true, "full"_a = false, nb::kw_only(), "eps"_a = 1e-8,
      "reduction"_a = "mean", ReleaseGil());
  f.def(
      "gaussian_nll_loss",
      [](const Tensor& input, const Tensor& target, const Tensor& var, bool full, double eps,
         Word reduction) {
        return function::gaussian_nll_loss(
            input, target, var,
            {.full = full, .eps = eps, .reduction = reduction_of("gaussian_nll_loss", reduction)});
      },
      "input"_a, "target"_a, "var"_a, "full"_a = false, "eps"_a = 1e-6, "reduction"_a = "mean",
      ReleaseGil());
}

void bind_margins(Functions& f) {
  f.def(
      "multi_margin_loss",
      [](const Tensor& input, const Tensor& target, int64_t p, double margin,
         const MaybeTensor& weight, Word reduction) {
        return function::multi_margin_loss(
            input, target,
            {.p = p,
             .margin = margin,
             .weight = or_undefined(weight),
             .reduction = reduction_of("multi_margin_loss", reduction)});
      },
      "input"_a, "target"_a, "p"_a = 1, "margin"_a = 1.0, "weight"_a = nb::none(), nb::kw_only(),
      "reduction"_a = "mean", ReleaseGil());
  f.def(
      "multilabel_soft_margin_loss",
      [](const Tensor& input, const Tensor& target, const MaybeTensor& weight, Word reduction) {
        return function::multilabel_soft_margin_loss(
            input, target,
            {.weight = or_undefined(weight),
             .reduction = reduction_of("multilabel_soft_margin_loss", reduction)});
      },
      "input"_a, "target"_a, "weight"_a = nb::none(), nb::kw_only(), "reduction"_a = "mean",
      ReleaseGil());
}

void bind_distances(Functions& f) {
  f.def(
      "pairwise_distance",
      [](const Tensor& x1, const Tensor& x2, double p, double eps, bool keepdim) {
        return function::pairwise_distance(x1, x2, {.p = p, .eps = eps, .keepdim = keepdim});
      },
      "x1"_a, "x2"_a, "p"_a = 2.0, "eps"_a = 1e-6, "keepdim"_a = false, ReleaseGil());
  f.def(
      "cosine_similarity",
      [](const Tensor& x1, const Tensor& x2, int64_t dim, double eps) {
        return cosine_similarity(x1, x2, {.axis = dim, .eps = eps});
      },
      "x1"_a, "x2"_a, "dim"_a = 1, "eps"_a = 1e-8, ReleaseGil());
  using Margin = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, const MarginOptions&);
  for (const auto& [name, op] :
       {std::pair<const char*, Margin>{"cosine_embedding_loss", cosine_embedding_loss},
        {"margin_ranking_loss", margin_ranking_loss}}) {
    f.def(
        name,
        [name, loss = op](const Tensor& a, const Tensor& b, const Tensor& target, double margin,
                          Word reduction) {
          return loss(a, b, target, {.margin = margin, .reduction = reduction_of(name, reduction)});
        },
        "input1"_a, "input2"_a, "target"_a, "margin"_a = 0.0, nb::kw_only(), "reduction"_a = "mean",
        ReleaseGil());
  }
  f.def(
      "hinge_embedding_loss",
      [](const Tensor& input, const Tensor& target, double margin, Word reduction) {
        return hinge_embedding_loss(
            input, target,
            {.margin = margin, .reduction = reduction_of("hinge_embedding_loss", reduction)});
      },
      "input"_a, "target"_a, "margin"_a = 1.0, nb::kw_only(), "reduction"_a = "mean", ReleaseGil());
  f.def(
      "triplet_margin_loss",
      [](const Tensor& anchor, const Tensor& positive, const Tensor& negative, double margin,
         double p, double eps, bool swap, Word reduction) {
        return triplet_margin_loss(anchor, positive, negative,
                                   {.margin = margin,
                                    .p = p,
                                    .eps = eps,
                                    .swap = swap,
                                    .reduction = reduction_of("triplet_margin_loss", reduction)});
      },
      "anchor"_a, "positive"_a, "negative"_a, "margin"_a = 1.0, "p"_a = 2.0, "eps"_a = 1e-6,
      "swap"_a = false, nb::kw_only(), "reduction"_a = "mean", ReleaseGil());
}

}  // namespace

void bind_losses(Scope& scope) {
  bind_plain(scope.functional);
  bind_probabilities(scope.functional);
  bind_classes(scope.functional);
  bind_likelihoods(scope.functional);
  bind_margins(scope.functional);
  bind_distances(scope.functional);
}

}  // namespace mica::python
