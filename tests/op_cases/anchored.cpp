#include "tests/op_cases/anchored.h"

namespace mica::cases {
namespace {

OpCase anchored_case() {
  OpCase c{.op = "anchored", .samples = {}};
  for (const auto samples :
       {conv2d_carrying_samples, product_carrying_samples, batch_norm_carrying_samples,
        conv2d_batch_norm_carrying_samples, row_norm_carrying_samples, quantized_carrying_samples})
    for (Sample& s : samples()) c.samples.push_back(std::move(s));
  const Program relu{1, {elementwise("relu", {0})}, {0}};
  const Program sum{2, {elementwise("add", {0, 1})}, {0}};
  c.bad = {bad<ShapeError>("conv2d: kernel of 3 by 3 does not fit the padded input of 2 by 2",
                           [=](Device d) {
                             const TensorOptions o{.device = d};
                             call_carrying("conv2d", Conv2dParams{}, relu,
                                           {zeros({1, 3, 2, 2}, o), zeros({8, 3, 3, 3}, o), {}});
                           }),
           bad<ShapeError>("linear: bias must be [out] with out = 5, got [4]",
                           [=](Device d) {
                             const TensorOptions o{.device = d};
                             call_carrying("linear", NoParams{}, relu,
                                           {zeros({2, 4}, o), zeros({5, 4}, o), zeros({4}, o)});
                           }),
           bad<ShapeError>("anchored: results must have the anchor's shape [2, 5], got [3, 2, 5]",
                           [=](Device d) {
                             const TensorOptions o{.device = d};
                             call_carrying(
                                 "matmul", NoParams{}, sum,
                                 {zeros({2, 4}, o), zeros({4, 5}, o), zeros({3, 2, 5}, o)});
                           }),
           bad<Error>("anchored: the call has 3 inputs, got 2", [=](Device d) {
             const TensorOptions o{.device = d};
             call_carrying("matmul", NoParams{}, sum, {zeros({2, 4}, o), zeros({4, 5}, o)});
           })};
  return c;
}

const Room kRoom([] { return std::vector<OpCase>{anchored_case()}; });

}  // namespace
}  // namespace mica::cases
