#include "tests/op_cases/op_case.h"

namespace mica::cases {
namespace {

/// Inputs: lr, parameters, gradients and, with momentum, momenta. Results: the parameters and
/// momenta after.
Sample update(const char* name, const std::vector<Shape>& shapes, const SgdParams& p) {
  const size_t n = shapes.size();
  const bool momentum = p.momentum != 0;
  Sample s{.name = name,
           .in = {x({}).of({0.1}).as<DType::f32>()},
           .call =
               [=](const Args& a) {
                 Tensors params;
                 Tensors grads;
                 Tensors momenta;
                 for (size_t i = 0; i < n; ++i) {
                   params.push_back(clone(a[1 + i]));
                   grads.push_back(a[1 + n + i]);
                   if (momentum) momenta.push_back(clone(a[1 + 2 * n + i]));
                 }
                 sgd_update(a[0], params, grads, momenta, p);
                 params.insert(params.end(), momenta.begin(), momenta.end());
                 return params;
               },
           .oracle =
               [=](const HostArgs& in) {
                 std::vector<HostArray> params;
                 std::vector<HostArray> momenta;
                 for (size_t i = 0; i < n; ++i) {
                   HostArray w = in[1 + i];
                   HostArray m = momentum ? in[1 + 2 * n + i] : w;
                   for (size_t k = 0; k < w.values.size(); ++k) {
                     const double g = in[1 + n + i].values[k] + p.weight_decay * w.values[k];
                     double step = g;
                     if (momentum) {
                       m.values[k] = p.momentum * m.values[k] + (1 - p.dampening) * g;
                       step = p.nesterov ? g + p.momentum * m.values[k] : m.values[k];
                     }
                     w.values[k] -= in[0].values[0] * step;
                   }
                   params.push_back(w);
                   if (momentum) momenta.push_back(m);
                 }
                 params.insert(params.end(), momenta.begin(), momenta.end());
                 return params;
               },
           .gradient = false};
  for (int group = 0; group < (momentum ? 3 : 2); ++group)
    for (const Shape& shape : shapes) s.in.push_back(x(shape));
  return s;
}

OpCase sgd_update_case() {
  std::vector<Shape> many;
  for (int64_t i = 1; i <= 40; ++i) many.push_back({i});
  Sample threads = update("several threads", {{70000}, {3}}, {.momentum = 0.9});
  threads.dtypes = {DType::f32};
  return {
      .op = "sgd_update",
      .samples = {update("plain", {{3, 4}, {4}}, {}),
                  update("momentum", {{3, 4}, {4}}, {.momentum = 0.9}),
                  update("nesterov", {{3, 4}, {4}}, {.momentum = 0.9, .nesterov = true}),
                  update("dampening", {{5}}, {.momentum = 0.9, .dampening = 0.5}),
                  update("weight decay", {{5}, {2, 3, 4, 5}}, {.weight_decay = 0.01}),
                  update("everything", {{7, 3}, {2, 3, 4, 5}},
                         {.momentum = 0.8, .dampening = 0.1, .weight_decay = 0.1}),
                  update("forty parameters", many, {.momentum = 0.9}),
                  update("one element", {{1}}, {}),
                  update("an empty parameter", {{0}, {3}}, {.momentum = 0.9}), threads},
      .bad = {bad<DTypeError>("sgd_update: lr must be a 0-d f32 tensor, got f64[]",
                              [](Device d) {
                                const Tensor w = zeros({3}, {.device = d});
                                sgd_update(zeros({}, {DType::f64, d}), {w}, {w}, {}, {});
                              }),
              bad<ShapeError>("sgd_update: gradient 0 must be like its parameter f32[3]",
                              [](Device d) {
                                const TensorOptions o{.device = d};
                                sgd_update(zeros({}, o), {zeros({3}, o)}, {zeros({4}, o)}, {}, {});
                              }),
              bad<Error>("sgd_update: expected 4 inputs, got 3",
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

const Room kRoom([] { return std::vector<OpCase>{sgd_update_case()}; });

}  // namespace
}  // namespace mica::cases
