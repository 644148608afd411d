#include "mica/optim/optim.h"

#include <gtest/gtest.h>

#include "tests/unit/expect_error.h"
#include "tests/unit/optim_problem.h"

namespace mica {
namespace {

TEST(Optim, SaveLoadAndContinueIsBitEqual) {
  const auto copy_of = [](const StateDict& state) {
    StateDict copies;
    for (const auto& [key, value] : state) copies[key] = clone(value);
    return copies;
  };
  for (const Case& c : cases()) {
    const Tensors params = parameters(DType::f32);
    const auto optimizer = c.make(params);
    optimizer->set_schedule(optim::one_cycle({.steps = 20}));
    optimizer->set_lr(0.07);
    for (int i = 0; i < 7; ++i) take_step(params, *optimizer);

    Tensors resumed;
    for (const Tensor& p : params) resumed.push_back(clone(p.detach()).set_requires_grad());
    const auto other = c.make(resumed);
    other->load_state_dict(copy_of(optimizer->state_dict()));
    EXPECT_EQ(other->lr(), 0.07) << c.name;
    EXPECT_EQ(other->steps(), 7) << c.name;
    EXPECT_EQ(other->schedule(), optimizer->schedule()) << c.name;
    for (int i = 0; i < 7; ++i) {
      take_step(params, *optimizer);
      take_step(resumed, *other);
    }
    EXPECT_EQ(values_of(params), values_of(resumed)) << c.name;
  }
}

TEST(Optim, StateHasStableNames) {
  const auto keys = [](const optim::Optimizer& o) {
    std::string all;
    for (const auto& [key, value] : o.state_dict()) all += key + " ";
    return all;
  };
  const Tensors p = parameters(DType::f32);
  EXPECT_EQ(keys(optim::SGD(p)), "step lr schedule ");
  EXPECT_EQ(keys(optim::SGD(
                {{.parameters = {p[0]}}, {.parameters = {p[1]}, .options = {.momentum = 0.9}}})),
            "step lr schedule 1.momentum ");
  EXPECT_EQ(keys(optim::Adam({p[0]}, {.amsgrad = true})),
            "step lr schedule 0.exp_avg 0.exp_avg_sq 0.max_exp_avg_sq ");
  EXPECT_EQ(keys(optim::RMSprop({p[0]}, {.momentum = 0.9, .centered = true})),
            "step lr schedule 0.square_avg 0.momentum 0.grad_avg ");
  EXPECT_EQ(keys(optim::Adagrad(p)), "step lr schedule 0.sum 1.sum ");
}

TEST(Optim, RefusesAStateOfAnother) {
  const Tensors p = parameters(DType::f32);
  optim::SGD optimizer(p, {.momentum = 0.9});
  const StateDict good = optimizer.state_dict();
  const auto expect = [&](const std::string& key, const Tensor& value, const std::string& text) {
    StateDict state = good;
    state[key] = value;
    try {
      optimizer.load_state_dict(state);
      ADD_FAILURE() << "nothing was thrown; expected '" << text << "'";
    } catch (const Error& e) {
      EXPECT_EQ(std::string(e.what()), text);
    }
  };
  expect("0.momentum", zeros({3, 2}),
         "optim::SGD: load_state_dict: '0.momentum' must have shape [2, 3], got [3, 2]");
  expect("1.momentum", zeros({4}, {.dtype = DType::f64}),
         "optim::SGD: load_state_dict: '1.momentum' must be f32, got f64");
  expect("2.momentum", zeros({4}), "optim::SGD: load_state_dict: unexpected '2.momentum'");
  expect("lr", {}, "optim::SGD: load_state_dict: 'lr' is undefined");
  expect("lr", full({1}, NAN, {.dtype = DType::f64}), "optim::SGD: lr must be finite, got nan");
  StateDict less = good;
  less.erase("0.momentum");
  expect_error<Error>("'0.momentum' f32[2, 3] is missing",
                      [&] { optimizer.load_state_dict(less); });
}

TEST(Optim, RefusesBadOptions) {
  using namespace optim;
  const Tensors p = parameters(DType::f32);
  const auto refuse = [](const std::string& text, const auto& make) {
    expect_error<Error>(text, make);
  };
  refuse("optim::SGD: lr must not be negative, got -1", [&] { SGD(p, {.lr = -1}); });
  refuse("optim::SGD: lr must be finite, got nan", [&] { SGD(p, {.lr = NAN}); });
  refuse("optim::SGD: momentum must not be negative, got -0.9",
         [&] { SGD(p, {.momentum = -0.9}); });
  refuse("optim::SGD: weight_decay must not be negative, got -1",
         [&] { SGD(p, {.weight_decay = -1}); });
  refuse("optim::SGD: nesterov needs momentum and no dampening, got 0 and 0",
         [&] { SGD(p, {.nesterov = true}); });
  refuse("optim::SGD: expected parameters, got none", [] { SGD(std::vector<SGD::Group>{}); });
  refuse("optim::SGD: expected parameters in group 1, got none",
         [&] { SGD({{.parameters = p}, {.parameters = {}}}); });
  refuse("optim::SGD: a parameter (f32[4]) is given twice",
         [&] { SGD({{.parameters = p}, {.parameters = {p[1]}}}); });
  refuse("optim::SGD: expected leaves, got a result of another op (f32[4])",
         [&] { SGD({mul(p[1], 2)}); });
  refuse("optim::SGD: a parameter is undefined", [] { SGD(Tensors{Tensor()}); });
  expect_error<DTypeError>("optim::SGD: parameters must be floating, got i64[2]",
                           [] { SGD({zeros({2}, {.dtype = DType::i64})}); });
  refuse("optim::Adam: betas must be in [0, 1), got 0.9 and 1",
         [&] { Adam(p, {.betas = {0.9, 1.0}}); });
  refuse("optim::Adam: eps must not be negative, got -1e-08", [&] { Adam(p, {.eps = -1e-8}); });
  refuse("optim::AdamW: betas must be in [0, 1), got -0.1 and 0.999",
         [&] { AdamW(p, {.betas = {-0.1, 0.999}}); });
  refuse("optim::AdamW: weight_decay must not be negative, got -2",
         [&] { AdamW(p, {.weight_decay = -2}); });
  refuse("optim::RMSprop: alpha must be in [0, 1], got 1.5", [&] { RMSprop(p, {.alpha = 1.5}); });
  refuse("optim::RMSprop: momentum must not be negative, got -1",
         [&] { RMSprop(p, {.momentum = -1}); });
  refuse("optim::Adagrad: lr_decay must not be negative, got -1",
         [&] { Adagrad(p, {.lr_decay = -1}); });
  refuse("optim::Adagrad: initial_accumulator_value must not be negative, got -1",
         [&] { Adagrad(p, {.initial_accumulator_value = -1}); });
  SGD sgd(p);
  refuse("optim::SGD: lr must be finite, got nan", [&] { sgd.set_lr(NAN); });
  sgd.set_lr(-3);  // as a program's own schedule may
  EXPECT_EQ(sgd.lr(), -3);
  expect_error<IndexError>("optim::SGD: expected a group below 1, got 1",
                           [&] { sgd.set_lr(1, 0.1); });
}

}  // namespace
}  // namespace mica
