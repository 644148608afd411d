#include <cmath>

#include "tests/op_cases/op_case.h"
#include "tests/op_cases/update_formulas.h"

namespace mica::cases {
namespace {

/// What an update is called with.
struct Given {
  Tensor lr;
  Tensor step;
  Tensors params;
  Tensors grads;
  std::vector<Tensors> states;
  Tensors masters;  ///< where the parameters are halves
};

/// An update of several parameters with `states` states each. Inputs: lr, step, parameters,
/// gradients, states. Results: the parameters and states after.
Sample update(const char* name, const std::vector<Shape>& shapes, size_t states,
              const Formula& formula, const std::function<void(const Given&)>& call) {
  const size_t n = shapes.size();
  Sample s{
      .name = name,
      .in = {x({}).of({0.1}).as<DType::f32>(), x({}).of({3}).as<DType::i64>()},
      .call =
          [=](const Args& a) {
            Given given{a[0], a[1], {}, {}, std::vector<Tensors>(states), {}};
            const bool half = a.dtype == DType::f16 || a.dtype == DType::bf16;
            for (size_t i = 0; i < n; ++i) {
              given.params.push_back(clone(a[2 + i]));
              given.grads.push_back(a[2 + n + i]);
              if (half) given.masters.push_back(cast(a[2 + i], DType::f32));
              for (size_t k = 0; k < states; ++k)
                given.states[k].push_back(clone(a[2 + (2 + k) * n + i]));
            }
            call(given);
            Tensors results = given.params;
            for (const Tensors& list : given.states)
              results.insert(results.end(), list.begin(), list.end());
            return results;
          },
      .oracle =
          [=](const HostArgs& in) { return updated(in, inputs(in, 2 + n, n), states, formula); },
      .gradient = false};
  for (int list = 0; list < 2; ++list)
    for (const Shape& shape : shapes) s.in.push_back(x(shape));
  for (size_t k = 0; k < states; ++k)
    for (const Shape& shape : shapes) s.in.push_back(x(shape).in(1, 5).statistic());
  return s;
}

/// What every update is tried with: `of(name, shapes)` makes the sample.
std::vector<Sample> common(
    const std::function<Sample(const char*, const std::vector<Shape>&)>& of) {
  std::vector<Shape> shapes = {{5000}};
  for (int64_t i = 1; i <= 110; ++i) shapes.push_back({i});
  Sample many = of("more parameters than one small launch takes", shapes);
  many.dtypes = {DType::f32};
  Sample threads = of("several threads", {{70000}, {3}, {40001}});
  threads.dtypes = {DType::f32, DType::bf16};
  threads.layouts = false;
  Sample first = of("the first step, lr in f64", {{9}});
  first.in[0] = x({1}).of({0.25}).as<DType::f64>();
  first.in[1] = x({}).of({1}).as<DType::i64>();
  return {of("two parameters", {{3, 4}, {4}}),
          of("an image", {{7, 3}, {2, 3, 4, 5}}),
          many,
          of("one element", {{1}}),
          of("an empty parameter", {{0}, {3}}),
          threads,
          first};
}

constexpr Tolerances kUpdate = {{1e-14, 1e-6, 1e-3, 8e-3}, {0, 0, 0, 0}};

template <class... More>
std::vector<Sample> with(std::vector<Sample> samples, More... more) {
  (samples.push_back(std::move(more)), ...);
  return samples;
}

Sample sgd(const char* name, const std::vector<Shape>& shapes, const SgdParams& p) {
  return update(name, shapes, p.momentum != 0 ? 1 : 0, sgd_formula(p), [=](const Given& g) {
    sgd_update(g.lr, g.params, g.grads, g.states.empty() ? Tensors() : g.states[0], p, g.step,
               g.masters);
  });
}

/// The same where the number of the step is 0, which leaves everything as it was.
Sample left_out(Sample s, size_t parameters) {
  s.in[1] = x({}).of({0}).as<DType::i64>();
  s.oracle = [=](const HostArgs& in) {
    std::vector<HostArray> results = inputs(in, 2, parameters);
    for (size_t i = 2 + 2 * parameters; i < in.in.size(); ++i) results.push_back(in[i]);
    return results;
  };
  return s;
}

OpCase sgd_update_case() {
  const auto of = [](const char* name, const std::vector<Shape>& shapes) {
    return sgd(name, shapes, {.momentum = 0.8, .dampening = 0.1, .weight_decay = 0.1});
  };
  return {
      .op = "sgd_update",
      .samples = with(common(of), sgd("plain", {{3, 4}, {4}}, {}),
                      sgd("momentum", {{3, 4}, {4}}, {.momentum = 0.9}),
                      sgd("nesterov", {{3, 4}, {4}}, {.momentum = 0.9, .nesterov = true}),
                      left_out(sgd("left out", {{3, 4}, {70}}, {.momentum = 0.9}), 2),
                      sgd("weight decay", {{5}, {2, 3, 4, 5}}, {.weight_decay = 0.01})),
      .bad = {bad<DTypeError>("sgd_update: lr must be one f32 or f64 number, got i64[]",
                              [](Device d) {
                                const Tensor w = zeros({3}, {.device = d});
                                sgd_update(zeros({}, {DType::i64, d}), {w}, {w}, {}, {});
                              }),
              bad<DTypeError>("sgd_update: step must be one i64 number, got f32[]",
                              [](Device d) {
                                const Tensor w = zeros({3}, {.device = d});
                                const Tensor zero = zeros({}, {.device = d});
                                sgd_update(zero, {w}, {w}, {}, {}, zero);
                              }),
              bad<ShapeError>("sgd_update: gradient 0 must be like its parameter f32[3]",
                              [](Device d) {
                                const TensorOptions o{.device = d};
                                sgd_update(zeros({}, o), {zeros({3}, o)}, {zeros({4}, o)}, {}, {});
                              }),
              bad<Error>("sgd_update: expected 1 gradients, got 0",
                         [](Device d) {
                           sgd_update(zeros({}, {.device = d}), {zeros({3}, {.device = d})}, {}, {},
                                      {});
                         }),
              bad<Error>("sgd_update: expected 5 inputs, got 4",
                         [](Device d) {
                           const TensorOptions o{.device = d};
                           sgd_update(zeros({}, o), {zeros({3}, o)}, {zeros({3}, o)}, {},
                                      {.momentum = 0.9});
                         }),
              bad<DTypeError>("sgd_update: parameter 0 must be floating, got i64", [](Device d) {
                const Tensor w = zeros({3}, {DType::i64, d});
                sgd_update(zeros({}, {.device = d}), {w}, {w}, {}, {});
              })}};
}

Sample adam(const char* name, const std::vector<Shape>& shapes, const AdamParams& p) {
  return update(name, shapes, p.amsgrad ? 3 : 2, adam_formula(p), [=](const Given& g) {
    adam_update(g.lr, g.step, g.params, g.grads,
                {g.states[0], g.states[1], p.amsgrad ? g.states[2] : Tensors()}, p, g.masters);
  });
}

OpCase adam_update_case() {
  const auto of = [](const char* name, const std::vector<Shape>& shapes) {
    return adam(name, shapes, {.beta2 = 0.99, .weight_decay = 0.1});
  };
  return {
      .op = "adam_update",
      .samples = with(common(of), adam("defaults", {{3, 4}, {4}}, {}),
                      adam("decoupled", {{3, 4}, {4}}, {.weight_decay = 0.1, .decoupled = true}),
                      adam("amsgrad", {{3, 4}, {40}}, {.beta2 = 0.9, .amsgrad = true})),
      .bad = {bad<DTypeError>("adam_update: step must be one i64 number",
                              [](Device d) {
                                const Tensor w = zeros({3}, {.device = d});
                                adam_update(zeros({}, {.device = d}), {}, {w}, {w}, {{w}, {w}}, {});
                              }),
              bad<ShapeError>("adam_update: exp_avg_sq 0 must be like its parameter f32[3]",
                              [](Device d) {
                                const Tensor w = zeros({3}, {.device = d});
                                const Tensor v = zeros({4}, {.device = d});
                                adam_update(zeros({}, {.device = d}), zeros({}, {DType::i64, d}),
                                            {w}, {w}, {{w}, {v}}, {});
                              })}};
}

Sample rmsprop(const char* name, const std::vector<Shape>& shapes, const RmspropParams& p) {
  const bool momentum = p.momentum != 0;
  Sample sample =
      update(name, shapes, 1U + momentum + p.centered, rmsprop_formula(p), [=](const Given& g) {
        rmsprop_update(g.lr, g.params, g.grads,
                       {g.states[0], momentum ? g.states[1] : Tensors(),
                        p.centered ? g.states.back() : Tensors()},
                       p, {}, g.masters);
      });
  // The mean is smaller than the root of the mean square.
  if (p.centered)
    for (size_t i = sample.in.size() - shapes.size(); i < sample.in.size(); ++i)
      sample.in[i] = std::move(sample.in[i]).in(0.1, 0.5);
  return sample;
}

OpCase rmsprop_update_case() {
  const auto of = [](const char* name, const std::vector<Shape>& shapes) {
    return rmsprop(name, shapes,
                   {.alpha = 0.9, .weight_decay = 0.1, .momentum = 0.8, .centered = true});
  };
  return {.op = "rmsprop_update",
          .samples = with(common(of), rmsprop("defaults", {{3, 4}, {4}}, {}),
                          rmsprop("momentum", {{3, 4}, {4}}, {.momentum = 0.9}),
                          rmsprop("centered", {{3, 4}, {4}}, {.centered = true})),
          .bad = {bad<ShapeError>(
              "rmsprop_update: grad_avg 0 must be like its parameter f32[3]", [](Device d) {
                const Tensor w = zeros({3}, {.device = d});
                const Tensor v = zeros({4}, {.device = d});
                rmsprop_update(zeros({}, {.device = d}), {w}, {w},
                               {.square_avg = {w}, .grad_avg = {v}}, {.centered = true});
              })}};
}

Sample adagrad(const char* name, const std::vector<Shape>& shapes, const AdagradParams& p) {
  return update(name, shapes, 1, adagrad_formula(p), [=](const Given& g) {
    adagrad_update(g.lr, g.step, g.params, g.grads, g.states[0], p, g.masters);
  });
}

OpCase adagrad_update_case() {
  const auto of = [](const char* name, const std::vector<Shape>& shapes) {
    return adagrad(name, shapes, {.lr_decay = 0.2, .weight_decay = 0.1});
  };
  return {.op = "adagrad_update",
          .samples = with(common(of), adagrad("defaults", {{3, 4}, {4}}, {})),
          .bad = {bad<DTypeError>("adagrad_update: step must be one i64 number", [](Device d) {
            const Tensor w = zeros({3}, {.device = d});
            adagrad_update(zeros({}, {.device = d}), {}, {w}, {w}, {w}, {});
          })}};
}

Sample adadelta(const char* name, const std::vector<Shape>& shapes, const AdadeltaParams& p) {
  return update(name, shapes, 2, adadelta_formula(p), [=](const Given& g) {
    adadelta_update(g.lr, g.params, g.grads, g.states[0], g.states[1], p, {}, g.masters);
  });
}

OpCase adadelta_update_case() {
  const auto of = [](const char* name, const std::vector<Shape>& shapes) {
    return adadelta(name, shapes, {.rho = 0.8, .eps = 1e-3, .weight_decay = 0.1});
  };
  return {.op = "adadelta_update",
          .samples = with(common(of), adadelta("defaults", {{3, 4}, {4}}, {})),
          .bad = {bad<DTypeError>("adadelta_update: lr must be one f32 or f64 number",
                                  [](Device d) {
                                    const Tensor w = zeros({3}, {.device = d});
                                    adadelta_update(w, {w}, {w}, {w}, {w}, {});
                                  })},
          .tolerance = kUpdate};
}

Sample adamax(const char* name, const std::vector<Shape>& shapes, const AdamaxParams& p) {
  return update(name, shapes, 2, adamax_formula(p), [=](const Given& g) {
    adamax_update(g.lr, g.step, g.params, g.grads, g.states[0], g.states[1], p, g.masters);
  });
}

OpCase adamax_update_case() {
  const auto of = [](const char* name, const std::vector<Shape>& shapes) {
    return adamax(name, shapes, {.beta2 = 0.9, .eps = 1e-3, .weight_decay = 0.1});
  };
  return {.op = "adamax_update",
          .samples = with(common(of), adamax("defaults", {{3, 4}, {4}}, {})),
          .bad = {bad<ShapeError>("adamax_update: exp_inf 0 must be like its parameter f32[3]",
                                  [](Device d) {
                                    const Tensor w = zeros({3}, {.device = d});
                                    const Tensor v = zeros({4}, {.device = d});
                                    adamax_update(zeros({}, {.device = d}),
                                                  zeros({}, {DType::i64, d}), {w}, {w}, {w}, {v},
                                                  {});
                                  })},
          .tolerance = kUpdate};
}

/// The rate becomes the rate and the product of the momenta.
Sample nadam(const char* name, const std::vector<Shape>& shapes, const NadamParams& p) {
  Sample s = update(name, shapes, 2, nadam_formula(p), [=](const Given& g) {
    nadam_update(g.lr, g.step, g.params, g.grads, g.states[0], g.states[1], p, g.masters);
  });
  s.in[0] = x({2}).of({0.1, 0.25}).as<DType::f64>();
  s.in[0].dense = true;
  return s;
}

OpCase nadam_update_case() {
  const auto of = [](const char* name, const std::vector<Shape>& shapes) {
    return nadam(name, shapes, {.beta2 = 0.99, .weight_decay = 0.1, .momentum_decay = 0.1});
  };
  std::vector<Sample> samples = common(of);
  samples.pop_back();  // of a rate in f64, which these have
  return {.op = "nadam_update",
          .samples = with(std::move(samples), nadam("defaults", {{3, 4}, {4}}, {}),
                          nadam("decoupled", {{9}}, {.weight_decay = 0.1, .decoupled = true})),
          .bad = {bad<DTypeError>("nadam_update: lr with the product of the momenta must be two "
                                  "f32 or f64 numbers, got f32[]",
                                  [](Device d) {
                                    const Tensor w = zeros({3}, {.device = d});
                                    nadam_update(zeros({}, {.device = d}),
                                                 zeros({}, {DType::i64, d}), {w}, {w}, {w}, {w},
                                                 {});
                                  })},
          .tolerance = kUpdate};
}

Sample radam(const char* name, const std::vector<Shape>& shapes, const RadamParams& p,
             double step = 3) {
  Sample s = update(name, shapes, 2, radam_formula(p), [=](const Given& g) {
    radam_update(g.lr, g.step, g.params, g.grads, g.states[0], g.states[1], p, g.masters);
  });
  s.in[1] = x({}).of({step}).as<DType::i64>();
  return s;
}

OpCase radam_update_case() {
  const auto of = [](const char* name, const std::vector<Shape>& shapes) {
    return radam(name, shapes, {.beta2 = 0.99, .weight_decay = 0.1}, 20);
  };
  return {.op = "radam_update",
          .samples = with(common(of), radam("too early to adapt", {{3, 4}, {4}}, {}),
                          radam("the first step that adapts", {{9}}, {}, 6),
                          radam("decoupled", {{9}}, {.weight_decay = 0.1, .decoupled = true}, 30)),
          .bad = {bad<DTypeError>("radam_update: step must be one i64 number",
                                  [](Device d) {
                                    const Tensor w = zeros({3}, {.device = d});
                                    radam_update(zeros({}, {.device = d}), {}, {w}, {w}, {w}, {w},
                                                 {});
                                  })},
          .tolerance = kUpdate};
}

Sample lion(const char* name, const std::vector<Shape>& shapes, const LionParams& p) {
  return update(name, shapes, 1, lion_formula(p), [=](const Given& g) {
    lion_update(g.lr, g.params, g.grads, g.states[0], p, {}, g.masters);
  });
}

OpCase lion_update_case() {
  const auto of = [](const char* name, const std::vector<Shape>& shapes) {
    return lion(name, shapes, {.beta1 = 0.8, .weight_decay = 0.1});
  };
  return {
      .op = "lion_update",
      .samples = with(common(of), lion("defaults", {{3, 4}, {4}}, {})),
      .bad = {bad<ShapeError>("lion_update: exp_avg 0 must be like its parameter bf16[3]",
                              [](Device d) {
                                const Tensor w = zeros({3}, {DType::bf16, d});
                                const Tensor m = zeros({3}, {DType::f32, d});
                                lion_update(zeros({}, {.device = d}), {w}, {w}, {w}, {}, {}, {m});
                              }),
              bad<Error>("lion_update: expected 6 inputs, masters among them, got 5",
                         [](Device d) {
                           const Tensor w = zeros({3}, {DType::bf16, d});
                           lion_update(zeros({}, {.device = d}), {w}, {w},
                                       {zeros({3}, {DType::f32, d})}, {});
                         }),
              bad<DTypeError>("lion_update: parameters in half precision need a call of their "
                              "own, got f32 and f16",
                              [](Device d) {
                                const Tensor w = zeros({3}, {DType::f32, d});
                                const Tensor h = zeros({3}, {DType::f16, d});
                                lion_update(zeros({}, {.device = d}), {w, h}, {w, h}, {w, w}, {});
                              })},
      .tolerance = kUpdate};
}

Sample ema(const char* name, const std::vector<Shape>& shapes, const EmaParams& p) {
  const size_t n = shapes.size();
  Sample s{.name = name,
           .in = {x({}).of({3}).as<DType::i64>()},
           .call =
               [=](const Args& a) {
                 Tensors averages;
                 Tensors values;
                 for (size_t i = 0; i < n; ++i) {
                   averages.push_back(clone(a[1 + i]));
                   values.push_back(a[1 + n + i]);
                 }
                 ema_update(a[0], averages, values, p);
                 return averages;
               },
           .oracle =
               [=](const HostArgs& in) {
                 std::vector<HostArray> results = inputs(in, 1, n);
                 const double step = in[0].values[0];
                 const double decay =
                     p.warmup ? std::min(p.decay, (1 + step) / (10 + step)) : p.decay;
                 for (size_t i = 0; i < n; ++i)
                   for (size_t e = 0; e < results[i].values.size(); ++e)
                     results[i].values[e] =
                         decay * results[i].values[e] + (1 - decay) * in[1 + n + i].values[e];
                 return results;
               },
           .gradient = false};
  for (int list = 0; list < 2; ++list)
    for (const Shape& shape : shapes) s.in.push_back(x(shape));
  return s;
}

OpCase ema_update_case() {
  Sample out = ema("left out", {{3, 4}, {40}}, {});
  out.in[0] = x({}).of({0}).as<DType::i64>();
  out.oracle = [](const HostArgs& in) { return inputs(in, 1, 2); };
  return {.op = "ema_update",
          .samples = {ema("two tensors", {{3, 4}, {4}}, {.decay = 0.75}),
                      ema("an image", {{2, 3, 4, 5}, {7}}, {.decay = 0.75}),
                      ema("warm-up", {{9}}, {.decay = 0.75, .warmup = true}),
                      ema("one element", {{1}}, {}), ema("nothing", {{0}}, {}),
                      ema("several threads", {{70001}, {3}}, {.decay = 0.75}), out},
          .bad = {bad<DTypeError>("ema_update: step must be one i64 number",
                                  [](Device d) {
                                    const Tensor w = zeros({3}, {.device = d});
                                    ema_update({}, {w}, {w}, {});
                                  })},
          .tolerance = kUpdate};
}

double norm_of(const HostArgs& in, size_t first) {
  double sum = 0;
  for (size_t i = first; i < in.in.size(); ++i)
    for (const double v : in[i].values) sum += v * v;
  return std::sqrt(sum);
}

Sample total_norm_of(const char* name, const std::vector<Shape>& shapes) {
  Sample s{
      .name = name,
      .in = {},
      .call = [](const Args& a) { return Tensors{total_norm(a.in)}; },
      .oracle = [](const HostArgs& in) { return std::vector<HostArray>{{{}, {norm_of(in, 0)}}}; },
      .gradient = false};
  for (const Shape& shape : shapes) s.in.push_back(x(shape));
  return s;
}

OpCase total_norm_case() {
  Sample threads = total_norm_of("several threads", {{70001}, {3}, {40000}});
  threads.dtypes = {DType::f32, DType::f16};
  Sample mixed = total_norm_of("f32 beside another", {{5}, {6}});
  mixed.in[0] = x({5}).as<DType::f32>();
  return {
      .op = "total_norm",
      .samples = {total_norm_of("two tensors", {{3, 4}, {4}}),
                  total_norm_of("an image", {{2, 3, 4, 5}, {7}}),
                  total_norm_of("one element", {{1}}), total_norm_of("an empty one", {{0}, {3}}),
                  total_norm_of("nothing", {{0}}), threads, mixed},
      .bad = {
          bad<DTypeError>("total_norm: tensor 1 must be floating, got i64",
                          [](Device d) {
                            total_norm({zeros({3}, {.device = d}), zeros({3}, {DType::i64, d})});
                          }),
          bad<Error>("total_norm: expected tensors, got none", [](Device) { total_norm({}); })}};
}

Sample by_norm(const char* name, const std::vector<Shape>& shapes, double norm, double most) {
  Sample s{
      .name = name,
      .in = {x({}).of({norm}).as<DType::f32>()},
      .call =
          [=](const Args& a) { return clip_by_norm(a[0], {a.in.begin() + 1, a.in.end()}, most); },
      .oracle =
          [=](const HostArgs& in) {
            std::vector<HostArray> results(in.in.begin() + 1, in.in.end());
            for (HostArray& r : results)
              for (double& v : r.values) v *= std::min(1.0, most / (in[0].values[0] + 1e-6));
            return results;
          },
      .gradient = false};
  for (const Shape& shape : shapes) s.in.push_back(x(shape));
  return s;
}

OpCase clip_by_norm_case() {
  return {.op = "clip_by_norm",
          .samples = {by_norm("too long", {{3, 4}, {4}}, 8, 2),
                      by_norm("short enough", {{3, 4}, {4}}, 1, 2),
                      by_norm("an image", {{2, 3, 4, 5}, {7}}, 8, 2),
                      by_norm("one element", {{1}}, 8, 2), by_norm("nothing", {{0}}, 0, 2),
                      by_norm("several threads", {{70001}, {3}}, 8, 2)},
          .bad = {bad<Error>("clip_by_norm: max_norm must not be negative, got -1",
                             [](Device d) {
                               const Tensor t = zeros({}, {.device = d});
                               clip_by_norm(t, {t}, -1);
                             }),
                  bad<DTypeError>("clip_by_norm: norm must be one f32 or f64 number, got f32[2]",
                                  [](Device d) {
                                    const Tensor t = zeros({2}, {.device = d});
                                    clip_by_norm(t, {t}, 1);
                                  })}};
}

Sample by_value(const char* name, const std::vector<Shape>& shapes) {
  Sample s{.name = name,
           .in = {},
           .call = [](const Args& a) { return clip_by_value(a.in, 0.5); },
           .oracle =
               [](const HostArgs& in) {
                 std::vector<HostArray> results = in.in;
                 for (HostArray& r : results)
                   for (double& v : r.values) v = std::clamp(v, -0.5, 0.5);
                 return results;
               },
           .gradient = false};
  for (const Shape& shape : shapes) s.in.push_back(x(shape));
  return s;
}

OpCase clip_by_value_case() {
  Sample strange = by_value("NaN and infinities", {{8}});
  strange.in[0] = x({8}).of({NAN, INFINITY, -INFINITY, 0, -0.5, 0.5, 0.25, -3});
  return {
      .op = "clip_by_value",
      .samples = {by_value("two tensors", {{3, 4}, {4}}), by_value("an image", {{2, 3, 4, 5}, {7}}),
                  by_value("one element", {{1}}), by_value("nothing", {{0}}),
                  by_value("several threads", {{70001}, {3}}), strange},
      .bad = {bad<Error>("clip_by_value: the limit must not be negative, got -1",
                         [](Device d) { clip_by_value({zeros({}, {.device = d})}, -1); })}};
}

Sample scaled(const char* name, const std::vector<Shape>& shapes) {
  Sample s{
      .name = name,
      .in = {x({}).of({0.375}).as<DType::f32>()},
      .call = [](const Args& a) { return scale_tensors(a[0], {a.in.begin() + 1, a.in.end()}); },
      .oracle =
          [](const HostArgs& in) {
            std::vector<HostArray> results(in.in.begin() + 1, in.in.end());
            for (HostArray& r : results)
              for (double& v : r.values) v *= in[0].values[0];
            return results;
          },
      .gradient = false};
  for (const Shape& shape : shapes) s.in.push_back(x(shape));
  return s;
}

OpCase scale_tensors_case() {
  return {.op = "scale_tensors",
          .samples = {scaled("two tensors", {{3, 4}, {4}}), scaled("an image", {{2, 3, 4, 5}, {7}}),
                      scaled("one element", {{1}}), scaled("nothing", {{0}}),
                      scaled("several threads", {{70001}, {3}})},
          .bad = {bad<DTypeError>("scale_tensors: factor must be one f32 or f64 number, got f32[2]",
                                  [](Device d) {
                                    const Tensor t = zeros({2}, {.device = d});
                                    scale_tensors(t, {t});
                                  })}};
}

const Room kRoom([] {
  return std::vector<OpCase>{sgd_update_case(),     adam_update_case(),     rmsprop_update_case(),
                             adagrad_update_case(), adadelta_update_case(), adamax_update_case(),
                             nadam_update_case(),   radam_update_case(),    lion_update_case(),
                             ema_update_case(),     total_norm_case(),      clip_by_norm_case(),
                             clip_by_value_case(),  scale_tensors_case()};
});

}  // namespace
}  // namespace mica::cases
