#pragma once

// Optimizers at a small problem, and what PyTorch's came to with it.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mica/mica.h"
#include "tests/unit/golden/optim.h"

namespace mica {

using Make = std::function<std::unique_ptr<optim::Optimizer>(const Tensors&)>;

template <class O, class Options>
Make maker(const Options& options) {
  return [=](const Tensors& p) { return std::make_unique<O>(p, options); };
}

// The problem of golden/optim.py.

inline Tensors parameters(DType dtype) {
  const auto values = [&](int64_t n, int seed, const Shape& shape) {
    std::vector<double> v(static_cast<size_t>(n));
    for (size_t i = 0; i < v.size(); ++i) v[i] = std::sin(1.7 * (static_cast<int>(i) + seed));
    return cast(tensor(v, shape), dtype).set_requires_grad();
  };
  return {values(6, 1, {2, 3}), values(4, 20, {4})};
}

inline Tensor loss_of(const Tensors& params) {
  Tensor total;
  for (const Tensor& p : params) {
    const Tensor stretch =
        reshape(arange(1, static_cast<double>(p.numel() + 1), 1, {.dtype = p.dtype()}), p.shape());
    const Tensor term = sum(mul(stretch, square(sub(p, 0.3))));
    total = total.defined() ? add(total, term) : term;
  }
  return total;
}

using Clip = std::function<void(const Tensors&)>;

inline void take_step(const Tensors& params, optim::Optimizer& optimizer,
                      const Clip& clip = nullptr) {
  optimizer.zero_grad();
  loss_of(params).backward();
  if (clip) clip(params);
  optimizer.step();
}

inline std::vector<double> values_of(const Tensors& tensors) {
  std::vector<double> all;
  for (const Tensor& t : tensors) {
    const std::vector<double> v = cast(t.detach(), DType::f64).to_vector<double>();
    all.insert(all.end(), v.begin(), v.end());
  }
  return all;
}

inline void expect_near(const std::vector<double>& got, const std::vector<double>& want,
                        double tolerance, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], want[i], tolerance) << what << ", number " << i;
}

inline void expect_golden(const std::string& name, const std::vector<double>& want,
                          const Make& make, const Clip& clip = nullptr) {
  for (const DType dtype : {DType::f64, DType::f32}) {
    const Tensors params = parameters(dtype);
    const auto optimizer = make(params);
    for (int i = 0; i < 10; ++i) take_step(params, *optimizer, clip);
    expect_near(values_of(params), want, dtype == DType::f64 ? 1e-12 : 1e-6, name);
  }
}

struct Case {
  const char* name;
  const std::vector<double>& golden;
  Make make;
};

inline std::vector<Case> cases() {
  using namespace golden;
  using namespace optim;
  using S = SGDOptions;
  using A = AdamOptions;
  using W = AdamWOptions;
  using R = RMSpropOptions;
  using G = AdagradOptions;
  return {
      {"SGD", kSgdPlain, maker<SGD>(S{.lr = 0.03})},
      {"SGD momentum", kSgdMomentum, maker<SGD>(S{.lr = 0.03, .momentum = 0.9})},
      {"SGD dampening", kSgdDampening,
       maker<SGD>(S{.lr = 0.03, .momentum = 0.9, .dampening = 0.4, .weight_decay = 0.1})},
      {"SGD nesterov", kSgdNesterov,
       maker<SGD>(S{.lr = 0.03, .momentum = 0.8, .weight_decay = 0.05, .nesterov = true})},
      {"SGD groups", kSgdGroups,
       [](const Tensors& p) {
         return std::make_unique<SGD>(std::vector<SGD::Group>{
             {.parameters = {p[0]}, .options = {.lr = 0.03, .momentum = 0.9}},
             {.parameters = {p[1]}, .options = {.lr = 0.005, .momentum = 0.5}}});
       }},
      {"Adam", kAdamDefaults, maker<Adam>(A{})},
      {"Adam everything", kAdamEverything,
       maker<Adam>(
           A{.lr = 0.05, .betas = {0.8, 0.95}, .eps = 1e-3, .weight_decay = 0.1, .amsgrad = true})},
      {"AdamW", kAdamWDefaults, maker<AdamW>(W{.lr = 0.05})},
      {"AdamW everything", kAdamWEverything,
       maker<AdamW>(
           W{.lr = 0.2, .betas = {0.7, 0.9}, .eps = 1e-4, .weight_decay = 0.3, .amsgrad = true})},
      {"RMSprop", kRmspropDefaults, maker<RMSprop>(R{})},
      {"RMSprop momentum", kRmspropMomentum,
       maker<RMSprop>(R{.lr = 0.02, .alpha = 0.9, .weight_decay = 0.1, .momentum = 0.7})},
      {"RMSprop centered", kRmspropCentered,
       maker<RMSprop>(R{.lr = 0.02, .alpha = 0.8, .eps = 1e-2, .centered = true})},
      {"RMSprop everything", kRmspropEverything,
       maker<RMSprop>(R{.lr = 0.01, .alpha = 0.8, .eps = 1e-2, .momentum = 0.5, .centered = true})},
      {"Adagrad", kAdagradDefaults, maker<Adagrad>(G{})},
      {"Adagrad everything", kAdagradEverything,
       maker<Adagrad>(G{.lr = 0.3,
                        .lr_decay = 0.1,
                        .weight_decay = 0.1,
                        .initial_accumulator_value = 0.5,
                        .eps = 1e-3})},
      {"Adadelta", kAdadeltaDefaults, maker<Adadelta>(AdadeltaOptions{})},
      {"Adadelta everything", kAdadeltaEverything,
       maker<Adadelta>(AdadeltaOptions{.lr = 0.5, .rho = 0.8, .eps = 1e-3, .weight_decay = 0.1})},
      {"Adamax", kAdamaxDefaults, maker<Adamax>(AdamaxOptions{})},
      {"Adamax everything", kAdamaxEverything,
       maker<Adamax>(
           AdamaxOptions{.lr = 0.05, .betas = {0.8, 0.95}, .eps = 1e-3, .weight_decay = 0.1})},
      {"NAdam", kNadamDefaults, maker<NAdam>(NAdamOptions{})},
      {"NAdam everything", kNadamEverything,
       maker<NAdam>(NAdamOptions{.lr = 0.05,
                                 .betas = {0.8, 0.95},
                                 .eps = 1e-3,
                                 .weight_decay = 0.1,
                                 .momentum_decay = 0.1})},
      {"NAdam decoupled", kNadamDecoupled,
       maker<NAdam>(NAdamOptions{.lr = 0.05, .weight_decay = 0.1, .decoupled_weight_decay = true})},
      {"RAdam", kRadamDefaults, maker<RAdam>(RAdamOptions{})},
      {"RAdam everything", kRadamEverything,
       maker<RAdam>(
           RAdamOptions{.lr = 0.05, .betas = {0.8, 0.95}, .eps = 1e-3, .weight_decay = 0.1})},
      {"RAdam decoupled", kRadamDecoupled,
       maker<RAdam>(RAdamOptions{.lr = 0.05, .weight_decay = 0.1, .decoupled_weight_decay = true})},
      {"ASGD", kAsgdDefaults, maker<ASGD>(ASGDOptions{.lr = 0.03})},
      {"ASGD everything", kAsgdEverything,
       maker<ASGD>(
           ASGDOptions{.lr = 0.03, .lambd = 0.01, .alpha = 0.5, .t0 = 3, .weight_decay = 0.1})},
      {"Rprop", kRpropDefaults, maker<Rprop>(RpropOptions{.lr = 0.03})},
      {"Rprop everything", kRpropEverything,
       maker<Rprop>(RpropOptions{.lr = 0.1, .etas = {0.3, 1.5}, .step_sizes = {1e-3, 0.2}})},
      {"Lion", kLion, maker<Lion>(LionOptions{.lr = 0.05, .weight_decay = 0.1})}};
}

}  // namespace mica
