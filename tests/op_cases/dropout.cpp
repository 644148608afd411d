#include "mica/core/philox.h"
#include "tests/op_cases/op_case.h"

namespace mica::cases {
namespace {

OpCase dropout_case() {
  const auto sample = [](const char* name, const Shape& shape, double p, bool relu = false) {
    return Sample{.name = name,
                  .in = {x(shape), counter(99, 5), relu ? x(shape).constant() : absent()},
                  .call = [p](const Args& a) { return call_op("dropout", DropoutParams{p}, a.in); },
                  .oracle =
                      [p, relu](const HostArgs& in) {
                        HostArray out = in[0];
                        for (size_t i = 0; i < out.values.size(); ++i) {
                          const auto word = philox(99, 5 + i / 4).v[i % 4];
                          out.values[i] *=
                              unit_float(word) >= static_cast<float>(p) ? 1 / (1 - p) : 0;
                          if (relu && !(in[2].values[i] > 0)) out.values[i] = 0;
                        }
                        return std::vector{out};
                      }};
  };
  Sample threads = sample("several threads", {3, 20000}, 0.3);
  threads.dtypes = {DType::f32};
  return {.op = "dropout",
          .samples = {sample("half", {5, 7}, 0.5), sample("images", {2, 3, 4, 5}, 0.25),
                      sample("nothing dropped", {9}, 0), sample("nearly all", {40}, 0.99),
                      sample("one element", {1}, 0.5), sample("empty", {0, 4}, 0.5),
                      sample("gradient of a relu", {3, 2, 5, 7}, 0.5, true),
                      sample("gradient of a relu by fours", {64}, 0.25, true), threads},
          .bad = {bad<Error>("dropout: p must be in [0, 1), got 1",
                             [](Device d) { dropout(ones({3}, {.device = d}), 1); }),
                  bad<Error>("dropout: p must be in [0, 1), got -0.5",
                             [](Device d) { dropout(ones({3}, {.device = d}), -0.5); }),
                  bad<DTypeError>("dropout: expected a floating dtype, got i64",
                                  [](Device d) { dropout(ones({3}, {DType::i64, d}), 0.5); }),
                  bad<ShapeError>("dropout: the counter must be i64[2], got f32[2]", [](Device d) {
                    call_op("dropout", DropoutParams{0.5},
                            {ones({3}, {.device = d}), ones({2}, {.device = d}), Tensor()});
                  })}};
}

const Room kRoom([] { return std::vector<OpCase>{dropout_case()}; });

}  // namespace
}  // namespace mica::cases
