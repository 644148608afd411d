#include "tests/op_cases/op_case.h"

namespace mica::cases {
namespace {

OpCase full_case() {
  const auto sample = [](const char* name, const Shape& shape, double value) {
    return Sample{
        .name = name,
        .in = {},
        .call = [=](const Args& a) -> Tensors { return {full(shape, value, {a.dtype, a.device})}; },
        .oracle =
            [=](const HostArgs&) {
              return std::vector{
                  HostArray{shape, std::vector<double>(static_cast<size_t>(numel(shape)), value)}};
            },
        .dtypes = {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32,
                   DType::u8}};
  };
  Sample fraction = sample("a fraction", {2, 3}, 0.1);
  fraction.dtypes = kFloats;
  Sample truth = sample("true", {5}, 1);
  truth.dtypes = {DType::boolean};
  return {.op = "full",
          .samples = {sample("matrix", {3, 5}, 7), sample("0-d", {}, 3),
                      sample("one element", {1}, 2), sample("empty", {0, 2}, 1),
                      sample("several threads", {70001}, 9), fraction, truth},
          .bad = {bad<ShapeError>("shape [2, -1] has a negative size",
                                  [](Device d) { full({2, -1}, 0, {.device = d}); })},
          .no_empty = "it has no inputs; one sample's output is empty",
          .no_single = "it has no inputs; one sample's output has one element"};
}

const Room kRoom([] { return std::vector<OpCase>{full_case()}; });

}  // namespace
}  // namespace mica::cases
