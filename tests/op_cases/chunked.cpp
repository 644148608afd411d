#include "mica/ops/cross_entropy/chunked.h"

#include "tests/op_cases/composites.h"

namespace mica::cases {
namespace {

/// -log softmax of x weightᵀ + bias at the targets, the mean over those that are not ignored.
std::vector<HostArray> loss_of(const HostArgs& in, double smoothing) {
  const int64_t rows = in[0].shape[0];
  const int64_t classes = in[1].shape[0];
  double total = 0;
  double counted = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const auto target = static_cast<int64_t>(in[2].values[static_cast<size_t>(r)]);
    if (target == -100) continue;
    double sum = 0;
    double all = 0;
    double wanted = 0;
    for (int64_t c = 0; c < classes; ++c) {
      double logit = in[3].values.empty() ? 0 : in[3].values[static_cast<size_t>(c)];
      for (int64_t k = 0; k < in[0].shape[1]; ++k) logit += at(in[0], {r, k}) * at(in[1], {c, k});
      sum += std::exp(logit);
      all += logit / static_cast<double>(classes);
      if (c == target) wanted = logit;
    }
    total += std::log(sum) - (1 - smoothing) * wanted - smoothing * all;
    counted += 1;
  }
  return {HostArray{{}, {total / counted}}};
}

OpCase chunked_cross_entropy_case() {
  const auto sample = [](const char* name, int64_t rows, int64_t chunk, bool bias,
                         std::vector<double> targets, double smoothing = 0) {
    return composite_sample(
        name,
        {x({rows, 3}), x({5, 3}), x({rows}).of(std::move(targets)).as<DType::i64>(),
         bias ? x({5}) : absent()},
        [=](const Args& in) {
          return chunked_cross_entropy(
              in[0], in[1], in[2], {.bias = in[3], .chunk = chunk, .label_smoothing = smoothing});
        },
        [=](const HostArgs& in) { return loss_of(in, smoothing); });
  };
  return {.op = "chunked_cross_entropy",
          .samples = {sample("one chunk", 4, 9, true, {0, 4, 2, 2}),
                      sample("several chunks", 7, 3, false, {1, 0, 4, 3, 3, 2, 0}),
                      sample("a chunk that is ignored", 5, 2, true, {1, 2, -100, -100, 3}),
                      sample("smoothed", 5, 2, true, {1, 2, 0, -100, 3}, 0.1)},
          .bad = {bad<ShapeError>("chunked_cross_entropy: expected (…, K), weight (C, K)",
                                  [](Device d) {
                                    const Tensor a = zeros({2, 3}, {.device = d});
                                    chunked_cross_entropy(a, zeros({4, 2}, {.device = d}),
                                                          zeros({2}, {DType::i64, d}));
                                  }),
                  bad<Error>("chunked_cross_entropy: expected chunks of at least one row, got 0",
                             [](Device d) {
                               const Tensor a = zeros({2, 3}, {.device = d});
                               chunked_cross_entropy(a, a, zeros({2}, {DType::i64, d}),
                                                     {.chunk = 0});
                             })},
          .no_empty = "the mean of no loss",
          .no_single = "a softmax over one class has no gradient",
          .tolerance = kSeveralRoundings};
}

const Room kRoom([] { return std::vector<OpCase>{chunked_cross_entropy_case()}; });

}  // namespace
}  // namespace mica::cases
