// What nn.functional has as compositions of operators, which layers use too.
#include "mica/nn/nn.h"
#include "python/src/def.h"
#include "python/src/inplace.h"

namespace mica::python {

void bind_compositions(Scope& scope) {
  Functions& f = scope.functional;
  namespace function = nn::function;
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
}

}  // namespace mica::python
