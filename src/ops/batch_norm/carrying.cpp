// Which programs the kernels of batch norm and its gradient compute in their passes.
#include "mica/op/pattern.h"
#include "mica/ops/batch_norm/statistics.h"
#include "mica/ops/copy/copy.h"

namespace mica {

const OpDef& batch_norm_op();
const OpDef& batch_norm_grad_op();
const OpDef& sub_op();
const OpDef& mul_op();
const OpDef& add_op();
const OpDef& copy_op();
const OpDef& relu_op();
const OpDef& relu_grad_op();

namespace {

bool like(const TensorSpec& a, const TensorSpec& b) {
  return a.shape == b.shape && a.dtype == b.dtype;
}

/// relu's result is computed again from the batch norm's input, which its gradient reads anyway.
std::optional<MatchedCall> recompute(const Match& match) {
  const MatchedCall& norm = match.calls[3];
  const MatchedCall& mask = match.calls[1];
  const MatchedCall& grad = match.calls[0];
  const int dz = mask.out[0];
  const TensorSpec& x = match.spec(grad.in[1]);
  if (!match.goes(dz) || !match.spec(mask.in[0]).lies_like(match.spec(dz)) ||
      match.spec(mask.in[0]).dtype != x.dtype)
    return std::nullopt;
  const int weight = norm.in[1];
  const int bias = norm.in[2];
  const Anchored whole =
      batch_norm_grad_of_relu(grad.params.as<BatchNormParams>(), x.dtype, weight >= 0, bias >= 0);
  MatchedCall joined{&anchored_op(), AnyParams(ParamsRef::of(AnchoredParams{intern(whole)})),
                     grad.in, grad.out};
  joined.in[0] = mask.in[0];
  joined.in.insert(joined.in.end(), {grad.in[1], grad.in[3], grad.in[4]});
  for (const int more : {weight, bias})
    if (more >= 0) joined.in.push_back(more);
  return joined;
}

}  // namespace

Patterns batch_norm_patterns() {
  enum { kDz, kX, kWeight, kMean, kInvstd, kDy, kY, kNormal };
  return {{.calls = {{"batch_norm_grad", {kDz, kX, kWeight, kMean, kInvstd}},
                     {"relu_grad", {kDy, kY}, {kDz}},
                     {"relu", {kNormal}, {kY}, true},
                     {"batch_norm", {kX, kWeight}, {kNormal, kMean, kInvstd}, true}},
           .join = recompute}};
}

std::optional<BatchNormEnd> batch_norm_end(const AnchoredParams& params, const Specs& s) {
  const auto known = known_after(params, batch_norm_op());
  if (!known || known->saved >= 0 || params.call->keeps_result) return std::nullopt;
  const bool relu = known->activation == Activation::relu;
  if (!relu && known->activation != Activation::none) return std::nullopt;
  if (known->added >= 0 && !like(s.in[static_cast<size_t>(known->added)], s.in[0]))
    return std::nullopt;
  return BatchNormEnd{known->added, relu};
}

std::optional<BatchNormPass> batch_norm_pass(const AnchoredParams& params, const Specs& s) {
  const Anchored& a = *params.call;
  if (a.op != &batch_norm_op() || a.before.program || !a.after.program) return std::nullopt;
  const Program& after = *a.after;
  const int rank = s.in[0].rank();
  BatchNormPass pass;
  const auto read = [&](int from, const TensorSpec& spec) {
    pass.from.push_back(from);
    pass.in.push_back(spec);
    return static_cast<int>(pass.in.size()) - 1;
  };
  const auto by_channel = [&](TensorSpec spec) {
    for (int d = 2; d < rank; ++d) {
      spec.shape.push_back(1);
      spec.strides.push_back(1);
    }
    return spec;
  };
  const auto first = static_cast<size_t>(a.results());
  const int x = read(0, s.in[0]);
  const int mean = read(-1, by_channel(s.out[first]));
  const int invstd = read(-2, by_channel(s.out[first + 1]));
  const int weight = s.in[1].defined ? read(1, by_channel(s.in[1])) : -1;
  const int bias = s.in[2].defined ? read(2, by_channel(s.in[2])) : -1;
  const auto more = static_cast<int>(pass.in.size());
  for (int k = 1; k <= a.more_after(); ++k) {
    const int input = a.input_after(k);
    read(input, a.seen(input, s.in[static_cast<size_t>(input)], rank));
  }
  Program& p = pass.program;
  p.inputs = static_cast<int>(pass.in.size());
  const auto add = [&](const OpDef& op, std::vector<int> operands,
                       const AnyParams& own = AnyParams(params_info<NoParams>())) {
    p.instructions.push_back({&op, own, std::move(operands)});
    return p.inputs + static_cast<int>(p.instructions.size()) - 1;
  };
  const DType dtype = s.in[0].dtype;
  const bool narrow = dtype != batch_norm_statistics_dtype(dtype);
  const auto cast = [&](int value, DType to) {
    return add(copy_op(), {value}, AnyParams(ParamsRef::of(CopyParams{.dtype = to})));
  };
  const int wide = narrow ? cast(x, batch_norm_statistics_dtype(dtype)) : x;
  int y = add(mul_op(), {add(sub_op(), {wide, mean}), invstd});
  if (weight >= 0) y = add(mul_op(), {y, weight});
  if (bias >= 0) y = add(add_op(), {y, bias});
  if (narrow) y = cast(y, dtype);
  const auto before = static_cast<int>(p.instructions.size());
  for (const Instruction& one : after.instructions) {
    Instruction own = one;
    for (int& operand : own.operands)
      operand = operand == 0             ? y
                : operand < after.inputs ? more + operand - 1
                                         : p.inputs + before + operand - after.inputs;
    p.instructions.push_back(std::move(own));
  }
  for (const int o : after.outputs) p.outputs.push_back(before + o);
  if (a.keeps_result) p.outputs.push_back(y - p.inputs);
  if (p.inputs > Program::kMostInputs ||
      p.instructions.size() > static_cast<size_t>(Program::kMostInstructions) ||
      p.outputs.size() > static_cast<size_t>(Program::kMostOutputs))
    return std::nullopt;
  return pass;
}

Anchored batch_norm_grad_of_relu(const BatchNormParams& params, DType dtype, bool weight,
                                 bool bias) {
  // Inputs: dy; x, mean, 1/std, and weight and bias where there are any.
  Program p;
  p.inputs = 4 + (weight ? 1 : 0) + (bias ? 1 : 0);
  const auto add = [&](const OpDef& op, std::vector<int> operands,
                       const AnyParams& own = AnyParams(params_info<NoParams>())) {
    p.instructions.push_back({&op, own, std::move(operands)});
    return p.inputs + static_cast<int>(p.instructions.size()) - 1;
  };
  const DType statistics = batch_norm_statistics_dtype(dtype);
  const auto cast_to = [&](DType to, int value) {
    return add(copy_op(), {value}, AnyParams(ParamsRef::of(CopyParams{.dtype = to})));
  };
  int y = dtype == statistics ? 1 : cast_to(statistics, 1);
  y = add(sub_op(), {y, 2});
  y = add(mul_op(), {y, 3});
  if (weight) y = add(mul_op(), {y, 4});
  if (bias) y = add(add_op(), {y, p.inputs - 1});
  if (dtype != statistics) y = cast_to(dtype, y);
  y = add(relu_op(), {y});
  add(relu_grad_op(), {0, y});
  p.outputs = {static_cast<int>(p.instructions.size()) - 1};
  Anchored whole{.op = &batch_norm_grad_op(), .params = AnyParams(ParamsRef::of(params))};
  const int inputs = batch_norm_grad_op().inputs();
  for (int i = inputs + 1; i < inputs + p.inputs - 1; ++i) whole.by_channel |= 1U << i;
  whole.before = intern(std::move(p));
  return whole;
}

std::optional<BatchNormMask> batch_norm_mask(const AnchoredParams& params, const Specs& s) {
  const Anchored& a = *params.call;
  if (a.op != &batch_norm_grad_op() || a.after.program || !a.before.program) return std::nullopt;
  const Program& p = *a.before;
  const int first = a.op->inputs();
  if (a.keeps_operand) {
    const auto calls = [&](size_t i, const OpDef& op, std::vector<int> operands) {
      return p.instructions[i].op == &op && p.instructions[i].operands == operands;
    };
    const auto is_like = [&](int i) { return like(s.in[static_cast<size_t>(i)], s.in[0]); };
    if (p.instructions.size() == 1 && calls(0, relu_grad_op(), {0, 1}) && is_like(first))
      return BatchNormMask{.y = first};
    if (p.instructions.size() == 2 && calls(0, add_op(), {0, 1}) &&
        calls(1, relu_grad_op(), {3, 2}) && is_like(first) && is_like(first + 1))
      return BatchNormMask{.y = first + 1, .added = first};
    return std::nullopt;
  }
  const bool weight = s.in[2].defined;
  for (const bool bias : {false, true})
    if (a == batch_norm_grad_of_relu(batch_norm_params(params), s.in[0].dtype, weight, bias))
      return BatchNormMask{.bias = bias ? first + a.more_before() - 1 : -1, .recomputed = true};
  return std::nullopt;
}

}  // namespace mica
