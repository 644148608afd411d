#include "mica/ops/fused/program.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "mica/core/check.h"
#include "mica/core/fork.h"

namespace mica {
namespace {

void check_program(const Program& p) {
  const int count = static_cast<int>(p.instructions.size());
  check(p.inputs > 0 && p.inputs <= Program::kMostInputs,
        "fused: a program has 1 to {} inputs, not {}", Program::kMostInputs, p.inputs);
  check(count > 0 && count <= Program::kMostInstructions,
        "fused: a program has 1 to {} instructions, not {}", Program::kMostInstructions, count);
  check(!p.outputs.empty() && p.outputs.size() <= Program::kMostOutputs,
        "fused: a program has 1 to {} outputs, not {}", Program::kMostOutputs, p.outputs.size());
  for (int i = 0; i < count; ++i) {
    const Instruction& one = p.instructions[static_cast<size_t>(i)];
    check(one.op->elementwise > 0 && one.op->elementwise <= Program::kMostOperands,
          "fused: '{}' is not computed element by element", one.op->name);
    check(static_cast<int>(one.operands.size()) == one.op->elementwise,
          "fused: '{}' has {} operands, not {}", one.op->name, one.op->elementwise,
          one.operands.size());
    for (const int v : one.operands)
      check(v >= 0 && v < p.inputs + i, "fused: instruction {} reads %{}, which is not known there",
            i, v);
  }
  for (size_t k = 0; k < p.outputs.size(); ++k) {
    check(p.outputs[k] >= 0 && p.outputs[k] < count, "fused: output {} is of no instruction", k);
    check(p.output_of(p.outputs[k]) == static_cast<int>(k), "fused: a result comes out twice");
  }
}

}  // namespace

uint64_t Program::hash() const {
  uint64_t h = hash_mix(static_cast<uint64_t>(inputs), instructions.size());
  for (const Instruction& i : instructions) {
    h = hash_mix(h, reinterpret_cast<uintptr_t>(i.op));
    h = hash_mix(h, i.params.ref().info->hash(i.params.ref().data));
    for (const int v : i.operands) h = hash_mix(h, static_cast<uint64_t>(v));
  }
  for (const int o : outputs) h = hash_mix(h, static_cast<uint64_t>(o));
  return h;
}

std::string Program::print() const {
  std::string s;
  int value = inputs;
  for (const Instruction& i : instructions) {
    std::string operands;
    for (const int v : i.operands)
      operands += fmt::format("{}%{}", operands.empty() ? "" : ", ", v);
    s += fmt::format("%{} = {}({}) {}; ", value++, i.op->name, operands, i.params.print());
  }
  s += "return";
  for (const int o : outputs) s += fmt::format(" %{}", inputs + o);
  return s;
}

std::vector<TensorSpec> Program::infer(std::span<const TensorSpec> in) const {
  check(static_cast<int>(in.size()) == inputs, "fused: the program has {} inputs, got {}", inputs,
        in.size());
  std::vector<TensorSpec> values(in.begin(), in.end());
  for (const Instruction& i : instructions) {
    std::vector<TensorSpec> operands;
    for (const int v : i.operands) operands.push_back(values[static_cast<size_t>(v)]);
    check<DTypeError>(i.op->dtypes.contains(operands[0].dtype), "{}: expected {}, got {}",
                      i.op->name, i.op->dtypes.words(), operands[0].dtype);
    OutSpecs out(i.op->name);
    i.op->infer(*i.op, i.params.ref().data, operands, out);
    TensorSpec& result = values.emplace_back();
    result.shape = out[0].shape;
    result.dtype = out[0].dtype;
    result.device = in[0].device;
    result.defined = true;
    const Shape& first = values[static_cast<size_t>(inputs)].shape;
    check<ShapeError>(result.shape == first, "fused: results must have one shape, got {} and {}",
                      first, result.shape);
  }
  return values;
}

std::vector<int> Program::slots(const std::vector<bool>& direct) const {
  const size_t count = instructions.size();
  std::vector<size_t> last(count);
  for (size_t i = 0; i < count; ++i) {
    last[i] = i;
    for (const int v : instructions[i].operands)
      if (v >= inputs) last[static_cast<size_t>(v - inputs)] = i;
  }
  for (const int o : outputs) last[static_cast<size_t>(o)] = count;
  std::vector<int> slot(count, -1);
  std::vector<size_t> busy_until;  // by slot: the last instruction that needs what is in it
  for (size_t i = 0; i < count; ++i) {
    if (direct[i]) continue;
    const auto free =
        std::find_if(busy_until.begin(), busy_until.end(), [&](size_t until) { return until < i; });
    slot[i] = static_cast<int>(free - busy_until.begin());
    if (free == busy_until.end()) {
      busy_until.push_back(last[i]);
    } else {
      *free = last[i];
    }
  }
  return slot;
}

std::vector<bool> Program::is_output() const {
  std::vector<bool> is(instructions.size());
  for (const int o : outputs) is[static_cast<size_t>(o)] = true;
  return is;
}

std::vector<bool> Program::is_read() const {
  std::vector<bool> is(instructions.size());
  for (const Instruction& i : instructions)
    for (const int v : i.operands)
      if (v >= inputs) is[static_cast<size_t>(v - inputs)] = true;
  return is;
}

int Program::output_of(int instruction) const {
  const auto it = std::find(outputs.begin(), outputs.end(), instruction);
  return it == outputs.end() ? -1 : static_cast<int>(it - outputs.begin());
}

ProgramRef intern(Program program) {
  check_program(program);
  static auto& mutex = *new Mutex;
  static auto* const known = new std::unordered_multimap<uint64_t, std::unique_ptr<const Program>>;
  const uint64_t hash = program.hash();
  const std::lock_guard lock(mutex);
  for (auto [it, end] = known->equal_range(hash); it != end; ++it)
    if (*it->second == program) return {it->second.get()};
  return {known->emplace(hash, std::make_unique<const Program>(std::move(program)))->second.get()};
}

bool is_finite_field(ProgramRef v) {
  return std::all_of(v->instructions.begin(), v->instructions.end(), [](const Instruction& i) {
    return i.params.ref().info->finite(i.params.ref().data);
  });
}

}  // namespace mica
