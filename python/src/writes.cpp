// What overwrites a tensor: x.copy_(y), x.clamp_(0, 1), x.normal_(). x itself is returned.
#include "mica/ops/method.h"
#include "python/src/bindings.h"

namespace mica::python {
namespace {

/// Random numbers in place of the values.
void bind_draws(nb::class_<Tensor>& tensor) {
  tensor.def(
      "uniform_",
      [](Tensor& t, double low, double high) -> Tensor& {
        copy_(t, uniform_like(t, low, high));
        return t;
      },
      "a"_a = 0.0, "b"_a = 1.0, nb::rv_policy::reference, ReleaseGil(),
      "Overwrites this tensor with random numbers, uniform between a and b.");
  tensor.def(
      "normal_",
      [](Tensor& t, double mean, double std) -> Tensor& {
        copy_(t, normal_like(t, mean, std));
        return t;
      },
      "mean"_a = 0.0, "std"_a = 1.0, nb::rv_policy::reference, ReleaseGil(),
      "Overwrites this tensor with random numbers from the normal distribution.");
  constexpr const char* kBernoulli =
      "Overwrites this tensor with 1 with probability p, a number or one for each element, else 0.";
  tensor.def(
      "bernoulli_",
      [](Tensor& t, double p) -> Tensor& {
        copy_(t, bernoulli(t.shape(), p, {t.dtype(), t.device()}));
        return t;
      },
      "p"_a = 0.5, nb::rv_policy::reference, ReleaseGil(), kBernoulli);
  tensor.def(
      "bernoulli_",
      [](Tensor& t, const Tensor& p) -> Tensor& {
        copy_(t, bernoulli(expand(p, t.shape())));
        return t;
      },
      "p"_a, nb::rv_policy::reference, ReleaseGil(), kBernoulli);
  tensor.def(
      "random_",
      [](Tensor& t, int64_t low, std::optional<int64_t> high) -> Tensor& {
        const int64_t first = high ? low : 0;
        copy_(t, randint(first, high.value_or(low), t.shape(), {DType::i64, t.device()}));
        return t;
      },
      "low"_a, "high"_a = nb::none(), nb::rv_policy::reference, ReleaseGil(),
      "Overwrites this tensor with random integers in [low, high), or in [0, low).");
}

}  // namespace

void store(const Tensor& destination, const Tensor& result) { overwrite(destination, result); }

Tensor source_for(const Tensor& destination, nb::handle value) {
  if (nb::isinstance<Tensor>(value)) return nb::cast<Tensor>(value);
  return tensor_from(value, nb::cast(destination.dtype()), nb::cast(destination.device()));
}

void bind_writes(nb::class_<Tensor>& tensor) {
  tensor.def(
      "copy_",
      [](Tensor& t, nb::handle source) -> Tensor& {
        const Tensor s = source_for(t, source);
        without_gil([&] { copy_(t, s); });
        return t;
      },
      "source"_a, nb::rv_policy::reference, "Overwrites this tensor, broadcasting and casting.");
  tensor.def(
      "fill_",
      [](Tensor& t, Number value) -> Tensor& {
        fill_(t, value);
        return t;
      },
      "value"_a, nb::rv_policy::reference, ReleaseGil(), "Sets every element.");
  tensor.def(
      "fill_",
      [](Tensor& t, const Tensor& value) -> Tensor& {
        check<ShapeError>(value.rank() == 0,
                          "fill_: expected a number or a tensor without axes, "
                          "got one of shape {}",
                          value.shape());
        copy_(t, value);
        return t;
      },
      "value"_a, nb::rv_policy::reference, ReleaseGil());
  tensor.def(
      "zero_",
      [](Tensor& t) -> Tensor& {
        fill_(t, 0);
        return t;
      },
      nb::rv_policy::reference, ReleaseGil(), "Sets every element to 0.");
  bind_draws(tensor);
}

}  // namespace mica::python
