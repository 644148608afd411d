#include "mica/ops/anchored/anchored.h"

#include <memory>
#include <mutex>
#include <unordered_map>

#include "mica/core/check.h"
#include "mica/core/fork.h"
#include "mica/op/choices.h"
#include "mica/op/composed.h"

namespace mica {
namespace {

/// A program's inputs: the anchor's operand or result, and inputs of the whole from `begin` on.
std::vector<TensorSpec> program_inputs(const Anchored& a, const TensorSpec& first,
                                       std::span<const TensorSpec> in, int begin, int count) {
  std::vector<TensorSpec> all = {first};
  for (int i = begin; i < begin + count; ++i)
    all.push_back(a.seen(i, in[static_cast<size_t>(i)], first.rank()));
  return all;
}

/// The anchor's operands: the first one is what `before` makes.
std::vector<TensorSpec> operands_of(const Anchored& a, std::span<const TensorSpec> in) {
  std::vector<TensorSpec> operands(in.begin(), in.begin() + a.op->inputs());
  if (!a.before.program) return operands;
  const Program& before = *a.before;
  const std::vector<TensorSpec> values =
      before.infer(program_inputs(a, in[0], in, a.op->inputs(), a.more_before()));
  const TensorSpec& made = values[static_cast<size_t>(before.inputs + before.outputs[0])];
  check<ShapeError>(made.shape == in[0].shape,
                    "anchored: the operand must have the shape of what it is made of, {}, got {}",
                    in[0].shape, made.shape);
  operands[0].dtype = made.dtype;
  return operands;
}

void infer(const AnchoredParams& params, std::span<const TensorSpec> in, OutSpecs& out) {
  const Anchored& a = *params.call;
  check(static_cast<int>(in.size()) == a.inputs(), "anchored: the call has {} inputs, got {}",
        a.inputs(), in.size());
  // As dispatch does for a call of the anchor.
  for (int i = 0; i < a.inputs(); ++i) {
    const bool own = i < a.op->inputs();
    check(in[static_cast<size_t>(i)].defined || (own && a.op->input(i).optional),
          "{}: input {} ({}) is undefined", own ? a.op->name : out.op(), i,
          own ? a.op->input(i).name : "more");
  }
  const std::vector<TensorSpec> operands = operands_of(a, in);
  check<DTypeError>(a.op->dtypes.contains(operands[0].dtype), "{}: expected {}, got {}", a.op->name,
                    a.op->dtypes.words(), operands[0].dtype);
  OutSpecs own(a.op->name);
  a.op->infer(*a.op, a.params.ref().data, operands, own);
  const auto add = [&](const TensorSpec& spec, DType dtype) {
    out.add(spec.shape, dtype);
    out[out.size() - 1].strides = spec.strides;
  };
  if (a.after.program) {
    const Program& after = *a.after;
    TensorSpec result = own[0];
    result.device = in[0].device;
    result.defined = true;
    const std::vector<TensorSpec> values =
        after.infer(program_inputs(a, result, in, a.input_after(1), a.more_after()));
    for (const int o : after.outputs) {
      const TensorSpec& made = values[static_cast<size_t>(after.inputs + o)];
      check<ShapeError>(made.shape == result.shape,
                        "anchored: results must have the anchor's shape {}, got {}", result.shape,
                        made.shape);
      add(own[0], made.dtype);
    }
    if (a.keeps_result) add(own[0], own[0].dtype);
  } else {
    add(own[0], own[0].dtype);
  }
  for (int i = 1; i < own.size(); ++i) add(own[i], own[i].dtype);
  if (a.keeps_operand) out.add(in[0].shape, operands[0].dtype);
}

bool mutates(const AnchoredParams& params, int input, int) {
  const Anchored& a = *params.call;
  return input < a.op->inputs() && a.op->writes(a.params.ref().data, input, a.op->inputs());
}

double flops(const AnchoredParams& params, const Specs& specs) {
  const Anchored& a = *params.call;
  if (!a.op->flops) return 0;
  return a.op->flops(*a.op, a.params.ref().data,
                     {specs.in.first(static_cast<size_t>(a.op->inputs())), specs.out});
}

/// Adds a program's calls; gives the values of its results, which are put in `results` as far as
/// these are given.
std::vector<int> add_program(ComposedState& state, const Program& program, std::vector<int> values,
                             const std::vector<int>& results) {
  std::vector<TensorSpec> in;
  for (const int v : values) in.push_back(state.spec(v));
  const std::vector<TensorSpec> specs = program.infer(in);
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& one = program.instructions[i];
    const int output = program.output_of(static_cast<int>(i));
    const bool given = output >= 0 && static_cast<size_t>(output) < results.size();
    const TensorSpec& spec = specs[values.size()];
    const int to = given ? results[static_cast<size_t>(output)]
                         : state.temporary(spec.shape, spec.dtype, state.spec(values[0]));
    std::vector<int> operands;
    for (const int v : one.operands) operands.push_back(values[static_cast<size_t>(v)]);
    state.add(*one.op, one.params, operands, {to});
    values.push_back(to);
  }
  std::vector<int> made;
  for (const int o : program.outputs)
    made.push_back(values[static_cast<size_t>(program.inputs + o)]);
  return made;
}

std::shared_ptr<ComposedState> prepare(const AnchoredParams& params, const Specs& s) {
  const Anchored& a = *params.call;
  auto state = std::make_shared<ComposedState>(s);
  const int count = a.op->inputs();
  const int outputs = static_cast<int>(s.out.size());
  const auto seen = [&](int i) {
    const TensorSpec& spec = s.in[static_cast<size_t>(i)];
    const TensorSpec as = a.seen(i, spec, s.out[0].rank());
    return as == spec ? state->in(i) : state->view(state->in(i), as);
  };
  std::vector<int> operands;
  for (int i = 0; i < count; ++i) operands.push_back(state->in(i));
  if (a.before.program) {
    std::vector<int> values = {state->in(0)};
    for (int k = 0; k < a.more_before(); ++k) values.push_back(seen(count + k));
    operands[0] =
        add_program(*state, *a.before, values,
                    a.keeps_operand ? std::vector{state->out(outputs - 1)} : std::vector<int>())[0];
  }
  std::vector<int> results;
  const int programmed = a.after.program ? static_cast<int>(a.after->outputs.size()) : 1;
  if (!a.after.program) {
    results = {state->out(0)};
  } else if (a.keeps_result) {
    results = {state->out(programmed)};
  } else {
    // As the anchor gives it: of the first result's shape and order, in its operands' dtype.
    OutSpecs own(a.op->name);
    std::vector<TensorSpec> specs;
    for (const int v : operands) specs.push_back(state->spec(v));
    a.op->infer(*a.op, a.params.ref().data, specs, own);
    results = {own[0].dtype == s.out[0].dtype && a.after->instructions.size() == 1
                   ? state->out(0)
                   : state->temporary(own[0].shape, own[0].dtype, s.out[0])};
  }
  for (int i = a.results(); i < outputs - (a.keeps_operand ? 1 : 0); ++i)
    results.push_back(state->out(i));
  state->add(*a.op, a.params, operands, results);
  if (a.after.program) {
    std::vector<int> values = {results[0]};
    for (int k = 1; k <= a.more_after(); ++k) values.push_back(seen(a.input_after(k)));
    std::vector<int> made;
    for (int k = 0; k < programmed; ++k) made.push_back(state->out(k));
    add_program(*state, *a.after, values, made);
  }
  return state;
}

void run(const AnchoredParams&, const ComposedState& state, const Call& call) { state.run(call); }

}  // namespace

TensorSpec Anchored::seen(int input, const TensorSpec& spec, int rank) const {
  if ((by_channel >> input & 1) == 0) return spec;
  TensorSpec s = spec;
  for (int d = 2; d < rank; ++d) {
    s.shape.push_back(1);
    s.strides.push_back(1);
  }
  return s;
}

uint64_t Anchored::hash() const {
  uint64_t h =
      hash_mix(reinterpret_cast<uintptr_t>(op), params.ref().info->hash(params.ref().data));
  h = hash_mix(h, reinterpret_cast<uintptr_t>(before.program));
  h = hash_mix(h, reinterpret_cast<uintptr_t>(after.program));
  h = hash_mix(h, by_channel);
  return hash_mix(h, (keeps_operand ? 1U : 0U) + (keeps_result ? 2U : 0U));
}

std::string Anchored::print() const {
  std::string s;
  if (before.program) s += before->print() + (keeps_operand ? ", which is kept, then " : ", then ");
  s += fmt::format("{} {}", op->name, params.print());
  if (after.program) s += (keeps_result ? ", which is kept, then " : ", then ") + after->print();
  return s;
}

std::string print_field(AnchoredRef v) { return v.anchored ? v->print() : "none"; }

bool is_finite_field(AnchoredRef v) {
  return v->params.ref().info->finite(v->params.ref().data) &&
         (!v->before.program || is_finite_field(v->before)) &&
         (!v->after.program || is_finite_field(v->after));
}

AnchoredRef intern(Anchored anchored) {
  check(anchored.op != nullptr && !anchored.op->more_inputs && !anchored.op->more_outputs,
        "anchored: there must be an anchor with as many operands and results as it names");
  check(!anchored.before.program || anchored.before->outputs.size() == 1,
        "anchored: a program before the anchor must have one result");
  static auto& mutex = *new Mutex;
  static auto* const known = new std::unordered_multimap<uint64_t, std::unique_ptr<const Anchored>>;
  const uint64_t hash = anchored.hash();
  const std::lock_guard lock(mutex);
  for (auto [it, end] = known->equal_range(hash); it != end; ++it)
    if (*it->second == anchored) return {it->second.get()};
  return {
      known->emplace(hash, std::make_unique<const Anchored>(std::move(anchored)))->second.get()};
}

Kernel anchored_composed_kernel() {
  Kernel k = timed_kernel<supports_all<AnchoredParams>, prepare, run>("composed");
  k.takes_complex = true;  // as far as the ops that it is made of do
  return k;
}

const OpDef& anchored_op() {
  static OpDef def =
      Op<AnchoredParams>("anchored")
          .inputs({"x", "more...?"})
          .outputs({"y..."})
          .flops<flops>()
          .dtypes(kAllDTypes)  // infer asks the anchor
          .infer<infer>()
          .mutates<mutates>()
          .no_gradient("it exists only inside compiled functions, after the pass back")
          .cpu({anchored_composed_kernel()})
          .build();
  return def;
}

}  // namespace mica
