// New tensors: filled, counted and random ones.
#include "python/src/def.h"

namespace mica::python {
namespace {

/// A new tensor, made without the GIL, as a leaf if a gradient is wanted for it.
template <class Make>
Tensor made(Make&& make, bool requires_grad) {
  Tensor t = without_gil(make);
  if (requires_grad) t.set_requires_grad();
  return t;
}

/// What `like` says where nothing else is said.
TensorOptions options_like(const Tensor& like, nb::handle dtype, nb::handle device) {
  return parse_options(dtype, device, {like.dtype(), like.device()});
}

/// In the memory format of `like` where it stays on its device.
Tensor fill_like(const Tensor& like, TensorOptions options, std::optional<double> value) {
  if (like.dtype() == options.dtype && like.device() == options.device)
    return value ? full_like(like, *value) : empty_like(like);
  return value ? full(like.shape(), *value, options) : empty(like.shape(), options);
}

void bind_filled(Functions& m) {
  using Create = Tensor (*)(const Shape&, TensorOptions);
  for (const auto& [name, create] :
       {std::pair<const char*, Create>{"zeros", zeros}, {"ones", ones}, {"empty", empty}}) {
    m.def(
        name,
        [make = create](const nb::args& shape, nb::handle dtype, nb::handle device,
                        bool requires_grad) {
          const TensorOptions options = parse_options(dtype, device);
          return made([&, s = parse_dims(shape)] { return make(s, options); }, requires_grad);
        },
        "shape"_a, nb::kw_only(), "dtype"_a = nb::none(), "device"_a = nb::none(),
        "requires_grad"_a = false);
  }
  m.def(
      "full",
      [](const Dims& shape, double value, nb::handle dtype, nb::handle device, bool requires_grad) {
        const TensorOptions options = parse_options(dtype, device);
        return made([&] { return full(shape, value, options); }, requires_grad);
      },
      "shape"_a, "fill_value"_a, nb::kw_only(), "dtype"_a = nb::none(), "device"_a = nb::none(),
      "requires_grad"_a = false);
  m.def(
      "arange",
      [](nb::handle start, nb::handle end, nb::handle step, nb::handle dtype, nb::handle device) {
        // arange(end), arange(start, end), arange(start, end, step)
        const double first = end.is_none() ? 0 : nb::cast<double>(start);
        const double last = nb::cast<double>(end.is_none() ? start : end);
        const auto whole = [](nb::handle h) { return h.is_none() || PyIndex_Check(h.ptr()); };
        const bool integers = whole(start) && whole(end) && whole(step);
        const TensorOptions options =
            parse_options(dtype, device, {.dtype = integers ? DType::i64 : DType::f32});
        return without_gil(
            [&, by = nb::cast<double>(step)] { return arange(first, last, by, options); });
      },
      "start"_a, "end"_a = nb::none(), "step"_a = 1, nb::kw_only(), "dtype"_a = nb::none(),
      "device"_a = nb::none());
  m.def(
      "linspace",
      [](double start, double end, int64_t steps, nb::handle dtype, nb::handle device) {
        const TensorOptions options = parse_options(dtype, device);
        return without_gil([&] { return linspace(start, end, steps, options); });
      },
      "start"_a, "end"_a, "steps"_a, nb::kw_only(), "dtype"_a = nb::none(),
      "device"_a = nb::none());
  m.def(
      "eye",
      [](int64_t n, MaybeInt columns, nb::handle dtype, nb::handle device) {
        const TensorOptions options = parse_options(dtype, device);
        return without_gil([&] { return eye(n, columns.value_or(n), options); });
      },
      "n"_a, "m"_a = nb::none(), nb::kw_only(), "dtype"_a = nb::none(), "device"_a = nb::none());
  m.def(
      "full_like",
      [](const Tensor& x, double value, nb::handle dtype, nb::handle device, bool requires_grad) {
        const TensorOptions options = options_like(x, dtype, device);
        return made([&] { return fill_like(x, options, value); }, requires_grad);
      },
      "input"_a, "fill_value"_a, nb::kw_only(), "dtype"_a = nb::none(), "device"_a = nb::none(),
      "requires_grad"_a = false);
  for (const auto& [name, value] : {std::pair<const char*, std::optional<double>>{"zeros_like", 0},
                                    {"ones_like", 1},
                                    {"empty_like", std::nullopt}}) {
    m.def(
        name,
        [fill = value](const Tensor& x, nb::handle dtype, nb::handle device, bool requires_grad) {
          const TensorOptions options = options_like(x, dtype, device);
          return made([&] { return fill_like(x, options, fill); }, requires_grad);
        },
        "input"_a, nb::kw_only(), "dtype"_a = nb::none(), "device"_a = nb::none(),
        "requires_grad"_a = false);
  }
}

void bind_random(Functions& m) {
  using Draw = Tensor (*)(const Shape&, double, double, TensorOptions);
  const auto def_draw = [&](const char* name, Draw draw, const char* a, const char* b) {
    m.def(
        name,
        [draw](const Dims& shape, double first, double second, nb::handle dtype,
               nb::handle device) {
          const TensorOptions options = parse_options(dtype, device);
          return without_gil([&] { return draw(shape, first, second, options); });
        },
        "shape"_a, nb::arg(a) = 0.0, nb::arg(b) = 1.0, nb::kw_only(), "dtype"_a = nb::none(),
        "device"_a = nb::none());
  };
  def_draw("uniform", uniform, "low", "high");
  def_draw("normal", normal, "mean", "std");
  for (const auto& [name, draw] :
       {std::pair<const char*, Draw>{"rand", uniform}, {"randn", normal}}) {
    m.def(
        name,
        [make = draw](const nb::args& shape, nb::handle dtype, nb::handle device,
                      bool requires_grad) {
          const TensorOptions options = parse_options(dtype, device);
          return made([&, s = parse_dims(shape)] { return make(s, 0, 1, options); }, requires_grad);
        },
        "shape"_a, nb::kw_only(), "dtype"_a = nb::none(), "device"_a = nb::none(),
        "requires_grad"_a = false);
  }
  const auto integers = [](int64_t low, int64_t high, const Dims& size, nb::handle dtype,
                           nb::handle device) {
    const TensorOptions options = parse_options(dtype, device, {.dtype = DType::i64});
    return without_gil([&] { return randint(low, high, size, options); });
  };
  m.def("randint", integers, "low"_a, "high"_a, "size"_a, nb::kw_only(), "dtype"_a = nb::none(),
        "device"_a = nb::none());
  m.def(
      "randint",
      [integers](int64_t high, const Dims& size, nb::handle dtype, nb::handle device) {
        return integers(0, high, size, dtype, device);
      },
      "high"_a, "size"_a, nb::kw_only(), "dtype"_a = nb::none(), "device"_a = nb::none());
  const auto integers_like = [](const Tensor& x, int64_t low, int64_t high) {
    return randint(low, high, x.shape(), {x.dtype(), x.device()});
  };
  m.def("randint_like", integers_like, "input"_a, "low"_a, "high"_a, ReleaseGil());
  m.def(
      "randint_like",
      [integers_like](const Tensor& x, int64_t high) { return integers_like(x, 0, high); },
      "input"_a, "high"_a, ReleaseGil());
  using FromProbabilities = Tensor (*)(const Tensor&);
  m.def("bernoulli", FromProbabilities(bernoulli), "input"_a, ReleaseGil());
  m.def("rand_like", [](const Tensor& x) { return uniform_like(x); }, "input"_a, ReleaseGil());
  m.def("randn_like", [](const Tensor& x) { return normal_like(x); }, "input"_a, ReleaseGil());
  m.def("randperm", randperm, "n"_a, ReleaseGil());
  m.def("manual_seed", manual_seed, "seed"_a, ReleaseGil());
  m.def(
      "rng_state",
      [](nb::handle device) {
        return without_gil([d = parse_device(device)] { return rng_state(d); });
      },
      "device"_a = "cpu");
}

}  // namespace

void bind_creation(Scope& scope) {
  bind_filled(scope.m);
  bind_random(scope.m);
  scope.both("multinomial", multinomial, "num_samples"_a, "replacement"_a = false);
}

}  // namespace mica::python
