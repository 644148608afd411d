#include "mica/ops/optimizer_update/optimizer_update.h"

#include <cmath>

#include "mica/ops/copy/copy.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/optimizer_update/functors.h"
#include "mica/ops/optimizer_update/multi_tensor.h"

namespace mica {
namespace {

/// Calls the op with its lists. A gradient that lies otherwise than its parameter is copied.
template <class O>
void call(const OpDef& op, typename O::Params params, const Tensor& scalar, const Tensor& step,
          const Tensors& targets, const Tensors& grads,
          std::initializer_list<const Tensors*> states) {
  check(grads.size() == targets.size(), "{}: expected {} gradients, got {}", O::kName,
        targets.size(), grads.size());
  if (targets.empty()) return;
  params.count = static_cast<int64_t>(targets.size());
  Tensors inputs = {scalar, step};
  inputs.reserve(2 + (2 + states.size()) * targets.size());
  inputs.insert(inputs.end(), targets.begin(), targets.end());
  for (size_t i = 0; i < grads.size(); ++i)
    inputs.push_back(contiguous(grads[i], targets[i].spec().is_channels_last()
                                              ? MemoryFormat::channels_last
                                              : MemoryFormat::contiguous));
  for (const Tensors* list : states) inputs.insert(inputs.end(), list->begin(), list->end());
  dispatch(op, params, inputs);
}

/// Tensors to write results of clipping to. While a graph is captured memory is an op's result.
Tensors places_for(const Tensors& tensors) {
  Tensors places;
  for (const Tensor& t : tensors) {
    if (!current_recorder()) {
      places.push_back(empty_like(t));
      continue;
    }
    const Tensor zero = zeros_like(t);
    places.push_back(t.spec().is_channels_last() ? contiguous(zero, MemoryFormat::channels_last)
                                                 : zero);
  }
  return places;
}

void check_defined(const char* op, const Tensors& tensors) {
  for (size_t i = 0; i < tensors.size(); ++i)
    check(tensors[i].defined(), "{}: tensor {} is undefined", op, i);
}

}  // namespace

const OpDef& sgd_update_op() {
  static OpDef def = update::define<update::Sgd>();
  return def;
}
const OpDef& adam_update_op() {
  static OpDef def = update::define<update::Adam>();
  return def;
}
const OpDef& rmsprop_update_op() {
  static OpDef def = update::define<update::Rmsprop>();
  return def;
}
const OpDef& adagrad_update_op() {
  static OpDef def = update::define<update::Adagrad>();
  return def;
}
const OpDef& adadelta_update_op() {
  static OpDef def = update::define<update::Adadelta>();
  return def;
}
const OpDef& adamax_update_op() {
  static OpDef def = update::define<update::Adamax>();
  return def;
}
const OpDef& nadam_update_op() {
  static OpDef def = update::define<update::Nadam>();
  return def;
}
const OpDef& radam_update_op() {
  static OpDef def = update::define<update::Radam>();
  return def;
}
const OpDef& lion_update_op() {
  static OpDef def = update::define<update::Lion>();
  return def;
}
const OpDef& ema_update_op() {
  static OpDef def = update::define<update::Ema>();
  return def;
}
const OpDef& clip_by_norm_op() {
  static OpDef def = update::define<update::ClipNorm>();
  return def;
}
const OpDef& clip_by_value_op() {
  static OpDef def = update::define<update::ClipValue>();
  return def;
}
const OpDef& scale_tensors_op() {
  static OpDef def = update::define<update::Scale>();
  return def;
}

void sgd_update(const Tensor& lr, const Tensors& params, const Tensors& grads,
                const Tensors& momenta, SgdParams options, const Tensor& step,
                const Tensors& masters) {
  static const Tensors none;
  call<update::Sgd>(sgd_update_op(), options, lr, step, params, grads,
                    {options.momentum != 0 ? &momenta : &none, &masters});
}

void adam_update(const Tensor& lr, const Tensor& step, const Tensors& params, const Tensors& grads,
                 const AdamStates& states, AdamParams options, const Tensors& masters) {
  call<update::Adam>(adam_update_op(), options, lr, step, params, grads,
                     {&states.exp_avg, &states.exp_avg_sq, &states.max_exp_avg_sq, &masters});
}

void rmsprop_update(const Tensor& lr, const Tensors& params, const Tensors& grads,
                    const RmspropStates& states, RmspropParams options, const Tensor& step,
                    const Tensors& masters) {
  call<update::Rmsprop>(rmsprop_update_op(), options, lr, step, params, grads,
                        {&states.square_avg, &states.momentum, &states.grad_avg, &masters});
}

void adagrad_update(const Tensor& lr, const Tensor& step, const Tensors& params,
                    const Tensors& grads, const Tensors& sums, AdagradParams options,
                    const Tensors& masters) {
  call<update::Adagrad>(adagrad_update_op(), options, lr, step, params, grads, {&sums, &masters});
}

void adadelta_update(const Tensor& lr, const Tensors& params, const Tensors& grads,
                     const Tensors& square_avg, const Tensors& acc_delta, AdadeltaParams options,
                     const Tensor& step, const Tensors& masters) {
  call<update::Adadelta>(adadelta_update_op(), options, lr, step, params, grads,
                         {&square_avg, &acc_delta, &masters});
}

void adamax_update(const Tensor& lr, const Tensor& step, const Tensors& params,
                   const Tensors& grads, const Tensors& exp_avg, const Tensors& exp_inf,
                   AdamaxParams options, const Tensors& masters) {
  call<update::Adamax>(adamax_update_op(), options, lr, step, params, grads,
                       {&exp_avg, &exp_inf, &masters});
}

void nadam_update(const Tensor& numbers, const Tensor& step, const Tensors& params,
                  const Tensors& grads, const Tensors& exp_avg, const Tensors& exp_avg_sq,
                  NadamParams options, const Tensors& masters) {
  call<update::Nadam>(nadam_update_op(), options, numbers, step, params, grads,
                      {&exp_avg, &exp_avg_sq, &masters});
}

void radam_update(const Tensor& lr, const Tensor& step, const Tensors& params, const Tensors& grads,
                  const Tensors& exp_avg, const Tensors& exp_avg_sq, RadamParams options,
                  const Tensors& masters) {
  call<update::Radam>(radam_update_op(), options, lr, step, params, grads,
                      {&exp_avg, &exp_avg_sq, &masters});
}

void lion_update(const Tensor& lr, const Tensors& params, const Tensors& grads,
                 const Tensors& exp_avg, LionParams options, const Tensor& step,
                 const Tensors& masters) {
  call<update::Lion>(lion_update_op(), options, lr, step, params, grads, {&exp_avg, &masters});
}

void ema_update(const Tensor& step, const Tensors& averages, const Tensors& values,
                EmaParams options) {
  call<update::Ema>(ema_update_op(), options, {}, step, averages, values, {});
}

Tensors clip_by_norm(const Tensor& norm, const Tensors& tensors, double max_norm) {
  check(max_norm >= 0, "clip_by_norm: max_norm must not be negative, got {}", max_norm);
  check_defined("clip_by_norm", tensors);
  const Tensors results = places_for(tensors);
  call<update::ClipNorm>(clip_by_norm_op(), {.max_norm = max_norm}, norm, {}, results, tensors, {});
  return results;
}

Tensors clip_by_value(const Tensors& tensors, double limit) {
  check(limit >= 0, "clip_by_value: the limit must not be negative, got {}", limit);
  check_defined("clip_by_value", tensors);
  const Tensors results = places_for(tensors);
  call<update::ClipValue>(clip_by_value_op(), {.limit = limit}, {}, {}, results, tensors, {});
  return results;
}

Tensors scale_tensors(const Tensor& factor, const Tensors& tensors) {
  check_defined("scale_tensors", tensors);
  const Tensors results = places_for(tensors);
  call<update::Scale>(scale_tensors_op(), {}, factor, {}, results, tensors, {});
  return results;
}

}  // namespace mica
