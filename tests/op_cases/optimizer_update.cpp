#include <cmath>

#include "tests/op_cases/op_case.h"
#include "tests/op_cases/update_formulas.h"

namespace mica::cases {
namespace {

/// An update of several parameters with `states` states each. Inputs: lr, step, parameters,
/// gradients, states. Results: the parameters and states after.
Sample update(
    const char* name, const std::vector<Shape>& shapes, size_t states, const Formula& formula,
    const std::function<void(const Tensor& lr, const Tensor& step, const Tensors& params,
                             const Tensors& grads, const std::vector<Tensors>& states)>& call) {
  const size_t n = shapes.size();
  Sample s{
      .name = name,
      .in = {x({}).of({0.1}).as<DType::f32>(), x({}).of({3}).as<DType::i64>()},
      .call =
          [=](const Args& a) {
            Tensors params;
            Tensors grads;
            std::vector<Tensors> kept(states);
            for (size_t i = 0; i < n; ++i) {
              params.push_back(clone(a[2 + i]));
              grads.push_back(a[2 + n + i]);
              for (size_t k = 0; k < states; ++k) kept[k].push_back(clone(a[2 + (2 + k) * n + i]));
            }
            call(a[0], a[1], params, grads, kept);
            for (const Tensors& list : kept) params.insert(params.end(), list.begin(), list.end());
            return params;
          },
      .oracle =
          [=](const HostArgs& in) { return updated(in, inputs(in, 2 + n, n), states, formula); },
      .gradient = false};
  for (int list = 0; list < 2; ++list)
    for (const Shape& shape : shapes) s.in.push_back(x(shape));
  for (size_t k = 0; k < states; ++k)
    for (const Shape& shape : shapes) s.in.push_back(x(shape).in(1, 5));
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

template <class... More>
std::vector<Sample> with(std::vector<Sample> samples, More... more) {
  (samples.push_back(std::move(more)), ...);
  return samples;
}

Sample sgd(const char* name, const std::vector<Shape>& shapes, const SgdParams& p) {
  return update(name, shapes, p.momentum != 0 ? 1 : 0, sgd_formula(p),
                [=](const Tensor& lr, const Tensor& step, const Tensors& params,
                    const Tensors& grads, const std::vector<Tensors>& s) {
                  sgd_update(lr, params, grads, s.empty() ? Tensors() : s[0], p, step);
                });
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
  return update(name, shapes, p.amsgrad ? 3 : 2, adam_formula(p),
                [=](const Tensor& lr, const Tensor& step, const Tensors& params,
                    const Tensors& grads, const std::vector<Tensors>& s) {
                  adam_update(lr, step, params, grads, {s[0], s[1], p.amsgrad ? s[2] : Tensors()},
                              p);
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
  Sample sample = update(
      name, shapes, 1U + momentum + p.centered, rmsprop_formula(p),
      [=](const Tensor& lr, const Tensor&, const Tensors& params, const Tensors& grads,
          const std::vector<Tensors>& s) {
        rmsprop_update(lr, params, grads,
                       {s[0], momentum ? s[1] : Tensors(), p.centered ? s.back() : Tensors()}, p);
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
  return update(
      name, shapes, 1, adagrad_formula(p),
      [=](const Tensor& lr, const Tensor& step, const Tensors& params, const Tensors& grads,
          const std::vector<Tensors>& s) { adagrad_update(lr, step, params, grads, s[0], p); });
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

const Room kRoom([] {
  return std::vector<OpCase>{sgd_update_case(),     adam_update_case(), rmsprop_update_case(),
                             adagrad_update_case(), total_norm_case(),  clip_by_norm_case(),
                             clip_by_value_case()};
});

}  // namespace
}  // namespace mica::cases
